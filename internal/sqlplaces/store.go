// Package sqlplaces is the trusted.Store in the SQL database, answered from
// memory.
//
// As long as all places fit into its cache (a million by default), the cache is
// complete: a place that is missing is a stranger's, and a flood of made-up
// names costs no query. Beyond that a miss asks the database. Every change is
// written through before it takes effect, except that repeated use of a place
// is written at most once an hour.
//
// Other nodes share the tables. What they must learn soon raises the number
// changes.Places; have the changes.Watcher call [Store.Refresh].
package sqlplaces

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"authguard/internal/changes"
	"authguard/internal/sqltx"
	"authguard/trusted"
)

// DefaultCache is how many places are kept in memory: about 100 MB.
const DefaultCache = 1_000_000

const shardCount = 64

// Config configures a Store. DB is required and has been migrated.
type Config struct {
	DB     *sql.DB
	Limits trusted.Limits
	Cache  int              // places in memory; default DefaultCache
	Now    func() time.Time // for Refresh and Purge; default time.Now
}

// Store is a trusted.Store. It is safe for concurrent use.
type Store struct {
	config Config
	shards [shardCount]shard
	places atomic.Int64 // in memory; a reset counts as one
	whole  atomic.Bool  // memory holds every row
	seen   atomic.Int64 // when Refresh last looked, ms
}

var _ trusted.Store = (*Store)(nil)

// A shard is a part of the cache. A record is never changed once it is in the
// map: a change puts a new one in its place.
type shard struct {
	change  sync.Mutex // held while SQL is written, so that changes keep their order
	mu      sync.RWMutex
	records map[trusted.Key]*trusted.Record
}

// New deletes what has expired, reads the places into memory if they fit, and
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
	config.Limits = config.Limits.WithDefaults()
	config.Cache = cmp.Or(config.Cache, DefaultCache)
	if config.Now == nil {
		config.Now = time.Now
	}
	s := &Store{config: config}
	for i := range s.shards {
		s.shards[i].records = make(map[trusted.Key]*trusted.Record)
	}
	if _, err := s.Purge(ctx); err != nil {
		return nil, err
	}
	return s, s.load(ctx)
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

// Record is all that is known of an account's places.
func (s *Store) Record(ctx context.Context, account trusted.Key) (trusted.Record, error) {
	record, err := s.look(ctx, account)
	if record == nil {
		return trusted.Record{}, err
	}
	return record.Clone(), nil
}

// Peek returns an account's record if it is in memory. It never asks the
// database and does not allocate. The record's entries are shared and must not
// be changed.
func (s *Store) Peek(account trusted.Key) (trusted.Record, bool) {
	if record := s.shard(account).get(account); record != nil {
		return *record, true
	}
	return trusted.Record{}, false
}

// Remember implements trusted.Store. If it cannot be written, the place is not
// privileged.
func (s *Store) Remember(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return s.change(ctx, change{account: account, place: place, now: now}, func(r *trusted.Record) error {
		return r.Remember(place, now, s.config.Limits)
	})
}

// Spend implements trusted.Store. If it cannot be written, the place is spent
// on this node all the same; the error means that other nodes do not know.
func (s *Store) Spend(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return s.change(ctx, change{account: account, place: place, now: now, stricter: true}, func(r *trusted.Record) error {
		r.Spend(place, now, s.config.Limits)
		return nil
	})
}

// Forget implements trusted.Store. If it cannot be written, the place is
// forgotten on this node all the same; the error means that the table still has
// it.
func (s *Store) Forget(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return s.change(ctx, change{account: account, place: place, now: now, stricter: true, forget: true}, func(r *trusted.Record) error {
		r.Forget(place, now)
		return nil
	})
}

type change struct {
	account, place trusted.Key
	now            time.Time
	stricter       bool // takes effect even if it cannot be written
	// forget deletes the rows of place (all of the account's, if it is zero)
	// whether memory knows them or not: another node may just have written
	// them.
	forget bool
}

// change works on a copy, writes the difference, and publishes the copy.
func (s *Store) change(ctx context.Context, c change, apply func(*trusted.Record) error) error {
	if c.account == (trusted.Key{}) || c.place == (trusted.Key{}) && !c.forget {
		return trusted.ErrNoKey
	}
	sh := s.shard(c.account)
	sh.change.Lock()
	defer sh.change.Unlock()
	before := sh.get(c.account)
	if before == nil {
		before = new(trusted.Record)
		if !s.whole.Load() {
			read, err := s.read(ctx, c.account)
			if err != nil {
				return err
			}
			before = &read
		}
	}
	after := before.Clone()
	if err := apply(&after); err != nil {
		return err
	}
	err := s.save(ctx, c, before, &after)
	if err == nil || c.stricter {
		s.publish(sh, c.account, &after)
	}
	return err
}

// save writes the difference between two records in one transaction, or nothing
// if that is only a use that may wait, and notes in after what was written.
//
// Other nodes must learn within a second of places that are new, spent, or
// gone. The number that announces them is one row, locked until the commit, so
// those changes are serialised over all nodes: at 2 ms for a commit, 500 a
// second, while bcrypt lets five logins a second through per core. Using a
// known place again, which is nearly every login, does not raise the number;
// other nodes see it at their watcher's next full reload.
func (s *Store) save(ctx context.Context, c change, before, after *trusted.Record) error {
	statements, tell := c.statements(before, after)
	if len(statements) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	err := sqltx.Run(ctx, s.config.DB, func(tx *sql.Tx) error {
		for _, one := range statements {
			if _, err := tx.ExecContext(ctx, one.query, one.args...); err != nil {
				return err
			}
		}
		if !tell {
			return nil
		}
		return changes.Bump(ctx, tx, changes.Places)
	})
	if err != nil {
		for i := range after.Entries {
			after.Entries[i].Saved = 0 // the next change writes them all
		}
		return fmt.Errorf("sqlplaces: write known clients: %w", err)
	}
	return nil
}

type statement struct {
	query string
	args  []any
}

// statements lists what turns the rows of before into those of after, and marks
// in after what it writes. tell is whether other nodes must know.
func (c change) statements(before, after *trusted.Record) (todo []statement, tell bool) {
	account := text(c.account)
	lost := c.forget || before.Reset != after.Reset
	if c.forget && c.place == (trusted.Key{}) {
		todo = append(todo, statement{`DELETE FROM places WHERE account = $1`, []any{account}})
	} else if c.forget {
		todo = append(todo, statement{deletePlace, []any{account, text(c.place)}})
	}
	for i := range before.Entries {
		if place := before.Entries[i].Place; find(after, place) == nil {
			lost = true
			todo = append(todo, statement{deletePlace, []any{account, text(place)}})
		}
	}
	tell = lost
	for i := range after.Entries {
		e := &after.Entries[i]
		was := find(before, e.Place)
		isNew := was == nil || was.Status != e.Status
		if isNew || e.Last-e.Saved >= saveEvery.Milliseconds() {
			todo = append(todo, statement{upsertPlace, []any{account, text(e.Place), e.Status, e.First, e.Last}})
			e.Saved, tell = e.Last, tell || isNew
		}
	}
	if lost {
		todo = append(todo, statement{upsertReset, []any{account, after.Reset, c.now.UnixMilli()}})
	}
	return todo, tell
}

func find(record *trusted.Record, place trusted.Key) *trusted.Entry {
	i := slices.IndexFunc(record.Entries, func(e trusted.Entry) bool { return e.Place == place })
	if i < 0 {
		return nil
	}
	return &record.Entries[i]
}

func text(key trusted.Key) string { return hex.EncodeToString(key[:]) }

// look finds an account's record; nil if there is none. A miss while some rows
// are not in memory asks the database, and keeps the answer unless a change to
// the same shard is under way: the answer might be older than that change.
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

// publish puts a record into the cache, or removes an empty one. The caller
// holds sh.change. While the cache is too full, other accounts of the shard are
// dropped in Go's map order: anything cleverer would cost a write on every
// Status, and a dropped account only costs its next login a query.
func (s *Store) publish(sh *shard, account trusted.Key, record *trusted.Record) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.put(sh, account, record)
	for other := range sh.records {
		if s.places.Load() <= int64(s.config.Cache) {
			return
		}
		if other != account {
			s.whole.Store(false)
			s.put(sh, other, nil)
		}
	}
}

// put replaces a record and keeps count. The caller holds sh.mu.
func (s *Store) put(sh *shard, account trusted.Key, record *trusted.Record) {
	s.places.Add(weight(record) - weight(sh.records[account]))
	if weight(record) == 0 {
		delete(sh.records, account)
		return
	}
	sh.records[account] = record
}

func weight(record *trusted.Record) int64 {
	if record == nil {
		return 0
	}
	n := int64(len(record.Entries))
	if record.Reset != 0 {
		n++
	}
	return n
}
