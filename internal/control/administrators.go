package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/mfa"
	"authguard/internal/operation"
	"authguard/internal/sessions"
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
func (c *Control) Held(ctx context.Context, name string) (operation.Scope, error) {
	account, err := c.config.Accounts.Get(ctx, name)
	switch {
	case errors.Is(err, accounts.ErrUnknown):
		return "", nil
	case account.Role == accounts.Admin:
		return operation.Admin, err
	case len(account.Groups) > 0:
		return operation.Groups, err
	}
	return "", err
}

// A NewAdministrator has a temporary password, which is not stored and returned only once.
type NewAdministrator struct {
	accounts.Account
	Password string `json:"password"`
}

// AddAdministrator adds an administrator or promotes a user. Both get a temporary password: an attacker who knew the
// user's, or added a passkey, must not become administrator. Errors are ErrAsked and those of accounts.Table.Add.
type AddAdministrator struct {
	operation.OfAdministrator
	Email string `json:"email" help:"Email address, also valid as a user name"`
	operation.Explained
}

// Do implements Request.
func (q AddAdministrator) Do(ctx context.Context, c *Control, by operation.By) (*operation.Change, error) {
	made := NewAdministrator{Password: c.config.Accounts.TemporaryPassword()}
	var err, ended error
	made.Account, err = c.config.Accounts.Get(ctx, q.Username)
	switch {
	case errors.Is(err, accounts.ErrUnknown):
		made.Account, err = c.config.Accounts.Add(ctx, accounts.Addition{Username: q.Username, Email: q.Email,
			Password: made.Password, Role: accounts.Admin, MustChange: true})
	case err == nil && made.Role == accounts.Admin:
		err = fmt.Errorf("%w: %s is already an administrator", operation.ErrAsked, made.Username)
	case err == nil:
		if err = c.config.Accounts.Promote(ctx, q.Username, made.Password); err == nil {
			_, removed := c.config.MFA.RemoveAll(context.WithoutCancel(ctx), made.ID)
			ended = errors.Join(removed, c.end(ctx, made.Username))
			made.Role, made.MustChange = accounts.Admin, true
		}
	}
	if err != nil {
		return nil, err
	}
	return &operation.Change{Action: operation.Action{Subject: made.Username}, Answer: made,
		Alert:  addedAlert(made.Username, by),
		Secret: temporary(made.Username, made.Password)}, ended
}

// RemoveAdministrator removes the role with its sessions, known clients, MFA and the tokens that the administrator
// created. The account remains as a user's. Errors are ErrAsked for one's own account, and those of
// accounts.Table.Demote.
type RemoveAdministrator struct {
	operation.OfAdministrator
	operation.Explained
}

// Do implements Request.
func (q RemoveAdministrator) Do(ctx context.Context, c *Control, by operation.By) (*operation.Change, error) {
	if err := c.another(by.Who, q.Username); err != nil {
		return nil, err
	}
	account, err := c.config.Accounts.Get(ctx, q.Username)
	if err == nil {
		err = c.config.Accounts.Demote(ctx, q.Username)
	}
	if err != nil {
		return nil, err
	}
	_, removed := c.config.MFA.RemoveAll(context.WithoutCancel(ctx), account.ID)
	return &operation.Change{Action: operation.Action{Subject: account.Username},
			Notice: operation.Notice{Note: "No undo: sessions, MFA and tokens are removed. Add the administrator again."}},
		errors.Join(removed, c.end(ctx, account.Username))
}

// ReplacePassword sets an administrator's temporary password, which only the answer has, and revokes the tokens that
// they created. Errors are ErrAsked for one's own account, and accounts.ErrUnknown.
type ReplacePassword struct {
	operation.OfAdministrator
	operation.Explained
}

// Do implements Request.
func (q ReplacePassword) Do(ctx context.Context, c *Control, by operation.By) (*operation.Change, error) {
	if err := c.another(by.Who, q.Username); err != nil {
		return nil, err
	}
	account, err := c.config.Accounts.Get(ctx, q.Username)
	switch {
	case err != nil:
		return nil, err
	case account.Role != accounts.Admin:
		return nil, accounts.ErrUnknown
	}
	password := c.config.Accounts.TemporaryPassword()
	if err := c.config.Accounts.SetPassword(ctx, q.Username, password, true); err != nil {
		return nil, err
	}
	revoked := c.config.Tokens.RevokeOf(context.WithoutCancel(ctx), account.Username)
	return &operation.Change{Action: operation.Action{Subject: account.Username},
		Answer: map[string]string{"username": q.Username, "password": password},
		Notice: operation.Notice{Note: noUndoPassword},
		Secret: temporary(q.Username, password)}, errors.Join(revoked, c.end(ctx, account.Username))
}

// another returns an error for an operation that could lock administrators out of their own account.
func (c *Control) another(who, name string) error {
	if who == "admin:"+c.nameOf(name) {
		return fmt.Errorf("%w: this is your own account; ask another administrator, or use a command on the server",
			operation.ErrAsked)
	}
	return nil
}

func whyNot(why, because string) error {
	if strings.TrimSpace(why) == "" {
		return fmt.Errorf("%w: missing reason: %s", operation.ErrAsked, because)
	}
	_, err := operation.Trimmed(why)
	return err
}

// ResetFactors removes all MFA methods of an administrator who has lost them, and ends the sessions. Errors are ErrAsked,
// also for one's own account, and accounts.ErrUnknown.
type ResetFactors struct {
	operation.OfAdministrator
	operation.Explained
}

// Do implements Request.
func (q ResetFactors) Do(ctx context.Context, c *Control, by operation.By) (*operation.Change, error) {
	account, err := c.config.Accounts.Get(ctx, q.Username)
	switch {
	case err != nil:
		return nil, err
	case account.Role != accounts.Admin:
		return nil, fmt.Errorf("%w: only administrators have MFA, and this is not an administrator's account",
			operation.ErrAsked)
	}
	if err := c.another(by.Who, q.Username); err != nil {
		return nil, err
	}
	removed, err := c.config.MFA.RemoveAll(ctx, account.ID)
	if err != nil {
		return nil, err
	}
	_, ended := c.config.Sessions.EndOthers(ctx, account.Username, adminIntegration, "")
	return &operation.Change{Alert: signInAlert("mfa-reset", account.Username, by.Who, by.Why),
		Action: operation.Action{Subject: account.Username}, Answer: map[string]any{"ok": true, "removed": removed},
		Notice: operation.Notice{Note: "No undo: the keys are deleted. Set up MFA again at the next sign-in."}}, ended
}

// EndSessions ends all sessions of an administrator, or the one with an ID. Being urgent, it requires no recent sign-in.
// The error is sessions.ErrUnknown if there is no such session.
type EndSessions struct {
	Username string `json:"username"`
	ID       string `json:"id"`
	operation.Because
}

// AllSessions are the flags of EndSessions.
type AllSessions struct {
	operation.OfAdministrator
	operation.Explained
}

// Do implements Request.
func (q EndSessions) Do(ctx context.Context, c *Control, by operation.By) (*operation.Change, error) {
	name := c.nameOf(q.Username)
	if name == "" {
		return nil, fmt.Errorf("%w: username: missing", operation.ErrAsked)
	}
	if q.ID != "" {
		if err := c.config.Sessions.End(ctx, name, q.ID); err != nil {
			return nil, err
		}
		return &operation.Change{Action: operation.Action{Subject: name}, Notice: operation.Notice{Text: "Session ended:",
			Subject: q.Username, Note: noUndoSessions}}, nil
	}
	n, err := c.config.Sessions.EndOthers(ctx, name, adminIntegration, "")
	if err != nil {
		return nil, err
	}
	return &operation.Change{Action: operation.Action{Subject: name, Detail: fmt.Sprintf("%d sessions", n)},
		Answer: map[string]any{"ok": true, "ended": n}, Notice: operation.Notice{Note: noUndoSessions}}, nil
}

// SessionsOf returns an administrator's sessions, newest first.
func (c *Control) SessionsOf(ctx context.Context, name string) ([]sessions.Session, error) {
	return c.config.Sessions.Of(ctx, c.nameOf(name), adminIntegration)
}

// EndSession ends one session of an account; why may be empty. The error is sessions.ErrUnknown if there is none.
func (c *Control) EndSession(ctx context.Context, who, name, id, why string) error {
	why, err := operation.Trimmed(why)
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
	why, err := operation.Trimmed(why)
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
