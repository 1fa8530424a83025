// Package mfa stores the MFA methods of administrators in the SQL database: TOTP apps (RFC 6238), passkeys
// (WebAuthn) and recovery codes. Users have passkeys, which replace their passwords.
//
// A stolen database does not let an attacker in. TOTP secrets are sealed with the server's key, recovery codes are
// keyed digests, and passkeys are public keys. Each code and each passkey response is valid once on all nodes. The
// package does not count guesses: the caller of Check counts them before, like passwords (R1).
package mfa

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"authguard/internal/database"
	"authguard/internal/seal"
)

var (
	// ErrUnknown means that the account has no such method.
	ErrUnknown = errors.New("mfa: no such MFA method")
	// ErrCode means that a code is not the current one.
	ErrCode = errors.New("mfa: wrong code: enter the one that the app shows now")
	// ErrEnrolled means that a TOTP app is already set up.
	ErrEnrolled = errors.New("mfa: a TOTP app is already set up: remove it first")
	// ErrPasskey means that a passkey's response does not match the request.
	ErrPasskey = errors.New("mfa: the passkey's answer is invalid: try again")
	// ErrCloned means that a passkey's signature counter went back, so a copy exists. The passkey is not accepted any
	// more.
	ErrCloned = errors.New("mfa: the passkey's signature counter went back, so it may be cloned")
	// ErrMost means that an account has MostPasskeys passkeys.
	ErrMost = fmt.Errorf("mfa: at most %d passkeys: remove one first", MostPasskeys)
)

// queryTime is the timeout of a lookup during a login, including the wait for a connection.
const queryTime = 3 * time.Second

// Config configures a Table. DB, which must be migrated, and Secret are required.
type Config struct {
	DB *sql.DB
	// Secret is the server's, the same on every node: at least 16 bytes.
	Secret []byte
	Now    func() time.Time // default time.Now
}

// Table stores the MFA methods of the accounts in authguard's own table, by account ID. It is safe for concurrent use,
// even by several processes.
type Table struct {
	db      *sql.DB
	box     *seal.Box
	codeKey []byte
	now     func() time.Time
}

// New returns a Table.
func New(c Config) (*Table, error) {
	if c.DB == nil {
		return nil, errors.New("mfa: DB is missing")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	box, err := seal.NewBox(c.Secret, "MFA secrets")
	if err != nil {
		return nil, fmt.Errorf("mfa: %w", err)
	}
	codeKey, err := seal.Key(c.Secret, "recovery codes", 32)
	if err != nil {
		return nil, fmt.Errorf("mfa: %w", err)
	}
	return &Table{db: c.DB, now: c.Now, box: box, codeKey: codeKey}, nil
}

// Kept lists an account's methods.
type Kept struct {
	TOTP     *TOTP     `json:"totp,omitempty"` // nil: none, or not confirmed
	Passkeys []Passkey `json:"passkeys,omitempty"`
	Recovery int       `json:"recovery_codes"` // unused codes
}

// Any reports whether MFA is required. Recovery codes only replace the other methods, so they do not count.
func (k Kept) Any() bool { return k.TOTP != nil || len(k.Passkeys) > 0 }

// TOTP is an authenticator app.
type TOTP struct {
	Created time.Time `json:"created"`
	Used    time.Time `json:"used,omitzero"` // zero: never
}

// Of returns an account's methods.
func (t *Table) Of(ctx context.Context, account string) (k Kept, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	var created, used int64
	err = t.db.QueryRowContext(ctx, `SELECT confirmed_at, used_at FROM totp WHERE account = $1
		AND confirmed_at > 0`, account).Scan(&created, &used)
	if err == nil {
		k.TOTP = &TOTP{database.Time(created), database.Time(used)}
	} else if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	if err == nil {
		err = t.db.QueryRowContext(ctx, `SELECT count(*) FROM recovery_codes WHERE account = $1`, account).Scan(&k.Recovery)
	}
	if err == nil {
		k.Passkeys, err = t.passkeys(ctx, account)
	}
	if err != nil {
		return Kept{}, fmt.Errorf("mfa: read: %w", err)
	}
	return k, nil
}

// Check reports whether code is valid for the account: of its app, or one of its recovery codes, which recovery
// reports. Each code is valid once, even in concurrent calls. Spaces and dashes are ignored.
func (t *Table) Check(ctx context.Context, account, code string) (ok, recovery bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	code = strings.NewReplacer(" ", "", "-", "").Replace(code)
	if len(code) == digits {
		ok, err = t.checkTOTP(ctx, account, code, true)
		return ok, false, err
	}
	ok, err = t.takeRecovery(ctx, account, code)
	return ok, ok, err
}

// RemoveAll removes all methods of an account, so its password alone is enough. It returns their number without
// recovery codes.
func (t *Table) RemoveAll(ctx context.Context, account string) (removed int64, err error) {
	err = database.InTx(ctx, t.db, func(tx *sql.Tx) error {
		removed = 0
		for _, table := range []string{"totp", "passkeys", "recovery_codes"} {
			n, err := database.Exec(ctx, tx, `DELETE FROM `+table+` WHERE account = $1`, account)
			if err != nil {
				return err
			}
			if table != "recovery_codes" {
				removed += n
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("mfa: remove: %w", err)
	}
	return removed, nil
}

func (t *Table) one(ctx context.Context, statement string, args ...any) error {
	n, err := database.Exec(ctx, t.db, statement, args...)
	switch {
	case err != nil:
		return fmt.Errorf("mfa: %w", err)
	case n == 0:
		return ErrUnknown
	}
	return nil
}
