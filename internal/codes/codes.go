// Package codes stores verification codes in the SQL database. With the password, a code lets one unknown client sign
// in to an account that blocks unknown clients, or whose password is being sprayed (R29).
//
// A code is 80 random bits and valid for hours, so its plain SHA-256 is enough: a leaked database lets no attacker in.
// One statement decides whether a code is valid, so it admits one client on any number of nodes.
package codes

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"authguard/guard"
	"authguard/internal/database"
	"authguard/trusted"
)

const (
	// DefaultLife and MaxLife are the default and maximum validity of a code.
	DefaultLife = time.Hour
	MaxLife     = 24 * time.Hour
	// Tries is the number of passwords that one code allows.
	Tries = guard.CodeTries

	queryTime = 3 * time.Second
	askedTime = time.Hour // time in which an unknown client may request askedMost codes
	askedMost = 5
	liveMost  = 2              // unused codes per account that unknown clients requested
	sentTime  = 24 * time.Hour // time in which an account gets guard.CodesPerDay codes after right passwords
)

// ErrEnough means that unknown clients get no further code for now: the account's owner has unused ones, or the IP
// address has requested too many.
var ErrEnough = errors.New("codes: too many codes requested")

// Table stores codes. It is safe for concurrent use, even by several nodes.
type Table struct {
	db               *sql.DB
	now              func() time.Time
	realm, directory string
}

var _ guard.Codes = (*Table)(nil)

// New returns a Table for the codes of guard.DefaultRealm in a migrated database. A nil clock is time.Now.
func New(db *sql.DB, now func() time.Time) *Table {
	if now == nil {
		now = time.Now
	}
	return &Table{db, now, guard.DefaultRealm, ""}
}

// In returns the table for another realm: codes are valid in one realm only.
func (t *Table) In(realm string) *Table { return &Table{t.db, t.now, realm, t.directory} }

// Of returns the table for the guard of a directory: its Show and Settle accept codes of that directory only.
func (t *Table) Of(directory string) *Table { return &Table{t.db, t.now, t.realm, directory} }

// Grant is who gets a code: an account's canonical name in a directory, because an administrator and a user may have
// the same name. For is its validity.
type Grant struct {
	Directory, Account string
	For                time.Duration
	// From is the digest of the IP address of an unknown client; see Asked.
	From trusted.Key
	// RightPassword: that client sent the right password, and so did not have to request the code.
	RightPassword bool
}

// rightPassword distinguishes codes after a right password in the column asked_from.
const rightPassword = "right password from "

func (g *Grant) askedFrom() string {
	if g.RightPassword {
		return rightPassword + text(g.From)
	}
	return text(g.From)
}

// Issue creates a code. Only its hash is stored: show it once.
func (t *Table) Issue(ctx context.Context, g Grant) (code string, expires time.Time, err error) {
	code, expires = newCode(), t.now().Add(g.For)
	if err := t.insert(ctx, t.db, g, code, t.now(), expires); err != nil {
		return "", time.Time{}, fmt.Errorf("codes: issue: %w", err)
	}
	return code, expires, nil
}

// Asked is Issue for an unknown client; the code goes to the account's owner. It returns ErrEnough if the owner has
// valid codes, or the IP address has requested several. So an attacker cannot flood a mailbox, and cannot use up a
// quota that the owner needs. After a right password, only the owner's own quota counts.
func (t *Table) Asked(ctx context.Context, g Grant) (code string, expires time.Time, err error) {
	now := t.now()
	code, expires = newCode(), now.Add(g.For)
	err = database.InTx(ctx, t.db, func(tx *sql.Tx) error {
		// Requests for the same account on other nodes wait here.
		if _, err := tx.ExecContext(ctx, `UPDATE accounts SET version = version WHERE realm = $1
			AND username = $2`, t.realm, g.Account); err != nil {
			return err
		}
		var live, asked, sent, day int
		err := tx.QueryRowContext(ctx, `SELECT
			(SELECT COUNT(*) FROM verification_codes WHERE realm = $7 AND account = $1 AND directory = $2 AND asked_from <> ''
			AND used_at = 0 AND tries < $3 AND expires_at > $4),
			(SELECT COUNT(*) FROM verification_codes WHERE asked_from = $5 AND created_at > $6),
			(SELECT COUNT(*) FROM verification_codes WHERE realm = $7 AND account = $1 AND directory = $2
			AND asked_from LIKE $10 AND created_at > $8),
			(SELECT COUNT(*) FROM verification_codes WHERE realm = $7 AND account = $1 AND directory = $2
			AND asked_from LIKE $10 AND created_at > $9)`,
			g.Account, g.Directory, Tries, now.UnixMilli(), text(g.From), now.Add(-askedTime).UnixMilli(), t.realm,
			now.Add(-guard.CodeEvery).UnixMilli(), now.Add(-sentTime).UnixMilli(), rightPassword+"%").Scan(&live, &asked, &sent, &day)
		if err != nil {
			return err
		}
		if enough := live >= liveMost || asked >= askedMost; g.RightPassword && (sent > 0 || day >= guard.CodesPerDay) ||
			!g.RightPassword && enough {
			return ErrEnough
		}
		return t.insert(ctx, tx, g, code, now, expires)
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("codes: issue for an unknown client: %w", err)
	}
	return code, expires, nil
}

func (t *Table) insert(ctx context.Context, db database.Runner, g Grant, code string, now, expires time.Time) error {
	_, err := database.Exec(ctx, db, `INSERT INTO verification_codes (code_hash, realm, directory, account, asked_from,
		created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6,
			$7)`, hash(code), t.realm, g.Directory, g.Account, g.askedFrom(), now.UnixMilli(), expires.UnixMilli())
	return err
}

// Show implements guard.Codes.
func (t *Table) Show(ctx context.Context, p guard.Code) (good bool, err error) {
	code, ok := guard.ReadCode(p.Text)
	if !ok || !database.Holds(p.Account) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	// Invalid codes only read: SQLite has one writer, which an attacker must not occupy.
	var known int
	err = t.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM verification_codes WHERE code_hash = $1`,
		hash(code)).Scan(&known)
	if err != nil || known == 0 {
		return false, wrap("look up", err)
	}
	n, err := database.Exec(ctx, t.db, `UPDATE verification_codes SET place = $4, tries = tries + 1 WHERE code_hash = $1
		AND directory = $2 AND account = $3
		AND (place = '' OR place = $4) AND tries < $5 AND used_at = 0 AND expires_at > $6 AND realm = $7`,
		hash(code), t.directory, p.Account, text(p.Address), Tries, p.Now.UnixMilli(), t.realm)
	return n > 0, wrap("show", err)
}

// Settle implements guard.Codes.
func (t *Table) Settle(ctx context.Context, p guard.Code, o guard.Outcome) error {
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
	_, err := database.Exec(ctx, t.db, `UPDATE verification_codes SET `+set+`
		WHERE directory = $1 AND account = $2 AND place = $3 AND used_at = 0 AND tries > 0 AND realm = $5`,
		t.directory, p.Account, text(p.Address), now, t.realm)
	return wrap("settle", err)
}

// Revoke deletes an account's unused codes, as required after a new password.
func (t *Table) Revoke(ctx context.Context, account string) error {
	_, err := database.Exec(ctx, t.db, `DELETE FROM verification_codes WHERE realm = $1 AND account = $2
		AND used_at = 0`, t.realm, database.Clean(account))
	return wrap("revoke", err)
}

// RevokeIn is Revoke for the account of one directory.
func (t *Table) RevokeIn(ctx context.Context, directory, account string) error {
	_, err := database.Exec(ctx, t.db, `DELETE FROM verification_codes WHERE realm = $1 AND directory = $2 AND account = $3
		AND used_at = 0`, t.realm, directory, database.Clean(account))
	return wrap("revoke", err)
}

// Live reports whether an account has a valid, unused code.
func (t *Table) Live(ctx context.Context, account string) (live bool, err error) {
	err = t.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM verification_codes
		WHERE realm = $1 AND account = $2 AND used_at = 0 AND tries < $3 AND expires_at > $4)`,
		t.realm, database.Clean(account), Tries, t.now().UnixMilli()).Scan(&live)
	return live, wrap("look for one", err)
}

// Forget deletes one code that could not be delivered.
func (t *Table) Forget(ctx context.Context, code string) error {
	_, err := database.Exec(ctx, t.db, `DELETE FROM verification_codes WHERE code_hash = $1`, hash(code))
	return wrap("forget", err)
}

// Purge deletes expired codes of all realms that no quota counts any more.
func (t *Table) Purge(ctx context.Context) (rows int64, err error) {
	rows, err = database.Exec(ctx, t.db, `DELETE FROM verification_codes WHERE expires_at < $1
		AND created_at < $1`, t.now().Add(-sentTime).UnixMilli())
	return rows, wrap("purge", err)
}

func wrap(what string, err error) error {
	if err != nil {
		err = fmt.Errorf("codes: %s: %w", what, err)
	}
	return err
}

func newCode() string { return rand.Text()[:16] } // 80 bits

func hash(code string) string {
	sum := sha256.Sum256([]byte(code))
	return hex.EncodeToString(sum[:])
}

func text(k trusted.Key) string {
	if k == (trusted.Key{}) {
		return ""
	}
	return hex.EncodeToString(k[:])
}
