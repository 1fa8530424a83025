// Package factors keeps what administrators show beside their passwords: one-time
// passwords of an authenticator app (TOTP, RFC 6238), passkeys (WebAuthn) and recovery
// codes, in the SQL database.
//
// Nothing of it lets a thief of the database in: the secrets of TOTP are sealed with a
// key of the server's, of recovery codes a keyed digest is kept, of passkeys the public
// key. Each code and each answer of a passkey is good once, over all nodes. Guesses are
// not counted here: whoever calls Check counts them first, as those of passwords (R1).
package factors

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"authguard/internal/sqltx"
)

var (
	// ErrUnknown says that the account has no such factor.
	ErrUnknown = errors.New("factors: no such MFA method")
	// ErrCode says that a code is not the one that is shown at this moment.
	ErrCode = errors.New("factors: wrong code: enter the one that the app shows now")
	// ErrEnrolled says that TOTP is set up already.
	ErrEnrolled = errors.New("factors: a TOTP app is already set up: remove it first")
	// ErrPasskey says that a passkey's answer is not one to what was asked.
	ErrPasskey = errors.New("factors: the passkey's answer is invalid: try again")
	// ErrCloned says that a passkey's count of its signatures went back: somebody has a
	// copy of it. It is good for nothing from then on.
	ErrCloned = errors.New("factors: the passkey's signature counter went back, so it may be cloned")
	// ErrMost says that an account has as many passkeys as it may.
	ErrMost = fmt.Errorf("factors: at most %d passkeys: remove one first", MostPasskeys)
)

// queryTime bounds a look-up while somebody waits, the wait for a connection included.
const queryTime = 3 * time.Second

// Config is what a Table needs. DB, which has been migrated, and Secret are required.
type Config struct {
	DB *sql.DB
	// Secret is the server's, the same on every node: at least 16 bytes.
	Secret []byte
	Now    func() time.Time // default time.Now
}

// Table is the second factors of all accounts of authguard's own table, each by the ID of
// its account. It is safe for concurrent use, also by several processes.
type Table struct {
	db      *sql.DB
	seal    cipher.AEAD
	codeKey []byte
	now     func() time.Time
}

// New makes a Table and starts nothing.
func New(c Config) (*Table, error) {
	if c.DB == nil || len(c.Secret) < 16 {
		return nil, errors.New("factors: DB and a Secret of 16 bytes are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	t := &Table{db: c.DB, now: c.Now}
	key, err := hkdf.Key(sha256.New, c.Secret, nil, "authguard second factors", 32)
	if err != nil {
		return nil, fmt.Errorf("factors: deriving a key: %w", err)
	}
	if t.codeKey, err = hkdf.Key(sha256.New, c.Secret, nil, "authguard recovery codes", 32); err != nil {
		return nil, fmt.Errorf("factors: deriving a key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("factors: %w", err)
	}
	if t.seal, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return nil, fmt.Errorf("factors: %w", err)
	}
	return t, nil
}

// sealed is a text that only a server with the same secret reads, and only as what it is
// of.
func (t *Table) sealed(text []byte, of string) string {
	return base64.RawURLEncoding.EncodeToString(t.seal.Seal(nil, nil, text, []byte(of)))
}

func (t *Table) opened(text, of string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		raw, err = t.seal.Open(nil, nil, raw, []byte(of))
	}
	return raw, err
}

// Kept is what an account has.
type Kept struct {
	TOTP     *TOTP     `json:"totp,omitempty"` // nil: none, or none that was confirmed
	Passkeys []Passkey `json:"passkeys,omitempty"`
	Recovery int       `json:"recovery_codes"` // how many are left
}

// Any reports whether a password alone does not let the account in. Recovery codes stand
// in for the others and ask for nothing by themselves.
func (k Kept) Any() bool { return k.TOTP != nil || len(k.Passkeys) > 0 }

// TOTP is an authenticator app.
type TOTP struct {
	Created time.Time `json:"created"`
	Used    time.Time `json:"used,omitzero"` // zero: never since
}

// Of is what an account has.
func (t *Table) Of(ctx context.Context, account string) (k Kept, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	var created, used int64
	err = t.db.QueryRowContext(ctx, `SELECT confirmed_at, used_at FROM totp WHERE account = $1
		AND confirmed_at > 0`, account).Scan(&created, &used)
	if err == nil {
		k.TOTP = &TOTP{moment(created), moment(used)}
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
		return Kept{}, fmt.Errorf("factors: read: %w", err)
	}
	return k, nil
}

// Check reports whether a code is the account's: of its app, or one of its recovery
// codes, which recovery says. Each is good once, whatever comes at once. Spaces and
// dashes in it count for nothing.
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

// RemoveAll removes all of an account: its password alone lets it in again. It returns
// how many there were, recovery codes apart.
func (t *Table) RemoveAll(ctx context.Context, account string) (removed int64, err error) {
	err = sqltx.Run(ctx, t.db, func(tx *sql.Tx) error {
		removed = 0
		for _, table := range []string{"totp", "passkeys", "recovery_codes"} {
			n, err := sqltx.Exec(ctx, tx, `DELETE FROM `+table+` WHERE account = $1`, account)
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
		return 0, fmt.Errorf("factors: remove: %w", err)
	}
	return removed, nil
}

// one runs a statement that changes one row, or is ErrUnknown.
func (t *Table) one(ctx context.Context, statement string, args ...any) error {
	n, err := sqltx.Exec(ctx, t.db, statement, args...)
	switch {
	case err != nil:
		return fmt.Errorf("factors: %w", err)
	case n == 0:
		return ErrUnknown
	}
	return nil
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
