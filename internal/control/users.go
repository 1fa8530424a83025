package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/codes"
	"authguard/internal/events"
	"authguard/internal/operation"
	"authguard/internal/sessions"
	"authguard/internal/times"
)

// MaxUsers is the most accounts on one page of AccountsOf.
const MaxUsers = 1000

// AddUser creates an account, with Generate for a random temporary password, which only the answer has. Errors are
// ErrAsked and those of accounts.Table.Add.
type AddUser struct {
	Username   string        `json:"username"`
	Email      string        `json:"email"`
	Groups     []string      `json:"groups"`
	Password   string        `json:"password"`
	Role       accounts.Role `json:"role"`
	MustChange bool          `json:"must_change"`
	Generate   bool          `json:"generate"`
	operation.Because
}

// May implements the check of a Request.
func (q AddUser) May(_ context.Context, _ operation.Powers, by operation.By) error {
	if q.Role == accounts.Admin {
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
func (q AddUser) Do(ctx context.Context, c *Control, by operation.By) (*operation.Change, error) {
	switch {
	case q.Role != "" && q.Role != accounts.User && q.Role != accounts.Admin:
		return nil, fmt.Errorf("%w: role: must be user or admin", operation.ErrAsked)
	case q.Role == accounts.Admin && c.config.Realm != guard.DefaultRealm:
		return nil, fmt.Errorf("%w: administrators belong to all realms; add them without --realm", operation.ErrAsked)
	case c.config.Elsewhere != "" && q.Role != accounts.Admin:
		return nil, c.elsewhere()
	}
	if q.Generate {
		q.Password, q.MustChange = c.config.Accounts.TemporaryPassword(), true
	}
	account, err := c.config.Accounts.Add(ctx, accounts.Addition{Username: q.Username, Email: q.Email, Groups: q.Groups,
		Password: q.Password, Role: q.Role, MustChange: q.MustChange})
	if err != nil {
		return nil, err
	}
	change := &operation.Change{Answer: account, Action: operation.Action{Subject: account.Username,
		Detail: "role " + string(account.Role)}}
	if account.Role == accounts.Admin {
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
// Errors are those of accounts.Table.SetPassword.
type SetPassword struct {
	operation.OfAccount
	Password   string `json:"password"`
	MustChange bool   `json:"must_change"`
	Generate   bool   `json:"generate"`
	operation.Because
}

// Do implements Request.
func (q SetPassword) Do(ctx context.Context, c *Control, _ operation.By) (*operation.Change, error) {
	password := q.Password
	if q.Generate {
		password = cmp.Or(password, c.config.Accounts.TemporaryPassword())
	}
	if err := c.config.Accounts.SetPassword(ctx, q.Username, password, q.MustChange || q.Generate); err != nil {
		return nil, err
	}
	change, err := c.changed(ctx, q.Username)
	change.Notice = operation.Notice{Text: "The password that you entered is temporary. Give it to the owner of",
		Subject: q.Username, Note: noUndoPassword}
	if password != q.Password {
		change.Answer = map[string]string{"username": q.Username, "password": password}
		change.Secret = temporary(q.Username, password)
	}
	return change, err
}

// ChoosePassword is SetPassword by the account's owner, in a session of this version of the account. The error is
// accounts.ErrUnknown if the account has changed since. Passkeys stay, since their owner sees them on the same page.
func (c *Control) ChoosePassword(ctx context.Context, who, name, password string, version int64) error {
	if err := c.config.Accounts.ChoosePassword(ctx, name, password, version); err != nil {
		return err
	}
	name = c.nameOf(name)
	return errors.Join(c.endLogins(ctx, name), c.record(ctx, operation.Action{Who: who, What: "user-set-password",
		Subject: name}))
}

// CheckPassword is accounts.Table.CheckPassword.
func (c *Control) CheckPassword(password string) error {
	return c.config.Accounts.CheckPassword(password)
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
func (q EndUserSessions) Do(ctx context.Context, c *Control, _ operation.By) (*operation.Change, error) {
	ended, name := 0, ""
	name, err := c.Canonical(q.Username)
	if err != nil {
		return nil, err
	}
	if c.config.Elsewhere == "" {
		if a, err := c.config.Accounts.Get(ctx, name); err == nil && a.Role == accounts.Admin {
			return nil, fmt.Errorf("%w: %s is an administrator; end the sessions under Administrators", operation.ErrAsked,
				a.Username)
		} else if err != nil && !errors.Is(err, accounts.ErrUnknown) {
			return nil, err
		}
	}
	running, err := c.config.Sessions.Of(ctx, name, "")
	for _, one := range running {
		if ofAdministration(one.Integration) {
			continue
		}
		switch failed := c.config.Sessions.End(ctx, name, one.ID); {
		case failed == nil:
			ended++
		case !errors.Is(failed, sessions.ErrUnknown): // it has just ended
			err = errors.Join(err, failed)
		}
	}
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
// administrator's tokens are revoked too, since each is as good as a session. Errors are accounts.ErrUnknown, and
// ErrAsked for one's own account and for another account source.
type AskPassword struct {
	operation.OfAccount
	operation.Because
}

// Do implements Request.
func (q AskPassword) Do(ctx context.Context, c *Control, by operation.By) (*operation.Change, error) {
	if err := c.another(by.Who, q.Username); err != nil {
		return nil, err
	}
	return c.askNewPassword(ctx, q.Username)
}

func (c *Control) askNewPassword(ctx context.Context, name string) (*operation.Change, error) {
	standing, err := c.Standing(ctx, c.nameOf(name))
	switch {
	case err != nil:
		return nil, err
	case standing.Kept != ours:
		return nil, fmt.Errorf("%w: the account is not in authguard's own table (source: %s); change its password there",
			operation.ErrAsked, standing.Kept)
	}
	if err := c.config.Accounts.AskNewPassword(ctx, name); err != nil {
		return nil, err
	}
	revoked := c.config.Tokens.RevokeOf(context.WithoutCancel(ctx), c.nameOf(name))
	change, err := c.changed(ctx, name)
	change.Notice.Note = "No undo: sessions, known clients and passkeys are removed."
	return change, errors.Join(revoked, err)
}

// SetGroups replaces an account's groups, not its sessions. Errors are those of accounts.Table.SetGroups.
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
func (q SetGroups) Do(ctx context.Context, c *Control, _ operation.By) (*operation.Change, error) {
	if err := c.config.Accounts.SetGroups(ctx, q.Username, q.Groups); err != nil {
		return nil, err
	}
	return &operation.Change{Action: operation.Action{Subject: c.nameOf(q.Username), Detail: strings.Join(q.Groups,
		" ")}}, nil
}

// DisableUser rejects an account's password, ends its sessions and removes its known clients; with Enable it undoes
// that, except for sessions and known clients. Errors are ErrAsked for one's own account, and those of
// accounts.Table.Disable.
type DisableUser struct {
	operation.OfAccount
	Enable bool `json:"enable" kong:"-"`
	operation.Because
}

// Do implements Request.
func (q DisableUser) Do(ctx context.Context, c *Control, by operation.By) (*operation.Change, error) {
	if q.Enable {
		if err := c.config.Accounts.Enable(ctx, q.Username); err != nil {
			return nil, err
		}
		return &operation.Change{Action: operation.Action{What: "user-enable", Subject: c.nameOf(q.Username)},
			Undo: q.inverse(), Notice: operation.Notice{Text: "Enabled:", Subject: q.Username}}, nil
	}
	if err := c.another(by.Who, q.Username); err != nil {
		return nil, err
	}
	if err := c.config.Accounts.Disable(ctx, q.Username); err != nil {
		return nil, err
	}
	change, err := c.changed(ctx, q.Username)
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
func (q DeleteUser) Do(ctx context.Context, c *Control, by operation.By) (*operation.Change, error) {
	if err := c.another(by.Who, q.Username); err != nil {
		return nil, err
	}
	canonical := c.nameOf(q.Username)
	if err := c.config.Accounts.Delete(ctx, q.Username); err != nil {
		return nil, err
	}
	return c.changed(ctx, canonical)
}

// changed ends sessions, known clients, codes and passkeys after a change of an account, even if one part fails. The
// account's version has already invalidated the sessions; deleting them is cleanup.
func (c *Control) changed(ctx context.Context, name string) (*operation.Change, error) {
	name = c.nameOf(name)
	return &operation.Change{Action: operation.Action{Subject: name}}, c.end(ctx, name)
}

// changedBy is changed by the account's owner.
func (c *Control) changedBy(ctx context.Context, a operation.Action) error {
	a.Subject = c.nameOf(a.Subject)
	return errors.Join(c.end(ctx, a.Subject), c.record(ctx, a))
}

// end is changed without the audit log. With another account source, only administrators are in our table.
func (c *Control) end(ctx context.Context, name string) error {
	removed := c.removePasskeys(context.WithoutCancel(ctx), name)
	return errors.Join(unended(removed), c.endLogins(ctx, name))
}

// endLogins is end except for passkeys.
func (c *Control) endLogins(ctx context.Context, name string) error {
	if c.config.Elsewhere != "" {
		return c.endApart(ctx, adminDirectory, name)
	}
	ctx = context.WithoutCancel(ctx)
	_, ended := c.config.Sessions.DeleteAccount(ctx, name)
	forgotten := c.forget(ctx, name, netip.Addr{})
	revoked := c.config.Codes.Revoke(ctx, name)
	return unended(ended, forgotten, revoked)
}

// unended adds what to do if a part of end failed.
func unended(parts ...error) error {
	err := errors.Join(parts...)
	if err != nil {
		err = fmt.Errorf("control: the account was changed, but not all sessions, known clients, verification "+
			"codes and passkeys could be removed; repeat it: %w", err)
	}
	return err
}

// nameOf returns the canonical name of an existing account.
func (c *Control) nameOf(name string) string {
	if canonical, err := c.Canonical(name); err == nil {
		return canonical
	}
	return name
}

// A Code is a verification code, which is not stored.
type Code struct {
	Account string    `json:"account"`
	Code    string    `json:"code"`
	Expires time.Time `json:"expires"`
}

// CreateCode creates a verification code that admits one unknown client together with the password (R29). Only the
// answer has it. Errors are accounts.ErrUnknown, guard.ErrAccountName, and ErrAsked for an invalid life.
type CreateCode struct {
	operation.OfAccount
	For string `json:"for" default:"1h" placeholder:"DURATION" help:"Validity of the code, at most 24h"`
	operation.Because
}

// Do implements Request.
func (q CreateCode) Do(ctx context.Context, c *Control, _ operation.By) (*operation.Change, error) {
	life, err := operation.HoldOf(q.For)
	if err != nil {
		return nil, err
	}
	if life = cmp.Or(life, codes.DefaultLife); life < time.Minute || life > codes.MaxLife {
		return nil, fmt.Errorf("%w: a code can be valid for 1 minute to 24 hours", operation.ErrAsked)
	}
	name, err := c.Canonical(q.Username)
	if err != nil {
		return nil, err
	}
	directory, err := c.config.DirectoryOf(ctx, name)
	if err != nil {
		return nil, err
	}
	p, err := c.guardOf(directory).CodeFor(name, netip.Addr{})
	if err != nil {
		return nil, err
	}
	earlier, err := c.config.Codes.Live(ctx, p.Account)
	if err != nil {
		return nil, err
	}
	code, expires, err := c.config.Codes.Issue(ctx, codes.Grant{Directory: directory, Account: p.Account, For: life})
	if err != nil {
		return nil, err
	}
	answer := Code{p.Account, guard.SpellCode(code), expires.UTC().Truncate(time.Second)}
	return &operation.Change{Action: operation.Action{Subject: p.Account, Detail: goodUntil(expires)}, Answer: answer,
		Secret: codeSecret(answer, times.Text(expires.In(c.Now().Location())), earlier)}, nil
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

// ResetPassword is ChoosePassword through the link of an email, which is valid for this version of the account.
func (c *Control) ResetPassword(ctx context.Context, name, password string, version int64, from netip.Addr) error {
	if err := c.config.Accounts.ChoosePassword(ctx, name, password, version); err != nil {
		return err
	}
	return c.changedBy(ctx, operation.Action{Who: "user:" + c.nameOf(name), What: "user-reset-password", Subject: name,
		Detail: "through the email's link, from " + from.String()})
}

// ResetSent records an email with a link to reset the password, and the IP address that requested it.
func (c *Control) ResetSent(ctx context.Context, account, from string) error {
	return c.record(ctx, operation.Action{Who: "mail", What: "password-reset-email", Subject: c.nameOf(account),
		Detail: "requested from " + from})
}

// CodeSent records a verification code that its owner asked for by email.
func (c *Control) CodeSent(ctx context.Context, account string, expires time.Time) error {
	return c.record(ctx, operation.Action{Who: "mail", What: "user-create-code", Subject: account,
		Detail: goodUntil(expires)})
}

func (c *Control) elsewhere() error {
	return fmt.Errorf("%w: accounts.source is %s, so users are looked up there and not in authguard's own table; "+
		"add the account there. Only administrators can be added here, with authguard admin add", operation.ErrAsked,
		c.config.Elsewhere)
}

// Import adds the accounts of a file, all or none, and returns their number; why may be empty. The error is an
// *accounts.ImportError for invalid lines.
func (c *Control) Import(ctx context.Context, who string, request accounts.ImportRequest, why string) (int, error) {
	why, err := operation.Trimmed(why)
	if err != nil {
		return 0, err
	}
	if c.config.Elsewhere != "" {
		return 0, c.elsewhere()
	}
	n, err := c.config.Accounts.Import(ctx, request)
	if err != nil {
		return n, err
	}
	return n, c.record(ctx, operation.Action{Who: who, What: "user-import", Detail: fmt.Sprintf("%d accounts", n),
		Why: why})
}
