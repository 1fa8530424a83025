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
	"authguard/internal/audit"
	"authguard/internal/codes"
	"authguard/internal/sessions"
)

// MaxUsers is the most accounts on one page of AccountsOf.
const MaxUsers = 1000

// AddUser creates an account; why may be empty. Errors are ErrAsked and those of accounts.Table.Add.
func (c *Control) AddUser(ctx context.Context, who string, a accounts.Addition, why string) (accounts.Account, error) {
	why, err := reason(why)
	if err != nil {
		return accounts.Account{}, err
	}
	switch a.Role {
	case "", accounts.User, accounts.Admin:
	default:
		return accounts.Account{}, fmt.Errorf("%w: role: must be user or admin", ErrAsked)
	}
	if a.Role == accounts.Admin && c.config.Realm != guard.DefaultRealm {
		return accounts.Account{}, fmt.Errorf("%w: administrators belong to all realms; add them without --realm", ErrAsked)
	}
	if c.config.Elsewhere != "" && a.Role != accounts.Admin {
		return accounts.Account{}, c.elsewhere()
	}
	account, err := c.config.Accounts.Add(ctx, a)
	if err != nil {
		return accounts.Account{}, err
	}
	if account.Role == accounts.Admin {
		c.alarm("admin-add", addedBy(account.Username, who), why)
	}
	return account, c.record(ctx, audit.Action{
		Who: who, What: "user-add", Subject: account.Username, Detail: "role " + string(account.Role), Why: why,
	})
}

// SetPassword sets a new password, ends the sessions and removes the known clients and device cookies (R14). mustChange
// makes it a temporary password; why may be empty. Errors are those of accounts.Table.SetPassword.
func (c *Control) SetPassword(ctx context.Context, who, name, password string, mustChange bool, why string) error {
	why, err := reason(why)
	if err != nil {
		return err
	}
	if err := c.config.Accounts.SetPassword(ctx, name, password, mustChange); err != nil {
		return err
	}
	return c.changed(ctx, audit.Action{Who: who, What: "user-set-password", Subject: name, Why: why})
}

// ChoosePassword is SetPassword by the account's owner, in a session of this version of the account. The error is
// accounts.ErrUnknown if the account has changed since.
func (c *Control) ChoosePassword(ctx context.Context, who, name, password string, version int64) error {
	if err := c.config.Accounts.ChoosePassword(ctx, name, password, version); err != nil {
		return err
	}
	return c.changed(ctx, audit.Action{Who: who, What: "user-set-password", Subject: name})
}

// EndUserSessions ends all sessions of a user at all integrations and returns their number; why may be empty. Known
// clients stay. The error is ErrAsked for an administrator's account. With another account source, an administrator of
// the same name stays signed in.
func (c *Control) EndUserSessions(ctx context.Context, who, name, why string) (ended int64, err error) {
	why, err = reason(why)
	if err == nil {
		name, err = c.Canonical(name)
	}
	if err != nil {
		return 0, err
	}
	if c.config.Elsewhere == "" {
		if a, err := c.config.Accounts.Get(ctx, name); err == nil && a.Role == accounts.Admin {
			return 0, fmt.Errorf("%w: %s is an administrator; end the sessions under Administrators", ErrAsked, a.Username)
		} else if err != nil && !errors.Is(err, accounts.ErrUnknown) {
			return 0, err
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
		return ended, err
	}
	return ended, c.record(ctx, audit.Action{Who: who, What: "user-sessions", Subject: name,
		Detail: fmt.Sprintf("%d sessions", ended), Why: why})
}

// AskNewPassword forces a password change for a password that an attacker may have. It ends the sessions and removes
// all known clients and device cookies. The next sign-in needs the current password and a verification code. An
// administrator's tokens are revoked too, since each is as good as a session. Errors are accounts.ErrUnknown, and
// ErrAsked for another account source.
func (c *Control) AskNewPassword(ctx context.Context, who, name, why string) error {
	why, err := reason(why)
	if err != nil {
		return err
	}
	return c.askNewPassword(ctx, audit.Action{Who: who, What: "user-ask-password", Subject: name, Why: why})
}

func (c *Control) askNewPassword(ctx context.Context, a audit.Action) error {
	standing, err := c.Standing(ctx, c.nameOf(a.Subject))
	switch {
	case err != nil:
		return err
	case standing.Kept != ours:
		return fmt.Errorf("%w: the account is not in authguard's own table (source: %s); change its password there", ErrAsked,
			standing.Kept)
	}
	if err := c.config.Accounts.AskNewPassword(ctx, a.Subject); err != nil {
		return err
	}
	if err := c.config.Tokens.RevokeOf(ctx, c.nameOf(a.Subject)); err != nil {
		return err
	}
	return c.changed(ctx, a)
}

// SetGroups replaces an account's groups, not its sessions. Errors are those of accounts.Table.SetGroups.
func (c *Control) SetGroups(ctx context.Context, who, name string, groups []string, why string) error {
	why, err := reason(why)
	if err != nil {
		return err
	}
	if err := c.config.Accounts.SetGroups(ctx, name, groups); err != nil {
		return err
	}
	return c.record(ctx, audit.Action{Who: who, What: "user-groups", Subject: c.nameOf(name), Detail: strings.Join(groups,
		" "), Why: why})
}

// Disable rejects an account's password, ends its sessions and removes its known clients. Errors are ErrAsked for one's
// own account, and those of accounts.Table.Disable.
func (c *Control) Disable(ctx context.Context, who, name string) error {
	return c.DisableFor(ctx, who, name, "")
}

// DisableFor is Disable with a reason.
func (c *Control) DisableFor(ctx context.Context, who, name, why string) error {
	why, err := reason(why)
	if err := cmp.Or(err, c.another(who, name)); err != nil {
		return err
	}
	if err := c.config.Accounts.Disable(ctx, name); err != nil {
		return err
	}
	return c.changed(ctx, audit.Action{Who: who, What: "user-disable", Subject: name, Why: why})
}

// Enable undoes Disable, except for sessions and known clients.
func (c *Control) Enable(ctx context.Context, who, name string) error {
	return c.EnableFor(ctx, who, name, "")
}

// EnableFor is Enable with a reason.
func (c *Control) EnableFor(ctx context.Context, who, name, why string) error {
	why, err := reason(why)
	if err != nil {
		return err
	}
	if err := c.config.Accounts.Enable(ctx, name); err != nil {
		return err
	}
	return c.record(ctx, audit.Action{Who: who, What: "user-enable", Subject: c.nameOf(name), Why: why})
}

// DeleteFor deletes an account permanently and ends what Disable ends; why may be empty. Errors are those of Disable.
func (c *Control) DeleteFor(ctx context.Context, who, name, why string) error {
	why, err := reason(why)
	if err := cmp.Or(err, c.another(who, name)); err != nil {
		return err
	}
	canonical := c.nameOf(name)
	if err := c.config.Accounts.Delete(ctx, name); err != nil {
		return err
	}
	return c.changed(ctx, audit.Action{Who: who, What: "user-delete", Subject: canonical, Why: why})
}

// changed ends sessions, known clients and codes after a change of an account, even if one part fails. The account's
// version has already invalidated the sessions; deleting them is cleanup.
func (c *Control) changed(ctx context.Context, a audit.Action) error {
	a.Subject = c.nameOf(a.Subject)
	return errors.Join(c.end(ctx, a.Subject), c.record(ctx, a))
}

// end is changed without the audit log. With another account source, only administrators are in our table.
func (c *Control) end(ctx context.Context, name string) error {
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
		err = fmt.Errorf("control: the account was changed, but not all sessions, known clients and verification codes "+
			"could be removed; repeat it: %w", err)
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

// IssueCode creates a verification code that admits one unknown client together with the password (R29). life 0 is
// codes.DefaultLife; why may be empty. Errors are accounts.ErrUnknown, guard.ErrAccountName, and ErrAsked for an
// invalid life.
func (c *Control) IssueCode(ctx context.Context, who, name string, life time.Duration, why string) (Code, error) {
	why, err := reason(why)
	if err != nil {
		return Code{}, err
	}
	if life = cmp.Or(life, codes.DefaultLife); life < time.Minute || life > codes.MaxLife {
		return Code{}, fmt.Errorf("%w: a code can be valid for 1 minute to 24 hours", ErrAsked)
	}
	if name, err = c.Canonical(name); err != nil {
		return Code{}, err
	}
	directory, err := c.config.DirectoryOf(ctx, name)
	if err != nil {
		return Code{}, err
	}
	p, err := c.guardOf(directory).CodeFor(name, netip.Addr{})
	if err != nil {
		return Code{}, err
	}
	code, expires, err := c.config.Codes.Issue(ctx, codes.Grant{Directory: directory, Account: p.Account, For: life})
	if err != nil {
		return Code{}, err
	}
	return Code{p.Account, codes.Spell(code), expires.UTC().Truncate(time.Second)}, c.CodeIssued(ctx, who, p.Account,
		expires, why)
}

// CodeIssued records a new verification code.
func (c *Control) CodeIssued(ctx context.Context, who, account string, expires time.Time, why string) error {
	return c.record(ctx, audit.Action{Who: who, What: "user-create-code", Subject: account, Detail: "good until " +
		expires.UTC().Format(time.RFC3339), Why: why})
}

func (c *Control) elsewhere() error {
	return fmt.Errorf("%w: accounts.source is %s, so users are looked up there and not in authguard's own table; "+
		"add the account there. Only administrators can be added here, with authguard admin add", ErrAsked,
		c.config.Elsewhere)
}

// Import adds the accounts of a file, all or none, and returns their number; why may be empty. The error is an
// *accounts.ImportError for invalid lines.
func (c *Control) Import(ctx context.Context, who string, request accounts.ImportRequest, why string) (int, error) {
	why, err := reason(why)
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
	return n, c.record(ctx, audit.Action{Who: who, What: "user-import", Detail: fmt.Sprintf("%d accounts", n), Why: why})
}
