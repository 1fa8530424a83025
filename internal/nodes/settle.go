package nodes

import (
	"context"

	"authguard/failures"
	"authguard/failures/redisfailures"
)

// batch is how many charges go to Redis in one round trip when it is told what
// it missed.
const batch = 500

// settle tells Redis what it has missed or lost. While it does, the line is
// down if there is anything lost: decisions go by this node's own count.
func (c *Counters) settle(ctx context.Context) error {
	doubts := c.places.redis.Doubts()
	changed, err := c.generations.Look(ctx)
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		c.line.Lost(errLost)
		if err := c.refill(ctx, changed); err != nil {
			return err
		}
		c.generations.Adopt(changed)
		if c.onLost != nil {
			c.onLost(ctx)
		}
	}
	c.places.redis.Believe(doubts)
	if err := c.places.catchUp(ctx); err != nil {
		return err
	}
	return c.catchUp(ctx)
}

// refill writes down again what this node charged, and the privileged places
// that it knows.
func (c *Counters) refill(ctx context.Context, changed []newer) error {
	groups := make(map[int]bool)
	for _, one := range changed {
		groups[one.group] = true
	}
	lost := func(of *failures.Subject) bool { return groups[c.generations.Of(of.Shard)] }
	charges, deeds := c.history.standing(lost, c.redisTime().Add(-c.redis.PendingFor()))
	for first := 0; first < len(charges); first += batch {
		var adds []redisfailures.Past
		for i := first; i < min(first+batch, len(charges)); i++ {
			adds = append(adds, redisfailures.Past{At: charges[i].at.Time(), Subjects: charges[i].of()})
		}
		if err := c.redis.Add(ctx, adds...); err != nil {
			return err
		}
	}
	c.history.needless(deeds, lost)
	return c.places.redis.Refill(ctx, c.places.resetElsewhere)
}

// catchUp tells Redis what happened while it was gone, in order. It has to be
// faster than what happens meanwhile: charges go many at once.
func (c *Counters) catchUp(ctx context.Context) error {
	for {
		deeds, upTo := c.history.next(batch)
		if len(deeds) == 0 {
			return nil
		}
		for len(deeds) > 0 {
			told, err := c.tell(ctx, deeds)
			if err != nil {
				return err
			}
			deeds = deeds[told:]
		}
		c.history.heard(upTo)
	}
}

// tell tells of the first deed, or of all charges that come first.
func (c *Counters) tell(ctx context.Context, deeds []deed) (told int, err error) {
	var past []redisfailures.Past
	for told < len(deeds) && (deeds[told].what == charged || deeds[told].n == 0) {
		if d := &deeds[told]; d.n > 0 {
			past = append(past, redisfailures.Past{At: d.at.Time(), Subjects: d.of()})
		}
		told++
	}
	if told > 0 {
		return told, c.redis.Add(ctx, past...)
	}
	d := &deeds[0]
	if d.what == tookBack {
		return 1, c.redis.TakeBack(ctx, d.at, d.of())
	}
	return 1, c.redis.Clear(ctx, d.of())
}
