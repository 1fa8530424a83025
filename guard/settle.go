package guard

import (
	"context"
	"errors"
	"fmt"

	"authguard/captchamode"
	"authguard/failures"
	"authguard/trusted"
)

// Settle says how an attempt ended. It does its work although ctx may be
// cancelled. A ticket is settled once; the
// second time is ErrSettled and changes nothing. Another error means that a
// store failed: the attempt then counts as failed.
func (g *Guard) Settle(ctx context.Context, t *Ticket, o Outcome) error {
	v, err := t.end()
	if err != nil {
		return err
	}
	defer v.free()
	ctx = afterwards(ctx)
	subjects := v.subjects[:v.n]
	switch o {
	case Succeeded:
		t.account = v.account
		err = g.succeeded(ctx, v, subjects)
	case Abandoned:
		err = g.abandoned(ctx, v, subjects)
	default:
		err = g.failed(ctx, v, subjects)
	}
	g.turns.wake(subjects)
	g.observeEnd(v, o)
	return err
}

// Unsettled tells the guard that nobody has settled a ticket that travels for
// Policy.PendingFor. It counts as failed from then on, and so it is pressure
// (R20). The door that sealed it calls this at most once. If it is settled as
// failed later, that is no further pressure.
func (g *Guard) Unsettled(t *Ticket) {
	g.config.Mode.Observe(captchamode.Failure, t.address)
}

// late reports whether Unsettled was called for the attempt's ticket.
func (g *Guard) late(v *view) bool {
	return v.now.IsZero() && g.config.Now().Sub(v.charged.Time()) > g.Policy().PendingFor
}

// failed leaves the charges where they are.
func (g *Guard) failed(ctx context.Context, v *view, subjects []failures.Subject) error {
	if !g.late(v) {
		g.config.Mode.Observe(captchamode.Failure, v.address)
	}
	if err := g.config.Failures.Failed(ctx, v.charged, subjects); err != nil {
		return fmt.Errorf("guard: settling as failed: %w", err)
	}
	return nil
}

// succeeded takes the attempt's own charges back everywhere and no other (R4),
// clears the pair and remembers the place.
func (g *Guard) succeeded(ctx context.Context, v *view, subjects []failures.Subject) error {
	now := g.config.Now()
	var err error
	if g.settler != nil {
		err = g.settler.Succeeded(ctx, v.charged, subjects, trusted.Key(v.account), trusted.Key(v.address), now)
	} else {
		err = errors.Join(
			g.config.Failures.TakeBack(ctx, v.charged, subjects),
			g.config.Failures.Clear(ctx, subjects[len(subjects)-1:]),
			g.config.Places.Remember(ctx, trusted.Key(v.account), trusted.Key(v.address), now),
		)
	}
	if err != nil {
		return fmt.Errorf("guard: settling as succeeded: %w", err)
	}
	g.proxies.succeeded(v, now)
	return nil
}

// abandoned takes back what the account was charged: the check said nothing
// of the password. The address stays charged, so that nobody profits from
// breaking the check.
func (g *Guard) abandoned(ctx context.Context, v *view, subjects []failures.Subject) error {
	ofAddress := min(len(subjects), 2)
	if v.privileged() {
		ofAddress = 0
	}
	err := g.config.Failures.TakeBack(ctx, v.charged, subjects[ofAddress:])
	if err == nil && ofAddress > 0 {
		err = g.config.Failures.Failed(ctx, v.charged, subjects[:ofAddress])
	}
	if err != nil {
		return fmt.Errorf("guard: settling as abandoned: %w", err)
	}
	return nil
}

func (g *Guard) observeEnd(v *view, o Outcome) {
	if _, nobody := g.config.Observer.(nobody); nobody {
		return
	}
	g.tell(Event{
		At: g.config.Now(), Door: v.door, Account: v.name, Address: v.from,
		Action: Proceed, Settled: true, Outcome: o, Reasons: v.reasons,
		Privileged: v.privileged(), NewPlace: o == Succeeded && !v.privileged(),
		AccountFailures: v.accountFailures(),
	})
}

// Device issues a device cookie for the account of a ticket that was settled
// as succeeded; empty if devices are not remembered.
func (g *Guard) Device(t *Ticket) string {
	if g.config.Cookies == nil || !g.Policy().Devices || t.account == (digest{}) {
		return ""
	}
	cookie, _ := g.config.Cookies.Issue(trusted.Key(t.account), g.config.Now())
	return cookie
}
