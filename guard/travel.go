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
	"sync/atomic"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// Errors of tickets.
var (
	// ErrSettled means that the ticket was settled before.
	ErrSettled = errors.New("guard: this attempt is already settled")
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

	ticketVersion  = 9
	privilegedFlag = 1
	forwardedFlag  = 2
	passedFlag     = 4
	repeatFlag     = 8
	lackingFlag    = 16
	sprayedFlag    = 32
	pretendedFlag  = 64
)

// A travelling ticket is this, big endian, then the reasons, directory, 0, name.
type travelling struct {
	Version, Flags               uint8
	Failures                     int32 // of strangers for the account, before
	Tag, Spray, Identity         uint32
	Charge                       failures.ChargeID
	Asides                       [asideCount]failures.ChargeID
	Epoch, Nonce, Place, Address [16]byte
}

// ID identifies the text that Seal made last, or that was opened; zero for none.
func (t *Ticket) ID() [16]byte { return t.nonce }

// Expires is when a ticket that travels can no longer be settled.
func (t *Ticket) Expires() time.Time { return t.id.Time().Add(TicketTTL) }

// newSealer makes what seals tickets that travel through a client.
func newSealer(secret []byte, realm string) (cipher.AEAD, error) {
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
	return aead, nil
}

// Seal turns a ticket into text that any guard with the same secret can open.
// Nobody else can read or change it. A ticket that was settled gives no text.
func (g *Guard) Seal(t *Ticket) string {
	if t.ended == nil || t.ended.Load() != 0 {
		return ""
	}
	rand.Read(t.nonce[:])
	fixed := travelling{
		Version: ticketVersion, Failures: t.failures, Tag: t.tag, Spray: t.spray, Identity: t.identity, Charge: t.id,
		Epoch: g.config.Epoch, Nonce: t.nonce, Place: t.place, Address: t.from.As16(),
	}
	for i, aside := range t.asides {
		if aside != nil {
			fixed.Asides[i] = aside.ID
		}
	}
	if t.status == trusted.Privileged {
		fixed.Flags |= privilegedFlag
	}
	if t.forwarded {
		fixed.Flags |= forwardedFlag
	}
	if t.repeat {
		fixed.Flags |= repeatFlag
	}
	if t.lacking {
		fixed.Flags |= lackingFlag
	}
	if t.sprayed {
		fixed.Flags |= sprayedFlag
	}
	if t.passed {
		fixed.Flags |= passedFlag
	}
	if t.pretended {
		fixed.Flags |= pretendedFlag
	}
	b, _ := binary.Append(make([]byte, 0, 256), binary.BigEndian, &fixed) // fails only for a type without a size
	room := MaxTicket/4*3 - g.tickets.Overhead() - len(b) - len(t.directory) - len(t.name) - 2
	b = append(append(append(t.reasons.pack(b, room), t.directory...), 0), t.name...)
	return base64.RawURLEncoding.EncodeToString(g.tickets.Seal(make([]byte, 0, len(b)+g.tickets.Overhead()), nil, b, nil))
}

const (
	packedMonitored = 1
	packedLimit     = 2
	packedMost      = 4 + 2*binary.MaxVarintLen64 + 1 // bytes, without the list's name
)

// pack appends the reasons of a ticket that travels: how its attempt ends is told with
// them. The waits, which are over by then, are left out, and the last of those for which
// there is no room.
func (r Reasons) pack(b []byte, room int) []byte {
	count, end := len(b), len(b)+room
	b = append(b, 0)
	for _, one := range r {
		if len(b)+packedMost+len(one.List) > end {
			break
		}
		b[count]++
		flags := byte(0)
		if one.Monitored {
			flags |= packedMonitored
		}
		if one.Limit != nil {
			flags |= packedLimit
		}
		b = append(b, byte(one.Cause), byte(one.Subject), flags, byte(len(one.List)))
		if b = append(b, one.List...); one.Limit != nil {
			b = binary.AppendUvarint(b, uint64(one.Limit.Failures))
			b = binary.AppendUvarint(b, uint64(one.Limit.Window.Milliseconds()))
			b = append(b, byte(one.Limit.Action))
		}
	}
	return b
}

// unpackReasons reads what pack appended, and returns what stands behind it. The text was
// sealed: nobody else can have written it.
func unpackReasons(b []byte) (all Reasons, rest []byte) {
	n := int(b[0])
	for b = b[1:]; n > 0; n-- {
		one := Reason{Cause: Cause(b[0]), Subject: SubjectKind(b[1]), Monitored: b[2]&packedMonitored != 0}
		limited, name := b[2]&packedLimit != 0, int(b[3])
		one.List, b = string(b[4:4+name]), b[4+name:]
		if limited {
			failures, k := binary.Uvarint(b)
			window, m := binary.Uvarint(b[k:])
			one.Limit = &Limit{Failures: int(failures), Window: time.Duration(window) * time.Millisecond, Action: Action(b[k+m]), Monitor: one.Monitored}
			b = b[k+m+1:]
		}
		all = append(all, one)
	}
	return all, b
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
	b, err := g.tickets.Open(nil, nil, raw, nil)
	if err != nil {
		return Ticket{}, ErrTicket
	}
	var fixed travelling
	n, err := binary.Decode(b, binary.BigEndian, &fixed)
	if err != nil || fixed.Version != ticketVersion {
		return Ticket{}, ErrTicket
	}
	if g.config.Now().Sub(fixed.Charge.Time()) >= TicketTTL || fixed.Epoch != g.config.Epoch {
		return Ticket{}, ErrTicketExpired
	}
	t = Ticket{
		ended: new(atomic.Int32), nonce: fixed.Nonce, rules: g.rules.Load(), id: fixed.Charge, place: fixed.Place,
		from: netip.AddrFrom16(fixed.Address).Unmap(), door: "api", forwarded: fixed.Flags&forwardedFlag != 0,
		passed: fixed.Flags&passedFlag != 0, failures: fixed.Failures, tag: fixed.Tag, spray: fixed.Spray, identity: fixed.Identity,
		sprayed: fixed.Flags&sprayedFlag != 0, lacking: fixed.Flags&lackingFlag != 0, pretended: fixed.Flags&pretendedFlag != 0, repeat: fixed.Flags&repeatFlag != 0,
	}
	if fixed.Flags&privilegedFlag != 0 {
		t.status = trusted.Privileged
	}
	for i, r := range t.rules.asides {
		if r != nil && fixed.Asides[i].Charged() {
			t.asides[i] = g.asideCharge(i, r, fixed.Identity, g.config.Now(), fixed.Asides[i])
		}
	}
	if id := fixed.Asides[sprayAside]; id.Charged() {
		admitted := g.sprayedCharge(&t.rules.sprayed, t.spray, g.config.Now(), id)
		t.asides[sprayAside] = &admitted
	}
	reasons, rest := unpackReasons(b[n:])
	t.reasons = reasons
	t.directory, t.name, _ = strings.Cut(string(rest), "\x00")
	g.digests.ofAddress(t.from, &t.address, &t.network)
	g.digests.ofAccount(t.directory, t.name, &t.account)
	return t, nil
}
