package accounts

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"authguard/internal/alerts"
	"authguard/internal/operation"
	"authguard/internal/outbox"
	"authguard/internal/sessions"
	"authguard/internal/times"
)

// ChoosePassword is SetPassword by the account's owner, in a session of this version of the account. The error is
// ErrUnknown if the account has changed since. Passkeys stay, since their owner sees them on the same page.
func (r *Realm) ChoosePassword(ctx context.Context, who, name, password string, version int64) error {
	if err := r.Accounts.ChoosePassword(ctx, name, password, version); err != nil {
		return err
	}
	name = r.nameOf(name)
	return errors.Join(r.endLogins(ctx, name), r.Record(ctx, operation.Action{Who: who, What: "user-set-password",
		Subject: name}))
}

// ResetPassword is ChoosePassword through the link of an email, which is valid for this version of the account.
func (r *Realm) ResetPassword(ctx context.Context, name, password string, version int64, from netip.Addr) error {
	if err := r.Accounts.ChoosePassword(ctx, name, password, version); err != nil {
		return err
	}
	return r.changedBy(ctx, operation.Action{Who: "user:" + r.nameOf(name), What: "user-reset-password", Subject: name,
		Detail: "through the email's link, from " + from.String()})
}

// ResetSent records an email with a link to reset the password, and the IP address that requested it.
func (r *Realm) ResetSent(ctx context.Context, l outbox.Notice) {
	if err := r.Record(ctx, operation.Action{Who: "mail", What: "password-reset-email", Subject: r.nameOf(l.Account),
		Detail: "requested from " + l.Address}); err != nil {
		r.Log.Error("a password reset link was sent but is not in the audit log", "error", err)
	}
}

// CodeSent records a verification code that its owner asked for by email.
func (r *Realm) CodeSent(ctx context.Context, account string, expires time.Time) {
	if err := r.Record(ctx, operation.Action{Who: "mail", What: "user-create-code", Subject: account,
		Detail: goodUntil(expires)}); err != nil {
		r.Log.Error("a verification code was sent but is not in the audit log", "error", err)
	}
}

// RemoveOwnClients is RemoveKnownClients for the account's owner, by canonical name and directory.
func (r *Realm) RemoveOwnClients(ctx context.Context, who, directory, account string, address netip.Addr) error {
	if err := r.forgetIn(ctx, directory, account, address); err != nil {
		return err
	}
	a := operation.On(account, address)
	a.Who, a.What = who, "known-clients-remove"
	return r.Record(ctx, a)
}

// changedBy is changed by the account's owner.
func (r *Realm) changedBy(ctx context.Context, a operation.Action) error {
	a.Subject = r.nameOf(a.Subject)
	return errors.Join(r.end(ctx, a.Subject), r.Record(ctx, a))
}

// SessionsOf returns an administrator's sessions, newest first.
func (r *Realm) SessionsOf(ctx context.Context, name string) ([]sessions.Session, error) {
	return r.Sessions.Of(ctx, r.nameOf(name), Integration)
}

// EndSession ends one session of an account. The error is sessions.ErrUnknown if there is none.
func (r *Realm) EndSession(ctx context.Context, who, name, id string) error {
	name = r.nameOf(name)
	if err := r.Sessions.End(ctx, name, id); err != nil {
		return err
	}
	return r.Record(ctx, operation.Action{Who: who, What: "session-end", Subject: name})
}

// EndSessions ends all sessions of an account at an integration except but, and returns their number; but may be empty.
func (r *Realm) EndSessions(ctx context.Context, who, name, integration, but string) (int64, error) {
	name = r.nameOf(name)
	n, err := r.Sessions.EndOthers(ctx, name, integration, but)
	if err != nil {
		return 0, err
	}
	return n, r.Record(ctx, operation.Action{Who: who, What: "session-end", Subject: name,
		Detail: fmt.Sprintf("%d sessions", n)})
}

// notMe is the kind of alert for a sign-in that its owner reported.
const notMe alerts.Kind = "not-me"

// A Denial is an owner's report that a login was not theirs.
type Denial struct {
	Who, What          string // as in operation.Action
	Directory, Account string // the name is canonical
	// Password is the new one, if the owner chose one in a session of this Version of the account; see ChoosePassword.
	Password string
	Version  int64
}

// NotMe secures the account after its owner reports a login as not theirs. All sessions end and all known clients are
// removed. If the owner chose a new password with the current one, that is enough. Otherwise, if authguard keeps the
// account, the effect is that of AskNewPassword: the password alone no longer helps an attacker. Denial.What says which
// login it was and how the owner reported it.
func (r *Realm) NotMe(ctx context.Context, d Denial) (err error) {
	name, what := d.Account, d.What
	a := operation.Action{Who: d.Who, What: "not-me", Subject: name, Detail: what}
	if r.Elsewhere != "" && d.Directory == "" { // an account of this name in our table belongs to another user
		err = errors.Join(r.endIn(ctx, "", name), r.Record(ctx, a))
	} else if d.Password != "" {
		if err := r.Accounts.ChoosePassword(ctx, name, d.Password, d.Version); err != nil {
			return err
		}
		err = r.changedBy(ctx, a)
	} else if change, failed := r.askNewPassword(ctx, name); change != nil {
		err = errors.Join(failed, r.Record(ctx, a))
	} else if err = failed; errors.Is(err, operation.ErrAsked) || errors.Is(err, ErrUnknown) {
		err = r.changedBy(ctx, a)
	}
	if err != nil && !errors.Is(err, operation.ErrUnrecorded) {
		return err
	}
	next := "Its sessions were ended and its known clients removed. The next sign-in needs a verification code and a " +
		"new password."
	if d.Password != "" {
		next = "Its sessions were ended, its known clients removed, and its owner has chosen a new password."
	}
	r.Alerts.RaiseIn(r.Name, notMe, "",
		fmt.Sprintf("The account %s: %s.\n%s\n"+
			"An attacker had its password or a session. Look the account up and check the other sign-ins.", alerts.Name(name),
			alerts.Name(what), next))
	return err
}

// LoginWords describes the reported login.
func LoginWords(at time.Time, address string) string {
	if a, err := netip.ParseAddr(address); err == nil {
		address = a.String()
	}
	return fmt.Sprintf("the sign-in of %s from %s", times.Text(at.UTC()), address)
}
