package guard

import (
	"context"
	"fmt"

	"authguard/captchamode"
)

// Recheck looks again at a decision to proceed whose password had to wait
// for its check: CAPTCHA mode may have gone on meanwhile. If an attempt like it
// would be challenged now, nothing of it stays charged, d becomes that
// challenge and its ticket is of no use: the password must not be looked at.
// The error means that a charge could not be taken back.
func (g *Guard) Recheck(ctx context.Context, d *Decision) error {
	if d.Action != Proceed || d.Privileged || d.Solve.Solved || !g.config.Mode.On() {
		return nil
	}
	v := d.Ticket.live()
	if v == nil || g.config.Lists.Look(v.from, g.config.Now()) == Allowed {
		return nil
	}
	if _, err := d.Ticket.end(); err != nil {
		return err
	}
	defer v.free()
	err := g.config.Failures.TakeBack(afterwards(ctx), v.charged, v.subjects[:v.n])
	g.turns.wake(v.subjects[:v.n])
	stopped := Decision{Action: Challenge, Counted: g.config.Mode.Observe(captchamode.Unsolved, v.address)}
	stopped.Reasons.add(Reason{Cause: ModeOn})
	g.tell(Event{
		At: g.config.Now(), Door: v.door, Account: v.name, Address: v.from, Action: Challenge,
		Reasons: stopped.Reasons, AccountFailures: v.accountFailures(),
	})
	*d = stopped
	if err != nil {
		return fmt.Errorf("guard: taking back a charge: %w", err)
	}
	return nil
}
