// Package sqltx runs transactions on either database, and says of their errors
// what the two say differently. It links neither driver.
package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"strings"
	"time"
)

// tries is how often a transaction is begun that another one was in the way of.
const tries = 5

// A Beginner is an *sql.DB or *sql.Conn.
type Beginner interface {
	BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
}

// Run runs do in a transaction and commits it, unless do fails. Where
// PostgreSQL gives a transaction up for another one's sake (a deadlock, say),
// all of it is done again, up to five times: do must have no other effect.
func Run(ctx context.Context, db Beginner, do func(*sql.Tx) error) (err error) {
	for n := range tries {
		if err = once(ctx, db, do); !conflict(err) || !pause(ctx, n) {
			return err
		}
	}
	return err
}

// pause parts transactions that run into each other again and again.
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

// conflict: serialization_failure and deadlock_detected. Nothing was done then.
func conflict(err error) bool {
	state := stateOf(err)
	return state == "40001" || state == "40P01"
}

// Taken tells whether an error means that a row with this key is there already.
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

// Holds tells whether both databases can hold a text: PostgreSQL takes no zero
// byte and nothing that is not UTF-8.
func Holds(text string) bool { return Clean(text) == text }

// Clean is a text that both databases can hold: what they cannot is replaced
// by U+FFFD.
func Clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
