package failures

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Config says how much a Memory may keep.
type Config struct {
	// MaxBytes bounds the tables and blocks of all keys together; default
	// DefaultMaxBytes, at least MinBytes. A key with up to three charges takes
	// 32 bytes in a table that is between 60 and 80 percent full. While a
	// table grows its old copy is there too, until the garbage collector comes.
	MaxBytes int64
	// Retain is how long a charge may matter: the longest window of any ladder
	// used with this store. Default 24 hours, at most MaxWindow.
	Retain time.Duration
	// PendingFor is the longest that a password check takes: an older charge
	// is a failure. Default 5 seconds.
	PendingFor time.Duration
	// Now is the clock; default time.Now, read the cheap way.
	Now func() time.Time
	// Owner names the key that keys are digests under, and snapshots and journals are
	// marked with it; zero: they are not. Those of another owner are ErrOtherOwner.
	Owner Key
}

// The bound of a Memory's tables: by default, and at least, in bytes.
const (
	DefaultMaxBytes = 256 << 20
	MinBytes        = 16 << 20
)

// shardCount is one for every value of a byte; snapshots name their shard in one.
const shardCount = 256

// MaxSubjects is the largest number of subjects in one call.
const MaxSubjects = 8

// Memory is a Store in this process's memory. [Memory.Run] sweeps it. It is
// bounded (R6): a key is dropped when its last charge is older than Retain and
// never before. At the bound, a key that is not in memory yet shares its count with
// others, so it finds less room than it has, never more. Beside the charges it
// notes the last passwords of accounts ([Tag]), in a table of fixed
// size that is not saved.
type Memory struct {
	shards  [shardCount]shard
	bytes   atomic.Int64
	max     int64
	retain  atomic.Uint32 // in ms
	pending atomic.Uint32
	started time.Time
	epoch   int64 // Unix milliseconds at started
	now     func() time.Time
	owner   Key
	tags    *tags

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

// Configure changes how long a charge may matter and how long a password check
// may take, for what is charged from now on. What a shorter Retain has made
// forget stays forgotten.
func (m *Memory) Configure(retain, pendingFor time.Duration) error {
	if err := (Config{MaxBytes: MinBytes, Retain: retain, PendingFor: pendingFor}).validate(); err != nil {
		return err
	}
	m.retain.Store(millis(retain))
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

// Size is how many keys are kept and how many bytes their tables take.
func (m *Memory) Size() (keys int, bytes int64) {
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		keys += sh.used
		sh.mu.Unlock()
	}
	return keys, m.bytes.Load()
}
