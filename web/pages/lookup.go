package pages

import (
	"cmp"
	"net/url"

	"authguard/guard"
	"authguard/internal/control"
	"authguard/trusted"
)

// LookUpView is the page that says why somebody cannot sign in. It asks for itself
// with account and address; its forms post to /unlock, /forget, /pass and /lookup/list.
type LookUpView struct {
	Admin
	LookUp LookUp
	// Pass is a one-time code that was just made; zero for none.
	Pass control.Code
}

// To is the look-up of an account, an address or both; each may be empty.
func (v LookUpView) To(account, address string) string { return v.Admin.LookUpOf(account, address) }

// eventRows are events with the page that they are on.
type eventRows struct {
	LookUpView
	Rows []control.Event
}

// Rows are events for the template.
func (v LookUpView) Rows(all []control.Event) eventRows { return eventRows{v, all} }

// RenderLookUp draws the page.
func RenderLookUp(v LookUpView) ([]byte, error) { return render("lookup", v) }

// Frame is what surrounds the page.
func (v LookUpView) Frame() frame { return frame{Title: "Look up · Admin console", Wide: true} }

// LookUp is the form that explains one account or address, and its answer.
type LookUp struct {
	// Account and Address are what was asked for, as typed.
	Account string
	Address string
	// Problem is a sentence of the handler's own, for what could not be
	// looked up.
	Problem string
	// Result is nil before anything was asked, and Network unless a range was.
	Result  *control.LookUp
	Network *control.NetworkLookUp
}

// FullNetwork is the network around the address if it stops who comes from there.
func (l LookUp) FullNetwork() string {
	for _, line := range l.Result.Explanation.Lines {
		if line.Subject == guard.OnNetwork && line.Full && l.Address != "" {
			return l.Result.Explanation.Whose(guard.OnNetwork)
		}
	}
	return ""
}

// Running are the attacks that concern what is looked up.
func (v LookUpView) Running() (all []turn) {
	for _, a := range v.LookUp.Result.Attacks {
		all = append(all, turn{v.At("/attacks/" + url.PathEscape(a.ID)), attackWords(a, v.Now)})
	}
	return all
}

// Ways lead to what other pages know of it.
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
	if e.Account != "" {
		add("/accounts", "Account", "find", e.Account)
	}
	add("/audit", "Audit log", "account", e.Account, "address", address)
	return all
}

// ListsOf is the page of the lists about the network.
func (v LookUpView) ListsOf() string {
	return ListsView{Admin: v.Admin, Query: control.ListQuery{Find: v.LookUp.Network.Range.String()}}.at(1)
}

// Why is what leads to the answer, a sentence each.
func (l LookUp) Why() (all []string) {
	for _, why := range l.Result.Explanation.Why() {
		all = append(all, Sentence(why))
	}
	return all
}

// Open reports whether the next attempt would be let through to a password that opens
// the account.
func (l LookUp) Open() bool {
	r := l.Result
	return r.Explanation.Open() && (r.Account == nil || r.Account.State != control.Disabled && r.Account.State != control.NoAccount)
}

// Known reports whether the address is a known place of the account.
func (l LookUp) Known() bool { return l.Result.Explanation.Status == trusted.Privileged }

// State is the account's, in words.
func (l LookUp) State() string { return stateWords(*l.Result.Account) }

func stateWords(s control.Standing) string {
	words := map[string]string{
		control.Active: "Active", control.Disabled: "Disabled", control.MustChange: "Password change required",
		control.NoAccount: "No such account", control.NotKnown: "Known only to the app",
	}[s.State]
	switch s.Kept {
	case "authguard", control.InApp:
		return words
	}
	if s.State == control.NotKnown {
		words = "Currently unavailable"
	}
	return words + " (account source: " + s.Kept + ")"
}

// shownEvents is how many events are shown before the others are folded away.
const shownEvents = 8

// First are the newest events, and Rest those behind them.
func (l LookUp) First() []control.Event {
	return l.Result.Recent[:min(shownEvents, len(l.Result.Recent))]
}
func (l LookUp) Rest() []control.Event { return l.Result.Recent[len(l.First()):] }

// Limits are how the limits stand. The pair's delay is none of them.
func (l LookUp) Limits() (lines []limitLine) {
	for _, line := range l.Result.Explanation.Lines {
		if !line.Delay {
			lines = append(lines, limitLine{line, l.Result.Explanation.Whose(line.Subject)})
		}
	}
	return lines
}

// A limitLine is how one limit stands, and whose count it is.
type limitLine struct {
	guard.Line
	Name string
}

// Part is the filled part of the line's bar.
func (l limitLine) Part() string { return percent(float64(l.Used) / float64(max(l.Limit.Failures, 1))) }

// Beyond is what happens beyond the limit, in words.
func (l limitLine) Beyond() string {
	words := map[guard.Action]string{guard.Challenge: "CAPTCHA", guard.Forget: "treated as an unknown client", guard.Delay: "delayed"}
	return cmp.Or(words[l.Limit.Action], "blocked until the limit frees")
}
