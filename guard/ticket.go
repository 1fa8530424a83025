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
	"authguard/trusted"
)

// A Ticket stands for one attempt that may proceed, until it is settled. Its
// copies stand for the same attempt: only one of them can be settled. It is not
// safe for concurrent use, together with its copies.
type Ticket struct {
	of      *view
	use     uint64 // that of the view which is this ticket's
	settled bool
	at      failures.ChargeID
	account digest   // once it was settled as succeeded
	address digest   // once it was sealed
	nonce   [16]byte // so, too
}

// live is the attempt, or nil once it is settled.
func (t *Ticket) live() *view {
	if t.of == nil || t.of.use.Load() != t.use {
		return nil
	}
	return t.of
}

// end is the attempt, which the ticket and its copies no longer stand for then.
func (t *Ticket) end() (*view, error) {
	v := t.of
	switch {
	case t.settled:
		return nil, ErrSettled
	case v == nil:
		return nil, ErrTicket
	}
	t.of, t.settled = nil, true
	if !v.use.CompareAndSwap(t.use, t.use+1) {
		return nil, ErrSettled
	}
	return v, nil
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

// ticket makes the ticket of an attempt that may proceed. The view is its own
// from then on.
func (g *Guard) ticket(a *Attempt, v *view, d *Decision) Ticket {
	v.directory, v.from, v.door, v.forwarded, v.reasons = a.Directory, a.Address, a.Door, a.Forwarded, d.Reasons
	return Ticket{of: v, use: v.use.Load(), at: v.charged}
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
// Nobody else can read or change it. That of a ticket that was settled is empty.
func (g *Guard) Seal(t *Ticket) string {
	v := t.live()
	if v == nil {
		return ""
	}
	rand.Read(t.nonce[:])
	t.address = v.address
	b := make([]byte, 0, ticketFixed+len(v.directory)+1+len(v.name)+16)
	b = append(b, ticketVersion, flags(v.privileged(), v.forwarded))
	b = binary.BigEndian.AppendUint64(b, uint64(v.charged))
	b = append(append(append(b, g.config.Epoch[:]...), t.nonce[:]...), v.place[:]...)
	from := v.from.As16()
	b = append(append(b, from[:]...), v.directory+"\x00"+v.name...)
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
	at := failures.ChargeID(binary.BigEndian.Uint64(b[2:]))
	if g.tickets.now().Sub(at.Time()) > TicketTTL || [16]byte(b[10:]) != g.config.Epoch {
		return Ticket{}, ErrTicketExpired
	}
	v := new(view)
	v.charged, v.forwarded = at, b[1]&2 != 0
	if b[1]&1 != 0 {
		v.status = trusted.Privileged
	}
	v.place = digest(b[42:])
	v.from = netip.AddrFrom16([16]byte(b[58:])).Unmap()
	v.directory, v.name, _ = strings.Cut(string(b[ticketFixed:]), "\x00")
	v.door = "api"
	g.digests.ofAccount(&v.account, v.directory, v.name)
	g.digests.ofAddress(&v.address, &v.network, v.from)
	ofPair(&v.pair, &v.account, &v.place)
	v.rules = g.rules.Load()
	v.count()
	return Ticket{of: v, at: at, address: v.address, nonce: [16]byte(b[26:])}, nil
}

// ID is that of the text that Seal made last, or that was opened.
func (t *Ticket) ID() [16]byte { return t.nonce }

// Expires is when a ticket that travels can no longer be settled.
func (t *Ticket) Expires() time.Time { return t.at.Time().Add(TicketTTL) }
