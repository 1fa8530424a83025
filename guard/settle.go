package guard

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"authguard/captchamode"
	"authguard/trusted"
)

// OutcomeOf is Succeeded for true and Failed for false.
func OutcomeOf(ok bool) Outcome {
	if ok {
		return Succeeded
	}
	return Failed
}

// ErrInsufficient means that the password was right and is not enough, since
// strangers try it on many accounts (R28). The attempt was settled as one with a
// wrong password, and is to be answered like one.
var ErrInsufficient = errors.New("guard: the password is right but not sufficient: it is used for password spraying")

// Settle says how an attempt ended. If that is ErrInsufficient, nobody may be let
// in: see Decision.Insufficient. It does its work although ctx may be
// cancelled. A ticket is settled once, whatever copies there are of it; the
// second time is ErrSettled and changes nothing. A place that cannot be remembered
// is told to Config.Failed and is no error: a back end would pass it on, and only a
// right password has a place to remember (R27). Another error means that the
// store failed: the attempt then counts as failed.
func (g *Guard) Settle(ctx context.Context, t Ticket, o Outcome) error {
	insufficient := o == Succeeded && t.pending != nil && t.flags.has(flagInsufficient)
	if insufficient {
		o = Insufficient
	}
	if err := t.end(o); err != nil {
		return err
	}
	c := g.charged(t.pending)
	c.Now = g.settledAt(&t, o)
	switch o {
	case Succeeded:
		g.config.Mode.LoggedIn(t.account, t.pair(), !t.flags.has(flagKnown), c.Now)
		g.arrived(ctx, &t, c.Now)
		if g.shared(t.login.address, t.from.address, c.Now) {
			c.Address = digest{}
		}
		if g.config.Cookies != nil {
			c.Device = g.deviceOf(&t)
		}
	case Abandoned:
		g.press(&t, captchamode.Shed, c.Now)
	case Withdrawn:
	default:
		g.press(&t, captchamode.Failure, c.Now)
		g.missed(&t, c.Now)
	}
	g.settlePass(ctx, &t, o)
	stored := o
	if insufficient {
		stored = Failed
	}
	err := errors.Join(g.config.Store.Settle(afterwards(ctx), c, stored), g.settleAdmitted(ctx, t.pending, o))
	switch {
	case errors.Is(err, trusted.ErrFull):
		t.ended.Store(settledFull)
		err = nil
	case errors.Is(err, ErrPlace):
		g.config.Failed(err)
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("guard: settling as %v: %w", o, err)
	}
	g.wake(&c)
	if !t.flags.has(flagFake) { // Begin reported it
		g.tell(t.event(c.Now, o))
	}
	if insufficient && err == nil {
		return ErrInsufficient
	}
	return err
}

// settleAdmitted settles what a login with a sprayed password was charged: it counts logins.
func (g *Guard) settleAdmitted(ctx context.Context, p *pending, o Outcome) error {
	if p.admitted == nil {
		return nil
	}
	end := Withdrawn
	if o == Succeeded {
		end = Failed
	}
	return g.config.Store.Settle(afterwards(ctx), *p.admitted, end)
}

// settledAt is when an attempt ends. A failure of which nobody is told, and whose
// password is not remembered, goes by when it began: reading the clock once more is
// a tenth of such an attempt.
func (g *Guard) settledAt(t *Ticket, o Outcome) time.Time {
	if o == Failed && g.config.Observer == nil && t.spray == 0 && !t.began.IsZero() {
		return t.began
	}
	return g.config.Now()
}

// Unsettled is what the door that sealed a ticket does, at most once, if nobody has
// settled it for Policy.PendingFor; nil for nothing. It counts as failed from then on,
// and so it is pressure (R20). If it is settled as failed later, that is no further
// pressure. It holds on to the ticket's address alone: a busy door keeps 100,000.
func (g *Guard) Unsettled(t *Ticket) func() {
	if t.flags.has(flagRepeat) || t.flags.has(flagKnown) {
		return nil
	}
	address := t.from.address
	return func() { g.config.Mode.Observe(captchamode.Failure, address) }
}

// press is pressure on the site, unless Unsettled was called for the ticket. A
// failure is taken back if its pair logs in soon; one from a known place is no
// pressure, since the place has a budget of its own (R25). A password that was
// wrong before is none either, but it is work all the same.
func (g *Guard) press(t *Ticket, sign captchamode.Sign, now time.Time) {
	if t.flags.has(flagRepeat) && sign == captchamode.Failure {
		return
	}
	at := t.began
	if at.IsZero() {
		if at = now; at.Sub(t.id.Time()) > t.rules.policy.CheckTimeout {
			return
		}
	}
	switch {
	case sign != captchamode.Failure:
		g.config.Mode.ObserveAt(sign, t.from.address, at)
	case !t.flags.has(flagKnown):
		g.config.Mode.Failed(t.pair(), t.from.address, at)
	}
}

// ErrStopped is what Recheck returns for an attempt that may not proceed after all.
var ErrStopped = errors.New("guard: the attempt has to solve a challenge first")

// Recheck looks again at a decision to proceed whose password had to wait for
// its check: CAPTCHA mode may have gone on meanwhile. If an attempt like it
// would be challenged now, nothing of it stays charged, d becomes that challenge, and the
// error is ErrStopped: the password must not be checked. Another error means that, besides,
// a charge could not be taken back.
func (g *Guard) Recheck(ctx context.Context, d *Decision) error {
	if d.Action != Proceed && d.Action != FakeFailure || d.Privileged || d.Solve.Solved || d.Passed {
		return nil
	}
	t, now := d.Ticket, g.config.Now()
	v := view{rules: g.rules.Load(), from: t.from, name: t.login.name}
	if v.mode = g.modeState(); !v.mode.on {
		return nil
	}
	if g.listed(v.rules, t.login.address, now).verdict == Allowed {
		return nil
	}
	if err := t.end(Withdrawn); err != nil {
		return err
	}
	v.Now, v.Account = now, t.account
	*d = Decision{Action: Challenge, Account: d.Account}
	d.Counted = !t.flags.has(flagRepeat) && g.config.Mode.Observe(captchamode.Unsolved, t.from.address)
	d.Reasons.add(Reason{Cause: ModeOn})
	c := g.charged(t.pending)
	err := errors.Join(g.withdraw(ctx, &c), g.open(ctx, &v, d))
	e := t.event(now, Withdrawn)
	e.Action, e.Settled, e.Reasons = d.Action, false, d.Reasons
	g.tell(e)
	return cmp.Or(err, ErrStopped)
}

// Device issues a device cookie for the account of a ticket that was settled
// as succeeded; empty if devices are not remembered, or the account has no room for
// another known client. The tag tells the cookies of accounts apart in one browser: 8
// characters, the same for all names of an account. The cookie is good for ttl.
func (g *Guard) Device(t Ticket) (cookie, tag string, ttl time.Duration) {
	if g.config.Cookies == nil || !t.succeeded() || !t.rules.policy.Devices {
		return "", "", 0
	}
	cookie = g.config.Cookies.Issue(t.account, g.deviceOf(&t), g.config.Now())
	return cookie, hex.EncodeToString(t.account[12:]), t.rules.policy.KnownClients.TTL
}

// deviceOf is the device that gets the ticket's device cookie: the one whose cookie came
// along, or all that sign in to the account from this address. An attacker who mints
// cookies, at an app that answers wrong passwords like right ones, gets one budget for
// all of them.
func (g *Guard) deviceOf(t *Ticket) digest {
	if t.place != t.from.address {
		return t.place
	}
	return g.digests.ofQuota("device", t.pair())
}
