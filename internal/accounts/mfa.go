package accounts

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"authguard/internal/alerts"
	"authguard/internal/mfa"
	"authguard/internal/operation"
)

// own changes how the sender, an administrator, signs in. An empty what is not recorded.
func (r *Realm) own(
	ctx context.Context, by operation.By, what string, do func(Account) (answer any, err error),
) (*operation.Change, error) {
	account, err := r.Accounts.Get(ctx, by.Maker)
	if err != nil {
		return nil, err
	}
	answer, err := do(account)
	if err != nil {
		return nil, err
	}
	return &operation.Change{Action: operation.Action{What: what, Subject: account.Username}, Answer: answer,
		Preview: what == "", Alert: signInAlert(what, account.Username, by.Who, "")}, nil
}

// BeginTOTP starts the setup of the sender's TOTP app, until ConfirmTOTP. Errors are those of mfa.Table.Enrol.
type BeginTOTP struct{ operation.Own }

// Do implements Request.
func (BeginTOTP) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	return r.own(ctx, by, "", func(a Account) (any, error) { return r.MFA.Enrol(ctx, a.ID, issuer, a.Username) })
}

// ConfirmTOTP activates the app. Without recovery codes it also creates some. Errors are those of mfa.Table.Confirm.
type ConfirmTOTP struct {
	operation.Own
	OTP string `json:"otp" help:"Code of the app"`
}

// RecoveryCodes are new recovery codes. Only the answer has them.
type RecoveryCodes struct {
	Codes []string `json:"recovery_codes"`
}

// Do implements Request.
func (q ConfirmTOTP) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	var codes []string
	var incomplete error
	change, err := r.own(ctx, by, "totp-add", func(a Account) (any, error) {
		if err := r.MFA.Confirm(ctx, a.ID, strings.ReplaceAll(q.OTP, " ", "")); err != nil {
			return nil, err
		}
		codes, incomplete = r.firstRecovery(ctx, a.ID)
		return RecoveryCodes{append([]string{}, codes...)}, nil
	})
	if len(codes) > 0 {
		change.Also = &operation.Change{Action: operation.Action{What: "recovery-codes", Subject: change.Subject}}
	}
	return change, errors.Join(err, incomplete)
}

// RemoveTOTP removes the sender's app.
type RemoveTOTP struct{ operation.Own }

// Do implements Request.
func (RemoveTOTP) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	return r.own(ctx, by, "totp-remove", func(a Account) (any, error) { return nil, r.MFA.RemoveTOTP(ctx, a.ID) })
}

// NewRecoveryCodes replaces all recovery codes of the sender.
type NewRecoveryCodes struct{ operation.Own }

// Do implements Request.
func (NewRecoveryCodes) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	return r.own(ctx, by, "recovery-codes", func(a Account) (any, error) {
		codes, err := r.MFA.NewRecovery(ctx, a.ID)
		return RecoveryCodes{codes}, err
	})
}

// RenamePasskey renames a passkey of the sender. The error is mfa.ErrUnknown if there is none.
type RenamePasskey struct {
	operation.Own
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Do implements Request.
func (q RenamePasskey) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	change, err := r.own(ctx, by, "passkey-rename", func(a Account) (any, error) {
		return nil, r.MFA.RenamePasskey(ctx, a.ID, q.ID, q.Name)
	})
	if change != nil {
		change.Detail = q.Name
	}
	return change, err
}

// RemovePasskey removes a passkey of the sender. The error is that of RenamePasskey.
type RemovePasskey struct {
	operation.Own
	ID string `json:"id"`
}

// Do implements Request.
func (q RemovePasskey) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	return r.own(ctx, by, "passkey-remove", func(a Account) (any, error) {
		return nil, r.MFA.RemovePasskey(ctx, a.ID, q.ID)
	})
}

// issuer is the name in a TOTP app.
const issuer = "authguard"

// EnrollingTOTP returns the setup that is waiting for its code.
func (r *Realm) EnrollingTOTP(ctx context.Context, who Login) (mfa.Enrolment, error) {
	return r.MFA.Enrolling(ctx, who.ID, issuer, who.Account)
}

// AskNewPasskey returns the WebAuthn options for a new passkey.
func (r *Realm) AskNewPasskey(ctx context.Context, at mfa.Site, login Login) (mfa.Question, error) {
	return r.MFA.AskNew(ctx, at, ownerOf(login))
}

func ownerOf(login Login) mfa.Owner {
	return mfa.Owner{ID: login.ID, Name: login.Account, Version: login.Version}
}

// AddPasskey stores a new passkey. For an administrator it creates recovery codes as ConfirmTOTP does; a user has the
// password. It is not in the table of operations, because only a browser can answer AskNewPasskey.
func (r *Realm) AddPasskey(ctx context.Context, who string, at mfa.Site, login Login, name, state string,
	answer []byte) (recovery []string, err error) {
	err = r.MFA.Add(ctx, at, ownerOf(login), name, state, answer)
	if err != nil {
		return nil, err
	}
	a := operation.Action{Who: who, What: "passkey-add", Subject: login.Account, Detail: name}
	if err := r.Record(ctx, a); err != nil || login.Role != Admin {
		return nil, err
	}
	if recovery, err = r.firstRecovery(ctx, login.ID); len(recovery) > 0 {
		a.What, a.Detail = "recovery-codes", ""
		err = errors.Join(err, r.Record(ctx, a))
	}
	return recovery, err
}

func (r *Realm) firstRecovery(ctx context.Context, account string) ([]string, error) {
	has, err := r.MFA.Of(ctx, account)
	if err != nil || has.Recovery > 0 {
		return nil, err
	}
	return r.MFA.NewRecovery(ctx, account)
}

// RemovePasskey removes a user's passkey.
func (r *Realm) RemovePasskey(ctx context.Context, who string, login Login, id string) error {
	if err := r.MFA.RemovePasskey(ctx, login.ID, id); err != nil {
		return err
	}
	return r.Record(ctx, operation.Action{Who: who, What: "passkey-remove", Subject: login.Account})
}

// FactorUsed records how a login by who ("admin:" or "user:" and the account) used MFA or a passkey. A recovery code
// and a cloned passkey raise an alert, even if the audit log fails.
func (r *Realm) FactorUsed(ctx context.Context, who, account, what string) error {
	if kind := alerts.Kind(what); kind == alerts.RecoveryCodeUsed || kind == alerts.PasskeyCopied {
		text := signInAlert(what, account, who, "")
		if strings.HasPrefix(who, "user:") {
			text = "of user " + alerts.Name(account)
		}
		r.Alerts.RaiseIn(r.Name, kind, "", text)
	}
	return r.Record(ctx, operation.Action{Who: who, What: what, Subject: account})
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
