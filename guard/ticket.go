package guard

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// A Ticket stands for one attempt that may proceed, until it is settled. It is
// safe for concurrent use; whoever settles it first wins.
type Ticket view

// ID is that of the text that Seal made last, or that was opened.
func (t *Ticket) ID() [16]byte { return t.nonce }

// Expires is when a ticket that travels can no longer be settled.
func (t *Ticket) Expires() time.Time { return t.Charge.ID.Time().Add(TicketTTL) }

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

	ticketVersion = 3
	// version, flags, charge, epoch, nonce, place, address; then directory, 0, name
	ticketFixed = 1 + 1 + failures.ChargeIDSize + 16 + 16 + 16 + 16
)

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
// It must not be called twice at once for one ticket.
func (g *Guard) Seal(t *Ticket) string {
	if t == nil || t.ended.Load() != live {
		return ""
	}
	rand.Read(t.nonce[:])
	b := make([]byte, 0, ticketFixed+len(t.directory)+1+len(t.name)+16)
	b = append(b, ticketVersion, flags((*view)(t).privileged(), t.forwarded))
	b = t.Charge.ID.AppendTo(b)
	b = append(append(append(b, g.config.Epoch[:]...), t.nonce[:]...), t.Place[:]...)
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
func (g *Guard) Open(text string) (*Ticket, error) {
	if len(text) > MaxTicket {
		return nil, ErrTicket
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, ErrTicket
	}
	b, err := g.tickets.aead.Open(nil, nil, raw, nil)
	if err != nil || len(b) < ticketFixed || b[0] != ticketVersion {
		return nil, ErrTicket
	}
	id, b, flagged := failures.ReadChargeID(b[2:]), b[2+failures.ChargeIDSize:], b[1]
	if g.tickets.now().Sub(id.Time()) > TicketTTL || [16]byte(b) != g.config.Epoch {
		return nil, ErrTicketExpired
	}
	v := &view{door: "api", travelled: true, forwarded: flagged&2 != 0}
	v.nonce = [16]byte(b[16:])
	v.from = netip.AddrFrom16([16]byte(b[48:])).Unmap()
	v.directory, v.name, _ = strings.Cut(string(b[64:]), "\x00")
	v.rules = g.rules.Load()
	v.subjects(g.digests.ofAddress(v.from))
	v.setAccount(g.digests.ofAccount(v.directory, v.name))
	v.Binds = &v.rules.binds[0]
	v.Charge.ID = id
	at, status := atAddress, trusted.Stranger
	if flagged&1 != 0 {
		status = trusted.Privileged
	}
	if place := digest(b[32:]); place != v.Places[atAddress].Key {
		at, v.Places[atDevice] = atDevice, Place{Key: place, Pair: failures.Key(ofPair(v.Account, place))}
	}
	v.Found(at, status)
	return (*Ticket)(v), nil
}
