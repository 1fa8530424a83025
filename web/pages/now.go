package pages

import (
	"cmp"
	"html/template"
	"slices"
	"strings"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/attacks"
	"authguard/internal/control"
	"authguard/internal/metrics"
	"authguard/internal/replay"
)

// NowView is the overview of the admin console. Its forms post to /mode.
type NowView struct {
	Admin
	Overview control.Overview
	// Span is the plotted time, and Series its numbers.
	Span   metrics.Span
	Series metrics.Series
	// Preset opens the form of CAPTCHA mode at "on", "off" or "auto".
	Preset string
	// Show replaces the charts by their "table", or by the threshold through the "week".
	Show string
}

// RenderNow draws the whole page.
func RenderNow(v NowView) ([]byte, error) { return render("now", v) }

// Frame returns the page's title and script.
func (v NowView) Frame() frame {
	return frame{Title: v.Verdict().Headline + " · Admin console", Script: "now.js", Wide: true}
}

// Here returns the URL of the page with the current span.
func (v NowView) Here() string { return v.with("/", v.Span) }

// Live returns the URL of the stream of updated parts.
func (v NowView) Live() string { return v.with("/live", v.Span) }

// Spans returns the links to the spans.
func (v NowView) Spans() (all []spanLink) {
	for _, span := range metrics.Spans() {
		all = append(all, spanLink{v.with("/", span), spanName(span), v.Span == span})
	}
	return all
}

type spanLink struct {
	Path, Name string
	Current    bool
}

func spanName(s metrics.Span) string {
	return map[metrics.Span]string{metrics.LastQuarter: "15 m", metrics.LastHour: "1 h", metrics.LastSix: "6 h",
		metrics.LastDay: "24 h"}[s]
}

// SpanName returns the name of the current span.
func (v NowView) SpanName() string { return spanName(v.Span) }

func (v NowView) with(path string, span metrics.Span) string {
	if path = v.At(path); span == metrics.LastHour || span == "" {
		return path
	}
	return with(path, "span="+string(span))
}

// Showing returns the page with the charts' "table", or the threshold through the "week".
func (v NowView) Showing(what string) string { return with(v.Here(), "show="+what) + "#plots" }

// Counted reports whether there is something to plot.
func (v NowView) Counted() bool {
	return slices.ContainsFunc(v.Series.Points, func(p metrics.Point) bool { return p.Attempts > 0 }) ||
		slices.ContainsFunc(v.Series.FailureRate, func(m captchamode.Minute) bool { return total(m) > 0 })
}

// Day reports whether a row of the table is an hour, not a minute.
func (v NowView) Day() bool { return v.Span.Long() > time.Hour }

// shapes are the two layouts of each plot; the style sheet shows one.
var shapes = [...]string{"wide", "narrow"}

// Plots returns the failure rate in both shapes.
func (v NowView) Plots() (all []template.HTML) {
	for _, shape := range shapes {
		all = append(all, ratePlot(shape, v.Now, v.Span, v.Series.FailureRate, v.Overview.Switches))
	}
	return all
}

// Strips returns the attempts and their outcomes in both shapes.
func (v NowView) Strips() (all []template.HTML) {
	for _, shape := range shapes {
		all = append(all, strips(shape, v.Now, v.Span, v.Series, v.Overview.Switches))
	}
	return all
}

// A stretch is a row of the table behind the plots: a minute of an hour, or an hour of a day.
type stretch struct {
	Start time.Time
	metrics.Counts
	// Pressure is the minute with the highest failure rate.
	Pressure *captchamode.Minute
}

// Total returns the failure rate of that minute.
func (s stretch) Total() int { return total(*s.Pressure) }

// Table returns the numbers behind the plots, newest first.
func (v NowView) Table() []stretch {
	each := time.Minute
	if v.Day() {
		each = time.Hour
	}
	rows := map[time.Time]*stretch{}
	at := func(t time.Time) *stretch {
		t = t.UTC().Truncate(each)
		if rows[t] == nil {
			rows[t] = &stretch{Start: t}
		}
		return rows[t]
	}
	for _, p := range v.Series.Points {
		at(p.Start).Add(p.Counts)
	}
	for _, m := range v.Series.FailureRate {
		if row := at(m.Start); row.Pressure == nil || total(m) > row.Total() {
			row.Pressure = &m
		}
	}
	all := make([]stretch, 0, len(rows))
	for _, row := range rows {
		all = append(all, *row)
	}
	slices.SortFunc(all, func(a, b stretch) int { return b.Start.Compare(a.Start) })
	return all
}

// Status returns the state that the page shows first.
func (v NowView) Status() status {
	s := status{State: v.Overview.State, OffAt: v.Overview.OffAt}
	for _, one := range slices.Backward(v.Overview.Switches) {
		if one.On != one.WasOn {
			s.Since = one.At
			break
		}
	}
	return s
}

const shownSwitches = 20

// History returns the newest changes of CAPTCHA mode, newest first.
func (v NowView) History() (all []change) {
	for _, s := range slices.Backward(v.Overview.Switches[max(0, len(v.Overview.Switches)-shownSwitches):]) {
		all = append(all, change(s))
	}
	return all
}

const shownChanges = 5

type changes struct {
	NowView
	Changes []change
}

// Part returns the newest changes, or the rest, which the page folds.
func (v NowView) Part(all []change, rest bool) changes {
	first := min(shownChanges, len(all))
	if rest {
		return changes{v, all[first:]}
	}
	return changes{v, all[:first]}
}

type change captchamode.Switch

// To returns the new state in words.
func (c change) To() string {
	switch {
	case c.Cause == captchamode.ByClearing:
		return "CAPTCHA mode reset"
	case c.Cause == captchamode.ByDailyFailures && c.Elevated:
		return "More failed logins in 24 hours than usual"
	case c.Cause == captchamode.ByDailyFailures:
		return "Failed logins in 24 hours as usual again"
	case c.Cause == captchamode.BySteadiness:
		return "Steady failure rate just below the threshold"
	case c.Cause == captchamode.ByPerson && c.Override.State == captchamode.ForcedOff: // throttling can go on
		return "CAPTCHA mode off"
	}
	to := map[string]string{"on": "CAPTCHA mode on", "throttling": "Throttling unknown clients"}[captchamode.Switch(c).Now()]
	if to == "" && captchamode.Switch(c).Was() == "throttling" {
		to = "Throttling off"
	}
	to = cmp.Or(to, "CAPTCHA mode off")
	if c.Cause == captchamode.ByExpiry || c.Cause == captchamode.ByPerson && c.Override.State == captchamode.Automatic {
		return to + ", automatic again"
	}
	return to
}

// ByPerson reports whether an administrator made the change, not the detector.
func (c change) ByPerson() bool {
	return c.Cause == captchamode.ByPerson || c.Cause == captchamode.ByClearing
}

// A subjectTable is a table of the IP addresses, networks, accounts or reasons with the most failures.
type subjectTable struct {
	NowView
	Kind, Title, Column string
	Rows                []control.Subject
	// Others are those that do not stand out, in words.
	Others string
}

const shownRows = 5

// First returns the first rows, Rest the others, which the page folds.
func (t subjectTable) First() subjectTable {
	t.Rows = t.Rows[:min(shownRows, len(t.Rows))]
	return t
}
func (t subjectTable) Rest() subjectTable {
	t.Rows = t.Rows[min(shownRows, len(t.Rows)):]
	return t
}

// Addresses, Networks, Accounts and Reasons return the four tables.
func (v NowView) Addresses() subjectTable {
	rest := v.Overview.Others.Addresses
	if a := v.Overview.Situation.Attack(); v.Overview.Situation.Going.Yes && a.Kind == attacks.Site {
		rest.Names = max(rest.Names, int(a.Addresses)-len(v.Overview.Addresses))
	}
	return subjectTable{v, "address", "Most active IP addresses", "IP address", v.Overview.Addresses,
		others(rest, "IP address")}
}
func (v NowView) Networks() subjectTable {
	return subjectTable{v, "network", "Most active networks", "Network", v.Overview.Networks,
		others(v.Overview.Others.Networks, "network")}
}
func (v NowView) Accounts() subjectTable {
	return subjectTable{v, "account", "Most attacked accounts", "Account", v.Overview.Accounts,
		strings.TrimSuffix(others(v.Overview.Others.Accounts, "user name"), ": nothing to block")}
}
func (v NowView) Reasons() subjectTable {
	return subjectTable{v, "reason", "Reasons", "Reason", v.Overview.Reasons, ""}
}

// ActsOn reports whether a row can be looked up.
func (t subjectTable) ActsOn() bool { return t.Kind != "reason" }

// blocksFrom is how many failed or stopped attempts a row has before it offers a block. Users mistype fewer times.
const blocksFrom = 5

// Blocks reports whether a row offers to block its IP address or network.
func (t subjectTable) Blocks(s control.Subject) bool {
	return s.Range.IsValid() && !s.Blocked && s.Failures+s.Stopped >= blocksFrom
}

// Page returns the page of a row's name.
func (t subjectTable) Page(name string) string {
	if t.Kind == "account" {
		return t.LookUpOf(name, "")
	}
	return t.LookUpOf("", name)
}

func nextWords(s control.Subject) string {
	if s.Blocked {
		return "blocked"
	}
	words := map[string]string{"": "unknown", "proceed": "allowed", "challenge": "CAPTCHA", "delay": "delayed " +
		guard.Spell(s.Wait)}[s.Next]
	return cmp.Or(words, "blocked")
}

// A status is the state of CAPTCHA mode, which the overview shows first.
type status struct {
	captchamode.State
	// Since is the last switch; zero for none since the start.
	Since time.Time
	// OffAt is when the mode turns off by itself; zero if unknown.
	OffAt time.Time
}

// Forced reports whether an administrator has overruled the detector.
func (s status) Forced() bool { return s.Override.State != captchamode.Automatic }

// CoolingDown reports whether the detector turned the mode on and can turn it off.
func (s status) CoolingDown() bool { return s.On && !s.Forced() }

// A verdict is the name of a state, its meaning for users, and its tone: "quiet", "slow", "attack" or "on".
type verdict struct{ Headline, Meaning, Tone string }

// Verdict puts the state into words.
func (s status) Verdict() verdict {
	const solve = "Every unknown client must solve a CAPTCHA before signing in. Known clients are exempt."
	switch attack := s.Level == captchamode.Attack; {
	case s.CoolingDown() && (!attack || !s.Low.IsZero()):
		return verdict{"Attack stopped — CAPTCHA mode still on", solve, "slow"}
	case s.On && attack:
		return verdict{"Under attack — CAPTCHA mode on", solve, "attack"}
	case s.On:
		return verdict{"CAPTCHA mode on", solve, "on"}
	case attack && s.Override.State == captchamode.ForcedOff:
		return verdict{"Under attack — CAPTCHA mode forced off",
			"The failure rate is above the threshold, but an administrator has forced CAPTCHA mode off. " +
				"Account and IP address limits still apply.", "attack"}
	case attack:
		return verdict{"Under attack", "The failure rate is above the threshold. CAPTCHA mode turns on in a moment.",
			"attack"}
	case s.Level == captchamode.Slow:
		return verdict{"Throttling unknown clients",
			"The failure rate is higher than usual. Unknown clients wait a little between two attempts. Known clients are " +
				"exempt.", "slow"}
	}
	return verdict{"No attack", "The failure rate is in the normal range. CAPTCHA mode and throttling are off.", "quiet"}
}

// Part returns the position of a rate on the gauge of the failure rate.
func (s status) Part(rate float64) string {
	top := max(replay.Finite(s.Threshold)*1.25, float64(s.FailureRate.Total()), 1)
	return percent(replay.Finite(rate) / top)
}

// Now returns the position of the current failure rate.
func (s status) Now() string { return s.Part(float64(s.FailureRate.Total())) }

func percent(part float64) string { return replay.Coord(100*min(part, 1)) + "%" }
