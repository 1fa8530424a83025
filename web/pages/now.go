package pages

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/attacks"
	"authguard/internal/control"
	"authguard/internal/metrics"
	"authguard/internal/plot"
)

// NowView is the dashboard of the admin console. Its forms post to /mode, /unlock and /block.
type NowView struct {
	Admin
	Overview control.Overview
	// Span is the plotted time, and Series its numbers.
	Span   metrics.Span
	Series metrics.Series
}

// RenderNow draws the whole page.
func RenderNow(v NowView) ([]byte, error) { return render("now", v) }

// liveParts are the parts of the page that update themselves, one element each.
var liveParts = [...]string{
	"live-clock", "live-warnings", "live-status", "live-plot", "live-crowd", "live-address", "live-network",
	"live-account", "live-reason", "live-switches",
}

// RenderLive draws the parts of the page that update themselves.
func RenderLive(v NowView) (parts [][]byte, err error) {
	for _, name := range liveParts {
		part, err := render(name, v)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// Frame returns the page's title and script.
func (v NowView) Frame() frame {
	return frame{Title: v.Verdict().Headline + " · Admin console", Script: "now.js", Wide: true}
}

// Here returns the URL of the page with the current span.
func (v NowView) Here() string { return v.with("/", v.Span) }

// Live returns the URL of the stream of updated parts.
func (v NowView) Live() string { return v.with("/live", v.Span) }

// Spans returns the links between the two spans.
func (v NowView) Spans() []spanLink {
	return []spanLink{
		{v.with("/", metrics.LastHour), "Last hour", v.Span == metrics.LastHour},
		{v.with("/", metrics.LastDay), "Last day", v.Span == metrics.LastDay},
	}
}

type spanLink struct {
	Path, Name string
	Current    bool
}

func (v NowView) with(path string, span metrics.Span) string {
	path = v.At(path)
	switch {
	case span != metrics.LastDay:
		return path
	case strings.Contains(path, "?"):
		return path + "&span=day"
	}
	return path + "?span=day"
}

// Day reports whether the plots show a day.
func (v NowView) Day() bool { return v.Span == metrics.LastDay }

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

// Zone returns the abbreviation of the time zone of all times shown.
func (v NowView) Zone() string {
	zone, _ := v.Now.Zone()
	return zone
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
	case c.Cause == captchamode.BySteadiness:
		return "Steady failure rate just below the threshold"
	case c.Cause == captchamode.ByPerson && c.Override.State == captchamode.ForcedOff: // throttling can go on
		return "CAPTCHA mode off"
	}
	to := map[string]string{"on": "CAPTCHA mode on", "slow": "Throttling unknown clients"}[captchamode.Switch(c).Now()]
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
	// Scattered is why only rows that stand out are shown. Hidden is set if there are none.
	Scattered string
	Hidden    bool
}

func (t *subjectTable) loud(n int, why string) {
	t.Rows = t.Rows[:min(n, len(t.Rows))]
	t.Scattered, t.Hidden = cmp.Or(why, "Shows only those that stand out."), len(t.Rows) == 0 && why == ""
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

// OnSite returns the running attack on the whole site, or nil.
func (v NowView) OnSite() *attacks.Attack {
	if all := v.Overview.Attacks; len(all) > 0 && all[0].Kind == attacks.Site {
		return &all[0]
	}
	return nil
}

// Botnet describes an attack by a botnet and says what to do; empty for others.
func (v NowView) Botnet() []string {
	a := v.OnSite()
	if a == nil || !slices.Contains(a.Shapes, attacks.Botnet) {
		return nil
	}
	loud, left, _ := a.LoudAddresses()
	from := fmt.Sprintf("%s failed since %s, from about %s different IP addresses.", countWords(int(a.Attempts), "attempt"),
		newMoment(v.Now, a.Began).Text, comma(int(a.Addresses)))
	if loud > 0 {
		return []string{from, fmt.Sprintf("You can block the IP addresses that stand out (%d, see below). The other %s came "+
			"from IP addresses that tried about once each. Blocking those one by one does not help: check the networks and "+
			"accounts.", loud, countWords(int(left), "attempt"))}
	}
	return []string{from + fmt.Sprintf(" The most active IP address made %s. Blocking single IP addresses does not help, "+
		"so none are listed: check the networks and accounts.", comma(int(a.TopAddresses[0].Attempts)))}
}

// Addresses, Networks, Accounts and Reasons return the four tables. For a botnet's IP addresses and for invented user
// names, only rows that stand out are shown: the rest would be an arbitrary sample.
func (v NowView) Addresses() subjectTable {
	t := subjectTable{NowView: v, Kind: "address", Title: "IP addresses", Column: "IP address", Rows: v.Overview.Addresses}
	if len(v.Botnet()) > 0 {
		loud, _, _ := v.OnSite().LoudAddresses()
		t.loud(loud, "")
	}
	return t
}
func (v NowView) Networks() subjectTable {
	return subjectTable{NowView: v, Kind: "network", Title: "Networks", Column: "Network", Rows: v.Overview.Networks}
}
func (v NowView) Accounts() subjectTable {
	t := subjectTable{NowView: v, Kind: "account", Title: "Accounts", Column: "Account", Rows: v.Overview.Accounts}
	if a := v.OnSite(); a != nil {
		if loud, _, scattered := a.LoudAccounts(); scattered {
			t.loud(loud, fmt.Sprintf("About %s different user names were tried, all equally rarely. None stands out.",
				comma(int(a.Accounts))))
		}
	}
	return t
}
func (v NowView) Reasons() subjectTable {
	return subjectTable{NowView: v, Kind: "reason", Title: "Reasons", Column: "Reason", Rows: v.Overview.Reasons}
}

// ActsOn reports whether a row can be reset and looked up.
func (t subjectTable) ActsOn() bool { return t.Kind != "reason" }

// Asks returns the parameter of the look-up for a row's name.
func (t subjectTable) Asks() string {
	if t.Kind == "network" {
		return "address"
	}
	return t.Kind
}

// Unlocks returns the URL of the dialog that resets a row's counters.
func (t subjectTable) Unlocks(name string) string {
	fields := map[string]string{t.Kind: name}
	return t.Admin.Act(ActUnlock, fields["account"], fields["address"], fields["network"])
}

func nextWords(s control.Subject) string {
	if s.Blocked {
		return "blocked"
	}
	words := map[string]string{"": "unknown", "proceed": "allowed", "challenge": "CAPTCHA", "delay": "delayed " +
		guard.Spell(s.Wait)}[s.Next]
	return cmp.Or(words, "blocked")
}

// A status is the state of CAPTCHA mode, which the dashboard shows first.
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

// Verdict is that of the status. It is not calm while accounts may be compromised.
func (v NowView) Verdict() verdict {
	said := v.Status().Verdict()
	if len(v.Overview.Unsecured) > 0 && said.Tone == "quiet" {
		said.Headline, said.Tone = "No attack — possibly compromised accounts not secured", "slow"
	}
	return said
}

// Part returns the position of a rate on the gauge of the failure rate.
func (s status) Part(rate float64) string {
	top := max(plot.Finite(s.Threshold)*1.25, float64(s.FailureRate.Total()), 1)
	return percent(plot.Finite(rate) / top)
}

// Now returns the position of the current failure rate.
func (s status) Now() string { return s.Part(float64(s.FailureRate.Total())) }

func percent(part float64) string { return plot.Coord(100*min(part, 1)) + "%" }
