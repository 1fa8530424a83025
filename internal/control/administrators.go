package control

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"authguard/internal/accounts"
	"authguard/internal/audit"
	"authguard/internal/factors"
	"authguard/internal/sessions"
	"authguard/internal/tokens"
)

// An Administrator is an account that may use the administration, and how it signs in.
type Administrator struct {
	accounts.Account
	factors.Kept
	Sessions int `json:"sessions"` // at the administration, that go on
}

// adminDoor is the door of the administration's sessions (web/admin.Door).
const adminDoor = "admin"

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
		running, err := c.config.Sessions.Of(ctx, account.Username, adminDoor)
		if err != nil {
			return nil, err
		}
		one.Sessions = len(running)
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

// Factors are what an account signs in with beside its password.
func (c *Control) Factors(ctx context.Context, who accounts.Login) (factors.Kept, error) {
	return c.config.Factors.Of(ctx, who.ID)
}

// issuer is what an authenticator app shows.
const issuer = "authguard"

// EnrolTOTP begins to set up an app, anew: nothing is changed before ConfirmTOTP. Errors
// are those of factors.Table.Enrol.
func (c *Control) EnrolTOTP(ctx context.Context, who accounts.Login) (factors.Enrolment, error) {
	return c.config.Factors.Enrol(ctx, who.ID, issuer, who.Account)
}

// EnrollingTOTP is the enrolment that waits for its code.
func (c *Control) EnrollingTOTP(ctx context.Context, who accounts.Login) (factors.Enrolment, error) {
	return c.config.Factors.Enrolling(ctx, who.ID, issuer, who.Account)
}

// ConfirmTOTP has the app count from now on. If there are no recovery codes yet, it makes
// them: they are told this once. Errors are those of factors.Table.Confirm.
func (c *Control) ConfirmTOTP(ctx context.Context, who string, login accounts.Login, code string) (recovery []string, err error) {
	if err := c.config.Factors.Confirm(ctx, login.ID, strings.ReplaceAll(code, " ", "")); err != nil {
		return nil, err
	}
	if err := c.signIn(ctx, who, "totp-add", login.Account, ""); err != nil {
		return nil, err
	}
	return c.firstRecovery(ctx, who, login)
}

// RemoveTOTP removes the app.
func (c *Control) RemoveTOTP(ctx context.Context, who string, login accounts.Login) error {
	if err := c.config.Factors.RemoveTOTP(ctx, login.ID); err != nil {
		return err
	}
	return c.signIn(ctx, who, "totp-remove", login.Account, "")
}

// AskNewPasskey is what a browser is asked to make a passkey.
func (c *Control) AskNewPasskey(ctx context.Context, at factors.Site, login accounts.Login) (factors.Question, error) {
	return c.config.Factors.AskNew(ctx, at, factors.Owner{ID: login.ID, Name: login.Account})
}

// AddPasskey keeps what it made, and makes recovery codes as ConfirmTOTP does.
func (c *Control) AddPasskey(ctx context.Context, who string, at factors.Site, login accounts.Login, name, state string, answer []byte) (recovery []string, err error) {
	err = c.config.Factors.Add(ctx, at, factors.Owner{ID: login.ID, Name: login.Account}, name, state, answer)
	if err != nil {
		return nil, err
	}
	if err := c.signIn(ctx, who, "passkey-add", login.Account, name); err != nil {
		return nil, err
	}
	return c.firstRecovery(ctx, who, login)
}

// RemovePasskey removes one.
func (c *Control) RemovePasskey(ctx context.Context, who string, login accounts.Login, id string) error {
	if err := c.config.Factors.RemovePasskey(ctx, login.ID, id); err != nil {
		return err
	}
	return c.signIn(ctx, who, "passkey-remove", login.Account, "")
}

func (c *Control) firstRecovery(ctx context.Context, who string, login accounts.Login) ([]string, error) {
	has, err := c.config.Factors.Of(ctx, login.ID)
	if err != nil || has.Recovery > 0 {
		return nil, err
	}
	return c.NewRecovery(ctx, who, login)
}

// NewRecovery makes recovery codes in place of all that there were, told this once.
func (c *Control) NewRecovery(ctx context.Context, who string, login accounts.Login) ([]string, error) {
	codes, err := c.config.Factors.NewRecovery(ctx, login.ID)
	if err != nil {
		return nil, err
	}
	return codes, c.signIn(ctx, who, "recovery-codes", login.Account, "")
}

// ResetFactors removes all second factors of an administrator, and ends the sessions: for
// who has lost them. Whoever asks says why. The error is accounts.ErrUnknown if there is
// no such administrator.
func (c *Control) ResetFactors(ctx context.Context, who, name, why string) (removed int64, err error) {
	account, err := c.config.Accounts.Get(ctx, name)
	switch {
	case err != nil:
		return 0, err
	case account.Role != accounts.Admin:
		return 0, fmt.Errorf("%w: second factors are administrators', and this account is none", ErrAsked)
	case strings.TrimSpace(why) == "":
		return 0, fmt.Errorf("%w: say why: it takes away what protects the account", ErrAsked)
	}
	if removed, err = c.config.Factors.RemoveAll(ctx, account.ID); err != nil {
		return 0, err
	}
	_, ended := c.config.Sessions.EndOthers(ctx, account.Username, adminDoor, "")
	return removed, errors.Join(ended, c.signIn(ctx, who, "second-factor-reset", account.Username, why))
}

// SessionsOf are an administrator's, newest first.
func (c *Control) SessionsOf(ctx context.Context, name string) ([]sessions.Session, error) {
	return c.config.Sessions.Of(ctx, c.nameOf(name), adminDoor)
}

// EndSession ends one of an administrator's sessions. The error is sessions.ErrUnknown if
// there is none.
func (c *Control) EndSession(ctx context.Context, who, name, id string) error {
	name = c.nameOf(name)
	if err := c.config.Sessions.End(ctx, name, id); err != nil {
		return err
	}
	return c.signIn(ctx, who, "session-end", name, "")
}

// EndSessions ends all of an administrator's sessions but one, whose ID may be empty, and
// returns how many.
func (c *Control) EndSessions(ctx context.Context, who, name, but string) (int64, error) {
	name = c.nameOf(name)
	n, err := c.config.Sessions.EndOthers(ctx, name, adminDoor, but)
	if err != nil {
		return 0, err
	}
	return n, c.signIn(ctx, who, "session-end", name, fmt.Sprintf("%d sessions", n))
}

// FactorUsed puts on record what a login did with a second factor.
func (c *Control) FactorUsed(ctx context.Context, account, what string) error {
	return c.signIn(ctx, "admin:"+account, what, account, "")
}

// signIn puts on record that somebody's way to sign in has changed.
func (c *Control) signIn(ctx context.Context, who, what, account, detail string) error {
	return c.record(ctx, audit.Action{Who: who, What: what, Subject: account, Detail: detail})
}
