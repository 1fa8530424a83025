package sqlplaces

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"authguard/trusted"
)

// DefaultCache is how many places are kept in memory: about 100 MB.
const DefaultCache = 1_000_000

// saveEvery is how stale the last use in the table may be: a place that is used
// all day costs 24 writes and not one per login.
const saveEvery = time.Hour

const shardCount = 64

// Config configures a Store. DB is required and has been migrated.
type Config struct {
	DB     *sql.DB
	Limits trusted.Limits
	Cache  int              // places in memory; default DefaultCache
	Now    func() time.Time // for Refresh and Purge; default time.Now
	Log    *slog.Logger     // for what fails between Start and Stop; default slog.Default()
}

// Store is a trusted.Store. It is safe for concurrent use.
type Store struct {
	config Config
	shards [shardCount]shard
	places atomic.Int64 // in memory; a reset counts as one
	whole  atomic.Bool  // memory holds every row
	seen   atomic.Int64 // up to when Refresh has looked, ms
	loop   loop
}

var _ trusted.Store = (*Store)(nil)

// A shard is a part of the cache. Its records are never changed once they are
// in the map: a change puts a new one there.
type shard struct {
	change  sync.Mutex // held while SQL is written, so that changes keep their order
	mu      sync.RWMutex
	records map[trusted.Key]*trusted.Record
}

// New drops what has expired, reads the places into memory if they fit, and
// starts nothing.
func New(ctx context.Context, config Config) (*Store, error) {
	if config.DB == nil {
		return nil, errors.New("sqlplaces: DB is missing")
	}
	if err := config.Limits.Validate(); err != nil {
		return nil, fmt.Errorf("sqlplaces: %w", err)
	}
	if config.Cache < 0 {
		return nil, errors.New("sqlplaces: cache: must be at least 1")
	}
	s := &Store{config: config.withDefaults()}
	for i := range s.shards {
		s.shards[i].records = make(map[trusted.Key]*trusted.Record)
	}
	if _, err := s.Purge(ctx); err != nil {
		return nil, err
	}
	return s, s.load(ctx)
}

func (c Config) withDefaults() Config {
	c.Limits = c.Limits.WithDefaults()
	if c.Cache == 0 {
		c.Cache = DefaultCache
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// Status implements trusted.Store. Answered from memory, it does not allocate
// and cannot fail.
func (s *Store) Status(ctx context.Context, account, place trusted.Key, now time.Time) (trusted.Status, error) {
	record, err := s.look(ctx, account)
	if record == nil {
		return trusted.Stranger, err
	}
	return record.Status(place, now, s.config.Limits), nil
}

// ResetAt implements trusted.Store.
func (s *Store) ResetAt(ctx context.Context, account trusted.Key) (time.Time, error) {
	record, err := s.look(ctx, account)
	if record == nil || record.Reset == 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(record.Reset), nil
}

// look finds an account's record; nil if there is none. A miss while some rows
// are not in memory asks the database, and keeps the answer unless a change to
// the same shard is under way: it might be older than that change.
func (s *Store) look(ctx context.Context, account trusted.Key) (*trusted.Record, error) {
	sh := s.shard(account)
	if record := sh.get(account); record != nil || s.whole.Load() {
		return record, nil
	}
	quiet := sh.change.TryLock()
	if quiet {
		defer sh.change.Unlock()
	}
	record, err := s.read(ctx, account)
	if err != nil {
		return nil, err
	}
	if quiet {
		s.publish(sh, account, &record)
	}
	return &record, nil
}

func (s *Store) shard(account trusted.Key) *shard {
	return &s.shards[(account[0]^account[15])%shardCount]
}

func (sh *shard) get(account trusted.Key) *trusted.Record {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.records[account]
}
