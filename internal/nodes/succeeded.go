package nodes

import (
	"context"
	"errors"
	"slices"
	"time"

	"authguard/failures"
	"authguard/guard"
	"authguard/trusted"
)

var _ guard.Settler = (*Counters)(nil)

// patience is how long a person who has logged in waits for Redis to take that
// in. What takes longer goes on without him.
const patience = 50 * time.Millisecond

// Succeeded implements guard.Settler: everything at once. What Redis does not
// take in it is told later, so an error is this node's own.
func (c *Counters) Succeeded(ctx context.Context, at failures.ChargeID, subjects []failures.Subject, account, place trusted.Key, now time.Time) error {
	ctx, subjects = context.WithoutCancel(ctx), slices.Clone(subjects)
	done := make(chan error, 3)
	go func() { done <- c.TakeBack(ctx, at, subjects) }()
	go func() { done <- c.Clear(ctx, subjects[len(subjects)-1:]) }()
	go func() { done <- c.places.Remember(ctx, account, place, now) }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var err error
	for range 3 {
		select {
		case one := <-done:
			err = errors.Join(err, one)
		case <-timer.C:
			return err
		}
	}
	return err
}
