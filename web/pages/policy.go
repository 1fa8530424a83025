package pages

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"authguard/internal/events"
	"authguard/internal/policy"
)

// PolicyView shows the limits and their effect. Its parameters are switch and to; its form posts to /policy.
type PolicyView struct {
	Admin
	Policy policy.View
	// Switch names the limits to switch after a confirmation, and To their new state; both are empty without one.
	Switch, To string
	// Fresh is set if the administrator signed in recently. Without it limits cannot be switched to monitoring.
	Fresh bool
}

// Stale reports whether the switch needs a recent sign-in first.
func (v PolicyView) Stale() bool { return v.To == policy.ToWatch && !v.Fresh }

// RenderPolicy draws the page.
func RenderPolicy(v PolicyView) ([]byte, error) { return render("policy", v) }

// Verdict sums up what is enforced.
func (v PolicyView) Verdict() (said verdict) {
	switch n := len(v.Policy.Monitored); {
	case n == 0 && v.Policy.Enforce:
		said = verdict{Tone: "", Headline: "All limits are enforced", Meaning: "Every limit applies its action."}
	case v.Policy.Enforce:
		said = verdict{Tone: "slow", Headline: "Some limits are in monitoring mode",
			Meaning: "Logged and alerted, but not enforced: " + v.titles() + "."}
	case n == len(v.Policy.LimitSets):
		said = verdict{Tone: "on", Headline: "All limits are in monitoring mode",
			Meaning: "All limits log and alert, but do not block."}
	default:
		said = verdict{Tone: "on", Headline: "Most limits are in monitoring mode",
			Meaning: "Logged and alerted, but not enforced: " + v.titles() + "."}
	}
	if len(v.Policy.Overrides) == 0 {
		said.Meaning += " The configuration sets this."
	}
	return said
}

func (v PolicyView) titles() string {
	var all []string
	for _, name := range v.Policy.Monitored {
		all = append(all, lowerFirst(LimitSetTitle(name)))
	}
	return strings.Join(all, ", ")
}

func lowerFirst(s string) string {
	if strings.HasPrefix(s, "CAPTCHA") || strings.HasPrefix(s, "IP ") {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

var limitSetTitles = map[string]string{
	policy.Whole: "All limits", "pair-delay": "Delay per account and IP pair", "pair": "Account and IP pair limits",
	"account": "Account limits", "address": "IP address limits",
	"network": "Network limits", "known-client": "Known client limits", "fingerprint": "Client fingerprint limits",
	"site": "Site limits", "spray": "Password spraying", "step-up": "Step-up", "mode": "CAPTCHA mode",
}

// LimitSetTitle returns the title of one of guard.Policy.LimitSets, or of policy.Whole.
func LimitSetTitle(name string) string {
	if title := limitSetTitles[name]; title != "" {
		return title
	}
	kind, of, _ := strings.Cut(name, ":")
	return map[string]string{"list": "IP list ", "event": "Event "}[kind] + of
}

// A limitSet contains the limits of one subject for the page.
type limitSet struct {
	policy.LimitSet
	view *PolicyView
}

// LimitSets returns the limits of each subject.
func (v PolicyView) LimitSets() (all []limitSet) {
	for _, l := range v.Policy.LimitSets {
		all = append(all, limitSet{l, &v})
	}
	return all
}

// Title names the subject of the limits.
func (l limitSet) Title() string { return LimitSetTitle(l.Name) }

// Jump returns the text of the link to the limits, short enough for a phone.
func (l limitSet) Jump() string {
	what, _, _ := strings.Cut(strings.TrimSuffix(l.Title(), " limits"), " per ")
	return what
}

// ID returns the anchor of the limits.
func (l limitSet) ID() string { return "on-" + strings.ReplaceAll(l.Name, ":", "-") }

// Switches returns the links that switch these limits.
func (l limitSet) Switches() []turn {
	all := l.view.switches(l.Name, l.Monitors(), l.Override != nil)
	if l.Configured != "" {
		all = append([]turn{{TryAt(l.Name, l.view.Realm), "Try other numbers"}}, all...)
	}
	return all
}

// Replaced returns the configured limits, if an override has others.
func (l limitSet) Replaced() string {
	if l.Override == nil || l.Override.Limits == "" {
		return ""
	}
	return l.Configured
}

// Switches returns the links that switch all limits.
func (v PolicyView) Switches() []turn {
	return v.switches(policy.Whole, !v.Policy.Enforce, len(v.Policy.Overrides) > 0)
}

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
		at(policy.ToEnforce, enforceLimits)
	} else {
		at(policy.ToWatch, monitorLimits)
	}
	if said {
		at(policy.ToFile, useConfigured)
	}
	return all
}

// Rule describes a limit.
func (l limitSet) Rule(r policy.LimitState) string {
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
	if r.By != "" { // a limit on events
		return fmt.Sprintf("More than %s in %s by %s", comma(r.Failures), window, r.By)
	}
	return fmt.Sprintf("More than %s in %s", events.Count(r.Failures, "failure"), window)
}

// Action returns the action of a limit in words.
func (l limitSet) Action(r policy.LimitState) string {
	switch {
	case r.Gone:
		return ""
	case r.Then == "insufficient":
		return "admit no unknown client"
	}
	return map[string]string{
		"block": "block", "challenge": "challenge", "delay": "delay", "fake-failure": "fake failure",
		"forget": "treat as unknown client", "alert": "alert",
	}[r.Then]
}

// From returns where a limit is set, without the folder of the file.
func (l limitSet) From(r policy.LimitState) string {
	return r.Source[strings.LastIndexByte(r.Source, '/')+1:]
}

// Audit returns the URL of the audit log for the attempts that the limit stopped or would have stopped; empty for none.
func (l limitSet) Audit(r policy.LimitState) string {
	if r.Code == "" {
		return ""
	}
	q := url.Values{"what": {r.Code}}
	if realm := events.RealmName(l.view.Realm); realm != "" {
		q.Set("realm", realm)
	}
	return "/audit?" + q.Encode()
}

// Met says how many attempts exceeded a limit, and from where.
func (v PolicyView) Met(m policy.Effect) string {
	if m.Attempts == 0 {
		return "–"
	}
	if m.Accounts == 0 {
		return events.Count(int(m.Attempts), "attempt")
	}
	return fmt.Sprintf("%s: %s from %s", events.Count(int(m.Attempts), "attempt"), events.Count(int(m.Accounts), "account"),
		plural(int(m.Addresses), "IP address", "IP addresses"))
}

// Later says how many of the stopped users signed in later; empty for none. They may be false positives.
func (v PolicyView) Later(m policy.Effect) string {
	if m.Later == 0 {
		return ""
	}
	return comma(int(m.Later)) + " later signed in"
}

// A confirmation names the effect of a switch before it is made.
type confirmation struct{ Title, Effect, Button string }

// Confirm returns the confirmation of the switch; nil for none.
func (v PolicyView) Confirm() *confirmation {
	known := v.Switch == policy.Whole
	var most policy.Effect
	for _, l := range v.Policy.LimitSets {
		if known = known || l.Name == v.Switch; l.Name != v.Switch && v.Switch != policy.Whole {
			continue
		}
		for _, r := range l.Limits {
			if v.To == policy.ToWatch && r.Stopped.Attempts > most.Attempts {
				most = r.Stopped
			} else if v.To == policy.ToEnforce && r.Would.Attempts > most.Attempts {
				most = r.Would
			}
		}
	}
	if !known {
		return nil
	}
	title := LimitSetTitle(v.Switch)
	switch v.To {
	case policy.ToWatch:
		return &confirmation{title + ": switch to monitoring mode?",
			"Attempts over a limit will be logged and alerted, but no longer stopped. " +
				v.did("In the last 24 hours, the most active limit stopped ", most,
					"No attempts were stopped in the last 24 hours."), monitorLimits}
	case policy.ToEnforce:
		return &confirmation{title + ": switch to enforcement?", "Attempts over a limit will be stopped from now on. " +
			v.did("In the last 24 hours, the most active limit would have stopped ", most,
				"No attempts would have been stopped in the last 24 hours."), enforceLimits}
	case policy.ToFile:
		return &confirmation{title + ": use configured value?", "This override ends, and the configured value applies again.",
			useConfigured}
	}
	return nil
}

func (v PolicyView) did(before string, m policy.Effect, otherwise string) string {
	if m.Attempts == 0 {
		return otherwise
	}
	text := before + v.Met(m)
	if later := v.Later(m); later != "" {
		text += ", of which " + later
	}
	return text + "."
}

// View returns the page of the limits.
func (l limitSet) View() *PolicyView { return l.view }

// A cell says how many exceeded a limit, and how many of them signed in later.
type cell struct{ Text, Later string }

// Cell returns how many exceeded a limit.
func (l limitSet) Cell(m policy.Effect) cell { return cell{l.view.Met(m), l.view.Later(m)} }
