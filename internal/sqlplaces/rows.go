package sqlplaces

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"time"

	"authguard/trusted"
)

const (
	upsertPlace = `INSERT INTO places (account, place, status, first_used, last_used) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (account, place) DO UPDATE SET status = excluded.status, last_used = excluded.last_used`
	upsertReset = `INSERT INTO place_resets (account, reset_at, changed_at) VALUES ($1, $2, $3)
		ON CONFLICT (account) DO UPDATE SET changed_at = excluded.changed_at, reset_at =
		CASE WHEN excluded.reset_at > place_resets.reset_at THEN excluded.reset_at ELSE place_resets.reset_at END`
	deletePlace   = `DELETE FROM places WHERE account = $1 AND place = $2`
	deleteAll     = `DELETE FROM places WHERE account = $1`
	selectAccount = `SELECT account, place, status, first_used, last_used FROM places WHERE account = $1`
	selectAll     = `SELECT account, place, status, first_used, last_used FROM places ORDER BY account`
)

// queryTime bounds what an attempt waits for, the wait for a connection
// included.
const queryTime = 3 * time.Second

// read reads an account's record from the tables.
func (s *Store) read(ctx context.Context, account trusted.Key) (trusted.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	var record trusted.Record
	name := hex.EncodeToString(account[:])
	err := s.config.DB.QueryRowContext(ctx, `SELECT reset_at FROM place_resets WHERE account = $1`, name).Scan(&record.Reset)
	if err != nil && err != sql.ErrNoRows {
		return trusted.Record{}, fmt.Errorf("sqlplaces: read a reset: %w", err)
	}
	rows, err := s.config.DB.QueryContext(ctx, selectAccount, name)
	if err != nil {
		return trusted.Record{}, fmt.Errorf("sqlplaces: read places: %w", err)
	}
	err = eachPlace(rows, func(_ trusted.Key, e trusted.Entry) { record.Entries = append(record.Entries, e) })
	return record, err
}

// eachPlace reads and closes rows. A row that is no place of ours is an error:
// somebody else writes into the table.
func eachPlace(rows *sql.Rows, yield func(account trusted.Key, e trusted.Entry)) error {
	defer rows.Close()
	for rows.Next() {
		var account, place string
		var e trusted.Entry
		if err := rows.Scan(&account, &place, &e.Status, &e.First, &e.Last); err != nil {
			return fmt.Errorf("sqlplaces: read places: %w", err)
		}
		who, err := parseKey(account)
		if err != nil {
			return err
		}
		if e.Place, err = parseKey(place); err != nil {
			return err
		}
		e.Saved = e.Last
		yield(who, e)
	}
	return rows.Err()
}

func parseKey(text string) (key trusted.Key, err error) {
	if n, err := hex.Decode(key[:], []byte(text[:min(len(text), 2*len(key))])); err != nil || n != len(key) || len(text) != 2*len(key) {
		return trusted.Key{}, fmt.Errorf("sqlplaces: %.40q is not a key", text)
	}
	return key, nil
}
