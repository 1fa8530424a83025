package sqlplaces

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"time"

	"authguard/internal/sqltx"
	"authguard/trusted"
)

const (
	// saveEvery is how stale the last use in the table may be: a place in use
	// all day costs 24 writes, not one per login.
	saveEvery = time.Hour
	// queryTime limits how long an attempt waits, including for a connection.
	queryTime = 3 * time.Second
)

const (
	upsertPlace = `INSERT INTO places (account, place, status, first_used, last_used) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (account, place) DO UPDATE
		SET status = excluded.status, first_used = excluded.first_used, last_used = excluded.last_used`
	upsertReset = `INSERT INTO place_resets (account, reset_at, changed_at) VALUES ($1, $2, $3)
		ON CONFLICT (account) DO UPDATE SET changed_at = excluded.changed_at, reset_at =
		CASE WHEN excluded.reset_at > place_resets.reset_at THEN excluded.reset_at ELSE place_resets.reset_at END`
	deletePlace = `DELETE FROM places WHERE account = $1 AND place = $2`

	// Every query has rows of one shape; a reset is a row without a place.
	places        = `SELECT account, place, status, first_used, last_used FROM places`
	resets        = ` UNION ALL SELECT account, '', 0, 0, reset_at FROM place_resets`
	selectAll     = places + resets + ` LIMIT $1`
	selectAccount = places + ` WHERE account = $1` + resets + ` WHERE account = $1`
	selectChanged = places + ` WHERE last_used >= $1` + resets + ` WHERE changed_at >= $1`
)

// load fills the cache if everything fits, and leaves it empty otherwise. It
// runs before anybody else knows the store, so it needs no locks.
func (s *Store) load(ctx context.Context) error {
	s.seen.Store(s.config.Now().UnixMilli())
	rows, records := 0, make(map[trusted.Key]*trusted.Record)
	err := s.each(ctx, selectAll, []any{s.config.Cache + 1}, func(account trusted.Key, e trusted.Entry) {
		if records[account] == nil {
			records[account] = new(trusted.Record)
		}
		add(records[account], e)
		rows++
	})
	if err != nil || rows > s.config.Cache {
		return err
	}
	for account, record := range records {
		s.put(s.shard(account), account, record)
	}
	s.whole.Store(true)
	return nil
}

// read reads an account's record from the tables.
func (s *Store) read(ctx context.Context, account trusted.Key) (record trusted.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	err = s.each(ctx, selectAccount, []any{text(account)}, func(_ trusted.Key, e trusted.Entry) { add(&record, e) })
	return record, err
}

func add(record *trusted.Record, e trusted.Entry) {
	if e.Place == (trusted.Key{}) {
		record.Reset = e.Last
		return
	}
	record.Entries = append(record.Entries, e)
}

// each yields the rows of a query; a reset has the zero place, and its time is
// Last. A malformed row is an error: something else writes to the tables.
func (s *Store) each(ctx context.Context, query string, args []any, yield func(account trusted.Key, e trusted.Entry)) error {
	err := sqltx.Each(ctx, s.config.DB, func(rows *sql.Rows) error {
		var name, place string
		var e trusted.Entry
		if err := rows.Scan(&name, &place, &e.Status, &e.First, &e.Last); err != nil {
			return err
		}
		account, err := parseKey(name)
		if err == nil && place != "" {
			e.Place, err = parseKey(place)
		}
		if err != nil {
			return err
		}
		e.Saved = e.Last
		yield(account, e)
		return nil
	}, query, args...)
	if err != nil {
		return fmt.Errorf("sqlplaces: read known clients: %w", err)
	}
	return nil
}

func parseKey(text string) (trusted.Key, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(trusted.Key{}) {
		return trusted.Key{}, fmt.Errorf("%.40q is not a key", text)
	}
	return trusted.Key(raw), nil
}
