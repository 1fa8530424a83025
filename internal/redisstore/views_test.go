package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"authguard/failures"
	"authguard/guard"
	"authguard/trusted"
)

// The halves of a Store as the contracts of failures and trusted have them, over
// the same scripts.

// Counters are a Store's charges as a failures.Store. Subjects of one shard are
// to stand together.
type Counters struct {
	*Store
	// skews remember which subjects an ID was made for: a failures.Store is asked for some of them.
	skews *sync.Map
}

// CountersOf are a store's.
func CountersOf(s *Store) Counters { return Counters{s, new(sync.Map)} }

var _ failures.Store = Counters{}

const maxSubjects = 8 // in one call

// Charge implements failures.Store.
func (c Counters) Charge(ctx context.Context, subjects []failures.Subject,
	usages []failures.Usage) (failures.ChargeID, error) {
	id, err := c.each(ctx, subjects, usages, nil)
	if err != nil {
		return id, fmt.Errorf("redisstore: charging: %w", err)
	}
	return id, nil
}

// Read implements failures.Store.
func (c Counters) Read(ctx context.Context, subjects []failures.Subject, usages []failures.Usage,
	used []failures.Used) error {
	if used == nil {
		used = make([]failures.Used, len(subjects))
	}
	if _, err := c.each(ctx, subjects, usages, used); err != nil {
		return fmt.Errorf("redisstore: reading: %w", err)
	}
	return nil
}

// each makes a charge of the subjects. It charges them or, if it is asked what is used, reads.
func (c Counters) each(ctx context.Context, subjects []failures.Subject, usages []failures.Usage,
	used []failures.Used) (failures.ChargeID, error) {
	if len(subjects) > maxSubjects || len(usages) < len(subjects) {
		return failures.ChargeID{}, fmt.Errorf("%d subjects with %d usages; at most %d subjects, with as many usages",
			len(subjects), len(usages), maxSubjects)
	}
	charge := charged(failures.ChargeID{}, subjects)
	t := &trip{Charge: &charge, what: charging}
	if used != nil {
		t.what, t.used = reading, new(guard.Used)
	}
	err := c.try(ctx, t, false)
	for i := range subjects {
		usages[i] = charge.Subjects()[i].Usage
		if used != nil {
			used[i] = t.used[i]
		}
	}
	if charge.ID.Charged() {
		skews := map[failures.Key]int32{}
		for i := range subjects {
			skews[subjects[i].Key] = charge.ID.Skews[i]
		}
		c.skews.Store(charge.ID, skews)
	}
	return charge.ID, err
}

// charged is a charge of these subjects.
func charged(id failures.ChargeID, subjects []failures.Subject) (c guard.Charge) {
	for _, s := range subjects {
		c.Add(guard.Subject{Subject: s, For: guard.EveryClient, Binds: [3]failures.Mask{s.Bind, s.Bind, s.Bind}})
	}
	c.ID = id
	return c
}

// TakeBack implements failures.Store.
func (c Counters) TakeBack(ctx context.Context, id failures.ChargeID, subjects []failures.Subject) error {
	if !id.Charged() {
		return nil
	}
	charge := charged(c.of(id, subjects), subjects)
	all, _ := counted(&charge)
	if err := c.takeBack(ctx, &charge, all); err != nil {
		return fmt.Errorf("redisstore: taking back: %w", err)
	}
	return nil
}

// of is the ID for some of the subjects that were charged.
func (c Counters) of(id failures.ChargeID, subjects []failures.Subject) failures.ChargeID {
	own := failures.ChargeID{At: id.At}
	for i := range subjects {
		skews, _ := c.skews.Load(id)
		of, _ := skews.(map[failures.Key]int32)
		own.Skews[i] = of[subjects[i].Key]
	}
	return own
}

// Failed implements failures.Store. It writes nothing, and is remembered by
// this node alone.
func (c Counters) Failed(_ context.Context, id failures.ChargeID, subjects []failures.Subject) error {
	if id.Charged() {
		own := c.of(id, subjects)
		for i := range subjects {
			c.memory.fail(stampOf(&own, i), subjects[i].Key, c.pendingFor())
		}
	}
	return nil
}

// Clear implements failures.Store.
func (c Counters) Clear(ctx context.Context, subjects []failures.Subject, what failures.Mask) error {
	for _, one := range subjects {
		charge := charged(failures.ChargeID{At: 1}, []failures.Subject{one})
		charge.Subjects()[0].Kind = guard.OnPair
		if what != failures.BackoffBit {
			if err := c.Store.Clear(ctx, charge.Subjects()); err != nil {
				return err
			}
			continue
		}
		c.memory.unblock(one.Key)
		if err := run(ctx, c.batcher.enqueue, c.takeBackCalls(&charge, []uint8{0}, true)...); err != nil {
			return err
		}
	}
	return nil
}

// KnownClients are a Store's known clients as a trusted.Store.
type KnownClients struct{ *Store }

var _ trusted.Store = KnownClients{}

// Record implements trusted.Store.
func (p KnownClients) Record(ctx context.Context, account trusted.Key, now time.Time) (trusted.Record, error) {
	return p.record(ctx, p.knownClientsKey(account), now)
}

// Remember implements trusted.Store.
func (p KnownClients) Remember(ctx context.Context, account, client trusted.Key, now time.Time) error {
	return p.changeKnownClients(ctx, account, now, change{what: remember, client: client, at: now.UnixMilli()})
}

// Spend implements trusted.Store.
func (p KnownClients) Spend(ctx context.Context, account, client trusted.Key, now time.Time) error {
	return p.changeKnownClients(ctx, account, now, change{what: spend, client: client, at: now.UnixMilli()})
}
