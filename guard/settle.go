package guard

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"

	"authguard/captchamode"
)

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
	if g.config.Lists.Look(t.from, now) == Allowed || t.end(Withdrawn) != nil {
		return nil
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
// account.
func (g *Guard) Device(t Ticket) (cookie, tag string) {
	if g.config.Cookies == nil || !g.Policy().Devices || !t.succeeded() {
		return "", ""
	}
	cookie, _ = g.config.Cookies.Issue(t.account, g.config.Now())
	return cookie, hex.EncodeToString(t.account[12:])
}
