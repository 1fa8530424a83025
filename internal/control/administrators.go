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
	"authguard/internal/mfa"
	"authguard/internal/sessions"
	"authguard/internal/tokens"
)

// An Administrator is an account that may use the admin console, with its sign-in methods.
type Administrator struct {
	accounts.Account
	mfa.Kept
	LastLogin time.Time          `json:"last_login,omitzero"` // as far as the audit log goes back
	Running   []sessions.Session `json:"-"`                   // at the admin console, newest first
	Sessions  int                `json:"sessions"`            // the number of Running
}

// adminIntegration is web/admin.Integration, the integration of the admin console's sessions.
const adminIntegration = "admin"

// adminDirectory is web/admin.Directory, the directory of accounts at Config.Administration.
const adminDirectory = "administration"

// Administrators returns all administrators, by name.
func (c *Control) Administrators(ctx context.Context) (all []Administrator, err error) {
	admins, err := c.config.Accounts.Admins(ctx)
	if err != nil {
		return nil, err
	}
	for _, account := range admins {
		one := Administrator{Account: account}
		if one.Kept, err = c.config.MFA.Of(ctx, account.ID); err != nil {
			return nil, err
		}
		if one.Running, err = c.config.Sessions.Of(ctx, account.Username, adminIntegration); err != nil {
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

// Held returns the scope that a token needs, in addition to the operation's, to change an account. Setting a user's
// password gives all their rights. It is empty for an account without power and for an unknown one.
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

// A NewAdministrator has a temporary password, which is not stored and returned only once.
type NewAdministrator struct {
	accounts.Account
	Password string `json:"password"`
}

// AddAdministrator adds an administrator or promotes a user. Both get a temporary password: an attacker who knew the
// user's must not become administrator. Errors are ErrAsked and those of accounts.Table.Add.
func (c *Control) AddAdministrator(ctx context.Context, who, name, email,
	why string) (made NewAdministrator, err error) {
	if err := whyNot(why, "it grants access to everything"); err != nil {
		return made, err
	}
	made.Password = oneTimePassword()
	made.Account, err = c.config.Accounts.Get(ctx, name)
	switch {
	case errors.Is(err, accounts.ErrUnknown):
		made.Account, err = c.config.Accounts.Add(ctx, accounts.Addition{Username: name, Email: email,
			Password: made.Password, Role: accounts.Admin, MustChange: true})
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

// RemoveAdministrator removes the role with its sessions, known clients, MFA and the tokens that the administrator
// created. The account remains as a user's. Errors are ErrAsked, also for one's own account, and those of
// accounts.Table.Demote.
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
	_, removed := c.config.MFA.RemoveAll(context.WithoutCancel(ctx), account.ID)
	return errors.Join(removed, c.end(ctx, account.Username), c.signIn(ctx, who, "admin-remove", account.Username, why))
}

// ReplacePassword sets an administrator's temporary password, which only this result has, and revokes the tokens that
// they created. Errors are ErrAsked, also for one's own account, and accounts.ErrUnknown.
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

// another returns an error for an operation that could lock administrators out of their own account.
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

// ResetFactors removes all MFA methods of an administrator who has lost them, and ends the sessions. It requires a
// reason. Errors are ErrAsked, also for one's own account, and accounts.ErrUnknown.
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
	if removed, err = c.config.MFA.RemoveAll(ctx, account.ID); err != nil {
		return 0, err
	}
	_, ended := c.config.Sessions.EndOthers(ctx, account.Username, adminIntegration, "")
	return removed, errors.Join(ended, c.signIn(ctx, who, "mfa-reset", account.Username, why))
}

// SessionsOf returns an administrator's sessions, newest first.
func (c *Control) SessionsOf(ctx context.Context, name string) ([]sessions.Session, error) {
	return c.config.Sessions.Of(ctx, c.nameOf(name), adminIntegration)
}

// EndSession ends one session of an account; why may be empty. The error is sessions.ErrUnknown if there is none.
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

// EndSessions ends all sessions of an administrator except but, and returns their number; but and why may be empty.
func (c *Control) EndSessions(ctx context.Context, who, name, but, why string) (int64, error) {
	return c.EndSessionsAt(ctx, who, name, adminIntegration, but, why)
}

// EndSessionsAt is EndSessions for the sessions of any account at an integration.
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
