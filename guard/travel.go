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

	ticketVersion = 4
	// version, flags, charge, epoch, nonce, place, address; then directory, 0, name
	ticketFixed = 1 + 1 + failures.ChargeIDSize + 16 + 16 + 16 + 16
)

// ID identifies the text that Seal made last, or that was opened.
func (t *Ticket) ID() [16]byte { return t.nonce }

// Expires is when a ticket that travels can no longer be settled.
func (t *Ticket) Expires() time.Time { return t.id.Time().Add(TicketTTL) }

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

// Seal turns a ticket into text that any guard with the same secret can open.
// Nobody else can read or change it. A ticket that was settled gives no text.
func (g *Guard) Seal(t *Ticket) string {
	if t.settlement == nil || t.ended.Load() != 0 {
		return ""
	}
	rand.Read(t.nonce[:])
	b := make([]byte, 0, ticketFixed+len(t.directory)+1+len(t.name)+16)
	b = append(b, ticketVersion, flags(t.status == trusted.Privileged, t.forwarded))
	b = t.id.AppendTo(b)
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
func (g *Guard) Open(text string) (t Ticket, err error) {
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
	id, b, flagged := failures.ReadChargeID(b[2:]), b[2+failures.ChargeIDSize:], b[1]
	if g.tickets.now().Sub(id.Time()) > TicketTTL || [16]byte(b) != g.config.Epoch {
		return Ticket{}, ErrTicketExpired
	}
	t = Ticket{settlement: &settlement{nonce: [16]byte(b[16:])}, rules: g.rules.Load(), id: id, door: "api", forwarded: flagged&2 != 0}
	if flagged&1 != 0 {
		t.status = trusted.Privileged
	}
	t.place = digest(b[32:])
	t.from = netip.AddrFrom16([16]byte(b[48:])).Unmap()
	t.directory, t.name, _ = strings.Cut(string(b[64:]), "\x00")
	g.digests.ofAddress(t.from, &t.address, &t.network)
	g.digests.ofAccount(t.directory, t.name, &t.account)
	return t, nil
}
