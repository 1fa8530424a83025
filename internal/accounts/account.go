// Package accounts says who may log in: authguard's own table, or somebody
// else's table or htpasswd file behind the same look-up, [Source].
//
// It promises that a user name and an e-mail address lead to one account and
// never to two, that passwords are kept as bcrypt only, and that an import takes
// all of a file or nothing. Package passwords compares passwords; guard defines
// the one form of a name and hands in its normaliser.
package accounts

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"authguard/internal/passwords"
)

// MinPassword is the shortest new password, in characters.
const MinPassword = 8

var (
	// ErrUnknown says that there is no such account.
	ErrUnknown = errors.New("accounts: no such account")
	// ErrTaken says that a user name or e-mail address already belongs to an
	// account, as either of the two.
	ErrTaken = errors.New("accounts: the name is taken")
	// ErrName says that a name cannot be one.
	ErrName = errors.New("accounts: not a name")
	// ErrTooShort says that a new password has fewer than MinPassword
	// characters. One that is too long is passwords.ErrTooLong.
	ErrTooShort = fmt.Errorf("accounts: the password needs at least %d characters", MinPassword)
)

// A Role says what an account may do. The zero Role is User when adding.
type Role string

// The roles.
const (
	User  Role = "user"
	Admin Role = "admin" // may use the admin pages
)

// An Account is everything but the password.
type Account struct {
	ID         string    `json:"-"`               // random, never reused
	Username   string    `json:"username"`        // normalised; the canonical name
	Email      string    `json:"email,omitempty"` // normalised; empty if none
	Role       Role      `json:"role"`
	Disabled   bool      `json:"disabled"`
	MustChange bool      `json:"must_change"` // the password is only good for choosing another one
	Version    int64     `json:"-"`           // sessions of an older version are over
	CreatedAt  time.Time `json:"created"`
	ChangedAt  time.Time `json:"changed"`
}

// A Login is what a look-up finds: enough to check a password.
type Login struct {
	// Account is the canonical name, whichever name was typed.
	Account    string
	Password   passwords.Stored
	Role       Role
	MustChange bool
	// Version changes whenever sessions must end.
	Version int64
}

// A Source looks accounts up by any of their names. An unknown one is false and
// no error; an error means that the source could not be asked.
type Source interface {
	FindForLogin(ctx context.Context, name string) (Login, bool, error)
}

// CheckPassword says whether a new password may be one: nil, ErrTooShort, or
// passwords.ErrTooLong.
func CheckPassword(password string) error {
	switch {
	case len(password) > passwords.MaxBytes:
		return passwords.ErrTooLong
	case utf8.RuneCountInString(password) < MinPassword:
		return ErrTooShort
	}
	return nil
}
