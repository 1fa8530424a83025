package failures

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Config configures a Memory.
type Config struct {
	// MaxBytes bounds the tables and blocks of all keys together; default DefaultMaxBytes, at least MinBytes. A key with
	// up to three charges takes 32 bytes in a table that is 60 to 80 percent full. While a table grows, the old copy
	// also exists until it is garbage-collected.
	MaxBytes int64
	// Retain is how long a charge is stored: the longest window of all limits used with this store. Default 24 hours, at
	// most MaxWindow.
	Retain time.Duration
	// PendingFor is the longest duration of a password check; an older charge is a failure. Default 5 seconds.
	PendingFor time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Owner identifies the secret behind the keys, and is saved in snapshots and journals; loading those of another owner
	// returns ErrOtherOwner. Zero: it is neither saved nor checked.
	Owner Key
}

// Bounds for Config.MaxBytes, in bytes.
const (
	DefaultMaxBytes = 256 << 20
	MinBytes        = 16 << 20
)

// shardCount is 256, because snapshots store the shard's number in one byte.
const shardCount = 256

// MaxSubjects is the largest number of subjects in one call.
const MaxSubjects = 8

// Memory is a Store in this process's memory. [Memory.Run] removes expired keys. Memory is bounded (R6), and never
// drops a key before its last charge is older than Retain. At the bound, new keys share counters: a shared count is
// never lower than a key's own. Memory also stores the accounts' latest password tags ([Tag]), in a bounded table
// that is not saved.
type Memory struct {
	shards  [shardCount]shard
	bytes   atomic.Int64
	max     int64
	retain  atomic.Uint32 // in ms
	pending atomic.Uint32
	started time.Time
	epoch   int64 // Unix milliseconds at started
	// drift is how far the wall clock has been set forward since then, in ms, as of the last Save. Files have the time of
	// the wall clock: the next process starts with it.
	drift atomic.Int64
	now   func() time.Time
	owner Key
	tags  *tags

	journaled bool // set before the first charge
	journal   journal
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory(c Config) (*Memory, error) {
	c.MaxBytes = cmp.Or(c.MaxBytes, DefaultMaxBytes)
	c.Retain = cmp.Or(c.Retain, 24*time.Hour)
	c.PendingFor = cmp.Or(c.PendingFor, 5*time.Second)
	if err := c.validate(); err != nil {
		return nil, err
	}
	m := &Memory{
		max: c.MaxBytes,
		now: c.Now, owner: c.Owner,
		tags: new(tags),
	}
	m.retain.Store(millis(c.Retain))
	m.pending.Store(millis(c.PendingFor))
	m.started = time.Now()
	if c.Now != nil {
		m.started = c.Now()
	}
	m.epoch = m.started.UnixMilli()
	return m, nil
}

// Configure changes PendingFor for future charges, and lengthens Retain; a shorter one changes nothing, because earlier
// limits may return. Calls must not be concurrent.
func (m *Memory) Configure(retain, pendingFor time.Duration) error {
	if err := (Config{MaxBytes: MinBytes, Retain: retain, PendingFor: pendingFor}).validate(); err != nil {
		return err
	}
	m.retain.Store(max(m.retain.Load(), millis(retain)))
	m.pending.Store(millis(pendingFor))
	return nil
}

func (c Config) validate() error {
	var errs []error
	if c.MaxBytes < MinBytes {
		errs = append(errs, fmt.Errorf("failures: MaxBytes must be at least %d, not %d", MinBytes, c.MaxBytes))
	}
	for what, d := range map[string]time.Duration{"Retain": c.Retain, "PendingFor": c.PendingFor} {
		if err := validWindow(what, d); err != nil {
			errs = append(errs, fmt.Errorf("failures: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Size returns the number of stored keys and the bytes of their tables.
func (m *Memory) Size() (keys int, bytes int64) {
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		keys += sh.used
		sh.mu.Unlock()
	}
	return keys, m.bytes.Load()
}
