package guard

import (
	"context"
	"fmt"

	"authguard/captchamode"
)

// Reconsider looks again at a decision to proceed whose password had to wait
// for its check: CAPTCHA mode may have gone on meanwhile. If an attempt like it
// would be challenged now, nothing of it stays charged, d becomes that
// challenge and its ticket is of no use: the password must not be looked at.
// The error means that a charge could not be taken back.
func (g *Guard) Reconsider(ctx context.Context, d *Decision) error {
	t := &d.Ticket
	if d.Action != Proceed || d.Privileged || d.Solve.Solved || !g.config.Mode.On() ||
		g.config.Lists.Look(t.from, g.config.Now()) == Allowed {
		return nil
	}
	v := newView()
	defer v.free()
	subjects := t.subjects(g.rules.Load(), &v.subjects)
	t.settled = true
	err := g.config.Failures.TakeBack(afterwards(ctx), t.at, subjects)
	g.turns.wake(subjects)
	stopped := Decision{Action: Challenge, Counted: g.config.Mode.Observe(captchamode.Unsolved, t.address)}
	stopped.Reasons.add(Reason{Cause: ModeOn})
	g.tell(Event{
		At: g.config.Now(), Door: t.door, Account: t.name, Address: t.from, Action: Challenge,
		Reasons: stopped.Reasons, AccountFailures: t.accountFailures,
	})
	*d = stopped
	if err != nil {
		return fmt.Errorf("guard: taking back a charge: %w", err)
	}
	return nil
}
