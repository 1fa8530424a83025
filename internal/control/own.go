package control

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/audit"
	"authguard/internal/operation"
	"authguard/internal/sessions"
	"authguard/internal/times"
)

// Own is what the user sees of their own account.
type Own struct {
	Sessions []sessions.Session // at the current integration, newest first
	Known
	Logins []audit.Row // the newest successes, newest first
}

const ownLogins = 10

// Own returns the user's view of an account in a directory, for an attempt at an integration.
func (c *Control) Own(ctx context.Context, door, directory string, a guard.Attempt) (o Own, err error) {
	if o.Sessions, err = c.config.Sessions.Of(ctx, a.Account, door); err != nil {
		return o, err
	}
	if o.Known, err = c.Known(ctx, directory, a); err != nil {
		return o, err
	}
	o.Logins, err = c.successes(ctx, directory, a.Account)
	o.Logins = o.Logins[:min(len(o.Logins), ownLogins)]
	return o, err
}

// OwnLogin returns one of an account's newest logins by its ID; false if there is none.
func (c *Control) OwnLogin(ctx context.Context, directory, account string, id int64) (audit.Row, bool, error) {
	all, err := c.successes(ctx, directory, account)
	i := slices.IndexFunc(all, func(r audit.Row) bool { return r.ID == id })
	if err != nil || i < 0 {
		return audit.Row{}, false, err
	}
	return all[i], true, nil
}

// successes returns the newest successful logins of an account in a directory. With another account source, an
// administrator and a user can have the same name.
func (c *Control) successes(ctx context.Context, directory, account string) ([]audit.Row, error) {
	all, err := c.config.Audit.Successes(ctx, c.config.Realm, account)
	if c.config.Elsewhere != "" {
		all = slices.DeleteFunc(all, func(r audit.Row) bool { return ofAdministration(r.Integration()) != (directory != "") })
	}
	return all, err
}

// apart reports whether another program manages the accounts of a directory. An account of the same name in authguard's
// own table then belongs to another user.
func (c *Control) apart(directory string) bool { return c.config.Elsewhere != "" && directory == "" }

// ofAdministration reports whether an integration, of a session or an attempt, is the admin console.
func ofAdministration(door string) bool {
	return door == adminIntegration || strings.HasPrefix(door, adminIntegration+"_")
}

// RemoveOwnClients is RemoveKnownClients for the account's owner, by canonical name and directory.
func (c *Control) RemoveOwnClients(ctx context.Context, who, directory, account string, address netip.Addr) error {
	if err := c.forgetIn(ctx, directory, account, address); err != nil {
		return err
	}
	a := actionOn(account, address)
	a.Who, a.What = who, "known-clients-remove"
	return c.record(ctx, a)
}

func (c *Control) forgetIn(ctx context.Context, directory, account string, address netip.Addr) error {
	return each(c.guardsOf(directory), func(g *guard.Guard) error { return g.RemoveKnownClients(ctx, account, address) })
}

// endApart is end with another account source. An administrator and a user can have the same name there; the other
// one's sessions and known clients stay.
func (c *Control) endApart(ctx context.Context, directory, name string) error {
	ctx = context.WithoutCancel(ctx)
	return unended(c.endSessionsApart(ctx, directory, name), c.forgetIn(ctx, directory, name, netip.Addr{}),
		c.config.Codes.RevokeIn(ctx, directory, name))
}

func (c *Control) endSessionsApart(ctx context.Context, directory, name string) error {
	running, ended := c.config.Sessions.Of(ctx, name, "")
	for _, one := range running {
		if ofAdministration(one.Integration) != (directory != "") {
			continue
		}
		if err := c.config.Sessions.End(ctx, name, one.ID); err != nil && !errors.Is(err, sessions.ErrUnknown) {
			ended = errors.Join(ended, err)
		}
	}
	return ended
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
func (c *Control) NotMe(ctx context.Context, d Denial) (err error) {
	name, what := d.Account, d.What
	a := operation.Action{Who: d.Who, What: "not-me", Subject: name, Detail: what}
	if c.apart(d.Directory) {
		err = errors.Join(c.endApart(ctx, "", name), c.record(ctx, a))
	} else if d.Password != "" {
		if err := c.config.Accounts.ChoosePassword(ctx, name, d.Password, d.Version); err != nil {
			return err
		}
		err = c.changedBy(ctx, a)
	} else if change, failed := c.askNewPassword(ctx, name); change != nil {
		err = errors.Join(failed, c.record(ctx, a))
	} else if err = failed; errors.Is(err, operation.ErrAsked) || errors.Is(err, accounts.ErrUnknown) {
		err = c.changedBy(ctx, a)
	}
	if err != nil && !errors.Is(err, operation.ErrUnrecorded) {
		return err
	}
	next := "Its sessions were ended and its known clients removed. The next sign-in needs a verification code and a " +
		"new password."
	if d.Password != "" {
		next = "Its sessions were ended, its known clients removed, and its owner has chosen a new password."
	}
	c.config.Alerts.RaiseIn(c.config.Realm, notMe, "",
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
