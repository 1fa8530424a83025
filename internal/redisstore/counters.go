package redisstore

import (
	"context"
	"fmt"

	"authguard/failures"
)

// Counters are a Store's charges as a failures.Store. Subjects of one shard are
// to stand together, and an attempt has two shards at most.
type Counters struct{ *Store }

var _ failures.Store = Counters{}

const maxSubjects = 8 // in one call

// Charge implements failures.Store.
func (c Counters) Charge(ctx context.Context, subjects []failures.Subject, usages []failures.Usage) (failures.ChargeID, error) {
	id, err := c.each(ctx, charging, subjects, usages)
	if err != nil {
		return id, fmt.Errorf("redisstore: charging: %w", err)
	}
	return id, nil
}

// Read implements failures.Store.
func (c Counters) Read(ctx context.Context, subjects []failures.Subject, usages []failures.Usage) error {
	if _, err := c.each(ctx, reading, subjects, usages); err != nil {
		return fmt.Errorf("redisstore: reading: %w", err)
	}
	return nil
}

// each makes a part of the subjects of each shard.
func (c Counters) each(ctx context.Context, what string, subjects []failures.Subject, usages []failures.Usage) (failures.ChargeID, error) {
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
		p := c.newPart(what, to-from)
		p.subjects, p.usages = subjects[from:to], usages[from:to]
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
func (c Counters) Clear(ctx context.Context, subjects []failures.Subject) error {
	return c.clear(ctx, subjects)
}
