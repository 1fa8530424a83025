package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// Local is a Store in this process: counters in memory, and places in memory or
// in SQL. It is safe for concurrent use.
type Local struct {
	counters failures.Store
	places   trusted.Store
}

var _ Store = (*Local)(nil)

// NewLocal returns a store of counters and places, which remain the caller's to
// start and stop. The counters must retain charges for Policy.Retain and call
// them undecided for Policy.PendingFor.
func NewLocal(counters failures.Store, places trusted.Store) *Local {
	return &Local{counters: counters, places: places}
}

// Begin implements Store.
func (l *Local) Begin(ctx context.Context, c *Charge) (err error) {
	for {
		subjects := l.find(ctx, c)
		first, last := c.Counted()
		if first == last {
			return nil
		}
		if c.ID, err = l.counters.Charge(ctx, subjects, c.Usage[first:last]); err != nil || !c.BudgetSpent() {
			return err
		}
		if err := l.places.Spend(ctx, c.Account, c.Place, c.Now); err != nil {
			return fmt.Errorf("guard: ending a spent privilege: %w", err)
		}
	}
}

// find asks for the places, device before address: whoever shares the address
// can use up the address's budget, but not the device's.
func (l *Local) find(ctx context.Context, c *Charge) []failures.Subject {
	counts, found := 0, trusted.Stranger
	for i := range c.Places {
		p := &c.Places[i]
		if p.Key == (trusted.Key{}) || c.Account == (trusted.Key{}) {
			continue
		}
		status, err := l.status(ctx, c, p)
		if err != nil {
			c.PlaceErr = err
		}
		if counts, found = i, status; status == trusted.Privileged {
			break
		}
	}
	return c.Found(counts, found)
}

func (l *Local) status(ctx context.Context, c *Charge, p *Place) (trusted.Status, error) {
	status, err := l.places.Status(ctx, c.Account, p.Key, c.Now)
	if p.Issued.IsZero() || status == trusted.Spent || err != nil {
		return status, err
	}
	reset, err := l.places.ResetAt(ctx, c.Account)
	if err != nil || !p.Issued.After(reset) {
		return trusted.Stranger, err
	}
	return trusted.Privileged, nil
}

// Settle implements Store.
func (l *Local) Settle(ctx context.Context, c *Charge, o Outcome) error {
	if !c.ID.Charged() {
		return nil
	}
	first, last := c.Counted()
	subjects := c.Subjects[first:last]
	switch o {
	case Succeeded:
		return errors.Join(
			l.counters.TakeBack(ctx, c.ID, subjects),
			l.counters.Clear(ctx, c.Subjects[PairSubject:]),
			l.places.Remember(ctx, c.Account, c.Places[1].Key, c.Now),
		)
	case Abandoned:
		ofAccount := max(first, min(last, AccountSubject))
		return errors.Join(
			l.counters.TakeBack(ctx, c.ID, c.Subjects[ofAccount:last]),
			l.counters.Failed(ctx, c.ID, c.Subjects[first:ofAccount]),
		)
	case Withdrawn:
		return l.counters.TakeBack(ctx, c.ID, subjects)
	}
	return l.counters.Failed(ctx, c.ID, subjects)
}

// Read implements Store.
func (l *Local) Read(ctx context.Context, c *Charge) error {
	subjects := l.find(ctx, c)
	first, last := c.Counted()
	return l.counters.Read(ctx, subjects, c.Usage[first:last])
}

// Clear implements Store.
func (l *Local) Clear(ctx context.Context, c *Charge) error {
	return l.counters.Clear(ctx, c.Subjects[c.First:c.Last])
}

// Forget implements Store.
func (l *Local) Forget(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return l.places.Forget(ctx, account, place, now)
}
