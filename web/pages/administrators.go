package pages

import (
	"slices"
	"strings"
	"time"

	"authguard/internal/control"
	"authguard/internal/factors"
	"authguard/internal/tokens"
)

// AdministratorsView is who steers this server: people, and programs with tokens. Its forms
// post to /administrators/….
type AdministratorsView struct {
	Admin
	All    []control.Administrator
	Tokens []tokens.Token
	// Fresh says that whoever looks signed in a moment ago, without which nobody is let in
	// here.
	Fresh bool
	// Secret is what a form has just made.
	Secret Secret
}

// A Secret is shown once and kept nowhere. What is a sentence that ends before its Name.
type Secret struct{ What, Name, Text, Hint string }

// RenderAdministrators draws the page.
func RenderAdministrators(v AdministratorsView) ([]byte, error) {
	return render("administrators", &v)
}

// Frame is what surrounds the page.
func (v *AdministratorsView) Frame() frame {
	return frame{Title: "Administrators · Admin console", Wide: true}
}

// A Person is one administrator as the page has them.
type Person struct {
	control.Administrator
	View *AdministratorsView
	Self bool // the one who looks
	// Ways are how they sign in, and Copied says that a passkey of theirs has been copied.
	Ways   string
	Copied bool
	State  string // what their account is, beside enabled
}

// Person is one of All.
func (v *AdministratorsView) Person(a control.Administrator) Person {
	p := Person{Administrator: a, View: v, Self: a.Username == v.User, Ways: waysOf(a.Kept)}
	p.Copied = slices.ContainsFunc(a.Passkeys, func(one factors.Passkey) bool { return !one.Cloned.IsZero() })
	switch {
	case a.Disabled:
		p.State = "disabled"
	case a.MustChange:
		p.State = "password change required"
	}
	return p
}

func waysOf(k factors.Kept) string {
	ways := []string{"password"}
	if k.TOTP != nil {
		ways = append(ways, "app")
	}
	if n := len(k.Passkeys); n > 0 {
		ways = append(ways, countWords(n, "passkey"))
	}
	if !k.Any() {
		return "password only (no MFA)"
	}
	return strings.Join(ways, ", ") + "; " + countWords(k.Recovery, "recovery code") + " left"
}

// May are what a token may do.
func (v *AdministratorsView) May(t tokens.Token) string {
	if len(t.Scopes) == 0 {
		return "decision API"
	}
	all := make([]string, len(t.Scopes))
	for i, one := range t.Scopes {
		all[i] = string(one)
	}
	return strings.Join(all, ", ")
}

// Reach is where a token is good.
func (v *AdministratorsView) Reach(t tokens.Token) string {
	if len(t.Scopes) > 0 && !t.Confined {
		return "all realms"
	}
	return t.Realm
}

// Over reports whether a token is good no more.
func (v *AdministratorsView) Over(t tokens.Token) bool {
	return !t.ExpiresAt.IsZero() && !v.Now.Before(t.ExpiresAt)
}

// Scopes are what a token can be given, with what each is for.
func (v *AdministratorsView) Scopes() []ScopeChoice {
	return []ScopeChoice{
		{tokens.Read, "read everything except tokens and administrators' sign-in"}, {tokens.Unlock, "reset counters and remove known clients, except administrators'"},
		{tokens.Lists, "change the allowlist and blocklist"}, {tokens.Accounts, "add and change accounts without groups, except administrators"},
		{tokens.Groups, "with accounts: also accounts in groups"}, {tokens.Mode, "switch CAPTCHA mode"}, {tokens.Alerts, "send test messages"},
		{tokens.Policy, "switch limits between monitor and enforce"}, {tokens.Admin, "everything, including administrators and tokens"},
	}
}

// A ScopeChoice is one box to tick.
type ScopeChoice struct {
	Scope tokens.Scope
	Means string
}

// Lives are how long a token can be good.
func (v *AdministratorsView) Lives() []tokenLife {
	const day = 24 * time.Hour
	return []tokenLife{{"7d", "1 week"}, {"30d", "30 days"}, {"90d", "90 days"}, {"366d", countWords(int(tokens.MaxLife/day), "day")}}
}

type tokenLife struct{ Value, Text string }
