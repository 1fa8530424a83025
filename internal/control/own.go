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
	"authguard/internal/sessions"
)

// Own is what the owner of an account sees of it.
type Own struct {
	Sessions []sessions.Session // at the door that is asked, newest first
	Known
	Logins []audit.Row // the newest successes, newest first
}

// ownLogins is how many logins an owner sees.
const ownLogins = 10

// Own finds out what the owner of an account of a directory sees at a door, from where the
// attempt comes.
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

// OwnLogin is one of an account's newest logins by its ID; false if it is none.
func (c *Control) OwnLogin(ctx context.Context, directory, account string, id int64) (audit.Row, bool, error) {
	all, err := c.successes(ctx, directory, account)
	i := slices.IndexFunc(all, func(r audit.Row) bool { return r.ID == id })
	if err != nil || i < 0 {
		return audit.Row{}, false, err
	}
	return all[i], true, nil
}

// successes are the newest of an account of a directory. Where another program keeps the
// people's accounts, an administrator may have the name of one of them.
func (c *Control) successes(ctx context.Context, directory, account string) ([]audit.Row, error) {
	all, err := c.config.Audit.Successes(ctx, c.config.Realm, account)
	if c.config.Elsewhere != "" {
		all = slices.DeleteFunc(all, func(r audit.Row) bool { return ofAdministration(r.Door()) != (directory != "") })
	}
	return all, err
}

// apart reports whether the accounts of a directory are not authguard's to change: another
// program keeps them, and one of its own table with the same name is somebody else's.
func (c *Control) apart(directory string) bool { return c.config.Elsewhere != "" && directory == "" }

// ofAdministration reports whether a door, of sessions or of attempts, is the
// administration's.
func ofAdministration(door string) bool {
	return door == adminDoor || strings.HasPrefix(door, adminDoor+"_")
}

// ForgetOwn is ForgetPlaces for the owner of an account, by its canonical name in its
// directory.
func (c *Control) ForgetOwn(ctx context.Context, who, directory, account string, address netip.Addr) error {
	if err := c.forgetIn(ctx, directory, account, address); err != nil {
		return err
	}
	return c.record(ctx, actionOn(who, "known-clients-remove", account, address, ""))
}

func (c *Control) forgetIn(ctx context.Context, directory, account string, address netip.Addr) error {
	return each(c.guardsOf(directory), func(g *guard.Guard) error { return g.ForgetPlaces(ctx, account, address) })
}

// endApart is end where another program keeps the people's accounts: of two with the same
// name, the administrator and somebody else, what the other one has goes on.
func (c *Control) endApart(ctx context.Context, directory, name string) error {
	ctx = context.WithoutCancel(ctx)
	return unended(c.endSessionsApart(ctx, directory, name), c.forgetIn(ctx, directory, name, netip.Addr{}), c.config.Passes.RevokeIn(ctx, directory, name))
}

func (c *Control) endSessionsApart(ctx context.Context, directory, name string) error {
	running, ended := c.config.Sessions.Of(ctx, name, "")
	for _, one := range running {
		if ofAdministration(one.Door) != (directory != "") {
			continue
		}
		if err := c.config.Sessions.End(ctx, name, one.ID); err != nil && !errors.Is(err, sessions.ErrUnknown) {
			ended = errors.Join(ended, err)
		}
	}
	return ended
}

// notMe is the kind of an alert: an owner said that a login was not theirs.
const notMe alerts.Kind = "not-me"

// A Denial is what the owner of an account says of a login that was not theirs.
type Denial struct {
	Who, What          string // as an audit.Action has them
	Directory, Account string // the name is canonical
	// Password is the new one, if the owner has chosen one in a session of a Version of the
	// account: see ChoosePassword.
	Password string
	Version  int64
}

// NotMe is for the owner of an account who says that a login was not theirs. All sessions
// end and all places are forgotten. With a new password, which the owner chose while they
// showed the present one, that is all. Without one the account is as after AskNewPassword,
// if authguard keeps it: whoever has the password alone gets no further with it. What says
// which login was meant, and how the owner said so.
func (c *Control) NotMe(ctx context.Context, d Denial) (err error) {
	name, what := d.Account, d.What
	a := audit.Action{Who: d.Who, What: "not-me", Subject: name, Detail: what}
	if c.apart(d.Directory) {
		err = errors.Join(c.endApart(ctx, "", name), c.record(ctx, a))
	} else if d.Password != "" {
		if err := c.config.Accounts.ChoosePassword(ctx, name, d.Password, d.Version); err != nil {
			return err
		}
		err = c.changed(ctx, a)
	} else if err = c.askNewPassword(ctx, a); errors.Is(err, ErrAsked) || errors.Is(err, accounts.ErrUnknown) {
		err = c.changed(ctx, a)
	}
	if err != nil && !errors.Is(err, ErrUnrecorded) {
		return err
	}
	next := "Its sessions were ended and its known clients removed. The next sign-in needs a verification code and a new password."
	if d.Password != "" {
		next = "Its sessions were ended, its known clients removed, and its owner has chosen a new password."
	}
	c.config.Alerts.RaiseIn(c.config.Realm, notMe, "An owner reported a sign-in as not theirs", fmt.Sprintf("The account %s: %s.\n%s\n"+
		"An attacker had its password or a session. Look the account up and check the other sign-ins.", alerts.Name(name), alerts.Name(what), next))
	return err
}

// LoginWords say which login an owner means.
func LoginWords(at time.Time, address string) string {
	if a, err := netip.ParseAddr(address); err == nil {
		address = a.String()
	}
	return fmt.Sprintf("the sign-in of %s from %s", at.UTC().Format("2006-01-02 15:04 MST"), address)
}
