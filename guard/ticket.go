package guard

import (
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// A Ticket stands for one attempt that may proceed, until it is settled. Its
// copies stand for the same attempt: only one of them can be settled. The zero
// Ticket stands for none. A Ticket is safe for concurrent use, but for Seal.
type Ticket struct {
	ended   *atomic.Int32 // 0, 1 plus the outcome, or settledFull; shared by all copies
	rules   *rules
	id      failures.ChargeID
	tag     uint32
	spray   uint32
	repeat  bool
	sprayed bool // strangers try the password on many accounts
	lacking bool // and so it does not suffice
	account digest
	address digest
	network digest
	place   digest // the address, or the device that vouches for it
	status  trusted.Status
	began   time.Time // zero once it has travelled

	// For the event.
	passed    bool // a one-time code was good
	pretended bool // nobody looks at the password
	asides    [asideCount]*Charge
	identity  uint32
	name      string
	directory string
	door      string
	from      netip.Addr
	reasons   Reasons
	failures  int32
	forwarded bool

	// Note is told with the event of how the attempt ended: at most MaxNote bytes, cut
	// there. It is of the copy that is settled, and does not travel.
	Note string

	nonce [16]byte // of the text that it was turned into
}

// fill makes the zero Ticket that of an attempt.
func (t *Ticket) fill(a *Attempt, v *view, d *Decision) {
	t.ended, t.rules, t.id, t.began = new(atomic.Int32), v.rules, v.ID, v.Now
	t.account, t.address, t.network, t.place, t.status = v.Account, v.Address, v.Network, v.Place(), v.Status
	t.tag, t.spray, t.repeat, t.sprayed, t.lacking = v.tag, v.Spray, v.Repeat, v.Sprayed, d.Insufficient
	t.name, t.directory, t.door, t.from, t.forwarded = v.name, a.Directory, a.Integration, a.Address, a.Forwarded
	t.reasons, t.failures, t.passed, t.pretended = d.Reasons, int32(v.ownFailures()), v.passed, v.Apart
	t.asides, t.identity = v.Asides, v.identity
}

// charge is what the attempt was charged.
func (t *Ticket) charge() (c Charge) {
	c.ID, c.Tag, c.Repeat, c.Status, c.Last = t.id, t.tag, t.repeat, t.status, subjectCount
	c.Spray, c.SprayAccounts = t.spray, t.rules.policy.Spray.Accounts
	c.Ladders, c.Binds, c.Apart, c.Asides = &t.rules.calm.ladders, &t.rules.binds[0], t.pretended, t.asides
	c.Account, c.Address, c.Network = t.account, t.address, t.network
	if t.place != t.address {
		c.Device, c.AtDevice = t.place, true
	}
	return c
}

// Asker tells who asks, for whoever has to share out what there is little of
// (R26): the account at its place, and the address, as keyed digests that nobody
// can aim at; and where the attempt came from.
func (t *Ticket) Asker() (pair, address [16]byte, from netip.Addr) {
	return ofPair(t.account, t.place), t.address, t.from
}

// end settles the ticket, once.
func (t *Ticket) end(o Outcome) error {
	switch {
	case t.ended == nil:
		return ErrTicket
	case !t.ended.CompareAndSwap(0, 1+int32(o)):
		return ErrSettled
	}
	return nil
}

// settledFull ends a ticket that succeeded and made no client known: ErrFull.
const settledFull = -1

func (t *Ticket) succeeded() bool { return t.ended != nil && t.ended.Load() == 1+int32(Succeeded) }

func (t *Ticket) event(now time.Time, o Outcome) Event {
	privileged, reasons := t.status == trusted.Privileged, t.reasons
	if o == Succeeded && t.sprayed && !privileged && !t.passed && t.rules.policy.Spray.Monitor {
		reasons = append(slices.Clip(reasons), Reason{Cause: PasswordSprayed, Monitored: true})
	}
	return Event{
		At: now, Door: t.door, Account: t.name, Address: t.from, Action: Proceed, Settled: true, Outcome: o,
		Reasons: reasons, Privileged: privileged, AtDevice: privileged && t.place != t.address, NewPlace: o == Succeeded && !privileged,
		Identity: t.identity, Repeat: t.repeat, Sprayed: t.sprayed, Guess: t.spray, AccountFailures: int(t.failures), Note: strings.ToValidUTF8(t.Note[:min(len(t.Note), MaxNote)], ""),
	}
}

// MaxNote is how long a note may be, in bytes.
const MaxNote = 200

// pair is the account from this address, for the pressure.
func (t *Ticket) pair() digest { return ofPair(t.account, t.address) }
