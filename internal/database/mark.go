package database

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Mark records in the table settings that something was done. It is idempotent.
func Mark(ctx context.Context, db *sql.DB, what string) error {
	_, err := Exec(ctx, db, `INSERT INTO settings (name, value, changed_at) VALUES ($1, 'done', $2)
		ON CONFLICT (name) DO NOTHING`, what, time.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("database: mark %s: %w", what, err)
	}
	return nil
}

// Unmark removes a mark.
func Unmark(ctx context.Context, db *sql.DB, what string) error {
	if _, err := Exec(ctx, db, `DELETE FROM settings WHERE name = $1`, what); err != nil {
		return fmt.Errorf("database: take the mark %s back: %w", what, err)
	}
	return nil
}

// Marked reports whether Mark recorded it.
func Marked(ctx context.Context, db *sql.DB, what string) (bool, error) {
	var rows int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM settings WHERE name = $1`, what).Scan(&rows); err != nil {
		return false, fmt.Errorf("database: look for the mark %s: %w", what, err)
	}
	return rows > 0, nil
}

// Marks returns what follows the prefix in all marks that begin with it.
func Marks(ctx context.Context, db *sql.DB, prefix string) (all []string, err error) {
	err = Each(ctx, db, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		all = append(all, name[len(prefix):])
		return err
	}, `SELECT name FROM settings WHERE substr(name, 1, $1) = $2`, len(prefix), prefix)
	if err != nil {
		return nil, fmt.Errorf("database: read the marks %s: %w", prefix, err)
	}
	return all, nil
}
