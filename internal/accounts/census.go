package accounts

import (
	"context"
	"database/sql"
	"fmt"
	"iter"

	"authguard/internal/passwords"
	"authguard/internal/sqltx"
)

// CensusOfTable counts the kinds of hash that a realm's accounts have in authguard's
// own table, of at most so many accounts. Since ids are random, so is the sample, and
// at all nodes the same.
func CensusOfTable(ctx context.Context, db *sql.DB, realm string, most int) (*passwords.Census, error) {
	c := new(passwords.Census)
	err := sqltx.Each(ctx, db, func(rows *sql.Rows) error { return addTo(c, rows) },
		`SELECT password_hash FROM accounts WHERE realm = $1 ORDER BY id LIMIT $2`, realm, most)
	if err != nil {
		return nil, fmt.Errorf("accounts: count kinds of hash: %w", err)
	}
	return c, nil
}

func addTo(c *passwords.Census, rows *sql.Rows) error {
	var hash sql.NullString
	err := rows.Scan(&hash)
	c.Add(hash.String, 1)
	return err
}

func censusOf(hashes iter.Seq[string]) *passwords.Census {
	c := new(passwords.Census)
	for hash := range hashes {
		c.Add(hash, 1)
	}
	return c
}
