// Package tokens keeps bearer tokens in the SQL database: those of the decision API, of
// whose digests package web holds a copy in memory, and those of the administration's
// API, which have scopes. Neither is good for the other's.
//
// A token is 130 random bits, so its plain SHA-256 is kept: a leaked database lets
// nobody ask. Its beginning is always the same, so that a scanner for secrets finds one
// that was committed: authguard_(admin_)?[A-Z2-7]{26}.
package tokens

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/changes"
	"authguard/internal/sqltx"
)

// Prefix is how every token begins, and AdminPrefix how one with scopes does.
const (
	Prefix      = "authguard_"
	AdminPrefix = Prefix + "admin_"
)

// A Scope is what a token of the administration's API may do. The set is closed.
type Scope string

// The scopes. None contains another, but for Admin: who may do as administrators do could
// give themselves the others. Groups adds to Accounts alone.
const (
	Read     Scope = "read"     // see everything but tokens and how administrators sign in
	Unlock   Scope = "unlock"   // unlock, and forget places
	Lists    Scope = "lists"    // change the allow and block lists
	Accounts Scope = "accounts" // add and change accounts that are no administrators' and in no group
	Groups   Scope = "groups"   // with Accounts: those in groups too, and who is in which
	Mode     Scope = "mode"     // switch CAPTCHA mode
	Alerts   Scope = "alerts"   // change and test alerts
	Policy   Scope = "policy"   // switch limits between monitor and enforce
	Admin    Scope = "admin"    // everything, administrators and tokens too
)

// Scopes are all of them.
func Scopes() []Scope {
	return []Scope{Read, Unlock, Lists, Accounts, Groups, Mode, Alerts, Policy, Admin}
}

// OverAll are the scopes for what is of all realms, which no token of one realm has.
func OverAll() []Scope { return []Scope{Lists, Alerts, Admin} }

const (
	// MaxLife is how long a token with scopes may be good, and Life how long it is if
	// nothing is said. One of the decision API is good until it is revoked.
	MaxLife = 366 * 24 * time.Hour
	Life    = 90 * 24 * time.Hour
)

// Most is how many there may be, of all realms: each request is compared with all.
const Most = 1000

var (
	// ErrName says that a text is no name for a token.
	ErrName = errors.New("tokens: a name is 1 to 64 letters, digits, dots, dashes or underscores, and begins with a " +
		"letter or digit")
	// ErrTaken says that the realm has a token of this name.
	ErrTaken = errors.New("tokens: the name is already in use")
	// ErrScope says that a text is no scope.
	ErrScope = errors.New("tokens: a scope must be read, unlock, lists, accounts, groups, mode, alerts, policy or admin")
	// ErrOverAll says that a token of one realm is to do what is of all realms.
	ErrOverAll = errors.New("tokens: the scopes lists, alerts and admin apply to all realms: a token of one realm " +
		"cannot have them")
	// ErrLife says that a token is to be good for too long, or for no time.
	ErrLife = errors.New("tokens: a token with scopes must be valid for a minute to 366 days")
	// ErrUnknown says that the realm has no token of this name.
	ErrUnknown = errors.New("tokens: no such token")
	// ErrMost says that there are as many as there may be.
	ErrMost = fmt.Errorf("tokens: at most %d tokens: revoke one first", Most)
)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// A Token is all that is kept of one.
type Token struct {
	Realm     string            `json:"realm"`
	Name      string            `json:"name"`
	CreatedBy string            `json:"by"`
	CreatedAt time.Time         `json:"created"`
	Scopes    []Scope           `json:"scopes,omitempty"`   // none: of the decision API
	ExpiresAt time.Time         `json:"expires,omitzero"`   // zero: never
	UsedAt    time.Time         `json:"last_used,omitzero"` // of one with scopes; zero: never
	Sum       [sha256.Size]byte `json:"-"`
	// Confined says that one with scopes is good for its realm alone; otherwise it is for
	// all. Those of the decision API are always their realm's.
	Confined bool `json:"confined,omitempty"`
	// Maker is the administrator by whom one with scopes was made: it is good for as long
	// as that is one. Empty for a command on the server.
	Maker string `json:"-"`
}

// Asked is what a new token is to be. Realm and Name are required. By is who asks.
type Asked struct {
	Realm, Name, By, Maker string
	Scopes                 []Scope
	For                    time.Duration // of one with scopes; 0 is Life
	Confined               bool          // to Realm; of one with scopes
}

// Table is the api_tokens table. It is safe for concurrent use, also by several
// processes.
type Table struct{ db *sql.DB }

// New takes a migrated database.
func New(db *sql.DB) *Table { return &Table{db} }

// Add makes a token of a realm. The text is kept nowhere: show it once. Errors are ErrName,
// ErrScope, ErrOverAll, ErrLife, ErrTaken and ErrMost.
func (t *Table) Add(ctx context.Context, a Asked, now time.Time) (text string, made Token, err error) {
	if err := a.check(); err != nil {
		return "", Token{}, err
	}
	now = now.Truncate(time.Millisecond)
	made = Token{Realm: a.Realm, Name: a.Name, CreatedBy: sqltx.Clean(a.By), CreatedAt: now, Scopes: a.Scopes,
		Maker: a.Maker, Confined: a.Confined}
	text = Prefix + rand.Text()
	if len(a.Scopes) > 0 {
		text, made.ExpiresAt = AdminPrefix+rand.Text(), now.Add(cmp.Or(a.For, Life))
	}
	made.Sum = sha256.Sum256([]byte(text))
	err = t.change(ctx, ErrTaken, `INSERT INTO api_tokens (token_hash, realm, name, created_by, created_at, scopes, maker,
		expires_at, confined)
		SELECT $1, $2, $3, $4, CAST($5 AS BIGINT), $6, $7, CAST($8 AS BIGINT), CAST($9 AS BOOLEAN) WHERE (SELECT COUNT(*)
			FROM api_tokens) < $10 ON CONFLICT (realm, name) DO NOTHING`,
		hex.EncodeToString(made.Sum[:]), a.Realm, a.Name, made.CreatedBy, now.UnixMilli(), joined(a.Scopes), a.Maker,
		milli(made.ExpiresAt), a.Confined, Most)
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

func (a *Asked) check() error {
	if !namePattern.MatchString(a.Name) {
		return ErrName
	}
	for _, scope := range a.Scopes {
		if !slices.Contains(Scopes(), scope) {
			return ErrScope
		}
		if a.Confined && slices.Contains(OverAll(), scope) {
			return ErrOverAll
		}
	}
	if a.For != 0 && (len(a.Scopes) == 0 || a.For < time.Minute || a.For > MaxLife) {
		return ErrLife
	}
	return nil
}

// usedEvery is how exactly it is known when a token was used last.
const usedEvery = time.Minute

// Find is a token with scopes by its text, and notes that it is used. It is false for one
// that is unknown or expired, for those of the decision API, and once its maker is no
// administrator any more or was disabled: a token may never do more than its maker.
func (t *Table) Find(ctx context.Context, text string, now time.Time) (found Token, ok bool, err error) {
	if !strings.HasPrefix(text, AdminPrefix) || len(text) > 2*len(AdminPrefix)+26 {
		return Token{}, false, nil
	}
	sum := sha256.Sum256([]byte(text))
	err = t.each(ctx, func(one Token) { found, ok = one, true }, `WHERE token_hash = $1 AND scopes <> ''
		AND expires_at > $2
		AND (maker = '' OR EXISTS (SELECT 1 FROM accounts WHERE realm = $3 AND username = maker AND role = 'admin'
			AND NOT disabled))`,
		hex.EncodeToString(sum[:]), now.UnixMilli(), guard.DefaultRealm)
	if err == nil && ok && now.Sub(found.UsedAt) >= usedEvery {
		_, err = sqltx.Exec(ctx, t.db, `UPDATE api_tokens SET used_at = $1 WHERE token_hash = $2
			AND used_at < $1`, now.UnixMilli(), hex.EncodeToString(sum[:]))
	}
	if err != nil {
		return Token{}, false, fmt.Errorf("tokens: %w", err)
	}
	return found, ok, nil
}

// May reports whether a token has a scope.
func (t *Token) May(scope Scope) bool {
	return slices.Contains(t.Scopes, scope) || slices.Contains(t.Scopes, Admin)
}

// Revoke ends a token. The error is ErrUnknown if there is none.
func (t *Table) Revoke(ctx context.Context, realm, name string) error {
	return t.change(ctx, ErrUnknown, `DELETE FROM api_tokens WHERE realm = $1 AND name = $2`, realm, sqltx.Clean(name))
}

// RevokeOf ends all tokens that an administrator has made: somebody else may have made
// them.
func (t *Table) RevokeOf(ctx context.Context, maker string) error {
	none := errors.New("tokens: invalid token")
	if err := t.change(ctx, none, `DELETE FROM api_tokens WHERE maker = $1`, sqltx.Clean(maker)); !errors.Is(err, none) {
		return err
	}
	return nil
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
	err = t.each(ctx, func(one Token) { all = append(all, one) }, `ORDER BY realm, name`)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return all, nil
}

func (t *Table) each(ctx context.Context, add func(Token), which string, args ...any) error {
	return sqltx.Each(ctx, t.db, func(rows *sql.Rows) error {
		var one Token
		var sum, scopes string
		var created, expires, used int64
		if err := rows.Scan(&sum, &one.Realm, &one.Name, &one.CreatedBy, &created, &scopes, &one.Maker, &expires, &used,
			&one.Confined); err != nil {
			return err
		}
		one.CreatedAt, one.ExpiresAt, one.UsedAt = moment(created), moment(expires), moment(used)
		for _, scope := range strings.Fields(scopes) {
			one.Scopes = append(one.Scopes, Scope(scope))
		}
		if n, err := hex.Decode(one.Sum[:], []byte(sum)); err != nil || n != len(one.Sum) {
			return fmt.Errorf("the digest of %q cannot be read", one.Name)
		}
		add(one)
		return nil
	}, `SELECT token_hash, realm, name, created_by, created_at, scopes, maker, expires_at, used_at, confined
		FROM api_tokens `+which, args...)
}

func joined(scopes []Scope) string {
	all := make([]string, len(scopes))
	for i, one := range scopes {
		all[i] = string(one)
	}
	return strings.Join(all, " ")
}

func milli(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
