package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/codes"
	"authguard/internal/events"
	"authguard/internal/operation"
	"authguard/internal/times"
)

// AddUser creates an account, with Generate for a random temporary password, which only the answer has. Errors are
// ErrAsked and those of Table.Add.
type AddUser struct {
	Username   string   `json:"username"`
	Email      string   `json:"email"`
	Groups     []string `json:"groups"`
	Password   string   `json:"password"`
	Role       Role     `json:"role"`
	MustChange bool     `json:"must_change"`
	Generate   bool     `json:"generate"`
	operation.Because
}

// May implements the check of a Request.
func (q AddUser) May(_ context.Context, _ operation.Powers, by operation.By) error {
	if q.Role == Admin {
		if err := by.MayChangeSignIn(); err != nil {
			return err
		}
	}
	if len(q.Groups) > 0 {
		return by.Needs(operation.Groups)
	}
	return nil
}

// Do implements Request.
func (q AddUser) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	switch {
	case q.Role != "" && q.Role != User && q.Role != Admin:
		return nil, fmt.Errorf("%w: role: must be user or admin", operation.ErrAsked)
	case q.Role == Admin && r.Name != guard.DefaultRealm:
		return nil, fmt.Errorf("%w: administrators belong to all realms; add them without --realm", operation.ErrAsked)
	case r.Elsewhere != "" && q.Role != Admin:
		return nil, r.elsewhere()
	}
	if q.Generate {
		q.Password, q.MustChange = r.Accounts.TemporaryPassword(), true
	}
	account, err := r.Accounts.Add(ctx, Addition{Username: q.Username, Email: q.Email, Groups: q.Groups,
		Password: q.Password, Role: q.Role, MustChange: q.MustChange})
	if err != nil {
		return nil, err
	}
	change := &operation.Change{Answer: account, Action: operation.Action{Subject: account.Username,
		Detail: "role " + string(account.Role)}}
	if account.Role == Admin {
		change.Alert = addedAlert(account.Username, by)
	}
	if q.Generate {
		change.Answer = NewAdministrator{account, q.Password}
		change.Secret = temporary(account.Username, q.Password)
	}
	return change, nil
}

// temporary is a temporary password, shown only once.
func temporary(name, password string) operation.Secret {
	return operation.Secret{What: "Temporary password of", Name: name, Text: password,
		Hint: "Give it only to its owner, who must choose a new password at the next sign-in."}
}

// SetPassword sets a new password, ends the sessions and removes the known clients and device cookies (R14). MustChange
// makes it a temporary password. Generate does so too; without a password it makes up one, which only the answer has.
// Errors are those of Table.SetPassword.
type SetPassword struct {
	operation.OfAccount
	Password   string `json:"password"`
	MustChange bool   `json:"must_change"`
	Generate   bool   `json:"generate"`
	operation.Because
}

// Do implements Request.
func (q SetPassword) Do(ctx context.Context, r *Realm, _ operation.By) (*operation.Change, error) {
	password := q.Password
	if q.Generate {
		password = cmp.Or(password, r.Accounts.TemporaryPassword())
	}
	if err := r.Accounts.SetPassword(ctx, q.Username, password, q.MustChange || q.Generate); err != nil {
		return nil, err
	}
	change, err := r.changed(ctx, q.Username)
	change.Notice = operation.Notice{Text: "The password that you entered is temporary. Give it to the owner of",
		Subject: q.Username, Note: noUndoPassword}
	if password != q.Password {
		change.Answer = map[string]string{"username": q.Username, "password": password}
		change.Secret = temporary(q.Username, password)
	}
	return change, err
}

// noUndoPassword is why a new password has no undo.
const noUndoPassword = "No undo: only a digest of the old password was stored, and the sessions have ended."

// noUndoSessions is why ended sessions have no undo.
const noUndoSessions = "No undo: a user who is signed out has to sign in again."

// EndUserSessions ends all sessions of a user at all integrations. Known clients stay. The error is ErrAsked for an
// administrator's account. With another account source, an administrator of the same name stays signed in.
type EndUserSessions struct {
	operation.OfAccount
	operation.Because
}

// Do implements Request.
func (q EndUserSessions) Do(ctx context.Context, r *Realm, _ operation.By) (*operation.Change, error) {
	name, err := r.Canonical(q.Username)
	if err != nil {
		return nil, err
	}
	if r.Elsewhere == "" {
		if a, err := r.Accounts.Get(ctx, name); err == nil && a.Role == Admin {
			return nil, fmt.Errorf("%w: %s is an administrator; end the sessions under Administrators", operation.ErrAsked,
				a.Username)
		} else if err != nil && !errors.Is(err, ErrUnknown) {
			return nil, err
		}
	}
	ended, err := r.endSessions(ctx, "", name)
	if err != nil {
		return nil, err
	}
	sessions := events.Count(ended, "session")
	return &operation.Change{Action: operation.Action{Subject: name, Detail: sessions},
		Answer: map[string]int{"ended": ended},
		Notice: operation.Notice{Text: "Ended " + sessions + ":",
			Subject: name, Note: noUndoSessions}}, nil
}

// AskPassword forces a password change for a password that an attacker may have. It ends the sessions and removes all
// known clients and device cookies. The next sign-in needs the current password and a verification code. An
// administrator's tokens are revoked too, since each is as good as a session. Errors are ErrUnknown, and ErrAsked for
// one's own account and for another account source.
type AskPassword struct {
	operation.OfAccount
	operation.Because
}

// Do implements Request.
func (q AskPassword) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	if err := r.another(by.Who, q.Username); err != nil {
		return nil, err
	}
	return r.askNewPassword(ctx, q.Username)
}

func (r *Realm) askNewPassword(ctx context.Context, name string) (*operation.Change, error) {
	standing, err := r.Standing(ctx, r.nameOf(name))
	switch {
	case err != nil:
		return nil, err
	case standing.Kept != Ours:
		return nil, fmt.Errorf("%w: %s", operation.ErrAsked, NotOurs(standing.Kept))
	}
	if err := r.Accounts.AskNewPassword(ctx, name); err != nil {
		return nil, err
	}
	revoked := r.Tokens.RevokeOf(context.WithoutCancel(ctx), r.nameOf(name))
	change, err := r.changed(ctx, name)
	change.Notice.Note = "No undo: sessions, known clients and passkeys are removed."
	return change, errors.Join(revoked, err)
}

// SetGroups replaces an account's groups, not its sessions. Errors are those of Table.SetGroups.
type SetGroups struct {
	operation.OfAccount
	Groups []string `json:"groups" arg:"" optional:"" help:"All groups of the account"`
	None   bool     `json:"-" help:"Remove all groups"`
	operation.Because
}

// Validate implements kong.Validatable.
func (q SetGroups) Validate() error {
	if q.None == (len(q.Groups) > 0) {
		return errors.New("missing groups: give all of the account's groups, or --none; see the present ones with " +
			"authguard user list")
	}
	return nil
}

// May implements the check of a Request.
func (q SetGroups) May(ctx context.Context, p operation.Powers, by operation.By) error {
	return cmp.Or(by.Needs(operation.Groups), q.OfAccount.May(ctx, p, by))
}

// Do implements Request.
func (q SetGroups) Do(ctx context.Context, r *Realm, _ operation.By) (*operation.Change, error) {
	if err := r.Accounts.SetGroups(ctx, q.Username, q.Groups); err != nil {
		return nil, err
	}
	return &operation.Change{Action: operation.Action{Subject: r.nameOf(q.Username), Detail: strings.Join(q.Groups,
		" ")}}, nil
}

// DisableUser rejects an account's password, ends its sessions and removes its known clients; with Enable it undoes
// that, except for sessions and known clients. Errors are ErrAsked for one's own account, and those of Table.Disable.
type DisableUser struct {
	operation.OfAccount
	Enable bool `json:"enable" kong:"-"`
	operation.Because
}

// Do implements Request.
func (q DisableUser) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	if q.Enable {
		if err := r.Accounts.Enable(ctx, q.Username); err != nil {
			return nil, err
		}
		return &operation.Change{Action: operation.Action{What: "user-enable", Subject: r.nameOf(q.Username)},
			Undo: q.inverse(), Notice: operation.Notice{Text: "Enabled:", Subject: q.Username}}, nil
	}
	if err := r.another(by.Who, q.Username); err != nil {
		return nil, err
	}
	if err := r.Accounts.Disable(ctx, q.Username); err != nil {
		return nil, err
	}
	change, err := r.changed(ctx, q.Username)
	change.Undo, change.Notice.Note = q.inverse(), "Undo does not restore sessions, known clients and passkeys."
	return change, err
}

func (q DisableUser) inverse() *DisableUser {
	return &DisableUser{OfAccount: q.OfAccount, Enable: !q.Enable, Because: operation.Because{Reason: operation.Undone}}
}

// DeleteUser deletes an account permanently and ends what DisableUser ends. Errors are those of DisableUser.
type DeleteUser struct {
	operation.OfAccount
	operation.Because
}

// Do implements Request.
func (q DeleteUser) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	if err := r.another(by.Who, q.Username); err != nil {
		return nil, err
	}
	canonical := r.nameOf(q.Username)
	if err := r.Accounts.Delete(ctx, q.Username); err != nil {
		return nil, err
	}
	return r.changed(ctx, canonical)
}

// A Code is a verification code, which is not stored.
type Code struct {
	Account string    `json:"account"`
	Code    string    `json:"code"`
	Expires time.Time `json:"expires"`
}

// CreateCode creates a verification code that admits one unknown client together with the password (R29). Only the
// answer has it. Errors are ErrUnknown, guard.ErrAccountName, and ErrAsked for an invalid life.
type CreateCode struct {
	operation.OfAccount
	For string `json:"for" default:"1h" placeholder:"DURATION" help:"Validity of the code, at most 24h"`
	operation.Because
}

// Do implements Request.
func (q CreateCode) Do(ctx context.Context, r *Realm, _ operation.By) (*operation.Change, error) {
	life, err := operation.HoldOf(q.For)
	if err != nil {
		return nil, err
	}
	if life = cmp.Or(life, codes.DefaultLife); life < time.Minute || life > codes.MaxLife {
		return nil, fmt.Errorf("%w: a code can be valid for 1 minute to 24 hours", operation.ErrAsked)
	}
	name, err := r.Canonical(q.Username)
	if err != nil {
		return nil, err
	}
	directory, err := r.DirectoryOf(ctx, name)
	if err != nil {
		return nil, err
	}
	p, err := r.Guard(directory).CodeFor(name, netip.Addr{})
	if err != nil {
		return nil, err
	}
	earlier, err := r.Codes.Live(ctx, p.Account)
	if err != nil {
		return nil, err
	}
	code, expires, err := r.Codes.Issue(ctx, codes.Grant{Directory: directory, Account: p.Account, For: life})
	if err != nil {
		return nil, err
	}
	answer := Code{p.Account, guard.SpellCode(code), expires.UTC().Truncate(time.Second)}
	return &operation.Change{Action: operation.Action{Subject: p.Account, Detail: goodUntil(expires)}, Answer: answer,
		Secret: codeSecret(answer, times.Text(expires.In(r.Now().Location())), earlier)}, nil
}

func codeSecret(code Code, until string, earlier bool) operation.Secret {
	hint := "Verify the identity of the account's owner before you share it. The owner enters it on the sign-in page as " +
		"“Verification code”, with user name and password. It works once, from the first network that uses it, until " +
		until + "."
	if earlier {
		hint += " An earlier code of this account is still valid, too."
	}
	return operation.Secret{What: "Verification code for", Name: code.Account, Text: code.Code, Hint: hint}
}

func goodUntil(t time.Time) string { return "good until " + times.Text(t.UTC()) }
