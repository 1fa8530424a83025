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
	if t.settled {
		return ErrSettled
	}
	t.settled = true
	if t.at == 0 {
		return ErrTicket
	}
	ctx = afterwards(ctx)
	v := newView()
	subjects := t.subjects(g.rules.Load(), &v.subjects)
	defer views.Put(v) // nothing is known in it
	var err error
	switch o {
	case Succeeded:
		err = g.succeeded(ctx, t, subjects)
	case Abandoned:
		err = g.abandoned(ctx, t, subjects)
	default:
		err = g.failed(ctx, t, subjects)
	}
	g.turns.wake(subjects)
	g.observeEnd(t, o)
	return err
}

// Unsettled tells the guard that nobody has settled a ticket that travels for
// Policy.PendingFor. It counts as failed from then on, and so it is pressure
// (R20). The door that sealed it calls this at most once. If it is settled as
// failed later, that is no further pressure.
func (g *Guard) Unsettled(t *Ticket) {
	g.config.Mode.Observe(captchamode.Failure, t.address)
}

// late reports whether Unsettled was called for the ticket.
func (g *Guard) late(t *Ticket) bool {
	return t.begun.IsZero() && g.config.Now().Sub(t.at.Time()) > g.Policy().PendingFor
}

// failed leaves the charges where they are.
func (g *Guard) failed(ctx context.Context, t *Ticket, subjects []failures.Subject) error {
	now := t.begun
	if now.IsZero() { // it has travelled
		now = g.config.Now()
	}
	if !g.late(t) {
		g.config.Mode.ObserveAt(captchamode.Failure, t.address, now)
	}
	if err := g.config.Failures.Failed(ctx, t.at, subjects); err != nil {
		return fmt.Errorf("guard: settling as failed: %w", err)
	}
	return nil
}

// succeeded takes the attempt's own charges back everywhere and no other (R4),
// clears the pair and remembers the place.
func (g *Guard) succeeded(ctx context.Context, t *Ticket, subjects []failures.Subject) error {
	now := g.config.Now()
	var err error
	if g.settler != nil {
		err = g.settler.Succeeded(ctx, t.at, subjects, trusted.Key(t.account), trusted.Key(t.address), now)
	} else {
		err = errors.Join(
			g.config.Failures.TakeBack(ctx, t.at, subjects),
			g.config.Failures.Clear(ctx, subjects[len(subjects)-1:]),
			g.config.Places.Remember(ctx, trusted.Key(t.account), trusted.Key(t.address), now),
		)
	}
	if err != nil {
		return fmt.Errorf("guard: settling as succeeded: %w", err)
	}
	g.proxies.succeeded(t, now)
	return nil
}

// abandoned takes back what the account was charged: the check said nothing
// of the password. The address stays charged, so that nobody profits from
// breaking the check.
func (g *Guard) abandoned(ctx context.Context, t *Ticket, subjects []failures.Subject) error {
	ofAddress := min(len(subjects), 2)
	if t.privileged {
		ofAddress = 0
	}
	err := g.config.Failures.TakeBack(ctx, t.at, subjects[ofAddress:])
	if err == nil && ofAddress > 0 {
		err = g.config.Failures.Failed(ctx, t.at, subjects[:ofAddress])
	}
	if err != nil {
		return fmt.Errorf("guard: settling as abandoned: %w", err)
	}
	return nil
}

func (g *Guard) observeEnd(t *Ticket, o Outcome) {
	if _, nobody := g.config.Observer.(nobody); nobody {
		return
	}
	g.tell(Event{
		At: g.config.Now(), Door: t.door, Account: t.name, Address: t.from,
		Action: Proceed, Settled: true, Outcome: o, Reasons: t.reasons,
		Privileged: t.privileged, NewPlace: o == Succeeded && !t.privileged,
		AccountFailures: t.accountFailures,
	})
}

// Device issues a device cookie for the account of a ticket that was settled
// as succeeded; empty if devices are not remembered.
func (g *Guard) Device(t *Ticket) string {
	if g.config.Cookies == nil || !g.Policy().Devices || !t.settled || t.at == 0 {
		return ""
	}
	cookie, _ := g.config.Cookies.Issue(trusted.Key(t.account), g.config.Now())
	return cookie
}
