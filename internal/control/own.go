package control

import (
	"context"
	"slices"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/audit"
	"authguard/internal/sessions"
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
		all = slices.DeleteFunc(all, func(r audit.Row) bool { return accounts.AtConsole(r.Integration()) != (directory != "") })
	}
	return all, err
}
