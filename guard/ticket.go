package guard

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

func (v *view) ticket(a *Attempt, d *Decision) Ticket {
	p := &pending{
		rules: v.rules, id: v.ID, began: v.Now, account: v.Account, client: v.ClientKey(), from: v.from,
		tag: v.tag, spray: v.Spray, fingerprint: a.Fingerprint, admitted: v.admitted,
		login: login{v.name, a.Integration, a.Address, d.Reasons, int32(v.ownFailures())},
	}
	p.set(flagKnown, v.Known())
	p.set(flagForwarded, a.Forwarded)
	p.set(flagCodeValid, v.code == codeValid)
	p.set(flagRepeat, v.Repeat)
	p.set(flagInsufficient, d.Insufficient)
	p.set(flagSprayed, v.Sprayed)
	p.set(flagFake, v.fake != nil)
	p.set(flagRespelled, v.respelled)
	return Ticket{pending: p}
}

func (p *pending) set(flag ticketFlags, is bool) {
	if is {
		p.flags |= flag
	}
}

// charged rebuilds the attempt's charge from its ticket.
func (g *Guard) charged(p *pending) Charge {
	v := view{rules: p.rules, from: p.from, naming: naming{name: p.login.name}, tag: p.tag}
	v.Account, v.From, v.Address, v.Network = p.account, p.from.address, p.from.address, p.from.part()
	v.Spray, v.SprayAccounts, v.Repeat = p.spray, p.rules.policy.Spray.Accounts, p.flags.has(flagRepeat)
	if p.client != p.from.address {
		v.Device, v.AtDevice = p.client, true
	}
	if p.flags.has(flagKnown) {
		v.Status = trusted.Known
	}
	g.subjects(p.fingerprint, &v)
	if v.ID = p.id; p.flags.has(flagFake) {
		return v.pairAlone()
	}
	return v.Charge
}

// Client identifies the client for fair sharing (R26): pair and address are keyed digests, from is the IP address.
func (t *Ticket) Client() (pair, address [16]byte, from netip.Addr) {
	return ofPair(t.account, t.client), t.from.address, t.login.address
}

// end settles the ticket, once.
func (t *Ticket) end(o Outcome) error {
	switch {
	case t.pending == nil:
		return ErrTicket
	case !t.ended.CompareAndSwap(0, 1+int32(o)):
		return ErrSettled
	}
	return nil
}

// settledFull ends a ticket that succeeded, but whose client found no room (trusted.ErrFull).
const settledFull = -1

func (t *Ticket) succeeded() bool { return t.pending != nil && t.ended.Load() == 1+int32(Succeeded) }

func (t *Ticket) event(now time.Time, o Outcome) Event {
	known, reasons := t.flags.has(flagKnown), t.login.reasons
	if o == Succeeded && t.flags.has(flagSprayed) && !known && !t.flags.has(flagCodeValid) &&
		t.rules.policy.Spray.Monitor {
		reasons = append(slices.Clip(reasons), Reason{Cause: PasswordSprayed, Monitored: true})
	}
	return Event{
		At: now, Integration: t.login.integration, Account: t.login.name, Address: t.login.address, Action: Proceed,
		Settled: true, Outcome: o, Reasons: reasons, ClientEvent: ClientEvent{Known: known, AtDevice: known &&
			t.client != t.from.address, NewClient: o == Succeeded && !known, Identity: t.fingerprint},
		PasswordEvent:   PasswordEvent{Repeat: t.flags.has(flagRepeat), Sprayed: t.flags.has(flagSprayed), Guess: t.spray},
		AccountFailures: int(t.login.failures),
		Note:            strings.ToValidUTF8(t.Note[:min(len(t.Note), MaxNote)], ""),
	}
}

// MaxNote is the largest length of Ticket.Note, in bytes.
const MaxNote = 200

// pair is the account from this IP address, for the failure rate.
func (p *pending) pair() digest { return ofPair(p.account, p.from.address) }

const (
	// TicketTTL is how long a sealed ticket can be settled.
	TicketTTL = 5 * time.Minute
	// MaxTicket is the largest length of a sealed ticket, in bytes.
	MaxTicket = 1024

	ticketVersion = 11
)

// A sealed ticket is this, big endian, then the reasons and the name.
type sealed struct {
	Version, Flags                uint8
	Failures                      int32
	Tag, Spray, Fingerprint       uint32
	Charge, Admitted              failures.ChargeID
	Epoch, Nonce, Client, Address [16]byte
}

// ID identifies the text that Seal made last, or that Open read; zero: none.
func (t *Ticket) ID() [16]byte { return t.nonce }

// Expires returns when a sealed ticket can no longer be settled.
func (t *Ticket) Expires() time.Time { return t.id.Time().Add(TicketTTL) }

// Seal turns a ticket into text that only guards with its secret and realm can read or change; empty if it was settled.
func (g *Guard) Seal(t *Ticket) string {
	if t.pending == nil || t.ended.Load() != 0 {
		return ""
	}
	rand.Read(t.nonce[:])
	fixed := sealed{
		Version: ticketVersion, Flags: uint8(t.flags), Failures: t.login.failures,
		Tag: t.tag, Spray: t.spray, Fingerprint: t.fingerprint, Charge: t.id,
		Epoch: g.config.Epoch, Nonce: t.nonce, Client: t.client, Address: t.login.address.As16(),
	}
	if t.admitted != nil {
		fixed.Admitted = t.admitted.ID
	}
	b, _ := binary.Append(make([]byte, 0, 256), binary.BigEndian, &fixed) // fails only for a type without a size
	room := MaxTicket/4*3 - g.tickets.Overhead() - len(b) - len(t.login.name) - 1
	b = append(t.login.reasons.pack(b, room), t.login.name...)
	return base64.RawURLEncoding.EncodeToString(g.tickets.Seal(make([]byte, 0, len(b)+g.tickets.Overhead()), nil, b, nil))
}

// Open reads a sealed ticket, or returns ErrTicket or ErrTicketExpired. The caller remembers which IDs were settled.
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
	var fixed sealed
	n, err := binary.Decode(b, binary.BigEndian, &fixed)
	if err != nil || fixed.Version != ticketVersion {
		return Ticket{}, ErrTicket
	}
	if g.config.Now().Sub(fixed.Charge.Time()) >= TicketTTL || fixed.Epoch != g.config.Epoch {
		return Ticket{}, ErrTicketExpired
	}
	p := &pending{
		rules: g.rules.Load(), flags: ticketFlags(fixed.Flags), id: fixed.Charge, client: fixed.Client,
		tag: fixed.Tag, spray: fixed.Spray, fingerprint: fixed.Fingerprint,
	}
	reasons, name := unpackReasons(b[n:])
	p.login = login{string(name), "api", netip.AddrFrom16(fixed.Address).Unmap(), reasons, fixed.Failures}
	g.digests.ofAddress(p.login.address, &p.from.address, &p.from.network)
	g.digests.ofAccount(p.login.name, &p.account)
	if fixed.Admitted.Charged() {
		admitted := g.sprayedCharge(p.rules, p.spray, g.config.Now())
		admitted.ID, p.admitted = fixed.Admitted, &admitted
	}
	return Ticket{pending: p, nonce: fixed.Nonce}, nil
}

const (
	packedMonitored = 1
	packedLimit     = 2
	packedMost      = 4 + 2*binary.MaxVarintLen64 + 1 // bytes, without the list's name
)

// pack appends the reasons, for a sealed ticket's Event. It omits waits, which are over by then, and what has no room.
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

// unpackReasons reads what pack appended, and returns the rest. It checks no lengths: only a guard can have sealed it.
func unpackReasons(b []byte) (all Reasons, rest []byte) {
	n := int(b[0])
	for b = b[1:]; n > 0; n-- {
		one := Reason{Cause: Cause(b[0]), Subject: SubjectKind(b[1]), Monitored: b[2]&packedMonitored != 0}
		limited, name := b[2]&packedLimit != 0, int(b[3])
		one.List, b = string(b[4:4+name]), b[4+name:]
		if limited {
			failures, k := binary.Uvarint(b)
			window, m := binary.Uvarint(b[k:])
			one.Limit = &Limit{Failures: int(failures), Window: time.Duration(window) * time.Millisecond, Action: Action(b[k+m]),
				Monitor: one.Monitored}
			b = b[k+m+1:]
		}
		all = append(all, one)
	}
	return all, b
}

func (f ticketFlags) has(one ticketFlags) bool { return f&one != 0 }
