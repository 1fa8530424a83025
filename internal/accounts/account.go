// Package accounts looks up the accounts that may log in: in authguard's own table, or in another program's table,
// htpasswd file or directory, all behind [Source]. The operations of administrators and owners change a [Realm].
// [Tokens] give programs access.
//
// A user name and an email address always lead to the same account. New passwords are stored as bcrypt; imported hashes
// stay as they are until the next login. An import takes all of a file or nothing. Package passwords compares
// passwords. Package guard defines the canonical form of a name.
package accounts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"authguard/internal/passwords"
)

// MinPassword is the minimum length of a new password, in characters.
const MinPassword = 8

var (
	// ErrUnknown means that no such account exists.
	ErrUnknown = errors.New("accounts: no such account")
	// ErrTaken means that the name is already a user name or email address of an account.
	ErrTaken = errors.New("accounts: the user name or email address is already in use")
	// ErrName means that a text is not a valid name.
	ErrName = errors.New("accounts: not a name")
	// ErrNotCounted means that a name belongs to an account with another canonical name than the one that was counted. The
	// password must not be checked: each name of the account would have its own limits.
	ErrNotCounted = errors.New("accounts: the account has another canonical name than the one that was counted")
	// ErrGroup means that a text is not a valid group name.
	ErrGroup = errors.New("accounts: not a group")
	// ErrTooShort means that a new password has fewer than MinPassword characters. Passwords that bcrypt cannot hash get
	// an error of passwords.PossibleNew.
	ErrTooShort = fmt.Errorf("accounts: the password needs at least %d characters", MinPassword)
	// ErrLeaked means that a new password is known from leaks, or is a common one (NIST SP 800-63B, 5.1.1.2).
	ErrLeaked = errors.New("accounts: the password is common or known from leaks, so attackers try it; choose another one")
)

// Role defines the permissions of an account. The zero Role of an Addition means User.
type Role string

// The roles.
const (
	User  Role = "user"
	Admin Role = "admin" // may use the admin console
)

// Account is an account without its password.
type Account struct {
	ID         string    `json:"-"`               // random, never reused
	Username   string    `json:"username"`        // normalized; the canonical name
	Email      string    `json:"email,omitempty"` // normalized; empty if none
	Groups     []string  `json:"groups,omitempty"`
	Role       Role      `json:"role"`
	Disabled   bool      `json:"disabled"`
	MustChange bool      `json:"must_change"` // the password is temporary
	NeedsCode  bool      `json:"needs_code"`  // unknown clients also need a verification code
	Version    int64     `json:"-"`           // sessions of an older version are invalid
	CreatedAt  time.Time `json:"created"`
	ChangedAt  time.Time `json:"changed"`
}

// Login is the result of a lookup: enough to check a password.
type Login struct {
	// Account is the canonical name of the entered name; empty if no such account exists.
	Account  string
	ID       string // of authguard's own table; empty elsewhere
	Password passwords.Stored
	// Email and Groups are sent to apps by forward auth; see ParseGroups.
	Email  string
	Groups []string
	Role   Role
	// MustChange and NeedsCode are those of Account.
	MustChange, NeedsCode bool
	// Version changes whenever sessions must end.
	Version int64
}

// Source looks up an account by any of its names, which the caller has normalized. An unknown name returns false and no
// error; an error means that the lookup failed.
type Source interface {
	FindForLogin(ctx context.Context, name string) (Login, bool, error)
}

// CheckPassword returns nil if a text can be a new password, or else ErrTooShort, ErrLeaked or an error of
// passwords.PossibleNew.
func (t *Table) CheckPassword(password string) error {
	switch err := passwords.PossibleNew(password); {
	case err != nil:
		return err
	case utf8.RuneCountInString(password) < MinPassword:
		return ErrTooShort
	case t.config.Leaked != nil && t.config.Leaked(password):
		return ErrLeaked
	}
	return nil
}

// TemporaryPassword returns a random new password.
func (t *Table) TemporaryPassword() string {
	for {
		if made := strings.ToLower(rand.Text())[:16]; t.CheckPassword(made) == nil {
			return made
		}
	}
}
