package pages

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"authguard/internal/control"
	"authguard/internal/events"
	"authguard/internal/policy"
)

// PolicyView is the page of the policy: what is in force and what it did. It asks for
// itself with switch and to; the form that is shown then posts to /policy.
type PolicyView struct {
	Admin
	Policy control.Policy
	// Switch is the ladder that somebody is about to switch, and To to what; empty:
	// nobody is.
	Switch, To string
}

// RenderPolicy draws the page.
func RenderPolicy(v PolicyView) ([]byte, error) { return render("policy", v) }

// Verdict is what is enforced in a sentence.
func (v PolicyView) Verdict() (said verdict) {
	switch n := len(v.Policy.Watched); {
	case n == 0 && v.Policy.Enforce:
		said = verdict{Tone: "", Headline: "All limits are enforced", Meaning: "Every limit applies its action."}
	case v.Policy.Enforce:
		said = verdict{Tone: "slow", Headline: "Some limits are in monitoring mode", Meaning: "Logged and alerted, but not enforced: " + v.titles() + "."}
	case n == len(v.Policy.Ladders):
		said = verdict{Tone: "on", Headline: "All limits are in monitoring mode", Meaning: "All limits log and alert, but do not block."}
	default:
		said = verdict{Tone: "on", Headline: "Most limits are in monitoring mode", Meaning: "Logged and alerted, but not enforced: " + v.titles() + "."}
	}
	if len(v.Policy.Overrides) == 0 {
		said.Meaning += " The configuration sets this."
	}
	return said
}

func (v PolicyView) titles() string {
	var all []string
	for _, name := range v.Policy.Watched {
		all = append(all, lowerFirst(LadderTitle(name)))
	}
	return strings.Join(all, ", ")
}

func lowerFirst(s string) string {
	if strings.HasPrefix(s, "CAPTCHA") || strings.HasPrefix(s, "IP ") {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

var ladderTitles = map[string]string{
	policy.Whole: "All limits", "pair-delay": "Delay per account and IP pair", "pair": "Account and IP pair limits", "account": "Account limits", "address": "IP address limits",
	"network": "Network limits", "known-client": "Known client limits", "fingerprint": "Client fingerprint limits", "site": "Site limits", "spray": "Password spraying", "mode": "CAPTCHA mode",
}

// LadderTitle is what people call one of guard.Policy.Ladders, or policy.Whole.
func LadderTitle(name string) string {
	if title := ladderTitles[name]; title != "" {
		return title
	}
	kind, of, _ := strings.Cut(name, ":")
	return map[string]string{"list": "IP list ", "event": "Event "}[kind] + of
}

// A ladder is one as the page shows it.
type ladder struct {
	control.Ladder
	view *PolicyView
}

// Ladders are those of the page.
func (v PolicyView) Ladders() (all []ladder) {
	for _, l := range v.Policy.Ladders {
		all = append(all, ladder{l, &v})
	}
	return all
}

// Title says what the ladder is on.
func (l ladder) Title() string { return LadderTitle(l.Name) }

// Jump is what the link to the ladder says: so short that the strip of them leaves room on
// a phone.
func (l ladder) Jump() string {
	what, _, _ := strings.Cut(strings.TrimSuffix(l.Title(), " limits"), " per ")
	return what
}

// ID is the ladder's anchor.
func (l ladder) ID() string { return "on-" + strings.ReplaceAll(l.Name, ":", "-") }

// Switches lead to what it can be switched to.
func (l ladder) Switches() []turn { return l.view.switches(l.Name, l.Watches(), l.Override != nil) }

// Switches lead to what the whole can be switched to.
func (v PolicyView) Switches() []turn {
	return v.switches(policy.Whole, !v.Policy.Enforce, len(v.Policy.Overrides) > 0)
}

// The buttons.
const (
	enforceLimits = "Switch to enforcement"
	monitorLimits = "Switch to monitoring mode"
	useConfigured = "Use configured value"
)

func (v PolicyView) switches(name string, watched, said bool) (all []turn) {
	at := func(to, text string) {
		q := url.Values{"switch": {name}, "to": {to}}
		if realm := events.RealmName(v.Realm); realm != "" {
			q.Set("realm", realm)
		}
		all = append(all, turn{"/policy?" + q.Encode() + "#confirm", text})
	}
	if watched {
		at(control.ToEnforce, enforceLimits)
	} else {
		at(control.ToWatch, monitorLimits)
	}
	if said {
		at(control.ToFile, useConfigured)
	}
	return all
}

// Rule says what a limit is, in words.
func (l ladder) Rule(r control.Rung) string {
	switch {
	case l.Name == "mode" && r.Limit == policy.TextSlow:
		return "Throttle unknown clients"
	case l.Name == "mode":
		return "Challenge every unknown client"
	case r.Limit == policy.TextBlock:
		return "Every client on the list"
	case r.Window == 0 && strings.HasPrefix(r.Limit, "0 "):
		return "Every unknown client on the list"
	case r.Gone:
		return cmp.Or(r.Limit, "removed limit")
	case r.Failures == 0:
		return Sentence(r.Limit)
	}
	window := strings.TrimPrefix(strings.Fields(r.Limit)[0], fmt.Sprint(r.Failures, "/"))
	if r.By != "" { // of events
		return fmt.Sprintf("More than %s in %s by %s", comma(r.Failures), window, r.By)
	}
	return fmt.Sprintf("More than %s in %s", countWords(r.Failures, "failure"), window)
}

// Action is what happens beyond a limit.
func (l ladder) Action(r control.Rung) string {
	switch {
	case r.Gone:
		return ""
	case r.Then == "insufficient":
		return "admit no unknown client"
	}
	return map[string]string{
		"block": "block", "challenge": "challenge", "delay": "delay", "fake-failure": "fake failure", "forget": "treat as unknown client", "alert": "alert",
	}[r.Then]
}

// Audit is the audit log of what the limit stopped or would have; empty: it has none.
func (l ladder) Audit(r control.Rung) string {
	if r.Code == "" {
		return ""
	}
	q := url.Values{"what": {r.Code}}
	if realm := events.RealmName(l.view.Realm); realm != "" {
		q.Set("realm", realm)
	}
	return "/audit?" + q.Encode()
}

// Met says whom a limit met.
func (v PolicyView) Met(m policy.Met) string {
	if m.Attempts == 0 {
		return "–"
	}
	least := ""
	if m.More {
		least = "at least "
	}
	if m.Accounts == 0 {
		return countWords(int(m.Attempts), "attempt")
	}
	return fmt.Sprintf("%s: %s%s from %s", countWords(int(m.Attempts), "attempt"), least, countWords(int(m.Accounts), "account"), plural(int(m.Addresses), "IP address", "IP addresses"))
}

// Later says who logged in later of those whom a limit met; empty if nobody did.
func (v PolicyView) Later(m policy.Met) string {
	if m.Later == 0 {
		return ""
	}
	return comma(int(m.Later)) + " later signed in"
}

// A confirmation names what a switch does, before it is done.
type confirmation struct{ Title, Effect, Button string }

// Confirm is the switch that is about to be made; nil: none is.
func (v PolicyView) Confirm() *confirmation {
	known := v.Switch == policy.Whole
	var most policy.Met
	for _, l := range v.Policy.Ladders {
		if known = known || l.Name == v.Switch; l.Name != v.Switch && v.Switch != policy.Whole {
			continue
		}
		for _, r := range l.Rungs {
			if v.To == control.ToWatch && r.Stopped.Attempts > most.Attempts {
				most = r.Stopped
			} else if v.To == control.ToEnforce && r.Would.Attempts > most.Attempts {
				most = r.Would
			}
		}
	}
	if !known {
		return nil
	}
	title := LadderTitle(v.Switch)
	switch v.To {
	case control.ToWatch:
		return &confirmation{title + ": switch to monitoring mode?", "Attempts over a limit will be logged and alerted, but no longer stopped. " +
			v.did("In the last 24 hours, the most active limit stopped ", most, "No attempts were stopped in the last 24 hours."), monitorLimits}
	case control.ToEnforce:
		return &confirmation{title + ": switch to enforcement?", "Attempts over a limit will be stopped from now on. " +
			v.did("In the last 24 hours, the most active limit would have stopped ", most, "No attempts would have been stopped in the last 24 hours."), enforceLimits}
	case control.ToFile:
		return &confirmation{title + ": use configured value?", "This override ends, and the configured value applies again.", useConfigured}
	}
	return nil
}

func (v PolicyView) did(before string, m policy.Met, otherwise string) string {
	if m.Attempts == 0 {
		return otherwise
	}
	text := before + v.Met(m)
	if later := v.Later(m); later != "" {
		text += ", of which " + later
	}
	return text + "."
}

// View is the page that a ladder is on.
func (l ladder) View() *PolicyView { return l.view }

// A cell is whom a limit met, with who of them logged in later.
type cell struct {
	Text, Later string
	People      []stopped
}

type stopped struct{ Account, Address, URL string }

// Cell is whom a limit met.
func (l ladder) Cell(m policy.Met) cell {
	c := cell{Text: l.view.Met(m), Later: l.view.Later(m)}
	for _, p := range m.People {
		c.People = append(c.People, stopped{p.Account, p.Address, l.view.LookUpOf(p.Account, strings.TrimSuffix(p.Address, "/64"))})
	}
	return c
}
