package control

import (
	"context"
	"fmt"
	"strings"

	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/audit"
	"authguard/internal/factors"
)

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

// RenamePasskey gives one another name. The error is factors.ErrUnknown if there is none.
func (c *Control) RenamePasskey(ctx context.Context, who string, login accounts.Login, id, name string) error {
	if err := c.config.Factors.RenamePasskey(ctx, login.ID, id, name); err != nil {
		return err
	}
	return c.signIn(ctx, who, "passkey-rename", login.Account, name)
}

// FactorUsed puts on record what a login did with a second factor.
func (c *Control) FactorUsed(ctx context.Context, account, what string) error {
	return c.signIn(ctx, "admin:"+account, what, account, "")
}

// alarms are the alerts of changes that let somebody in, by what is on record.
var alarms = map[string]alerts.Kind{
	"admin-add": alerts.AdministratorAdded, "totp-remove": alerts.SecondFactorRemoved, "passkey-remove": alerts.SecondFactorRemoved,
	"mfa-reset": alerts.SecondFactorRemoved, "recovery-code-used": alerts.RecoveryCodeUsed, "passkey-cloned": alerts.PasskeyCopied,
	"token-add": alerts.TokenAdded,
}

// signIn puts on record that somebody's way to sign in has changed.
func (c *Control) signIn(ctx context.Context, who, what, account, detail string) error {
	text := fmt.Sprintf("of administrator %s, by %s (%s)", alerts.Name(account), alerts.Name(who), what)
	if what == "admin-add" {
		text = addedBy(account, who)
	}
	c.alarm(what, text, detail)
	return c.record(ctx, audit.Action{Who: who, What: what, Subject: account, Detail: detail})
}

func addedBy(account, who string) string {
	return fmt.Sprintf("administrator %s, added by %s", alerts.Name(account), alerts.Name(who))
}

// alarm tells people of a change that lets somebody in. It is told even if it could not be
// put on record.
func (c *Control) alarm(what, text, detail string) {
	kind, ok := alarms[what]
	if !ok {
		return
	}
	if detail != "" {
		text += ": " + alerts.Name(detail)
	}
	c.config.Alerts.RaiseIn(c.config.Realm, kind, "", text)
}
