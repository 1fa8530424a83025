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
)

// Counters are the failures of all nodes and, while Redis is gone, of this one.
// They keep a replica of what this node has had to do with, so that it can go on
// alone.
type Counters struct {
	line        *Line
	redis       *redisfailures.Store
	places      *Places
	generations *Generations
	replica     replica
	nodes       func() int
	onLost      func(context.Context)
	history     history
	ahead       atomic.Int64 // Redis's clock less this node's, in nanoseconds
	now         func() time.Time
}

var _ guard.Recogniser = (*Counters)(nil)

// CountersConfig is what Counters need, all of it.
type CountersConfig struct {
	Line        *Line
	Redis       *redisfailures.Store
	Places      *Places
	Generations *Generations
	// Own is this node's replica. Nobody else may charge it.
	Own *failures.Memory
	// Nodes is how many were last seen, this one included.
	Nodes func() int
	// Lost, if not nil, is called when a Redis that has lost its memory has been
	// told again what this node counted.
	Lost func(context.Context)
}

// NewCounters makes the store and has the line look after it.
func NewCounters(c CountersConfig) *Counters {
	made := &Counters{
		line: c.Line, redis: c.Redis, places: c.Places, generations: c.Generations, replica: replica{own: c.Own}, nodes: c.Nodes, onLost: c.Lost, now: time.Now,
	}
	c.Line.OnLook(made.settle)
	return made
}

// Charge implements failures.Store.
func (c *Counters) Charge(ctx context.Context, subjects []failures.Subject, standings []failures.Usage) (failures.ChargeID, error) {
	within, done := c.line.within(ctx)
	at, err := c.redis.Charge(within, subjects, standings)
	if err == nil {
		err = c.copy(within, at, subjects, standings)
	}
	done()
	if err != nil {
		return c.chargeAlone(ctx, subjects, standings, err)
	}
	return at, nil
}

// ChargeAs implements guard.Recogniser.
func (c *Counters) ChargeAs(ctx context.Context, now time.Time, account, place trusted.Key, privileged, stranger []failures.Subject, standings []failures.Usage) (trusted.Status, failures.ChargeID, error) {
	within, done := c.line.within(ctx)
	known := c.places.redis.Known(account, place, now)
	status, at, err := c.redis.ChargeAs(within, now, account, place, privileged, stranger, standings)
	if err == nil && known == trusted.Privileged && status == trusted.Stranger && c.lost(within, [16]byte(account)) {
		err = errors.Join(errLost, c.redis.TakeBack(within, at, stranger))
	}
	if err == nil {
		err = c.copy(within, at, pick(status, privileged, stranger), standings)
	}
	done()
	if err != nil {
		status = c.places.known(ctx, account, place, now)
		at, err = c.chargeAlone(ctx, pick(status, privileged, stranger), standings, err)
	}
	return status, at, err
}

func pick(status trusted.Status, privileged, stranger []failures.Subject) []failures.Subject {
	if status == trusted.Privileged {
		return privileged
	}
	return stranger
}

// errLost means that Redis has lost its memory.
var errLost = errors.New("nodes: Redis no longer knows what it was told: it was flushed, or started empty")

// copy keeps what Redis said for when this node is alone. It fails if it finds
// out that Redis has lost its memory; the charge is taken back then.
func (c *Counters) copy(ctx context.Context, at failures.ChargeID, subjects []failures.Subject, standings []failures.Usage) error {
	if at == 0 {
		return c.replica.refused(ctx, c.redisTime(), subjects, standings)
	}
	c.ahead.Store(int64(at.Time().Sub(c.now())))
	missing, err := c.replica.charged(ctx, at.Time(), subjects, standings)
	if missing >= 0 && (c.generations.Young(subjects[missing].Shard) || c.lost(ctx, subjects[missing].Shard)) {
		return errors.Join(errLost, c.replica.takeBack(ctx, at, subjects), c.redis.TakeBack(ctx, at, subjects))
	}
	if missing >= 0 {
		err = c.replica.correct(ctx, at.Time(), subjects, standings)
	}
	c.history.charged(at, subjects, false)
	return err
}

// redisTime is about what Redis's clock shows.
func (c *Counters) redisTime() time.Time { return c.now().Add(time.Duration(c.ahead.Load())) }

// lost finds out whether Redis has lost what it knew of a place, and if so
// takes the line down until it has been told again.
func (c *Counters) lost(ctx context.Context, place [16]byte) bool {
	if !c.generations.Changed(ctx, place) {
		return false
	}
	c.line.Lost(errLost)
	return true
}

// chargeAlone decides by this node's own count, against its part of the
// limits. A charge of which Redis did not say in time whether it was made may
// be counted twice later; never not at all.
func (c *Counters) chargeAlone(ctx context.Context, subjects []failures.Subject, standings []failures.Usage, why error) (failures.ChargeID, error) {
	if ctx.Err() != nil {
		return 0, why // the client is gone
	}
	if len(subjects) == 0 {
		return 0, nil
	}
	at, err := c.replica.alone(ctx, c.redisTime(), c.nodes(), subjects, standings)
	if err == nil && at != 0 {
		c.history.charged(at, subjects, true)
		c.hurry()
	}
	return at, err
}

// hurry is for a deed that was noted just when Redis came back.
func (c *Counters) hurry() {
	if c.line.Up() {
		c.line.Wake()
	}
}

// TakeBack implements failures.Store.
func (c *Counters) TakeBack(ctx context.Context, at failures.ChargeID, subjects []failures.Subject) error {
	err := c.redis.TakeBack(ctx, at, subjects)
	c.history.tookBack(at, subjects, err != nil)
	if err != nil {
		c.hurry()
	}
	return c.replica.takeBack(ctx, at, subjects)
}

// Failed implements failures.Store.
func (c *Counters) Failed(ctx context.Context, at failures.ChargeID, subjects []failures.Subject) error {
	c.history.failed(at, subjects)
	return errors.Join(c.replica.failed(ctx, at, subjects), c.redis.Failed(ctx, at, subjects))
}

// Clear implements failures.Store.
func (c *Counters) Clear(ctx context.Context, subjects []failures.Subject) error {
	err := c.redis.Clear(ctx, subjects)
	c.history.cleared(subjects, err != nil)
	if err != nil {
		c.hurry()
	}
	return c.replica.own.Clear(ctx, subjects)
}

// Read implements failures.Store.
func (c *Counters) Read(ctx context.Context, subjects []failures.Subject, standings []failures.Usage) error {
	if err := c.redis.Read(ctx, subjects, standings); err == nil {
		return nil
	}
	return c.replica.own.Read(ctx, subjects, standings)
}

// Unheard is how many things Redis has yet to hear of.
func (c *Counters) Unheard() int { return c.history.unheard() + c.places.unheard() }
