package guard

import (
	"context"
	"fmt"
)

// Login takes one attempt from beginning to end: it begins it, calls verify if
// and only if the password may be checked, and settles. An error or a panic of
// verify abandons the attempt; the error is returned, the panic goes on.
//
// The attempt succeeded if and only if ok is true.
func (g *Guard) Login(ctx context.Context, a Attempt, verify func(context.Context) (bool, error)) (d Decision, ok bool, err error) {
	d, err = g.Begin(ctx, a)
	if err != nil || d.Action != Proceed {
		return d, false, err
	}
	outcome := Abandoned
	defer func() {
		if settled := g.Settle(ctx, d.Ticket, outcome); settled != nil && err == nil {
			err = settled
			ok = ok && outcome == Succeeded
		}
	}()
	ok, err = verify(ctx)
	if err != nil {
		return d, false, fmt.Errorf("guard: checking the password: %w", err)
	}
	outcome = OutcomeOf(ok)
	return d, ok, nil
}
