package guard

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"authguard/failures"
)

// A Ticket stands for one attempt that may proceed, until it is settled. It is
// not safe for concurrent use, and not to be copied once it is settled.
type Ticket struct {
	at         failures.Moment
	begun      time.Time // zero for a ticket that has travelled
	settled    bool
	privileged bool
	bare       bool // no account: its name was bad
	account    digest
	address    digest
	network    digest
	place      digest
	pair       digest

	// For the event, and to make the ticket travel.
	name            string
	directory       string
	from            netip.Addr
	door            string
	reasons         Reasons
	accountFailures int
	forwarded       bool
	nonce           [16]byte
}

// Errors of tickets.
var (
	// ErrSettled means that the ticket was settled before.
	ErrSettled = errors.New("guard: this attempt was settled already")
	// ErrTicketExpired means that the ticket is older than TicketTTL; the
	// attempt counts as failed.
	ErrTicketExpired = errors.New("guard: the ticket has expired, so the attempt counts as failed")
	// ErrTicket means that the text is no ticket of this guard.
	ErrTicket = errors.New("guard: not a ticket")
)

const (
	// TicketTTL is how long a ticket that travels can be settled.
	TicketTTL = 5 * time.Minute
	// MaxTicket is the longest ticket as text, in bytes.
	MaxTicket = 1024

	ticketVersion = 2
	ticketFixed   = 1 + 1 + 8 + 16 + 16 + 16 + 16 // version, flags, moment, epoch, nonce, place, address; then directory, 0, name
)

// ticket fills in a decision's ticket.
func (g *Guard) ticket(a *Attempt, v *view, d *Decision) {
	t := &d.Ticket
	t.at, t.begun, t.privileged, t.bare = v.charged, v.now, v.privileged(), v.badName
	t.account, t.address, t.network, t.place, t.pair = v.account, v.address, v.network, v.place, v.pair
	t.name, t.directory, t.from, t.door, t.forwarded = v.name, a.Directory, a.Address, a.Door, a.Forwarded
	t.reasons, t.accountFailures = d.Reasons, v.accountFailures()
}

// subjects are what the ticket's attempt was charged to.
func (t *Ticket) subjects(r *rules, into *[4]failures.Subject) []failures.Subject {
	if t.privileged {
		of(&into[0], &t.account, &t.pair, &r.pair)
		return into[:1]
	}
	of(&into[0], &t.network, &t.address, &r.address)
	of(&into[1], &t.network, &t.network, &r.network)
	if t.bare {
		return into[:2]
	}
	of(&into[2], &t.account, &t.account, &r.account)
	of(&into[3], &t.account, &t.pair, &r.pair)
	return into[:4]
}

// of makes a subject that binds nothing.
func of(s *failures.Subject, place, key *digest, r *rule) {
	s.Place, s.Key, s.Ladder, s.Bind = failures.Key(*place), failures.Key(*key), r.ladder, 0
}

// A sealer makes tickets that travel through a client, and opens them.
type sealer struct {
	aead cipher.AEAD
	now  func() time.Time
}

func newSealer(secret []byte, realm string, now func() time.Time) (*sealer, error) {
	if len(secret) < 16 {
		return nil, nil // newDigester says so
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "authguard ticket "+realm, 32)
	if err != nil {
		return nil, fmt.Errorf("guard: deriving the tickets' key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("guard: tickets: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("guard: tickets: %w", err)
	}
	return &sealer{aead: aead, now: now}, nil
}

// Seal makes a ticket into text that any guard with the same secret can open.
// Nobody else can read or change it.
func (g *Guard) Seal(t *Ticket) string {
	rand.Read(t.nonce[:])
	b := make([]byte, 0, ticketFixed+len(t.directory)+1+len(t.name)+16)
	b = append(b, ticketVersion, flags(t.privileged, t.forwarded))
	b = binary.BigEndian.AppendUint64(b, uint64(t.at))
	b = append(append(append(b, g.config.Epoch[:]...), t.nonce[:]...), t.place[:]...)
	from := t.from.As16()
	b = append(append(b, from[:]...), t.directory+"\x00"+t.name...)
	return base64.RawURLEncoding.EncodeToString(g.tickets.aead.Seal(nil, nil, b, nil))
}

func flags(privileged, forwarded bool) (b byte) {
	if privileged {
		b |= 1
	}
	if forwarded {
		b |= 2
	}
	return b
}

// Open reads a ticket that Seal made. Whether it was settled before is for the
// caller to remember, by the ticket's ID.
func (g *Guard) Open(text string) (Ticket, error) {
	if len(text) > MaxTicket {
		return Ticket{}, ErrTicket
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return Ticket{}, ErrTicket
	}
	b, err := g.tickets.aead.Open(nil, nil, raw, nil)
	if err != nil || len(b) < ticketFixed || b[0] != ticketVersion {
		return Ticket{}, ErrTicket
	}
	t := Ticket{privileged: b[1]&1 != 0, forwarded: b[1]&2 != 0, at: failures.Moment(binary.BigEndian.Uint64(b[2:]))}
	copy(t.nonce[:], b[26:])
	t.place = digest(b[42:])
	t.from = netip.AddrFrom16([16]byte(b[58:])).Unmap()
	t.directory, t.name, _ = strings.Cut(string(b[ticketFixed:]), "\x00")
	t.door = "api"
	if g.tickets.now().Sub(t.at.Time()) > TicketTTL || [16]byte(b[10:]) != g.config.Epoch {
		return t, ErrTicketExpired
	}
	t.account = g.digests.ofAccount(t.directory, t.name)
	t.address, t.network = g.digests.ofAddress(t.from)
	t.pair = ofPair(t.account, t.place)
	return t, nil
}

// ID is the same for every copy of a sealed ticket and for no other.
func (t *Ticket) ID() [16]byte { return t.nonce }

// Expires is when a ticket that travels can no longer be settled.
func (t *Ticket) Expires() time.Time { return t.at.Time().Add(TicketTTL) }
