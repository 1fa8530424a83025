package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/passwords"
)

// Passwords checks passwords with bounded concurrency (R19) and with the same work for existing and unknown accounts
// (R12).
type Passwords struct {
	Source  accounts.Source
	Gate    *passwords.Gate
	Checker *passwords.Checker
	// Away, if set, returns why the source is unavailable, as far as known, or nil.
	Away func() error
	// Unusable, if set, is called for an account whose hash cannot be checked. It must not block.
	Unusable func(account string, why error)
	Log      *slog.Logger
}

// An Upgrader is a Source whose hashes authguard may replace: accounts.Table.
type Upgrader interface {
	Upgrade(ctx context.Context, login accounts.Login, hash string) error
}

// Check reports whether the password is the account's. For an unknown or disabled account it does the same work and
// reports false; see Hold. After the wait in the queue it calls still, unless nil, and returns that error. Other errors
// come from passwords.Possible, ctx, the source, or are a *passwords.Overload.
func (p *Passwords) Check(ctx context.Context, name, password string, who passwords.Asker,
	still func() error) (accounts.Login, bool, error) {
	if err := passwords.Possible(password); err != nil {
		return accounts.Login{}, false, err
	}
	if p.Away != nil {
		if err := p.Away(); err != nil {
			return accounts.Login{}, false, fmt.Errorf("web: looking the account up: %w", err)
		}
	}
	leave, err := p.Gate.Enter(ctx, who)
	if err != nil {
		return accounts.Login{}, false, err
	}
	defer leave()
	if still != nil {
		if err := still(); err != nil {
			return accounts.Login{}, false, err
		}
	}
	if itself, is := p.Source.(accounts.Verifier); is {
		login, ok, err := itself.Verify(ctx, name, password)
		if err != nil {
			err = fmt.Errorf("web: having the password checked: %w", err)
		}
		return login, ok, err
	}
	login, _, err := p.Source.FindForLogin(ctx, name)
	if err != nil {
		return accounts.Login{}, false, fmt.Errorf("web: looking the account up: %w", err)
	}
	ok, err := p.Checker.Check(&login.Password, password)
	if errors.Is(err, passwords.ErrHash) {
		p.Log.Error("stored password hash cannot be checked", "account", login.Account, "error", err)
		if p.Unusable != nil {
			p.Unusable(login.Account, err)
		}
		return login, false, nil
	}
	return login, ok, err
}

// Hold waits until the response to a wrong password is due, the same time after every check, or until the client has
// gone. Call it after the attempt is settled and has left the queue: held responses do not use up its concurrency.
// Their number is that of the checks in these few seconds.
func (p *Passwords) Hold(ctx context.Context, checked accounts.Login) {
	p.Checker.Hold(ctx, checked.Password)
}

// upgradeWithin bounds the extra time of the first login after an import.
const upgradeWithin = 5 * time.Second

// Upgrade rehashes the password of an account that has just logged in, if its hash is of another kind than new ones, or
// cheaper. The source must be an Upgrader. It waits in the queue like a check. Errors are logged, and the next login
// tries again. Call it for correct passwords only: its duration reveals that the password was correct.
func (p *Passwords) Upgrade(ctx context.Context, login accounts.Login, password string, who passwords.Asker) {
	ours, ok := p.Source.(Upgrader)
	if !ok || !p.Checker.Outdated(&login.Password) || passwords.PossibleNew(password) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), upgradeWithin)
	defer cancel()
	if err := p.upgrade(ctx, ours, login, password, who); err != nil {
		p.Log.Warn("password hash could not be upgraded; the next login tries again", "account", login.Account, "error", err)
	}
}

func (p *Passwords) upgrade(ctx context.Context, ours Upgrader, login accounts.Login, password string,
	who passwords.Asker) error {
	leave, err := p.Gate.Enter(ctx, who)
	if err != nil {
		return err
	}
	defer leave()
	now, _, err := p.Source.FindForLogin(ctx, login.Account)
	if err != nil || now.Password.Hash != login.Password.Hash {
		return err // another login of the account was faster
	}
	hash, err := p.Checker.Hash(password)
	if err != nil {
		return err
	}
	return ours.Upgrade(ctx, login, hash)
}
