// Package passes keeps one-time codes in the SQL database. A code and the
// password let one place into an account from which strangers are refused, or
// whose password somebody sprays (R29).
//
// A code is 80 random bits and lives for hours, so its plain SHA-256 is kept: a
// leaked database lets nobody in. Whether a code is good is decided in one
// statement, so it lets in one place, whatever the number of nodes.
package passes

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/sqltx"
	"authguard/trusted"
)

const (
	// DefaultLife and MaxLife are how long a code is good.
	DefaultLife = time.Hour
	MaxLife     = 24 * time.Hour
	// Tries is how many passwords may come with one code.
	Tries = 5

	letters   = 16 // of base32: 80 bits
	queryTime = 3 * time.Second
	askedTime = time.Hour // in which a stranger may ask for askedMost codes
	askedMost = 5
	liveMost  = 2 // codes that strangers asked for and nobody has used, for one account
)

// ErrEnough means that no further code is made for strangers for now: the
// account's owner has unused ones already, or the address has asked for many.
var ErrEnough = errors.New("passes: too many codes requested")

// Table keeps codes. It is safe for concurrent use, also by several nodes.
type Table struct {
	db               *sql.DB
	now              func() time.Time
	realm, directory string
}

var _ guard.Passes = (*Table)(nil)

// New makes a Table over a migrated database, of the codes of guard.DefaultRealm.
// The clock may be nil for time.Now.
func New(db *sql.DB, now func() time.Time) *Table {
	if now == nil {
		now = time.Now
	}
	return &Table{db, now, guard.DefaultRealm, ""}
}

// In is the codes of another realm: none of them is good here.
func (t *Table) In(realm string) *Table { return &Table{t.db, t.now, realm, t.directory} }

// Of is the same table for the guard of a directory: Show and Settle know the codes of its
// accounts only.
func (t *Table) Of(directory string) *Table { return &Table{t.db, t.now, t.realm, directory} }

// A Grant says for whom a code is: an account's canonical name in a directory, since an
// administrator and a user may have one name. For is how long it is good.
type Grant struct {
	Directory, Account string
	For                time.Duration
	// From is the digest of the address that asks, if a stranger does; see Asked.
	From trusted.Key
}

// Issue makes a code, which is kept nowhere else: show it once.
func (t *Table) Issue(ctx context.Context, g Grant) (code string, expires time.Time, err error) {
	code, expires = newCode(), t.now().Add(g.For)
	if err := t.insert(ctx, t.db, g, code, t.now(), expires); err != nil {
		return "", time.Time{}, fmt.Errorf("passes: issue: %w", err)
	}
	return code, expires, nil
}

// Asked is Issue for a stranger who asks for a code to be sent to the account's
// owner. The error is ErrEnough if the owner has been sent codes that are good
// still, so that nobody fills a mailbox, and nobody can use up a quota that the
// owner needs; or if the address has asked for several.
func (t *Table) Asked(ctx context.Context, g Grant) (code string, expires time.Time, err error) {
	now := t.now()
	code, expires = newCode(), now.Add(g.For)
	err = sqltx.Run(ctx, t.db, func(tx *sql.Tx) error {
		// Whoever asks for the same account at another node waits here.
		if _, err := tx.ExecContext(ctx, `UPDATE accounts SET version = version WHERE realm = $1
			AND username = $2`, t.realm, g.Account); err != nil {
			return err
		}
		var live, asked int
		err := tx.QueryRowContext(ctx, `SELECT
			(SELECT COUNT(*) FROM passes WHERE realm = $7 AND account = $1 AND directory = $2 AND asked_from <> ''
			AND used_at = 0 AND tries < $3 AND expires_at > $4),
			(SELECT COUNT(*) FROM passes WHERE asked_from = $5 AND created_at > $6)`,
			g.Account, g.Directory, Tries, now.UnixMilli(), text(g.From), now.Add(-askedTime).UnixMilli(), t.realm).Scan(&live,
			&asked)
		if err != nil {
			return err
		}
		if live >= liveMost || asked >= askedMost {
			return ErrEnough
		}
		return t.insert(ctx, tx, g, code, now, expires)
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("passes: issue for an unknown client: %w", err)
	}
	return code, expires, nil
}

func (t *Table) insert(ctx context.Context, db sqltx.Runner, g Grant, code string, now, expires time.Time) error {
	_, err := sqltx.Exec(ctx, db, `INSERT INTO passes (code_hash, realm, directory, account, asked_from, created_at,
		expires_at)
		VALUES ($1, $2, $3, $4, $5, $6,
			$7)`, hash(code), t.realm, g.Directory, g.Account, text(g.From), now.UnixMilli(), expires.UnixMilli())
	return err
}

// Show implements guard.Passes.
func (t *Table) Show(ctx context.Context, p guard.Pass) (good bool, err error) {
	code, ok := normalise(p.Code)
	if !ok || !sqltx.Holds(p.Account) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	// Made-up codes only read: SQLite has one writer, and strangers must not
	// keep it busy.
	var known int
	err = t.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM passes WHERE code_hash = $1`, hash(code)).Scan(&known)
	if err != nil || known == 0 {
		return false, wrap("look up", err)
	}
	n, err := sqltx.Exec(ctx, t.db, `UPDATE passes SET place = $4, tries = tries + 1 WHERE code_hash = $1
		AND directory = $2 AND account = $3
		AND (place = '' OR place = $4) AND tries < $5 AND used_at = 0 AND expires_at > $6 AND realm = $7`,
		hash(code), t.directory, p.Account, text(p.Place), Tries, p.Now.UnixMilli(), t.realm)
	return n > 0, wrap("show", err)
}

// Settle implements guard.Passes.
func (t *Table) Settle(ctx context.Context, p guard.Pass, o guard.Outcome) error {
	set, now := "used_at = $4", p.Now.UnixMilli()
	switch o {
	case guard.Succeeded:
	case guard.Abandoned, guard.Withdrawn:
		set, now = "tries = tries + $4", -1
	default:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	_, err := sqltx.Exec(ctx, t.db, `UPDATE passes SET `+set+` WHERE directory = $1 AND account = $2 AND place = $3
		AND used_at = 0 AND tries > 0 AND realm = $5`,
		t.directory, p.Account, text(p.Place), now, t.realm)
	return wrap("settle", err)
}

// Revoke ends all codes of an account that nobody has used, as a new password
// must.
func (t *Table) Revoke(ctx context.Context, account string) error {
	_, err := sqltx.Exec(ctx, t.db, `DELETE FROM passes WHERE realm = $1 AND account = $2
		AND used_at = 0`, t.realm, sqltx.Clean(account))
	return wrap("revoke", err)
}

// RevokeIn is Revoke for the account of one directory.
func (t *Table) RevokeIn(ctx context.Context, directory, account string) error {
	_, err := sqltx.Exec(ctx, t.db, `DELETE FROM passes WHERE realm = $1 AND directory = $2 AND account = $3
		AND used_at = 0`, t.realm, directory, sqltx.Clean(account))
	return wrap("revoke", err)
}

// Live reports whether somebody has a code for an account that is good and unused.
func (t *Table) Live(ctx context.Context, account string) (live bool, err error) {
	err = t.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM passes WHERE realm = $1 AND account = $2 AND used_at = 0
		AND tries < $3 AND expires_at > $4)`,
		t.realm, sqltx.Clean(account), Tries, t.now().UnixMilli()).Scan(&live)
	return live, wrap("look for one", err)
}

// Forget ends one code, which could not be given to anybody.
func (t *Table) Forget(ctx context.Context, code string) error {
	_, err := sqltx.Exec(ctx, t.db, `DELETE FROM passes WHERE code_hash = $1`, hash(code))
	return wrap("forget", err)
}

// Purge deletes codes, of all realms, that are too old even to be counted.
func (t *Table) Purge(ctx context.Context) (rows int64, err error) {
	rows, err = sqltx.Exec(ctx, t.db, `DELETE FROM passes WHERE expires_at < $1
		AND created_at < $1`, t.now().Add(-askedTime).UnixMilli())
	return rows, wrap("purge", err)
}

func wrap(what string, err error) error {
	if err != nil {
		err = fmt.Errorf("passes: %s: %w", what, err)
	}
	return err
}

// newCode is a code as it is kept and hashed.
func newCode() string { return rand.Text()[:letters] }

// Spell is a code as people read it out: ABCD-EFGH-JKLM-NPQR.
func Spell(code string) string {
	var groups []string
	for i := 0; i < len(code); i += 4 {
		groups = append(groups, code[i:min(i+4, len(code))])
	}
	return strings.Join(groups, "-")
}

// misread are digits that base32 has not, and the letters that they are taken
// for.
var misread = strings.NewReplacer("0", "O", "1", "I", "8", "B", "-", "", " ", "")

// normalise is a code as it is kept, however it was typed; false for what is
// none.
func normalise(typed string) (code string, ok bool) {
	if len(typed) > 4*letters {
		return "", false
	}
	code = misread.Replace(strings.ToUpper(typed))
	return code, len(code) == letters && strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

func hash(code string) string {
	sum := sha256.Sum256([]byte(code))
	return hex.EncodeToString(sum[:])
}

// text is a digest as the database keeps it; empty for none.
func text(k trusted.Key) string {
	if k == (trusted.Key{}) {
		return ""
	}
	return hex.EncodeToString(k[:])
}
