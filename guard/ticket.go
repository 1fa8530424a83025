package guard

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

func (v *view) ticket(a *Attempt, d *Decision) Ticket {
	v.pending = pending{
		began: v.Now, integration: a.Integration, address: a.Address, fingerprint: a.Fingerprint, forwarded: a.Forwarded,
		reasons: d.Reasons,
	}
	return Ticket{of: v}
}

// Client identifies the client for fair sharing (R26): pair and address are keyed digests, from is the IP address.
func (t *Ticket) Client() (pair, address [16]byte, from netip.Addr) {
	return ofPair(t.of.Account, t.of.ClientKey()), t.of.from.address, t.of.address
}

// end settles the ticket, once.
func (t *Ticket) end(o Outcome) error {
	switch {
	case t.of == nil:
		return ErrTicket
	case !t.of.ended.CompareAndSwap(0, 1+int32(o)):
		return ErrSettled
	}
	return nil
}

// settledFull ends a ticket that succeeded, but whose client found no room (trusted.ErrFull).
const settledFull = -1

func (t *Ticket) succeeded() bool { return t.of != nil && t.of.ended.Load() == 1+int32(Succeeded) }

func (v *view) event(now time.Time, o Outcome, note string) Event {
	reasons := v.reasons
	if o == Succeeded && v.Sprayed && !v.Known() && v.code != codeValid && v.rules.policy.Spray.Monitor {
		reasons = append(slices.Clip(reasons), Reason{Cause: PasswordSprayed, Monitored: true})
	}
	if v.leaked && (o == Succeeded || o == Insufficient) {
		reasons = append(slices.Clip(reasons), Reason{Cause: PasswordLeaked, Monitored: !v.rules.policy.StepUp.Leaked})
	}
	return Event{
		At: now, Integration: v.integration, Account: v.name, Address: v.address, Action: Proceed,
		Settled: true, Outcome: o, Reasons: reasons, ClientEvent: ClientEvent{Known: v.Known(), AtDevice: v.AtDevice,
			NewClient: o == Succeeded && !v.Known(), Identity: v.fingerprint},
		PasswordEvent:   PasswordEvent{Repeat: v.Repeat, Sprayed: v.Sprayed, Guess: v.Spray},
		AccountFailures: v.ownFailures(),
		Note:            strings.ToValidUTF8(note[:min(len(note), MaxNote)], ""),
	}
}

// MaxNote is the largest length of Ticket.Note, in bytes.
const MaxNote = 200

// pair is the account from this IP address, for the failure rate.
func (v *view) pair() digest { return ofPair(v.Account, v.from.address) }

// The flags of a sealed ticket.
const (
	flagKnown = 1 << iota
	flagForwarded
	flagCodeValid
	flagRepeat
	flagSprayed
	flagFake
	flagRespelled
	flagStepUp
	flagWantsCode
	flagLeaked
	flagMayNeedCode
)

func (v *view) flags() (flags uint16) {
	for i, is := range [...]bool{v.Known(), v.forwarded, v.code == codeValid, v.Repeat, v.Sprayed, v.fake != nil,
		v.respelled, v.mode.step == stepUpByCode, v.wants, v.leaked, v.mode.mayNeedCode} {
		if is {
			flags |= 1 << i
		}
	}
	return flags
}

func (v *view) setFlags(flags uint16) {
	has := func(flag uint16) bool { return flags&flag != 0 }
	v.forwarded, v.Repeat, v.Sprayed = has(flagForwarded), has(flagRepeat), has(flagSprayed)
	v.respelled, v.wants, v.leaked = has(flagRespelled), has(flagWantsCode), has(flagLeaked)
	v.mode.mayNeedCode = has(flagMayNeedCode)
	if has(flagKnown) {
		v.Status = trusted.Known
	}
	if has(flagCodeValid) {
		v.code = codeValid
	}
	if has(flagStepUp) {
		v.mode.step = stepUpByCode
	}
	if has(flagFake) {
		v.fake = Reasons{}
	}
}

const (
	// TicketTTL is how long a sealed ticket can be settled.
	TicketTTL = 5 * time.Minute
	// MaxTicket is the largest length of a sealed ticket, in bytes.
	MaxTicket = 1024

	ticketVersion = 15
)

// A sealed ticket is this, big endian, then the reasons and the name.
type sealed struct {
	Version                       uint8
	Flags                         uint16
	Failures                      int32
	Tag, Spray, Fingerprint       uint32
	Issued                        int64 // Unix milliseconds by Config.Now; a store has a clock of its own
	Charge, Admitted              failures.ChargeID
	Epoch, Nonce, Client, Address [16]byte
}

// ID identifies the text that Seal made last, or that Open read; zero: none.
func (t *Ticket) ID() [16]byte { return t.nonce }

// Expires returns when a sealed ticket can no longer be settled.
func (t *Ticket) Expires() time.Time { return t.of.issued.Add(TicketTTL) }

// Seal turns a ticket into text that only guards with its secret and realm can read or change; empty if it was settled.
func (g *Guard) Seal(t *Ticket) string {
	v := t.of
	if v == nil || v.ended.Load() != 0 {
		return ""
	}
	rand.Read(t.nonce[:])
	if v.issued.IsZero() {
		v.issued = g.config.Now()
	}
	fixed := sealed{
		Version: ticketVersion, Flags: v.flags(), Failures: int32(v.ownFailures()),
		Tag: v.tag, Spray: v.Spray, Fingerprint: v.fingerprint, Issued: v.issued.UnixMilli(), Charge: v.ID,
		Epoch: g.config.Epoch, Nonce: t.nonce, Client: v.ClientKey(), Address: v.address.As16(),
	}
	if v.admitted != nil {
		fixed.Admitted = v.admitted.ID
	}
	b, _ := binary.Append(make([]byte, 0, 256), binary.BigEndian, &fixed) // fails only for a type without a size
	room := g.tickets.Room(MaxTicket) - len(b) - len(v.name) - 1
	b = append(v.reasons.pack(b, room), v.name...)
	return g.tickets.Seal(b, "")
}

// Open reads a sealed ticket, or returns ErrTicket or ErrTicketExpired. The caller remembers which IDs were settled.
func (g *Guard) Open(text string) (t Ticket, err error) {
	if len(text) > MaxTicket {
		return Ticket{}, ErrTicket
	}
	b, err := g.tickets.Open(text, "")
	if err != nil {
		return Ticket{}, ErrTicket
	}
	var fixed sealed
	n, err := binary.Decode(b, binary.BigEndian, &fixed)
	if err != nil || fixed.Version != ticketVersion {
		return Ticket{}, ErrTicket
	}
	if g.config.Now().Sub(time.UnixMilli(fixed.Issued)) >= TicketTTL || fixed.Epoch != g.config.Epoch {
		return Ticket{}, ErrTicketExpired
	}
	return Ticket{of: g.unseal(&fixed, b[n:]), nonce: fixed.Nonce}, nil
}

// unseal rebuilds an attempt. Its subjects have no exemptions, which settling does not need.
func (g *Guard) unseal(fixed *sealed, rest []byte) *view {
	v := &view{rules: g.rules.Load(), tag: fixed.Tag}
	v.issued = time.UnixMilli(fixed.Issued)
	reasons, name := unpackReasons(rest)
	v.name, v.reasons, v.integration, v.fingerprint = string(name), reasons, "api", fixed.Fingerprint
	v.address = netip.AddrFrom16(fixed.Address).Unmap()
	g.digests.ofAddress(v.address, &v.from.address, &v.from.network)
	g.digests.ofAccount(v.name, &v.Account)
	v.From, v.Network = v.from.address, v.from.part()
	v.Spray, v.SprayAccounts = fixed.Spray, v.rules.policy.Spray.Accounts
	if fixed.Client != v.from.address {
		v.Device, v.AtDevice = fixed.Client, true
	}
	v.setFlags(fixed.Flags)
	g.subjects(v.fingerprint, v)
	if account := v.Subject(OnAccount); account != nil {
		account.Usage.Count = fixed.Failures
	}
	if v.ID = fixed.Charge; fixed.Admitted.Charged() {
		admitted := g.sprayedCharge(v.rules, v.Spray, g.config.Now())
		admitted.ID, v.admitted = fixed.Admitted, &admitted
	}
	return v
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
