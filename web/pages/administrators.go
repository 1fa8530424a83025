package pages

import (
	"slices"
	"strings"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/events"
	"authguard/internal/mfa"
	"authguard/internal/operation"
)

// AdministratorsView lists the administrators and the API tokens. Its forms post to /administrators/….
type AdministratorsView struct {
	Admin
	All    []control.Administrator
	Tokens []accounts.Token
	// Fresh is set if the administrator signed in recently. Without it the page stays closed.
	Fresh bool
}

// RenderAdministrators draws the page.
func RenderAdministrators(v AdministratorsView) ([]byte, error) {
	return render("administrators", &v)
}

// Frame returns the page's title and layout.
func (v *AdministratorsView) Frame() frame {
	return frame{Title: "Administrators · Admin console", Wide: true}
}

// A Person is one administrator on the page.
type Person struct {
	control.Administrator
	View *AdministratorsView
	Self bool // the administrator who views the page
	// Ways are the ways to sign in. Copied is set if the signature counter of a passkey shows a copy.
	Ways   string
	Copied bool
	State  string // disabled, or password change required; else empty
}

// Person returns the row of one administrator.
func (v *AdministratorsView) Person(a control.Administrator) Person {
	p := Person{Administrator: a, View: v, Self: a.Username == v.User, Ways: waysOf(a.Kept)}
	p.Copied = slices.ContainsFunc(a.Passkeys, func(one mfa.Passkey) bool { return !one.Cloned.IsZero() })
	switch {
	case a.Disabled:
		p.State = "disabled"
	case a.MustChange:
		p.State = "password change required"
	}
	return p
}

func waysOf(k mfa.Kept) string {
	ways := []string{"password"}
	if k.TOTP != nil {
		ways = append(ways, "app")
	}
	if n := len(k.Passkeys); n > 0 {
		ways = append(ways, events.Count(n, "passkey"))
	}
	if !k.Any() {
		return "password only (no MFA)"
	}
	return strings.Join(ways, ", ") + "; " + events.Count(k.Recovery, "recovery code") + " left"
}

// May returns the scopes of a token.
func (v *AdministratorsView) May(t accounts.Token) string {
	if len(t.Scopes) == 0 {
		return "decision API"
	}
	all := make([]string, len(t.Scopes))
	for i, one := range t.Scopes {
		all[i] = string(one)
	}
	return strings.Join(all, ", ")
}

// Reach returns the realm in which a token is valid, or "all realms".
func (v *AdministratorsView) Reach(t accounts.Token) string {
	if len(t.Scopes) > 0 && !t.Confined {
		return "all realms"
	}
	return t.Realm
}

// Over reports whether a token has expired.
func (v *AdministratorsView) Over(t accounts.Token) bool {
	return !t.ExpiresAt.IsZero() && !v.Now.Before(t.ExpiresAt)
}

// Scopes returns the scopes that a token can have, each with its meaning.
func (v *AdministratorsView) Scopes() []ScopeChoice {
	return []ScopeChoice{
		{operation.Read, "read everything except tokens and administrators' sign-in"},
		{operation.Unlock, "reset counters and remove known clients, except administrators'"},
		{operation.Lists, "change the allowlist and blocklist"},
		{operation.Accounts, "add and change accounts without groups, except administrators"},
		{operation.Groups, "with accounts: also accounts in groups"}, {operation.Mode, "switch CAPTCHA mode"},
		{operation.Alerts, "send test messages"},
		{operation.Policy, "switch limits between monitor and enforce"},
		{operation.Admin, "everything, including administrators and tokens"},
	}
}

type ScopeChoice struct {
	Scope operation.Scope
	Means string
}

// Lives returns the lifetimes that a token can have.
func (v *AdministratorsView) Lives() []tokenLife {
	const day = 24 * time.Hour
	return []tokenLife{{"7d", "1 week"}, {"30d", "30 days"}, {"90d", "90 days"},
		{"366d", events.Count(int(accounts.MaxTokenLife/day), "day")}}
}

type tokenLife struct{ Value, Text string }
