package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"authguard/internal/accounts"
	"authguard/internal/passwords"
)

// Passwords checks passwords: looked up, bounded (R19), and alike for accounts
// that exist and those that do not (R12).
type Passwords struct {
	Source  accounts.Source
	Gate    *passwords.Gate
	Checker *passwords.Checker
	Log     *slog.Logger
}

// Check reports whether the password is the account's. For an unknown or
// disabled account it does the same work and reports false. Before the work
// begins, which may be after some time in the queue, it asks still, unless that
// is nil, and gives up with its error. Other errors are passwords.ErrTooLong, an
// *passwords.Overload, and those of the source.
func (p *Passwords) Check(ctx context.Context, name, password string, privileged bool, still func() error) (accounts.Login, bool, error) {
	if len(password) > passwords.MaxBytes {
		return accounts.Login{}, false, passwords.ErrTooLong
	}
	leave, err := p.Gate.Enter(ctx, privileged)
	if err != nil {
		return accounts.Login{}, false, err
	}
	defer leave()
	if still != nil {
		if err := still(); err != nil {
			return accounts.Login{}, false, err
		}
	}
	login, _, err := p.Source.FindForLogin(ctx, name)
	if err != nil {
		return accounts.Login{}, false, fmt.Errorf("web: looking the account up: %w", err)
	}
	ok, err := p.Checker.Check(login.Password, password)
	if errors.Is(err, passwords.ErrHash) {
		p.Log.Error("stored password hash cannot be checked", "account", login.Account)
		return login, false, nil
	}
	return login, ok, err
}
