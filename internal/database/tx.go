package database

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"strings"
	"time"
)

// tries is the maximum number of attempts at a conflicting transaction.
const tries = 5

// Beginner is an *sql.DB or *sql.Conn.
type Beginner interface {
	BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
}

// InTx runs do in a transaction, and commits it unless do fails. If PostgreSQL aborts the transaction because of a
// conflict (a deadlock, say), do runs again, up to five times in all. It must have no effects outside the transaction.
func InTx(ctx context.Context, db Beginner, do func(*sql.Tx) error) (err error) {
	for n := range tries {
		if err = once(ctx, db, do); !conflict(err) || !pause(ctx, n) {
			return err
		}
	}
	return err
}

// pause waits a random time, so that conflicting transactions do not collide again.
func pause(ctx context.Context, n int) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(rand.N(time.Duration(n+1) * 20 * time.Millisecond)):
		return true
	}
}

func once(ctx context.Context, db Beginner, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after the commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Runner is an *sql.DB, *sql.Conn or *sql.Tx.
type Runner interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}

// Exec runs one statement and returns the number of changed rows.
func Exec(ctx context.Context, db Runner, statement string, args ...any) (int64, error) {
	result, err := db.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Each calls row, which scans, for each row of a query until one fails.
func Each(ctx context.Context, db Runner, row func(*sql.Rows) error, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func conflict(err error) bool {
	state := sqlState(err)
	return state == "40001" || state == "40P01"
}

// Taken reports whether an error means that a row with this key exists.
func Taken(err error) bool {
	const unique, primaryKey = 2067, 1555 // extended codes of SQLite
	var lite interface{ Code() int }
	if errors.As(err, &lite) {
		return lite.Code() == unique || lite.Code() == primaryKey
	}
	return sqlState(err) == "23505"
}

func sqlState(err error) string {
	var failed interface{ SQLState() string }
	if errors.As(err, &failed) {
		return failed.SQLState()
	}
	return ""
}

// Holds reports whether both databases can store a text: PostgreSQL rejects zero bytes and invalid UTF-8.
func Holds(text string) bool { return Clean(text) == text }

// Clean replaces everything that one of the databases cannot store by U+FFFD.
func Clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// Milliseconds returns a time as the tables store it: Unix milliseconds, 0 for the zero time.
func Milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Time is the inverse of Milliseconds.
func Time(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
