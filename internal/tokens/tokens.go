// Package tokens keeps the bearer tokens of the decision API that were made by command
// in the SQL database. Package web holds a copy of their digests in memory.
//
// A token is 130 random bits, so its plain SHA-256 is kept: a leaked database lets
// nobody ask. Its beginning is always the same, so that a scanner for secrets finds one
// that was committed: authguard_[A-Z2-7]{26}.
package tokens

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"time"

	"authguard/internal/changes"
	"authguard/internal/sqltx"
)

// Prefix is how every token begins.
const Prefix = "authguard_"

// Most is how many there may be, of all realms: each request is compared with all.
const Most = 1000

var (
	// ErrName says that a text is no name for a token.
	ErrName = errors.New("tokens: a name is 1 to 64 letters, digits, dots, dashes or underscores, and begins with a letter or digit")
	// ErrTaken says that the realm has a token of this name.
	ErrTaken = errors.New("tokens: the name is taken")
	// ErrUnknown says that the realm has no token of this name.
	ErrUnknown = errors.New("tokens: no such token")
	// ErrMost says that there are as many as there may be.
	ErrMost = fmt.Errorf("tokens: there are %d, which is the most", Most)
)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// A Token is all that is kept of one.
type Token struct {
	Realm     string            `json:"realm"`
	Name      string            `json:"name"`
	CreatedBy string            `json:"by"`
	CreatedAt time.Time         `json:"created"`
	Sum       [sha256.Size]byte `json:"-"`
}

// Table is the api_tokens table. It is safe for concurrent use, also by several
// processes.
type Table struct{ db *sql.DB }

// New takes a migrated database.
func New(db *sql.DB) *Table { return &Table{db} }

// Add makes a token of a realm. The text is kept nowhere: show it once. by is who asks.
// Errors are ErrName, ErrTaken and ErrMost.
func (t *Table) Add(ctx context.Context, realm, name, by string, now time.Time) (text string, made Token, err error) {
	if !namePattern.MatchString(name) {
		return "", Token{}, ErrName
	}
	text = Prefix + rand.Text()
	made = Token{Realm: realm, Name: name, CreatedBy: sqltx.Clean(by), CreatedAt: now.Truncate(time.Millisecond), Sum: sha256.Sum256([]byte(text))}
	err = t.change(ctx, ErrTaken, `INSERT INTO api_tokens (token_hash, realm, name, created_by, created_at)
		SELECT $1, $2, $3, $4, CAST($5 AS BIGINT) WHERE (SELECT COUNT(*) FROM api_tokens) < $6 ON CONFLICT (realm, name) DO NOTHING`,
		hex.EncodeToString(made.Sum[:]), realm, name, made.CreatedBy, made.CreatedAt.UnixMilli(), Most)
	if errors.Is(err, ErrTaken) {
		if all, failed := t.All(ctx); failed == nil && len(all) >= Most {
			err = ErrMost
		}
	}
	if err != nil {
		return "", Token{}, err
	}
	return text, made, nil
}

// Revoke ends a token. The error is ErrUnknown if there is none.
func (t *Table) Revoke(ctx context.Context, realm, name string) error {
	return t.change(ctx, ErrUnknown, `DELETE FROM api_tokens WHERE realm = $1 AND name = $2`, realm, sqltx.Clean(name))
}

// change runs one statement and tells all nodes, or is none if that changed nothing.
func (t *Table) change(ctx context.Context, none error, statement string, args ...any) error {
	err := sqltx.Run(ctx, t.db, func(tx *sql.Tx) error {
		if rows, err := sqltx.Exec(ctx, tx, statement, args...); err != nil {
			return err
		} else if rows == 0 {
			return none
		}
		return changes.Bump(ctx, tx, changes.Tokens)
	})
	if err != nil && !errors.Is(err, none) {
		err = fmt.Errorf("tokens: %w", err)
	}
	return err
}

// All is every token, by realm and name.
func (t *Table) All(ctx context.Context) (all []Token, err error) {
	err = sqltx.Each(ctx, t.db, func(rows *sql.Rows) error {
		var one Token
		var sum string
		var created int64
		if err := rows.Scan(&sum, &one.Realm, &one.Name, &one.CreatedBy, &created); err != nil {
			return err
		}
		one.CreatedAt = time.UnixMilli(created)
		if n, err := hex.Decode(one.Sum[:], []byte(sum)); err != nil || n != len(one.Sum) {
			return fmt.Errorf("the digest of %q cannot be read", one.Name)
		}
		all = append(all, one)
		return nil
	}, `SELECT token_hash, realm, name, created_by, created_at FROM api_tokens ORDER BY realm, name`)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return all, nil
}
