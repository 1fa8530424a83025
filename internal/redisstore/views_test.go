package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"authguard/failures"
	"authguard/guard"
	"authguard/trusted"
)

// The halves of a Store as the contracts of failures and trusted have them, over
// the same scripts.

// Counters are a Store's charges as a failures.Store. Subjects of one shard are
// to stand together, and an attempt has two shards at most.
type Counters struct{ *Store }

var _ failures.Store = Counters{}

const maxSubjects = 8 // in one call

// Charge implements failures.Store.
func (c Counters) Charge(ctx context.Context, subjects []failures.Subject, usages []failures.Usage) (failures.ChargeID, error) {
	id, err := c.each(ctx, subjects, usages, nil)
	if err != nil {
		return id, fmt.Errorf("redisstore: charging: %w", err)
	}
	return id, nil
}

// Read implements failures.Store.
func (c Counters) Read(ctx context.Context, subjects []failures.Subject, usages []failures.Usage, used []failures.Used) error {
	if used == nil {
		used = make([]failures.Used, len(subjects))
	}
	if _, err := c.each(ctx, subjects, usages, used); err != nil {
		return fmt.Errorf("redisstore: reading: %w", err)
	}
	return nil
}

// each makes a part of the subjects of each shard. It charges them or, if it is
// asked what is used, reads.
func (c Counters) each(ctx context.Context, subjects []failures.Subject, usages []failures.Usage, used []failures.Used) (failures.ChargeID, error) {
	if len(subjects) > maxSubjects || len(usages) < len(subjects) {
		return failures.ChargeID{}, fmt.Errorf("%d subjects with %d usages; at most %d subjects, with as many usages",
			len(subjects), len(usages), maxSubjects)
	}
	var parts []*part
	sent := c.now()
	for from := 0; from < len(subjects); {
		to := from + 1
		for to < len(subjects) && subjects[to].Shard == subjects[from].Shard {
			to++
		}
		var reads *guard.Used
		if used != nil {
			reads = new(guard.Used)
		}
		p := c.newPart(reads, to-from)
		p.first, p.subjects, p.usages = uint8(from), subjects[from:to], usages[from:to]
		if used != nil {
			p.used = used[from:to]
		}
		for i := range p.subjects {
			c.add(p, &p.subjects[i], p.subjects[i].Key, p.subjects[i].Bind)
		}
		parts, from = append(parts, c.end(p)), to
	}
	c.send(ctx, parts...)
	return c.combine(ctx, sent, parts...)
}

// TakeBack implements failures.Store.
func (c Counters) TakeBack(ctx context.Context, id failures.ChargeID, subjects []failures.Subject) error {
	if !id.Charged() {
		return nil
	}
	if err := c.takeBack(ctx, id, subjects); err != nil {
		return fmt.Errorf("redisstore: taking back: %w", err)
	}
	return nil
}

// Failed implements failures.Store. It writes nothing, and is remembered by
// this node alone.
func (c Counters) Failed(_ context.Context, id failures.ChargeID, subjects []failures.Subject) error {
	if id.Charged() {
		c.known.fail(id, subjects, c.pendingFor())
	}
	return nil
}

// Clear implements failures.Store.
func (c Counters) Clear(ctx context.Context, subjects []failures.Subject, what failures.Mask) error {
	if what != failures.BackoffBit {
		return c.clear(ctx, subjects)
	}
	var calls []*call
	for i := range subjects {
		calls = append(calls, c.takingBack(failures.ChargeID{At: 1}, subjects[i:i+1], &subjects[i])...)
	}
	c.known.opened(subjects...)
	return run(ctx, c.batcher.enqueue, calls...)
}

// Places are a Store's places as a trusted.Store.
type Places struct{ *Store }

var _ trusted.Store = Places{}

// Status implements trusted.Store.
func (p Places) Status(ctx context.Context, account, place trusted.Key, now time.Time) (trusted.Status, error) {
	record, err := p.record(ctx, account)
	return record.Status(place, now, p.limits), err
}

// ResetAt implements trusted.Store.
func (p Places) ResetAt(ctx context.Context, account trusted.Key) (time.Time, error) {
	record, err := p.record(ctx, account)
	if err != nil || record.Reset == 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(record.Reset), nil
}

// Remember implements trusted.Store.
func (p Places) Remember(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return p.changePlaces(ctx, account, now, change{what: remember, place: place, at: now.UnixMilli()})
}

// Spend implements trusted.Store.
func (p Places) Spend(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return p.changePlaces(ctx, account, now, change{what: spend, place: place, at: now.UnixMilli()})
}

func (p Places) record(ctx context.Context, account trusted.Key) (trusted.Record, error) {
	all, err := p.client.ZRangeWithScores(ctx, p.placesKey(account), 0, -1).Result()
	var told []any
	for _, z := range all {
		told = append(told, z.Member, strconv.FormatInt(int64(z.Score), 10))
	}
	return recordOf(told), err
}
