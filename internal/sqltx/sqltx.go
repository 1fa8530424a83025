// Package sqltx runs transactions and statements on either database, and hides
// where the two report the same error differently. It links neither driver.
package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"strings"
	"time"
)

// tries is how often a transaction is begun that others get in the way of.
const tries = 5

// A Beginner is an *sql.DB or *sql.Conn.
type Beginner interface {
	BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
}

// Run runs do in a transaction and commits it, unless do fails. If PostgreSQL
// gives up the transaction in favour of another (a deadlock, say), do is run
// again, up to five times: it must have no effect beyond the transaction.
func Run(ctx context.Context, db Beginner, do func(*sql.Tx) error) (err error) {
	for n := range tries {
		if err = once(ctx, db, do); !conflict(err) || !pause(ctx, n) {
			return err
		}
	}
	return err
}

// pause separates transactions that would run into each other again and again.
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
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// A Runner is an *sql.DB, *sql.Conn or *sql.Tx.
type Runner interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}

// Exec runs one statement and returns how many rows it changed.
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

// conflict reports a serialization_failure or deadlock_detected: nothing was done.
func conflict(err error) bool {
	state := stateOf(err)
	return state == "40001" || state == "40P01"
}

// Taken reports whether an error means that there already is a row with this key.
func Taken(err error) bool {
	const unique, primaryKey = 2067, 1555 // extended codes of SQLite
	var lite interface{ Code() int }
	if errors.As(err, &lite) {
		return lite.Code() == unique || lite.Code() == primaryKey
	}
	return stateOf(err) == "23505"
}

// stateOf is the SQLSTATE of an error of PostgreSQL, or "".
func stateOf(err error) string {
	var failed interface{ SQLState() string }
	if errors.As(err, &failed) {
		return failed.SQLState()
	}
	return ""
}

// Holds reports whether both databases can hold a text: PostgreSQL takes no zero
// byte and nothing but UTF-8.
func Holds(text string) bool { return Clean(text) == text }

// Clean replaces by U+FFFD whatever one of the databases could not hold.
func Clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
