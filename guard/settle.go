package guard

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"authguard/captchamode"
	"authguard/failures"
	"authguard/trusted"
)

// A Ticket stands for one attempt that may proceed, until it is settled. Its
// copies stand for the same attempt: only one of them can be settled. The zero
// Ticket stands for none. A Ticket is safe for concurrent use, but for Seal.
type Ticket struct {
	*settlement
	rules   *rules
	id      failures.ChargeID
	account digest
	address digest
	network digest
	place   digest // the address, or the device that vouches for it
	status  trusted.Status
	began   time.Time // zero once it has travelled

	// For the event.
	name      string
	directory string
	door      string
	from      netip.Addr
	reasons   Reasons
	failures  int32
	forwarded bool
}

// A settlement is what all copies of a ticket share.
type settlement struct {
	ended atomic.Int32 // 0, or 1 plus the outcome
	nonce [16]byte     // of the text that the ticket was turned into
}

func newTicket(a *Attempt, v *view, d *Decision) Ticket {
	return Ticket{
		settlement: new(settlement), rules: v.rules, id: v.ID, account: v.Account,
		address: v.Address, network: v.Network, place: v.Place(), status: v.Status, began: v.Now,
		name: v.name, directory: a.Directory, door: a.Door, from: a.Address, reasons: d.Reasons,
		failures: int32(v.accountFailures()), forwarded: a.Forwarded,
	}
}

// charge is what the attempt was charged.
func (t *Ticket) charge() (c Charge) {
	c.ID, c.Status, c.Last = t.id, t.status, subjectCount
	c.Ladders, c.Binds = &t.rules.calm.ladders, &t.rules.binds[0]
	c.Account, c.Address, c.Network = t.account, t.address, t.network
	if t.place != t.address {
		c.Device, c.AtDevice = t.place, true
	}
	return c
}

// end settles the ticket, once.
func (t *Ticket) end(o Outcome) error {
	switch {
	case t.settlement == nil:
		return ErrTicket
	case !t.ended.CompareAndSwap(0, 1+int32(o)):
		return ErrSettled
	}
	return nil
}

func (t *Ticket) succeeded() bool { return t.settlement != nil && t.ended.Load() == 1+int32(Succeeded) }

func (t *Ticket) event(now time.Time, o Outcome) Event {
	privileged := t.status == trusted.Privileged
	return Event{
		At: now, Door: t.door, Account: t.name, Address: t.from, Action: Proceed, Settled: true, Outcome: o,
		Reasons: t.reasons, Privileged: privileged, NewPlace: o == Succeeded && !privileged, AccountFailures: int(t.failures),
	}
}

// OutcomeOf is Succeeded for true and Failed for false.
func OutcomeOf(ok bool) Outcome {
	if ok {
		return Succeeded
	}
	return Failed
}

// Settle says how an attempt ended. It does its work although ctx may be
// cancelled. A ticket is settled once, whatever copies there are of it; the
// second time is ErrSettled and changes nothing. Another error means that the
// store failed: the attempt then counts as failed.
func (g *Guard) Settle(ctx context.Context, t Ticket, o Outcome) error {
	if err := t.end(o); err != nil {
		return err
	}
	c := t.charge()
	switch {
	case o == Succeeded:
		c.Now = g.config.Now()
	case o != Abandoned && o != Withdrawn:
		g.failed(&t)
	}
	err := g.config.Store.Settle(afterwards(ctx), c, o)
	if err != nil {
		err = fmt.Errorf("guard: settling as %v: %w", o, err)
	} else if o == Succeeded {
		g.proxies.succeeded(&t, c.Now)
	}
	g.wake(&c)
	if g.config.Observer != nil {
		g.config.Observer.Observe(t.event(g.config.Now(), o))
	}
	return err
}

// Unsettled tells the guard that nobody has settled a ticket that travels for
// Policy.PendingFor. It counts as failed from then on, and so it is pressure
// (R20). The door that sealed it calls this at most once, with the attempt's
// address. If it is settled as failed later, that is no further pressure.
func (g *Guard) Unsettled(address netip.Addr) {
	g.config.Mode.Observe(captchamode.Failure, g.digests.addressKey(address))
}

// failed is pressure on the site, unless Unsettled was called for the ticket.
func (g *Guard) failed(t *Ticket) {
	at := t.began
	if at.IsZero() {
		if at = g.config.Now(); at.Sub(t.id.Time()) > t.rules.policy.PendingFor {
			return
		}
	}
	g.config.Mode.ObserveAt(captchamode.Failure, t.address, at)
}

// Recheck looks again at a decision to proceed whose password had to wait for
// its check: CAPTCHA mode may have gone on meanwhile. If an attempt like it
// would be challenged now, nothing of it stays charged and d becomes that
// challenge: the password must not be looked at. The error means that a charge
// could not be taken back.
func (g *Guard) Recheck(ctx context.Context, d *Decision) error {
	if d.Action != Proceed || d.Privileged || d.Solve.Solved || !g.config.Mode.On() {
		return nil
	}
	t, now := d.Ticket, g.config.Now()
	if g.config.Lists.Look(t.from, now) == Allowed {
		return nil
	}
	if err := t.end(Withdrawn); err != nil {
		return err
	}
	*d = Decision{Action: Challenge, Account: d.Account}
	d.Counted = g.config.Mode.Observe(captchamode.Unsolved, t.address)
	d.Reasons.add(Reason{Cause: ModeOn})
	c := t.charge()
	err := g.withdraw(ctx, &c)
	e := t.event(now, Withdrawn)
	e.Action, e.Settled, e.Reasons = Challenge, false, d.Reasons
	g.tell(e)
	return err
}

// Device issues a device cookie for the account of a ticket that was settled
// as succeeded; empty if devices are not remembered. The tag tells the cookies
// of accounts apart in one browser: 8 characters, the same for all names of an
// account. The cookie is good for ttl.
func (g *Guard) Device(t Ticket) (cookie, tag string, ttl time.Duration) {
	if g.config.Cookies == nil || !t.succeeded() || !t.rules.policy.Devices {
		return "", "", 0
	}
	cookie, _ = g.config.Cookies.Issue(t.account, g.config.Now())
	return cookie, hex.EncodeToString(t.account[12:]), t.rules.policy.Places.TTL
}
