package pages

import (
	"cmp"
	"net/url"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/lists"
	"authguard/trusted"
)

// LookUpView explains why a user cannot sign in. Its parameters are account and address; its forms post to
// /forget, /pass, /lookup/sessions and /accounts/…; lists and counters change in the dialog /act.
type LookUpView struct {
	Admin
	LookUp LookUp
}

// To returns the look-up URL of an account, an IP address or both; each may be empty.
func (v LookUpView) To(account, address string) string { return v.Admin.LookUpOf(account, address) }

type eventRows struct {
	LookUpView
	Rows []control.Event
}

// Rows returns events for the template.
func (v LookUpView) Rows(all []control.Event) eventRows { return eventRows{v, all} }

// RenderLookUp draws the page.
func RenderLookUp(v LookUpView) ([]byte, error) { return render("lookup", v) }

// Frame returns the page's title and layout.
func (v LookUpView) Frame() frame { return frame{Title: "Look up · Admin console", Wide: true} }

// LookUp is the form that explains one account or IP address, and its answer.
type LookUp struct {
	// Account and Address are the input as typed.
	Account string
	Address string
	// Problem is the handler's sentence about an input that cannot be looked up.
	Problem string
	// Result is nil before the first query; Network is nil unless the query was a range.
	Result  *control.LookUp
	Network *control.NetworkLookUp
	// Affected are the users of an IP address that is looked up without an account.
	Affected *control.Affected
	// Person is the account, if it is in authguard's own table.
	Person *control.ListedAccount
}

// The operations that Primary returns.
const (
	primaryUnblock = "unblock"
	primaryCode    = "code"
	primaryUnlock  = "unlock"
	primaryBlock   = "block"
	primaryEnable  = "enable"
	primaryReset   = "password"
)

// Primary returns the operation that helps now; empty if none does.
func (l LookUp) Primary() string {
	r := l.Result
	switch {
	case r.Entry != nil && r.Entry.Verdict == lists.Block:
		return primaryUnblock
	case r.Account == nil && l.Affected != nil && l.Affected.Failed > 0 && len(l.Affected.Accounts) == 0:
		return primaryBlock
	case r.Account == nil && l.Open(), r.Account != nil && r.Account.State == accounts.NoAccount:
		return ""
	case r.Account == nil:
		return primaryUnlock
	case r.Account.State == accounts.Disabled:
		return primaryEnable
	case r.Account.State == accounts.MustChange && l.Open():
		return primaryReset
	case l.Open():
		return ""
	case r.NoCode:
		return primaryUnlock
	}
	return primaryCode
}

// Class returns the class of a button: quiet unless it is primary.
func (l LookUp) Class(operation string) string {
	if l.Primary() == operation {
		return "button"
	}
	return "button quiet"
}

// Clients returns the number of known clients that a new password removes.
func (l LookUp) Clients() int {
	return len(l.Result.Places) + l.Result.Unnamed + len(l.Result.Devices)
}

// Missing reports whether there is no account of this name.
func (l LookUp) Missing() bool {
	return l.Result.Account != nil && l.Result.Account.State == accounts.NoAccount
}

// CIDR returns the range of list entries for the IP address; empty without one.
func (l LookUp) CIDR() string {
	address := l.Result.Explanation.Address
	if !address.IsValid() {
		return ""
	}
	return guard.OneAddress(address).String()
}

// Changeable reports whether this page can change the account. Administrators have a page of their own.
func (l LookUp) Changeable() bool { return l.Person != nil && l.Person.Role != accounts.Admin }

// FullNetwork returns the network around the IP address if its limit stops the client; else an empty string.
func (l LookUp) FullNetwork() string {
	for _, line := range l.Result.Explanation.Lines {
		if line.Subject == guard.OnNetwork && line.Full && l.Address != "" {
			return l.Result.Explanation.Whose(guard.OnNetwork)
		}
	}
	return ""
}

// Running returns the running attacks that concern the subject.
func (v LookUpView) Running() (all []turn) {
	for _, a := range v.LookUp.Result.Attacks {
		all = append(all, turn{v.At("/attacks/" + url.PathEscape(a.ID)), attackWords(a.Kind, a.Began, v.Now)})
	}
	return all
}

// Ways returns the links to other pages about the subject.
func (v LookUpView) Ways() (all []turn) {
	realm, e := v.Elsewhere(), v.LookUp.Result.Explanation
	add := func(path, text string, names ...string) {
		q := url.Values{}
		for i := 0; i+1 < len(names); i += 2 {
			if names[i+1] != "" {
				q.Set(names[i], names[i+1])
			}
		}
		if realm != "" {
			q.Set("realm", realm)
		}
		all = append(all, turn{path + "?" + q.Encode(), text})
	}
	address := ""
	if e.Address.IsValid() {
		address = e.Address.String()
		add("/lists", "IP lists", "find", address)
	}
	add("/audit", "Audit log", "account", e.Account, "address", address)
	return all
}

// ListsOf returns the URL of the IP lists for the network.
func (v LookUpView) ListsOf() string {
	return ListsView{Admin: v.Admin, Query: lists.Query{Find: v.LookUp.Network.Range.String()}}.at(1)
}

// Why returns the reasons for the answer, a sentence each.
func (l LookUp) Why() (all []string) {
	for _, why := range l.Result.Explanation.Why() {
		all = append(all, Sentence(why))
	}
	return all
}

// Open reports whether the next attempt with the right password would succeed.
func (l LookUp) Open() bool {
	r := l.Result
	return r.Explanation.Open() && (r.Account == nil || r.Account.State != accounts.Disabled &&
		r.Account.State != accounts.NoAccount)
}

// Known reports whether the IP address is a known client of the account.
func (l LookUp) Known() bool { return l.Result.Explanation.Status == trusted.Known }

// State returns the account's state in words.
func (l LookUp) State() string { return stateWords(*l.Result.Account) }

func stateWords(s accounts.Standing) string {
	words := map[string]string{
		accounts.Active: "Active", accounts.Disabled: "Disabled", accounts.MustChange: "Password change required",
		accounts.NoAccount: "No such account", accounts.NotKnown: "Known only to the app",
	}[s.State]
	switch s.Kept {
	case "authguard", accounts.InApp:
		return words
	}
	if s.State == accounts.NotKnown {
		words = "Currently unavailable"
	}
	return words + " (account source: " + s.Kept + ")"
}

const shownEvents = 8

// First returns the newest events, Rest the others, which the page folds.
func (l LookUp) First() []control.Event {
	return l.Result.Recent[:min(shownEvents, len(l.Result.Recent))]
}
func (l LookUp) Rest() []control.Event { return l.Result.Recent[len(l.First()):] }

// Limits returns the state of each limit, without the pair's delay.
func (l LookUp) Limits() (lines []limitLine) {
	for _, line := range l.Result.Explanation.Lines {
		if !line.Delay {
			lines = append(lines, limitLine{line, l.Result.Explanation.Whose(line.Subject)})
		}
	}
	return lines
}

type limitLine struct {
	guard.Line
	Name string
}

// Part returns how much of the limit is used, for the bar.
func (l limitLine) Part() string { return percent(float64(l.Used) / float64(max(l.Limit.Failures, 1))) }

// Beyond returns the action of the limit in words.
func (l limitLine) Beyond() string {
	words := map[guard.Action]string{guard.Challenge: "CAPTCHA", guard.Forget: "treated as an unknown client",
		guard.Delay: "delayed"}
	return cmp.Or(words[l.Limit.Action], "blocked until the limit frees")
}
