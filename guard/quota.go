package guard

import (
	"context"
	"fmt"
	"time"

	"authguard/failures"
)

// A quota bounds what one address may do besides guessing. It is charged like
// an attempt and in the same store: first, exactly, and over all nodes.
type quota struct {
	name    string
	ladders Ladders
	binds   Binds
}

func newQuota(name string, rungs ...failures.Rung) (q quota) {
	q.name = name
	ladder := failures.MustLadder(failures.Backoff{}, rungs...)
	for i := range q.ladders {
		q.ladders[i] = ladder
		for status := range q.binds {
			q.binds[status][i] = failures.Every
		}
	}
	return q
}

// wrongAnswers is how many challenges an address may answer wrongly: a class that
// mistypes every fifth picture may go on, a program that guesses may not. Each
// wrong answer takes room where spent challenges are remembered.
func wrongAnswers() quota {
	return newQuota("wrong answers", failures.Rung{Failures: 60, Window: time.Minute}, failures.Rung{Failures: 600, Window: time.Hour})
}

// take charges the attempt's address one more. If there is no room, nothing is
// charged, and wait is how long until there is.
func (g *Guard) take(ctx context.Context, v *view, q *quota) (taken Charge, wait time.Duration, err error) {
	taken = Charge{Now: v.Now, Network: v.Network, Ladders: &q.ladders, Binds: &q.binds, Last: AddressSubject + 1}
	taken.Address = g.digests.ofQuota(q.name, v.Address)
	if taken, err = g.config.Store.Begin(ctx, taken); err != nil {
		return taken, 0, fmt.Errorf("guard: charging %s: %w", q.name, err)
	}
	if !taken.ID.Charged() {
		wait = max(taken.Usage[AddressSubject].FreeIn, time.Second)
	}
	return taken, wait, nil
}
