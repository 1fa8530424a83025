// Package changes tells every node that another one has changed what nodes hold
// in memory: lists, account names, a person's word about CAPTCHA mode.
//
// Each of those has a number in the SQL database that grows in the transaction
// of the change. A node asks for all the numbers at once, a few rows, two or
// three times a second, and reads again only what has a new one. That works on
// both databases and needs no clocks that agree.
package changes

import (
	"context"
	"database/sql"
	"fmt"
)

// The names of what changes.
const (
	Lists    = "lists"
	Accounts = "accounts"
	Places   = "places" // some were forgotten; new ones do not count
)

// Mode is the name of a realm's word about CAPTCHA mode.
func Mode(realm string) string { return "mode/" + realm }

// Bump says that something has changed. Call it last in the transaction that
// changes it: other changes of the same thing wait for its end.
func Bump(ctx context.Context, tx *sql.Tx, name string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO changes (name, version) VALUES ($1, 1)
		ON CONFLICT (name) DO UPDATE SET version = changes.version + 1`, name)
	if err != nil {
		return fmt.Errorf("changes: %w", err)
	}
	return nil
}

// versions are all the numbers.
func versions(ctx context.Context, db *sql.DB) (map[string]int64, error) {
	rows, err := db.QueryContext(ctx, `SELECT name, version FROM changes`)
	if err != nil {
		return nil, fmt.Errorf("changes: %w", err)
	}
	defer rows.Close()
	all := make(map[string]int64)
	for rows.Next() {
		var name string
		var version int64
		if err := rows.Scan(&name, &version); err != nil {
			return nil, fmt.Errorf("changes: %w", err)
		}
		all[name] = version
	}
	return all, rows.Err()
}
