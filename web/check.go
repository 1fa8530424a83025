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

// Passwords checks passwords: looked up, bounded (R19), and alike for accounts
// that exist and those that do not (R12).
type Passwords struct {
	Source  accounts.Source
	Gate    *passwords.Gate
	Checker *passwords.Checker
	// Away, if set, is why the source cannot be asked just now, as far as that is
	// known; nil if it can.
	Away func() error
	// Unusable, if set, is told of an account whose hash cannot be checked, and why.
	// It must not block.
	Unusable func(account string, why error)
	Log      *slog.Logger
}

// An Upgrader is a Source whose hashes are ours to replace: accounts.Table.
type Upgrader interface {
	Upgrade(ctx context.Context, login accounts.Login, hash string) error
}

// Check reports whether the password is the account's. For an unknown or
// disabled account it does the same work and reports false; see Hold. Once the password's
// turn in the queue has come, Check calls still, unless that is nil, and gives
// up with its error. Other errors are those of passwords.Possible, a
// *passwords.Overload, ctx's, and those of the source.
func (p *Passwords) Check(ctx context.Context, name, password string, who passwords.Asker, still func() error) (accounts.Login, bool, error) {
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

// Hold waits until the answer to a wrong password may be sent, which is the same time
// after every check, or the client has gone. Its attempt is settled, and its turn in the
// queue given back: as many answers are held as checks run in these few seconds.
func (p *Passwords) Hold(ctx context.Context, checked accounts.Login) {
	p.Checker.Hold(ctx, checked.Password)
}

// upgradeWithin bounds what the first login after an import takes longer.
const upgradeWithin = 5 * time.Second

// Upgrade has the password of an account that has just logged in hashed anew, if its
// hash is of another kind than new ones or cheaper, and the source is ours. It takes
// a turn like any other check. Nothing that fails here is a failed login: the next
// one tries again. Call it for nobody else: what it takes tells that the password was
// right.
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

func (p *Passwords) upgrade(ctx context.Context, ours Upgrader, login accounts.Login, password string, who passwords.Asker) error {
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
