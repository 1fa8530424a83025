package pages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/attacks"
	"authguard/internal/control"
	"authguard/internal/events"
	"authguard/internal/replay"
	"authguard/internal/times"
)

// AttacksView is the list of the recorded attacks. It has the parameter page.
type AttacksView struct {
	Admin
	control.Attacks
}

// RenderAttacks draws the page.
func RenderAttacks(v AttacksView) ([]byte, error) { return render("attacks", v) }

// Shown returns the rows.
func (v AttacksView) Shown() (all []attackView) {
	for _, a := range v.Attacks.Attacks {
		all = append(all, attackView{a, v.Admin})
	}
	return all
}

// Turns returns the links to the previous and next page.
func (v AttacksView) Turns() []turn {
	return turns(v.At("/attacks"), v.Page, pagesOf(v.Total, v.Limit))
}

// Where returns the number of the page.
func (v AttacksView) Where() string {
	return fmt.Sprintf("Page %d of %d", v.Page, pagesOf(v.Total, v.Limit))
}

func pagesOf(rows, each int) int { return max(1, (rows+each-1)/max(1, each)) }

func turns(at string, page, last int) (all []turn) {
	to := func(page int) string {
		if strings.Contains(at, "?") {
			return fmt.Sprintf("%s&page=%d", at, page)
		}
		return fmt.Sprintf("%s?page=%d", at, page)
	}
	if page > 1 {
		all = append(all, turn{to(page - 1), "Previous"})
	}
	if page < last {
		all = append(all, turn{to(page + 1), "Next"})
	}
	return all
}

type attackView struct {
	attacks.Attack
	admin Admin
}

// Here returns the URL of the attack.
func (a attackView) Here() string { return a.admin.At("/attacks/" + url.PathEscape(a.ID)) }

// Title names the attack by its shapes; without one it is an attack on the site.
func (a attackView) Title() string {
	words := map[string]string{
		attacks.OneAccount: "brute force against one account", attacks.OneAddress: "brute force from one IP address",
		attacks.Spraying: "password spraying",
		attacks.Stuffing: "credential stuffing", attacks.Botnet: "distributed (botnet)",
	}
	var parts []string
	for _, shape := range a.Shapes {
		parts = append(parts, words[shape])
	}
	text := strings.Join(parts, ", ")
	if text == "" {
		text = "attack on the site"
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// On returns the target that the detector saw.
func (a attackView) On() string {
	return map[string]string{attacks.Site: "On the whole site", attacks.Account: "On one account",
		attacks.Address: "From one IP address", attacks.Spray: "Password spraying"}[a.Kind]
}

// Lasted returns the duration up to the last attempt, or up to now while attempts go on.
func (a attackView) Lasted() string {
	lasted := a.Duration()
	if a.Going {
		lasted = a.admin.Now.Sub(a.Began)
	}
	return guard.Spell(max(time.Second, lasted.Truncate(time.Second)))
}

// CoolsDown reports whether only CAPTCHA mode's cool-down goes on, CooledDown whether it ended after the attempts.
func (a attackView) CoolsDown() bool { return a.Kind == attacks.Site && a.Running() && !a.Going }

// CooledDown is described at CoolsDown.
func (a attackView) CooledDown() bool {
	return a.Kind == attacks.Site && !a.Running() && a.Ended.Sub(a.Last) >= time.Minute
}

// Tone returns the color of the state.
func (a attackView) Tone() string {
	switch {
	case a.Going:
		return "attack"
	case a.Running(), a.Open > 0:
		return "slow"
	}
	return "quiet"
}

// AttackView is one attack. It has the parameters page, do and account; its form posts to /attacks/reset.
type AttackView struct {
	Admin
	Report control.AttackReport
	Page   int // of the accounts, from 1
	// Do is the operation to confirm, and Selected its accounts.
	Do       string
	Selected []string
}

// RenderAttack draws the page.
func RenderAttack(v AttackView) ([]byte, error) { return render("attack", v) }

// Frame returns the page's title and layout.
func (v AttackView) Frame() frame {
	return frame{Title: v.Attack().Title() + " · Attacks · Admin console", Wide: true}
}

// Attack returns the attack's row.
func (v AttackView) Attack() attackView { return attackView{v.Report.Attack, v.Admin} }

// Export returns the URL of the attack's report in a file format.
func (v AttackView) Export(format string) string {
	at := "/attacks/" + url.PathEscape(v.Report.ID) + "/export?format=" + format
	if v.Elsewhere() != "" {
		at += "&realm=" + url.QueryEscape(v.Elsewhere())
	}
	return at
}

// Audit returns the URL of the audit log for the duration of the attack.
func (v AttackView) Audit() string {
	q := url.Values{"since": {times.RFC3339(v.Report.Began)}}
	if !v.Report.Running() {
		q.Set("until", times.RFC3339(v.Report.Ended.Add(time.Second)))
	}
	if v.Elsewhere() != "" {
		q.Set("realm", v.Elsewhere())
	}
	return "/audit?" + q.Encode()
}

// Whole returns the URL of the larger attack that continued this one; empty for none.
func (v AttackView) Whole() string {
	if v.Report.PartOf == "" {
		return ""
	}
	return v.At("/attacks/" + url.PathEscape(v.Report.PartOf))
}

// Sentence sums up the attack.
func (v AttackView) Sentence() string {
	a := v.Attack()
	text := fmt.Sprintf("%s failed, from %s in %s, against %s.", events.Count(int(a.Attempts), "attempt"),
		events.About(a.Addresses, "IP address"), events.Count(int(a.Networks), "network"),
		events.About(a.Accounts, "user name"))
	if a.Peak.Attempts > 0 {
		text += fmt.Sprintf(" The busiest minute was %s, with %s.", newMoment(v.Now, a.Peak.At).Text,
			events.Count(int(a.Peak.Attempts), "attempt"))
	}
	return text
}

// Repetition sums up how often passwords repeat.
func (v AttackView) Repetition() string {
	a := &v.Report
	if a.Known == 0 {
		return "The integrations in use do not show passwords, so repeated passwords are not counted."
	}
	text := fmt.Sprintf("%s in %s", events.About(a.Passwords, "different password"),
		events.Count(int(a.Known), "attempt"))
	if each := float64(a.Known) / float64(max(1, a.Passwords)); each >= 2 {
		text += fmt.Sprintf(", each used %s times on average", rateWords(each))
	}
	return Sentence(text) + fmt.Sprintf(" %s used a sprayed password, %s repeated a password that had failed for the same "+
		"account.", comma(int(a.Sprayed)), comma(int(a.Repeated)))
}

// victimsShown is how many accounts one page shows.
const victimsShown = 20

type victimView struct {
	attacks.Victim
	AttackView
}

// OnPage returns this page's possibly compromised accounts, as a part of the report.
func (v AttackView) OnPage() []attacks.Victim {
	first := min((v.page()-1)*victimsShown, v.Report.Lost)
	return v.Report.Victims[min(first, len(v.Report.Victims)):min(first+victimsShown, v.Report.Lost,
		len(v.Report.Victims))]
}

// Victims returns these accounts: an unknown client signed in after failures.
func (v AttackView) Victims() []victimView { return v.views(v.OnPage()) }

func (v AttackView) views(victims []attacks.Victim) (all []victimView) {
	for _, one := range victims {
		all = append(all, victimView{one, v})
	}
	return all
}

// strangersShown limits the accounts that only had a sign-in from an unknown client.
const strangersShown = 50

// Strangers returns these accounts, up to strangersShown.
func (v AttackView) Strangers() []victimView {
	all := v.Report.Victims[min(v.Report.Lost, len(v.Report.Victims)):]
	return v.views(all[:min(strangersShown, len(all))])
}

// MoreStrangers returns how many more such accounts the export has.
func (v AttackView) MoreStrangers() int { return max(0, v.Report.Strange-strangersShown) }

func (v AttackView) page() int { return min(max(1, v.Page), pagesOf(v.Report.Lost, victimsShown)) }

// Turns returns the links to the previous and next page of accounts.
func (v AttackView) Turns() []turn {
	return turns(v.Attack().Here(), v.page(), pagesOf(v.Report.Lost, victimsShown))
}

// Where returns the number of the page of accounts.
func (v AttackView) Where() string {
	return fmt.Sprintf("Page %d of %d", v.page(), pagesOf(v.Report.Lost, victimsShown))
}

// The operations on selected accounts, or on all.
const (
	doSecure    = "secure"
	doSessions  = "sessions"
	doSecureAll = "all"
)

// A plan is the effect of an operation, to be confirmed.
type plan struct {
	Accounts, NoEmail int
	Administrators    []string // among the selected accounts, or left out of all
	All               bool
	What              string // empty: everything
	Names             string // a JSON array, or empty for all
}

// Plan returns the effect of the operation; nil without one. "All" leaves administrators out, and no selection
// includes the administrator who looks at the page.
func (v AttackView) Plan() *plan {
	if v.Do != doSecure && v.Do != doSessions && v.Do != doSecureAll {
		return nil
	}
	p := &plan{All: v.Do == doSecureAll, What: map[string]string{doSessions: attacks.Sessions}[v.Do]}
	names := []string{}
	for _, one := range v.Report.Victims {
		view := victimView{one, v}
		selected := slices.Contains(v.Selected, one.Account) && !view.Own()
		if p.All {
			selected = one.Lost && !v.secured(one)
		}
		if !selected {
			continue
		}
		if one.Administrator {
			p.Administrators = append(p.Administrators, one.Account)
		}
		if p.All && one.Administrator {
			continue
		}
		names = append(names, one.Account)
		if p.Accounts++; one.NoEmail {
			p.NoEmail++
		}
	}
	if text, err := json.Marshal(names); err == nil && !p.All {
		p.Names = string(text)
	}
	return p
}

// Open returns how many accounts "Secure all" would secure.
func (v AttackView) Open() int {
	v.Do = doSecureAll
	return v.Plan().Accounts
}

// Picked reports whether the account's box is ticked: at first those of users that are not secured.
func (v victimView) Picked() bool {
	if v.Do != "" {
		return slices.Contains(v.Selected, v.Account)
	}
	return v.Lost && !v.Administrator && !v.secured(v.Victim)
}

func (v AttackView) secured(one attacks.Victim) bool {
	for _, what := range attacks.Resets() {
		if one.Reset(what) == nil && (what != attacks.Password || v.Report.NoPassword == "") {
			return false
		}
	}
	return true
}

// Reason returns the reason that the form proposes.
func (v AttackView) Reason() string { return "sign-in from an unknown client during this attack" }

// State sums up how many accounts are secured.
func (v AttackView) State() string {
	switch a := &v.Report; {
	case a.Lost == 0:
		return "No sign-ins from unknown clients after failures."
	case a.Open == 0 && a.Lost == 1:
		return "1 account had a sign-in from an unknown client after failures. It is secured."
	case a.Open == 0:
		return events.Count(a.Lost, "account") + " had sign-ins from unknown clients after failures. All are secured."
	case a.Lost == 1:
		return "1 account had a sign-in from an unknown client after failures. It is not secured yet."
	default:
		return fmt.Sprintf("%s had sign-ins from unknown clients after failures. %s not secured yet.",
			events.Count(a.Lost, "account"), plural(a.Open, "is", "are"))
	}
}

// Own reports whether the account is that of the administrator who looks at the page.
func (v victimView) Own() bool { return v.Administrator && v.Username == v.User }

// Words returns the suspicious facts about a login.
func (v victimView) Words(l attacks.Login) (all []string) {
	for _, why := range l.Why {
		switch why {
		case attacks.AfterFailures:
			all = append(all, "after wrong passwords")
		case attacks.FromGuesser:
			all = append(all, "IP address attacked other accounts")
		case attacks.WithSprayed:
			all = append(all, "sprayed password")
		}
	}
	return all
}

// A resetView is one operation that was done since the last login.
type resetView struct {
	Text string
	Done *attacks.Reset
}

// Resets returns these operations.
func (v victimView) Resets() (all []resetView) {
	for what, text := range map[string]string{attacks.Sessions: "Sessions ended", attacks.KnownClients: "Known clients removed",
		attacks.Password: "Password change forced"} {
		if done := v.Reset(what); done != nil {
			all = append(all, resetView{text, done})
		}
	}
	slices.SortFunc(all, func(a, b resetView) int { return strings.Compare(b.Text, a.Text) })
	return all
}

// A topView is one table of the most active IP addresses, networks or accounts.
type topView struct {
	AttackView
	Title, Kind string
	Rows        []attacks.Named
}

const topsShown = 5

// Tops returns the tables that are not empty. A botnet has no table of IP addresses.
func (v AttackView) Tops() (all []topView) {
	for _, t := range []topView{
		{v, "IP addresses", "address", v.Report.TopAddresses}, {v, "Networks", "network", v.Report.TopNetworks},
		{v, "Accounts", "account", v.Report.TopAccounts},
	} {
		if t.Kind == "address" && slices.Contains(v.Report.Shapes, attacks.Botnet) {
			continue // each makes about one attempt
		}
		if t.Rows = t.Rows[:min(topsShown, len(t.Rows))]; len(t.Rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// Of returns the look-up URL of a row; empty for a network.
func (t topView) Of(n attacks.Named) string {
	switch {
	case t.Kind == "account":
		return t.LookUpOf(n.Name, "")
	case t.Kind == "address" && !strings.Contains(n.Name, "/"):
		return t.LookUpOf("", n.Name)
	}
	return ""
}

// Columns returns the plot: failed attempts over time; empty without any.
func (v AttackView) Columns() template.HTML {
	m := v.Report.Minutes
	if len(m.Counts) == 0 {
		return ""
	}
	keys := slices.Sorted(maps.Keys(m.Counts))
	p := replay.NewPlot(600, 80)
	for _, n := range m.Counts {
		p.High = max(p.High, float64(n))
	}
	first, last := keys[0], keys[len(keys)-1]
	width := p.Width / float64(max(20, last-first+1))
	for _, at := range keys {
		start, height := time.Unix(at*m.Each*60, 0), max(1, p.Bottom-p.Y(float64(m.Counts[at])))
		p.Rect("", fmt.Sprintf("%s: %s", newMoment(v.Now, start).Text, comma(int(m.Counts[at]))), float64(at-first)*width,
			p.Bottom-height, max(0.5, width*0.9), height)
	}
	p.Height, p.Stretch = 82, true
	return p.SVG("columns-plot", "", v.PlotWords(), "")
}

// PlotWords describes the plot for screen readers.
func (v AttackView) PlotWords() string {
	each := "per minute"
	if n := v.Report.Minutes.Each; n > 1 {
		each = "per " + guard.Spell(time.Duration(n)*time.Minute)
	}
	return fmt.Sprintf("Failed attempts, %s, from %s to %s.", each, newMoment(v.Now, v.Report.Began).Text,
		newMoment(v.Now, cmp.Or(v.Report.Last, v.Now)).Text)
}

func attackWords(kind string, began, now time.Time) string {
	return kindWords(kind) + ", since " + newMoment(now, began).Text
}
