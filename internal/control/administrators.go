package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/factors"
	"authguard/internal/sessions"
	"authguard/internal/tokens"
)

// An Administrator is an account that may use the administration, and how it signs in.
type Administrator struct {
	accounts.Account
	factors.Kept
	LastLogin time.Time          `json:"last_login,omitzero"` // as far as the audit log goes back
	Running   []sessions.Session `json:"-"`                   // at the administration, newest first
	Sessions  int                `json:"sessions"`            // how many those are
}

// adminDoor is the door of the administration's sessions (web/admin.Door).
const adminDoor = "admin"

// adminDirectory is where accounts of Config.Administration are (web/admin.Directory).
const adminDirectory = "administration"

// Administrators are all of them, by name.
func (c *Control) Administrators(ctx context.Context) (all []Administrator, err error) {
	admins, err := c.config.Accounts.Admins(ctx)
	if err != nil {
		return nil, err
	}
	for _, account := range admins {
		one := Administrator{Account: account}
		if one.Kept, err = c.config.Factors.Of(ctx, account.ID); err != nil {
			return nil, err
		}
		if one.Running, err = c.config.Sessions.Of(ctx, account.Username, adminDoor); err != nil {
			return nil, err
		}
		one.Sessions = len(one.Running)
		outcome, err := c.config.Audit.Outcome(ctx, c.config.Realm, account.Username, c.Now())
		if err != nil {
			return nil, err
		}
		one.LastLogin = outcome.LastLogin
		all = append(all, one)
	}
	return all, nil
}

// Held is the scope that a program needs to do anything to an account, beside the one for
// what it does: whoever sets somebody's password can do all that this account may. None
// for an account without power, and for one that is unknown.
func (c *Control) Held(ctx context.Context, name string) (tokens.Scope, error) {
	account, err := c.config.Accounts.Get(ctx, name)
	switch {
	case errors.Is(err, accounts.ErrUnknown):
		return "", nil
	case account.Role == accounts.Admin:
		return tokens.Admin, err
	case len(account.Groups) > 0:
		return tokens.Groups, err
	}
	return "", err
}

// A NewAdministrator is told once: the password is good for choosing another one only.
type NewAdministrator struct {
	accounts.Account
	Password string `json:"password"`
}

// AddAdministrator adds one, or makes a user one, with a one-time password: whoever knew
// the user's must not be an administrator. Errors are ErrAsked, and those of
// accounts.Table.Add.
func (c *Control) AddAdministrator(ctx context.Context, who, name, email, why string) (made NewAdministrator, err error) {
	if err := whyNot(why, "it grants access to everything"); err != nil {
		return made, err
	}
	made.Password = oneTimePassword()
	made.Account, err = c.config.Accounts.Get(ctx, name)
	switch {
	case errors.Is(err, accounts.ErrUnknown):
		made.Account, err = c.config.Accounts.Add(ctx, accounts.Addition{Username: name, Email: email, Password: made.Password, Role: accounts.Admin, MustChange: true})
	case err == nil && made.Role == accounts.Admin:
		err = fmt.Errorf("%w: %s is already an administrator", ErrAsked, made.Username)
	case err == nil:
		if err = c.config.Accounts.Promote(ctx, name, made.Password); err == nil {
			err = c.end(ctx, made.Username)
			made.Role, made.MustChange = accounts.Admin, true
		}
	}
	if err != nil {
		return NewAdministrator{}, err
	}
	return made, c.signIn(ctx, who, "admin-add", made.Username, why)
}

// RemoveAdministrator takes the role away, with all that belongs to it: sessions, places,
// second factors, and the tokens that the administrator made. The account stays, as a
// user's. Errors are ErrAsked, also for oneself, and those of accounts.Table.Demote.
func (c *Control) RemoveAdministrator(ctx context.Context, who, name, why string) error {
	if err := cmp.Or(whyNot(why, "it locks an administrator out"), c.another(who, name)); err != nil {
		return err
	}
	account, err := c.config.Accounts.Get(ctx, name)
	if err == nil {
		err = c.config.Accounts.Demote(ctx, name)
	}
	if err != nil {
		return err
	}
	_, removed := c.config.Factors.RemoveAll(context.WithoutCancel(ctx), account.ID)
	return errors.Join(removed, c.end(ctx, account.Username), c.signIn(ctx, who, "admin-remove", account.Username, why))
}

// ReplacePassword gives an administrator who has forgotten the password a one-time one,
// told this once, and ends the
// tokens that they have made. Errors are ErrAsked, also for oneself, and accounts.ErrUnknown.
func (c *Control) ReplacePassword(ctx context.Context, who, name, why string) (password string, err error) {
	if err := cmp.Or(whyNot(why, "the new password grants access"), c.another(who, name)); err != nil {
		return "", err
	}
	account, err := c.config.Accounts.Get(ctx, name)
	switch {
	case err != nil:
		return "", err
	case account.Role != accounts.Admin:
		return "", accounts.ErrUnknown
	}
	password = oneTimePassword()
	if err := c.config.Accounts.SetPassword(ctx, name, password, true); err != nil {
		return "", err
	}
	if err := c.config.Tokens.RevokeOf(ctx, account.Username); err != nil {
		return "", err
	}
	return password, errors.Join(c.end(ctx, account.Username), c.signIn(ctx, who, "admin-passwd", account.Username, why))
}

// another is an error if somebody asks about their own account what may lock them out.
func (c *Control) another(who, name string) error {
	if who == "admin:"+c.nameOf(name) {
		return fmt.Errorf("%w: this is your own account; ask another administrator, or use a command on the server", ErrAsked)
	}
	return nil
}

func whyNot(why, because string) error {
	if strings.TrimSpace(why) == "" {
		return fmt.Errorf("%w: missing reason: %s", ErrAsked, because)
	}
	_, err := reason(why)
	return err
}

func oneTimePassword() string { return strings.ToLower(rand.Text())[:16] }

// ResetFactors removes all second factors of an administrator, and ends the sessions: for
// who has lost them. Whoever asks says why. The error is accounts.ErrUnknown if there is
// no such administrator. Those of one's own are removed one by one.
func (c *Control) ResetFactors(ctx context.Context, who, name, why string) (removed int64, err error) {
	account, err := c.config.Accounts.Get(ctx, name)
	switch {
	case err != nil:
		return 0, err
	case account.Role != accounts.Admin:
		return 0, fmt.Errorf("%w: only administrators have MFA, and this is not an administrator's account", ErrAsked)
	}
	if err := cmp.Or(whyNot(why, "it removes the account's protection"), c.another(who, name)); err != nil {
		return 0, err
	}
	if removed, err = c.config.Factors.RemoveAll(ctx, account.ID); err != nil {
		return 0, err
	}
	_, ended := c.config.Sessions.EndOthers(ctx, account.Username, adminDoor, "")
	return removed, errors.Join(ended, c.signIn(ctx, who, "mfa-reset", account.Username, why))
}

// SessionsOf are an administrator's, newest first.
func (c *Control) SessionsOf(ctx context.Context, name string) ([]sessions.Session, error) {
	return c.config.Sessions.Of(ctx, c.nameOf(name), adminDoor)
}

// EndSession ends one of an account's sessions; why may be empty. The error is
// sessions.ErrUnknown if there is none.
func (c *Control) EndSession(ctx context.Context, who, name, id, why string) error {
	why, err := reason(why)
	if err != nil {
		return err
	}
	name = c.nameOf(name)
	if err := c.config.Sessions.End(ctx, name, id); err != nil {
		return err
	}
	return c.signIn(ctx, who, "session-end", name, why)
}

// EndSessions ends all of an administrator's sessions but one, whose ID may be empty, and
// returns how many; why may be empty, too.
func (c *Control) EndSessions(ctx context.Context, who, name, but, why string) (int64, error) {
	return c.EndSessionsAt(ctx, who, name, adminDoor, but, why)
}

// EndSessionsAt is EndSessions for the sessions of any account at a door.
func (c *Control) EndSessionsAt(ctx context.Context, who, name, door, but, why string) (int64, error) {
	why, err := reason(why)
	if err != nil {
		return 0, err
	}
	name = c.nameOf(name)
	n, err := c.config.Sessions.EndOthers(ctx, name, door, but)
	if err != nil {
		return 0, err
	}
	return n, c.signIn(ctx, who, "session-end", name, strings.TrimSuffix(fmt.Sprintf("%d sessions: %s", n, why), ": "))
}
