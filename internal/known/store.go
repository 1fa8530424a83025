// Package known is the trusted.Store in the SQL database. Each account has one row. An attempt reads it with one
// SELECT, and a login writes it with one UPSERT. There is no cache, so all processes see a change at once.
//
// An account without a row, such as an invented name, costs no query: see filter.
package known

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"authguard/internal/database"
	"authguard/trusted"
)

const (
	// saveEvery is the maximum age of the last use in the database, for the most recently used client. A client in use
	// all day therefore causes 24 writes.
	saveEvery = time.Hour
	// queryTime is the time limit of a query, including the wait for a connection.
	queryTime = 3 * time.Second
	// overlap is how far back Refresh reads again. A row has the time when the change began on its node, but becomes
	// visible when it is committed.
	overlap = time.Minute
)

// Config configures a Store. DB is required, with all migrations applied.
type Config struct {
	DB     *sql.DB
	Limits trusted.Limits
	Now    func() time.Time // for Refresh and Purge; default time.Now
}

// Store is a trusted.Store. It is safe for concurrent use.
type Store struct {
	config    Config
	filter    filter
	seen      atomic.Int64 // time of the last Refresh, in Unix milliseconds
	addresses *trusted.SharedAddresses
}

var _ trusted.Store = (*Store)(nil)

// addresses stores the accounts of IP addresses, in rows of the same table.
type addresses struct{ *Store }

var _ trusted.AddressStore = addresses{}

// New deletes expired rows, and reads which accounts have known clients. It starts no goroutine.
func New(ctx context.Context, config Config) (*Store, error) {
	if config.DB == nil {
		return nil, errors.New("known: DB is missing")
	}
	if err := config.Limits.Validate(); err != nil {
		return nil, fmt.Errorf("known: %w", err)
	}
	config.Limits = config.Limits.WithDefaults()
	if config.Now == nil {
		config.Now = time.Now
	}
	s := &Store{config: config, filter: newFilter()}
	var err error
	if s.addresses, err = trusted.NewSharedAddresses(config.Limits, addresses{s}); err != nil {
		return nil, err
	}
	if _, err := s.Purge(ctx); err != nil {
		return nil, err
	}
	return s, s.Refresh(ctx)
}

// SharedAddresses returns the shared addresses. Refresh keeps them up to date.
func (s *Store) SharedAddresses() *trusted.SharedAddresses { return s.addresses }

// Record implements trusted.Store.
func (s *Store) Record(ctx context.Context, account trusted.Key, now time.Time) (trusted.Record, error) {
	return s.record(ctx, ofAccount, account, now)
}

// Record implements trusted.AddressStore.
func (s addresses) Record(ctx context.Context, address trusted.Key, now time.Time) (trusted.Record, error) {
	return s.record(ctx, ofAddress, address, now)
}

func (s *Store) record(ctx context.Context, kind string, key trusted.Key, now time.Time) (trusted.Record, error) {
	if !s.filter.has(&key) {
		return trusted.Record{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	record, _, err := s.read(ctx, kind+text(key))
	return record.Live(now, s.config.Limits), err
}

// Remember implements trusted.Store. After an error, the client is not known.
func (s *Store) Remember(ctx context.Context, account, client trusted.Key, now time.Time) error {
	if client == (trusted.Key{}) {
		return trusted.ErrNoKey
	}
	return s.change(ctx, ofAccount, account, now, func(r *trusted.Record) error {
		return r.Remember(client, now, s.config.Limits)
	})
}

// Remember implements trusted.AddressStore.
func (s addresses) Remember(ctx context.Context, address, account trusted.Key, now time.Time) error {
	return s.change(ctx, ofAddress, address, now, func(r *trusted.Record) error {
		return r.Remember(account, now, s.config.Limits.OfAddress())
	})
}

// Spend implements trusted.Store.
func (s *Store) Spend(ctx context.Context, account, client trusted.Key, now time.Time) error {
	if client == (trusted.Key{}) {
		return trusted.ErrNoKey
	}
	return s.change(ctx, ofAccount, account, now, func(r *trusted.Record) error {
		r.Spend(client, now, s.config.Limits)
		return nil
	})
}

// Forget implements trusted.Store.
func (s *Store) Forget(ctx context.Context, account, client trusted.Key, now time.Time) error {
	return s.change(ctx, ofAccount, account, now, func(r *trusted.Record) error { r.Forget(client, now); return nil })
}

// change reads a row, applies a change, and writes the row; it retries after a concurrent change.
func (s *Store) change(
	ctx context.Context, kind string, key trusted.Key, now time.Time, apply func(*trusted.Record) error,
) error {
	if key == (trusted.Key{}) {
		return trusted.ErrNoKey
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	for {
		before, version, err := s.read(ctx, kind+text(key))
		if err != nil {
			return err
		}
		s.filter.add(&key)
		after := before.Clone()
		if err := apply(&after); err != nil || !differs(&before, &after) {
			return err
		}
		rows, err := database.Exec(ctx, s.config.DB, upsert,
			kind+text(key), encode(after.Entries), after.Reset, version+1, now.UnixMilli(), version)
		if err != nil {
			return fmt.Errorf("known: write known clients: %w", err)
		}
		if rows > 0 {
			return nil
		}
	}
}

const upsert = `INSERT INTO known_clients (account, clients, reset_at, version, changed_at)
	VALUES ($1, $2, $3, $4, $5) ON CONFLICT (account) DO UPDATE
	SET clients = excluded.clients, reset_at = excluded.reset_at,
		version = excluded.version, changed_at = excluded.changed_at
	WHERE known_clients.version = $6`

// differs reports whether a write is needed. It is not if only the last use of the most recently used client changed,
// within saveEvery.
func differs(before, after *trusted.Record) bool {
	newest := int64(0)
	for i := range before.Entries {
		newest = max(newest, before.Entries[i].Last)
	}
	return before.Reset != after.Reset || !slices.EqualFunc(before.Entries, after.Entries, func(b, a trusted.Entry) bool {
		used := a.Last - b.Last
		a.Last = b.Last
		return a == b && (used == 0 || b.Last == newest && used < saveEvery.Milliseconds())
	})
}

// Prefixes of row names.
const (
	ofAccount = ""
	ofAddress = "@"
)

// read reads a row; version is 0 if there is none.
func (s *Store) read(ctx context.Context, name string) (record trusted.Record, version int64, err error) {
	var clients string
	err = s.config.DB.QueryRowContext(ctx, `SELECT clients, reset_at, version FROM known_clients WHERE account = $1`,
		name).Scan(&clients, &record.Reset, &version)
	if errors.Is(err, sql.ErrNoRows) {
		return record, 0, nil
	}
	if err == nil {
		record.Entries, err = decode(clients)
	}
	if err != nil {
		return trusted.Record{}, 0, fmt.Errorf("known: read known clients: %w", err)
	}
	return record, version, nil
}

// Refresh reads the changes of other nodes: which accounts have known clients, and which IP addresses are shared.
// Call it every second if there are other nodes.
func (s *Store) Refresh(ctx context.Context) error {
	now := s.config.Now().UnixMilli()
	since := min(s.seen.Load(), now) - overlap.Milliseconds()
	err := database.Each(ctx, s.config.DB, func(rows *sql.Rows) error {
		var name, accounts string
		if err := rows.Scan(&name, &accounts); err != nil {
			return err
		}
		raw, isAddress := strings.CutPrefix(name, ofAddress)
		key, err := hex.DecodeString(raw)
		if err != nil || len(key) != len(trusted.Key{}) {
			return fmt.Errorf("%.40q is not a key", name)
		}
		s.filter.add((*trusted.Key)(key))
		if isAddress {
			var record trusted.Record
			if record.Entries, err = decode(accounts); err == nil {
				s.addresses.Learn(trusted.Key(key), &record)
			}
		}
		return err
	}, `SELECT account, CASE WHEN SUBSTR(account, 1, 1) = '@' THEN clients ELSE '' END
		FROM known_clients WHERE changed_at >= $1`, since)
	if err != nil {
		return fmt.Errorf("known: read known clients: %w", err)
	}
	s.seen.Store(now)
	return nil
}

// Purge deletes rows whose clients have expired, including resets older than any valid device cookie. It returns the
// number of deleted rows. Call it regularly.
func (s *Store) Purge(ctx context.Context) (rows int64, err error) {
	rows, err = database.Exec(ctx, s.config.DB, `DELETE FROM known_clients WHERE changed_at <= $1`,
		s.config.Now().Add(-s.config.Limits.TTL).UnixMilli())
	if err != nil {
		return 0, fmt.Errorf("known: purge: %w", err)
	}
	return rows, nil
}

func text(key trusted.Key) string { return hex.EncodeToString(key[:]) }

func encode(entries []trusted.Entry) string {
	raw, _ := binary.Append(nil, binary.BigEndian, entries) // of a fixed size, so it cannot fail
	return base64.StdEncoding.EncodeToString(raw)
}

func decode(text string) ([]trusted.Entry, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	entries := make([]trusted.Entry, len(raw)/binary.Size(trusted.Entry{}))
	_, err = binary.Decode(raw, binary.BigEndian, entries)
	return entries, err
}

// A filter is a Bloom filter of the accounts with a row, to avoid queries. It takes 16 MiB; with ten million
// accounts, one in 250 others causes a query. Accounts are keyed digests, so their own bits replace hash functions.
type filter []uint64

func newFilter() filter { return make(filter, 1<<21) }

// bits calls each for the account's four bits until it returns false.
func (f filter) bits(account *trusted.Key, each func(word *uint64, bit uint64) bool) bool {
	for i := 0; i < len(account); i += 4 {
		n := binary.LittleEndian.Uint32(account[i:])
		if !each(&f[n>>6%uint32(len(f))], 1<<(n&63)) {
			return false
		}
	}
	return true
}

func (f filter) add(account *trusted.Key) {
	f.bits(account, func(word *uint64, bit uint64) bool { atomic.OrUint64(word, bit); return true })
}

func (f filter) has(account *trusted.Key) bool {
	return f.bits(account, func(word *uint64, bit uint64) bool { return atomic.LoadUint64(word)&bit != 0 })
}
