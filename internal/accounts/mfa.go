package accounts

import (
	"context"
	"fmt"
	"strings"

	"authguard/internal/alerts"
	"authguard/internal/mfa"
	"authguard/internal/operation"
)

// issuer is the name in a TOTP app.
const issuer = "authguard"

// EnrolTOTP starts the setup of a TOTP app, until ConfirmTOTP. Errors are those of mfa.Table.Enrol.
func (r *Realm) EnrolTOTP(ctx context.Context, who Login) (mfa.Enrolment, error) {
	return r.MFA.Enrol(ctx, who.ID, issuer, who.Account)
}

// EnrollingTOTP returns the setup that is waiting for its code.
func (r *Realm) EnrollingTOTP(ctx context.Context, who Login) (mfa.Enrolment, error) {
	return r.MFA.Enrolling(ctx, who.ID, issuer, who.Account)
}

// ConfirmTOTP activates the app. Without recovery codes it also creates some, which only this result has. Errors are
// those of mfa.Table.Confirm.
func (r *Realm) ConfirmTOTP(ctx context.Context, who string, login Login,
	code string) (recovery []string, err error) {
	if err := r.MFA.Confirm(ctx, login.ID, strings.ReplaceAll(code, " ", "")); err != nil {
		return nil, err
	}
	if err := r.signIn(ctx, who, "totp-add", login.Account, ""); err != nil {
		return nil, err
	}
	return r.firstRecovery(ctx, who, login)
}

// RemoveTOTP removes the app.
func (r *Realm) RemoveTOTP(ctx context.Context, who string, login Login) error {
	if err := r.MFA.RemoveTOTP(ctx, login.ID); err != nil {
		return err
	}
	return r.signIn(ctx, who, "totp-remove", login.Account, "")
}

// AskNewPasskey returns the WebAuthn options for a new passkey.
func (r *Realm) AskNewPasskey(ctx context.Context, at mfa.Site, login Login) (mfa.Question, error) {
	return r.MFA.AskNew(ctx, at, ownerOf(login))
}

func ownerOf(login Login) mfa.Owner {
	return mfa.Owner{ID: login.ID, Name: login.Account, Version: login.Version}
}

// AddPasskey stores a new passkey. For an administrator it creates recovery codes as ConfirmTOTP does; a user has the
// password.
func (r *Realm) AddPasskey(ctx context.Context, who string, at mfa.Site, login Login, name, state string,
	answer []byte) (recovery []string, err error) {
	err = r.MFA.Add(ctx, at, ownerOf(login), name, state, answer)
	if err != nil {
		return nil, err
	}
	if err := r.signIn(ctx, who, "passkey-add", login.Account, name); err != nil || login.Role != Admin {
		return nil, err
	}
	return r.firstRecovery(ctx, who, login)
}

// RemovePasskey removes a passkey.
func (r *Realm) RemovePasskey(ctx context.Context, who string, login Login, id string) error {
	if err := r.MFA.RemovePasskey(ctx, login.ID, id); err != nil {
		return err
	}
	return r.signIn(ctx, who, "passkey-remove", login.Account, "")
}

func (r *Realm) firstRecovery(ctx context.Context, who string, login Login) ([]string, error) {
	has, err := r.MFA.Of(ctx, login.ID)
	if err != nil || has.Recovery > 0 {
		return nil, err
	}
	return r.NewRecovery(ctx, who, login)
}

// NewRecovery replaces all recovery codes. Only this result has the new ones.
func (r *Realm) NewRecovery(ctx context.Context, who string, login Login) ([]string, error) {
	codes, err := r.MFA.NewRecovery(ctx, login.ID)
	if err != nil {
		return nil, err
	}
	return codes, r.signIn(ctx, who, "recovery-codes", login.Account, "")
}

// RenamePasskey renames a passkey. The error is mfa.ErrUnknown if there is none.
func (r *Realm) RenamePasskey(ctx context.Context, who string, login Login, id, name string) error {
	if err := r.MFA.RenamePasskey(ctx, login.ID, id, name); err != nil {
		return err
	}
	return r.signIn(ctx, who, "passkey-rename", login.Account, name)
}

// FactorUsed records how a login by who ("admin:" or "user:" and the account) used MFA or a passkey.
func (r *Realm) FactorUsed(ctx context.Context, who, account, what string) error {
	return r.signIn(ctx, who, what, account, "")
}

// alarms are the kinds of alerts about the sign-in of administrators; of them, passkey-cloned is one about users too.
var alarms = map[string]alerts.Kind{
	"totp-remove": alerts.SecondFactorRemoved, "passkey-remove": alerts.SecondFactorRemoved,
	"recovery-code-used": alerts.RecoveryCodeUsed, "passkey-cloned": alerts.PasskeyCopied,
}

// signIn records a change of how an account signs in, and raises its alert even if the audit log fails.
func (r *Realm) signIn(ctx context.Context, who, what, account, detail string) error {
	text := signInAlert(what, account, who, detail)
	if strings.HasPrefix(who, "user:") {
		text = "of user " + alerts.Name(account)
	}
	if kind := alarms[what]; kind == alerts.PasskeyCopied || kind != "" && !strings.HasPrefix(who, "user:") {
		r.Alerts.RaiseIn(r.Name, kind, "", text)
	}
	return r.Record(ctx, operation.Action{Who: who, What: what, Subject: account, Detail: detail})
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
