package nodes

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"authguard/failures"
	"authguard/failures/redisfailures"
	"authguard/guard"
	"authguard/trusted"
	"authguard/trusted/redisplaces"
)

// Counters are the failures of all nodes and, while Redis is gone, of this one.
// They keep a copy of what this node has charged, so that a node that has to go
// on alone knows what it did.
type Counters struct {
	line   *Line
	redis  *redisfailures.Store
	places *redisplaces.Store
	own    *failures.Memory
	nodes  func() int
	parts  divided
	alone  journal
	ahead  atomic.Int64 // Redis's clock less this node's, in nanoseconds
	now    func() time.Time
}

var _ guard.Recogniser = (*Counters)(nil)

// NewCounters makes the store. own is written by Redis's time; nodes is how
// many were last seen, this one included.
func NewCounters(line *Line, redis *redisfailures.Store, places *redisplaces.Store, own *failures.Memory, nodes func() int) *Counters {
	c := &Counters{line: line, redis: redis, places: places, own: own, nodes: nodes, now: time.Now}
	line.OnReturn(c.catchUp)
	return c
}

// Charge implements failures.Store.
func (c *Counters) Charge(ctx context.Context, subjects []failures.Subject, standings []failures.Standing) (failures.Moment, error) {
	at, err := c.redis.Charge(ctx, subjects, standings)
	if err != nil {
		return c.chargeAlone(ctx, subjects, standings, err)
	}
	return at, c.copy(ctx, at, subjects)
}

// ChargeAs implements guard.Recogniser.
func (c *Counters) ChargeAs(ctx context.Context, now time.Time, account, place trusted.Key, privileged, stranger []failures.Subject, standings []failures.Standing) (trusted.Status, failures.Moment, error) {
	status, at, err := c.redis.ChargeAs(ctx, now, account, place, privileged, stranger, standings)
	if err == nil {
		return status, at, c.copy(ctx, at, pick(status, privileged, stranger))
	}
	status = c.places.Known(account, place, now)
	at, err = c.chargeAlone(ctx, pick(status, privileged, stranger), standings, err)
	return status, at, err
}

func pick(status trusted.Status, privileged, stranger []failures.Subject) []failures.Subject {
	if status == trusted.Privileged {
		return privileged
	}
	return stranger
}

// copy keeps what was charged for when this node is alone. Nothing binds: it
// was charged.
func (c *Counters) copy(ctx context.Context, at failures.Moment, subjects []failures.Subject) error {
	if at == 0 {
		return nil
	}
	c.ahead.Store(int64(at.Time().Sub(c.now())))
	var unbound [8]failures.Subject
	var standings [8]failures.Standing
	n := copy(unbound[:], subjects)
	for i := range n {
		unbound[i].Bind = 0
	}
	_, err := c.own.ChargeAt(ctx, at.Time(), unbound[:n], standings[:n])
	return err
}

// chargeAlone decides by this node's own count, against its part of the
// limits. A charge of which Redis did not say in time whether it was made may
// be counted twice later; never not at all.
func (c *Counters) chargeAlone(ctx context.Context, subjects []failures.Subject, standings []failures.Standing, why error) (failures.Moment, error) {
	if ctx.Err() != nil {
		return 0, why // the client is gone
	}
	if len(subjects) == 0 {
		return 0, nil
	}
	nodes := c.nodes()
	part := make([]failures.Subject, len(subjects))
	for i := range subjects {
		part[i] = subjects[i]
		part[i].Ladder = c.parts.of(subjects[i].Ladder, nodes)
	}
	at, err := c.own.ChargeAt(ctx, c.now().Add(time.Duration(c.ahead.Load())), part, standings)
	if err == nil && at != 0 {
		c.note(charged, at, subjects)
	}
	return at, err
}

// note writes down what Redis has to be told. If it is back already, it is
// told at once.
func (c *Counters) note(w what, at failures.Moment, subjects []failures.Subject) {
	c.alone.add(w, at, subjects)
	c.line.Wake()
}

// ownMoment is how this node's copy calls a moment of Redis's.
func ownMoment(at failures.Moment) failures.Moment {
	if at == 0 {
		return 0
	}
	return failures.Moment(at.Time().UnixMilli())
}

// TakeBack implements failures.Store.
func (c *Counters) TakeBack(ctx context.Context, at failures.Moment, subjects []failures.Subject) error {
	own := c.own.TakeBack(ctx, ownMoment(at), subjects)
	if err := c.redis.TakeBack(ctx, at, subjects); err != nil {
		c.note(tookBack, at, subjects)
	}
	return own
}

// Failed implements failures.Store.
func (c *Counters) Failed(ctx context.Context, at failures.Moment, subjects []failures.Subject) error {
	return errors.Join(c.own.Failed(ctx, ownMoment(at), subjects), c.redis.Failed(ctx, at, subjects))
}

// Clear implements failures.Store.
func (c *Counters) Clear(ctx context.Context, subjects []failures.Subject) error {
	own := c.own.Clear(ctx, subjects)
	if err := c.redis.Clear(ctx, subjects); err != nil {
		c.note(cleared, 0, subjects)
	}
	return own
}

// Read implements failures.Store.
func (c *Counters) Read(ctx context.Context, subjects []failures.Subject, standings []failures.Standing) error {
	if err := c.redis.Read(ctx, subjects, standings); err == nil {
		return nil
	}
	return c.own.Read(ctx, subjects, standings)
}

// catchUp tells Redis what happened while it was gone.
func (c *Counters) catchUp(ctx context.Context) error {
	return c.alone.tell(ctx, func(ctx context.Context, e entry) error {
		switch e.what {
		case tookBack:
			return c.redis.TakeBack(ctx, e.at, e.subjects)
		case cleared:
			return c.redis.Clear(ctx, e.subjects)
		}
		return c.redis.Add(ctx, e.at.Time(), e.subjects)
	})
}

// Untold is how many things Redis has yet to hear of.
func (c *Counters) Untold() int { return c.alone.size() }
