package control

import (
	"context"
	"slices"

	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/audit"
)

// A SetupStep is a task of a new installation.
type SetupStep struct {
	Code  string `json:"code"`
	Title string `json:"title"`
	Text  string `json:"text"`
	Done  bool   `json:"done"`
	// Page is its page in the admin console; empty if it is done elsewhere.
	Page string `json:"page,omitempty"`
}

// setup returns the steps of a new installation, in which no user has signed in and no attack was recorded; else nil.
func (c *Control) setup(ctx context.Context, o *Overview) []SetupStep {
	if c.isSetUp.Load() {
		return nil
	}
	admins, err := c.config.Accounts.Admins(ctx)
	users, failed := c.usersReady(ctx)
	if err != nil || failed != nil {
		return nil
	}
	protected := len(admins) > 0
	for _, a := range admins {
		kept, err := c.config.MFA.Of(ctx, a.ID)
		protected = protected && err == nil && (kept.TOTP != nil || len(kept.Passkeys) > 0)
	}
	tested := c.seenUser(ctx, "failed")
	proxied := !slices.ContainsFunc(o.Warnings, func(w alerts.Warning) bool {
		return w.Code == SilentProxy || w.Code == unconfiguredProxyCode
	})
	steps := []SetupStep{
		{"mfa", "MFA for administrators", "A TOTP app or a passkey for every administrator.", protected, "/security"},
		{"alerts", "An alert channel", "Add one to alerts.to in the configuration, then send a test message.",
			len(c.config.Alerts.Channels()) > 0, "/alerts"},
		{"accounts", "Accounts", "Add or import users, or set accounts.source.", users, "/accounts"},
		{"guess", "A test guess", "Sign in once with a wrong password, as a user. It is listed in the audit log.", tested,
			"/audit"},
		{"proxies", "Trusted proxies", "Name your reverse proxy in trusted_proxies. Check that the test guess has your own " +
			"IP address: authguard doctor --through URL.", tested && proxied, ""},
	}
	all := !slices.ContainsFunc(steps, func(s SetupStep) bool { return !s.Done })
	if all || o.Situation.Of != nil || c.seenUser(ctx, "succeeded") {
		c.isSetUp.Store(true)
		return nil
	}
	return steps
}

func (c *Control) usersReady(ctx context.Context) (bool, error) {
	if kept, err := c.Accounts.Kept(ctx); err != nil || kept != accounts.Ours {
		return err == nil, err
	}
	return c.config.Accounts.HasUsers(ctx)
}

// seenUser reports whether one of the newest attempts of this ending was not an administrator's.
func (c *Control) seenUser(ctx context.Context, ending string) bool {
	rows, err := c.config.Audit.Recent(ctx, audit.Filter{Realm: c.config.Realm, Kind: ending, Limit: 50})
	return err == nil && slices.ContainsFunc(rows, func(r audit.Row) bool { return !accounts.AtConsole(r.Integration()) })
}
