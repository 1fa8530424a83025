package control

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
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

// Own finds out what the owner of an account sees at a door, from where the attempt comes.
func (c *Control) Own(ctx context.Context, door string, a guard.Attempt) (o Own, err error) {
	if o.Sessions, err = c.config.Sessions.Of(ctx, a.Account, door); err != nil {
		return o, err
	}
	if o.Known, err = c.Known(ctx, a); err != nil {
		return o, err
	}
	o.Logins, err = c.config.Audit.Successes(ctx, c.config.Realm, a.Account)
	o.Logins = o.Logins[:min(len(o.Logins), ownLogins)]
	return o, err
}

// OwnLogin is one of an account's newest logins by its ID; false if it is none.
func (c *Control) OwnLogin(ctx context.Context, account string, id int64) (audit.Row, bool, error) {
	all, err := c.config.Audit.Successes(ctx, c.config.Realm, account)
	i := slices.IndexFunc(all, func(r audit.Row) bool { return r.ID == id })
	if err != nil || i < 0 {
		return audit.Row{}, false, err
	}
	return all[i], true, nil
}

// notMe is the kind of an alert: an owner said that a login was not theirs.
const notMe alerts.Kind = "not-me"

// NotMe is for the owner of an account who says that a login was not theirs. All sessions
// end and all places are forgotten. With a new password, which the owner chose while they
// showed the present one, that is all. Without one the account is as after AskNewPassword,
// if authguard keeps it: whoever has the password alone gets no further with it. What says
// which login was meant, and how the owner said so. The session in which a new password was
// chosen is of a version of the account: see ChoosePassword.
func (c *Control) NotMe(ctx context.Context, who, name, password string, version int64, what string) (err error) {
	name = c.nameOf(name)
	a := audit.Action{Who: who, What: "not-me", Subject: name, Detail: what}
	if password != "" {
		if err := c.config.Accounts.ChoosePassword(ctx, name, password, version); err != nil {
			return err
		}
		err = c.changed(ctx, a)
	} else if err = c.askNewPassword(ctx, a); errors.Is(err, ErrAsked) || errors.Is(err, accounts.ErrUnknown) {
		err = c.changed(ctx, a)
	}
	if err != nil && !errors.Is(err, ErrUnrecorded) {
		return err
	}
	next := "Its sessions have ended and its known places are forgotten; it cannot be signed in to without a one-time code, and needs a new password."
	if password != "" {
		next = "Its sessions have ended, its known places are forgotten, and its owner has chosen another password."
	}
	c.config.Alerts.RaiseIn(c.config.Realm, notMe, "An account's owner says: that was not me", fmt.Sprintf("The account %s: %s.\n%s\n"+
		"Somebody had its password, or a session of it: look it up, and see from where else they signed in.", alerts.Name(name), alerts.Name(what), next))
	return err
}

// LoginWords say which login an owner means.
func LoginWords(at time.Time, address string) string {
	if a, err := netip.ParseAddr(address); err == nil {
		address = a.String()
	}
	return fmt.Sprintf("the login of %s from %s", at.UTC().Format("2006-01-02 15:04 MST"), address)
}
