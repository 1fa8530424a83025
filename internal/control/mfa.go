package control

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/mfa"
	"authguard/internal/operation"
)

// MFA returns the MFA methods of an account.
func (c *Control) MFA(ctx context.Context, who accounts.Login) (mfa.Kept, error) {
	return c.config.MFA.Of(ctx, who.ID)
}

// issuer is the name in a TOTP app.
const issuer = "authguard"

// EnrolTOTP starts the setup of a TOTP app, until ConfirmTOTP. Errors are those of mfa.Table.Enrol.
func (c *Control) EnrolTOTP(ctx context.Context, who accounts.Login) (mfa.Enrolment, error) {
	return c.config.MFA.Enrol(ctx, who.ID, issuer, who.Account)
}

// EnrollingTOTP returns the setup that is waiting for its code.
func (c *Control) EnrollingTOTP(ctx context.Context, who accounts.Login) (mfa.Enrolment, error) {
	return c.config.MFA.Enrolling(ctx, who.ID, issuer, who.Account)
}

// ConfirmTOTP activates the app. Without recovery codes it also creates some, which only this result has. Errors are
// those of mfa.Table.Confirm.
func (c *Control) ConfirmTOTP(ctx context.Context, who string, login accounts.Login,
	code string) (recovery []string, err error) {
	if err := c.config.MFA.Confirm(ctx, login.ID, strings.ReplaceAll(code, " ", "")); err != nil {
		return nil, err
	}
	if err := c.signIn(ctx, who, "totp-add", login.Account, ""); err != nil {
		return nil, err
	}
	return c.firstRecovery(ctx, who, login)
}

// RemoveTOTP removes the app.
func (c *Control) RemoveTOTP(ctx context.Context, who string, login accounts.Login) error {
	if err := c.config.MFA.RemoveTOTP(ctx, login.ID); err != nil {
		return err
	}
	return c.signIn(ctx, who, "totp-remove", login.Account, "")
}

// AskNewPasskey returns the WebAuthn options for a new passkey.
func (c *Control) AskNewPasskey(ctx context.Context, at mfa.Site, login accounts.Login) (mfa.Question, error) {
	return c.config.MFA.AskNew(ctx, at, ownerOf(login))
}

func ownerOf(login accounts.Login) mfa.Owner {
	return mfa.Owner{ID: login.ID, Name: login.Account, Version: login.Version}
}

// AddPasskey stores a new passkey. For an administrator it creates recovery codes as ConfirmTOTP does; a user has the
// password.
func (c *Control) AddPasskey(ctx context.Context, who string, at mfa.Site, login accounts.Login, name, state string,
	answer []byte) (recovery []string, err error) {
	err = c.config.MFA.Add(ctx, at, ownerOf(login), name, state, answer)
	if err != nil {
		return nil, err
	}
	if err := c.signIn(ctx, who, "passkey-add", login.Account, name); err != nil || login.Role != accounts.Admin {
		return nil, err
	}
	return c.firstRecovery(ctx, who, login)
}

// RemovePasskey removes a passkey.
func (c *Control) RemovePasskey(ctx context.Context, who string, login accounts.Login, id string) error {
	if err := c.config.MFA.RemovePasskey(ctx, login.ID, id); err != nil {
		return err
	}
	return c.signIn(ctx, who, "passkey-remove", login.Account, "")
}

func (c *Control) firstRecovery(ctx context.Context, who string, login accounts.Login) ([]string, error) {
	has, err := c.config.MFA.Of(ctx, login.ID)
	if err != nil || has.Recovery > 0 {
		return nil, err
	}
	return c.NewRecovery(ctx, who, login)
}

// NewRecovery replaces all recovery codes. Only this result has the new ones.
func (c *Control) NewRecovery(ctx context.Context, who string, login accounts.Login) ([]string, error) {
	codes, err := c.config.MFA.NewRecovery(ctx, login.ID)
	if err != nil {
		return nil, err
	}
	return codes, c.signIn(ctx, who, "recovery-codes", login.Account, "")
}

// RenamePasskey renames a passkey. The error is mfa.ErrUnknown if there is none.
func (c *Control) RenamePasskey(ctx context.Context, who string, login accounts.Login, id, name string) error {
	if err := c.config.MFA.RenamePasskey(ctx, login.ID, id, name); err != nil {
		return err
	}
	return c.signIn(ctx, who, "passkey-rename", login.Account, name)
}

// removePasskeys removes a user's passkeys: an attacker with the password or a session may have added one. An
// administrator's are MFA, and only ResetFactors removes them.
func (c *Control) removePasskeys(ctx context.Context, name string) error {
	account, err := c.config.Accounts.Get(ctx, name)
	if errors.Is(err, accounts.ErrUnknown) || err == nil && account.Role == accounts.Admin {
		return nil
	}
	if err == nil {
		_, err = c.config.MFA.RemoveAll(ctx, account.ID)
	}
	return err
}

// FactorUsed records how a login by who ("admin:" or "user:" and the account) used MFA or a passkey.
func (c *Control) FactorUsed(ctx context.Context, who, account, what string) error {
	return c.signIn(ctx, who, what, account, "")
}

// alarms maps operations that can give an attacker access to the kinds of their alerts.
var alarms = map[string]alerts.Kind{
	"admin-add": alerts.AdministratorAdded, "user-add": alerts.AdministratorAdded,
	"totp-remove":    alerts.SecondFactorRemoved,
	"passkey-remove": alerts.SecondFactorRemoved,
	"mfa-reset":      alerts.SecondFactorRemoved, "recovery-code-used": alerts.RecoveryCodeUsed,
	"passkey-cloned": alerts.PasskeyCopied,
	"token-add":      alerts.TokenAdded,
}

// signIn records a change of how an account signs in, and raises the alert for an administrator's or a cloned passkey.
func (c *Control) signIn(ctx context.Context, who, what, account, detail string) error {
	if !strings.HasPrefix(who, "user:") {
		c.alarm(what, signInAlert(what, account, who, detail))
	} else if what == string(alerts.PasskeyCopied) {
		c.alarm(what, "of user "+alerts.Name(account))
	}
	return c.record(ctx, operation.Action{Who: who, What: what, Subject: account, Detail: detail})
}

func signInAlert(what, account, who, detail string) string {
	return withDetail(fmt.Sprintf("of administrator %s, by %s (%s)", alerts.Name(account), alerts.Name(who), what), detail)
}

func addedAlert(account string, by operation.By) string {
	return withDetail(fmt.Sprintf("administrator %s, added by %s", alerts.Name(account), alerts.Name(by.Who)), by.Why)
}

func withDetail(text, detail string) string {
	if detail != "" {
		text += ": " + alerts.Name(detail)
	}
	return text
}

// alarm raises the alert for an operation that can give an attacker access, even if the audit log fails.
func (c *Control) alarm(what, text string) {
	if kind, ok := alarms[what]; ok {
		c.config.Alerts.RaiseIn(c.config.Realm, kind, "", text)
	}
}
