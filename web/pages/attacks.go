package pages

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/attacks"
	"authguard/internal/control"
)

// AttacksView is the list of the attacks that are kept. It asks for itself with page.
type AttacksView struct {
	Admin
	control.Attacks
}

// RenderAttacks draws the page.
func RenderAttacks(v AttacksView) ([]byte, error) { return render("attacks", v) }

// Shown are the rows.
func (v AttacksView) Shown() (all []attackView) {
	for _, a := range v.Attacks.Attacks {
		all = append(all, attackView{a, v.Admin})
	}
	return all
}

// Turns lead to the pages before and after.
func (v AttacksView) Turns() []turn {
	return turns(v.At("/attacks"), v.Page, pagesOf(v.Total, v.Limit))
}

// Where says which part of the list is shown.
func (v AttacksView) Where() string {
	return fmt.Sprintf("Page %d of %d", v.Page, pagesOf(v.Total, v.Limit))
}

// pagesOf is how many pages so many rows make.
func pagesOf(rows, each int) int { return max(1, (rows+each-1)/max(1, each)) }

// turns lead from a page to the ones before and after.
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

// An attackView is one attack in words.
type attackView struct {
	attacks.Attack
	admin Admin
}

// Here is the page of the attack.
func (a attackView) Here() string { return a.admin.At("/attacks/" + url.PathEscape(a.ID)) }

// Title is what happened: the shape, or how it was recognised where it has none.
func (a attackView) Title() string {
	words := map[string]string{
		attacks.OneAccount: "brute force against one account", attacks.OneAddress: "brute force from one IP address", attacks.Spraying: "password spraying",
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

// On is what it was on.
func (a attackView) On() string {
	return map[string]string{attacks.Site: "On the whole site", attacks.Account: "On one account", attacks.Address: "From one IP address", attacks.Spray: "Password spraying"}[a.Kind]
}

// Lasted is how long, up to now if it is running.
func (a attackView) Lasted() string {
	end := a.Ended
	if a.Running() {
		end = a.admin.Now
	}
	return guard.Spell(max(time.Second, end.Sub(a.Began).Truncate(time.Second)))
}

// Tone is the colour of the state.
func (a attackView) Tone() string {
	switch {
	case a.Running():
		return "attack"
	case a.Open > 0:
		return "slow"
	}
	return "quiet"
}

// AttackView is one attack. It asks for itself with page; its forms post to /attacks/reset.
type AttackView struct {
	Admin
	Report control.AttackReport
	Page   int // of the accounts, from 1
}

// RenderAttack draws the page.
func RenderAttack(v AttackView) ([]byte, error) { return render("attack", v) }

// Frame is what surrounds the page.
func (v AttackView) Frame() frame {
	return frame{Title: v.Attack().Title() + " · Attacks · Admin console", Wide: true}
}

// Attack is the attack in words.
func (v AttackView) Attack() attackView { return attackView{v.Report.Attack, v.Admin} }

// Export is where it is told as a file.
func (v AttackView) Export(format string) string {
	at := "/attacks/" + url.PathEscape(v.Report.ID) + "/export?format=" + format
	if v.Elsewhere() != "" {
		at += "&realm=" + url.QueryEscape(v.Elsewhere())
	}
	return at
}

// Audit is what the audit log has of the time.
func (v AttackView) Audit() string {
	q := url.Values{"since": {v.Report.Began.UTC().Format(time.RFC3339)}}
	if !v.Report.Running() {
		q.Set("until", v.Report.Ended.Add(time.Second).UTC().Format(time.RFC3339))
	}
	if v.Elsewhere() != "" {
		q.Set("realm", v.Elsewhere())
	}
	return "/audit?" + q.Encode()
}

// Whole is the attack as which it went on; empty for none.
func (v AttackView) Whole() string {
	if v.Report.PartOf == "" {
		return ""
	}
	return v.At("/attacks/" + url.PathEscape(v.Report.PartOf))
}

// Sentence is the whole attack in one or two sentences.
func (v AttackView) Sentence() string {
	a := v.Attack()
	text := fmt.Sprintf("%s failed, from about %s in %s, against about %s.", countWords(int(a.Attempts), "attempt"),
		plural(int(a.Addresses), "IP address", "IP addresses"), countWords(int(a.Networks), "network"), countWords(int(a.Accounts), "user name"))
	if a.Peak.Attempts > 0 {
		text += fmt.Sprintf(" The busiest minute was %s, with %s.", newMoment(v.Now, a.Peak.At).Text, comma(int(a.Peak.Attempts)))
	}
	return text
}

// Repetition says what is known of the passwords.
func (v AttackView) Repetition() string {
	a := &v.Report
	if a.Known == 0 {
		return "The integrations in use do not show passwords, so repeated passwords are not counted."
	}
	text := fmt.Sprintf("About %s in %s", plural(int(a.Passwords), "different password", "different passwords"), countWords(int(a.Known), "attempt"))
	if each := float64(a.Known) / float64(max(1, a.Passwords)); each >= 2 {
		text += fmt.Sprintf(", each used %s times on average", rateWords(each))
	}
	return text + fmt.Sprintf(". %s used a sprayed password, %s repeated a password that had failed for the same account.", comma(int(a.Sprayed)), comma(int(a.Repeated)))
}

// victimsShown is how many accounts one page shows.
const victimsShown = 10

// A victimView is one account with its buttons.
type victimView struct {
	attacks.Victim
	AttackView
}

// Victims are the accounts of the page that were logged in to after failures.
func (v AttackView) Victims() []victimView {
	lost := v.lost(true)
	first := min((v.page()-1)*victimsShown, len(lost))
	return lost[first:min(first+victimsShown, len(lost))]
}

// strangersShown is how many of the others are shown.
const strangersShown = 50

// Strangers are those that only were logged in to from a new place.
func (v AttackView) Strangers() []victimView {
	all := v.lost(false)
	return all[:min(strangersShown, len(all))]
}

// MoreStrangers is how many of them are in the export alone.
func (v AttackView) MoreStrangers() int { return max(0, v.Report.Strange-strangersShown) }

func (v AttackView) lost(is bool) (all []victimView) {
	for _, one := range v.Report.Victims {
		if one.Lost == is {
			all = append(all, victimView{one, v})
		}
	}
	return all
}

func (v AttackView) page() int { return min(max(1, v.Page), pagesOf(v.Report.Lost, victimsShown)) }

// Turns lead to the other pages of the accounts.
func (v AttackView) Turns() []turn {
	return turns(v.Attack().Here(), v.page(), pagesOf(v.Report.Lost, victimsShown))
}

// Where says which part of the accounts is shown.
func (v AttackView) Where() string {
	return fmt.Sprintf("Page %d of %d", v.page(), pagesOf(v.Report.Lost, victimsShown))
}

// OnlyOpen is the account that is not reset, where there is one.
func (v AttackView) OnlyOpen() string {
	for _, one := range v.Report.Victims {
		for _, what := range attacks.Resets() {
			if one.Lost && one.Reset(what) == nil && (what != attacks.Password || v.Report.NoPassword == "") {
				return one.Account
			}
		}
	}
	return ""
}

// Reason is the reason that one click gives.
func (v AttackView) Reason() string { return "sign-in from an unknown client during this attack" }

// State says how far the accounts are reset.
func (v AttackView) State() string {
	switch a := &v.Report; {
	case a.Lost == 0:
		return "No sign-ins from unknown clients after failures."
	case a.Open == 0 && a.Lost == 1:
		return "1 account had a sign-in from an unknown client after failures. It is secured."
	case a.Open == 0:
		return countWords(a.Lost, "account") + " had sign-ins from unknown clients after failures. All are secured."
	case a.Lost == 1:
		return "1 account had a sign-in from an unknown client after failures. It is not secured yet."
	default:
		return fmt.Sprintf("%s had sign-ins from unknown clients after failures. %s not secured yet.", countWords(a.Lost, "account"), plural(a.Open, "is", "are"))
	}
}

// Words are what speaks against a login.
func (v victimView) Words(l attacks.Login) (all []string) {
	for _, why := range l.Why {
		switch why {
		case attacks.AfterFailures:
			all = append(all, "after wrong passwords for the account")
		case attacks.FromGuesser:
			all = append(all, "from an IP address that attacked other accounts")
		case attacks.WithSprayed:
			all = append(all, "with a sprayed password")
		}
	}
	return all
}

// A resetView is one button, or that it was pressed.
type resetView struct {
	What, Button string
	Done         *attacks.Reset
	Text         string // when it is done
}

// Resets are the buttons of an account.
func (v victimView) Resets() (all []resetView) {
	for _, one := range []resetView{
		{What: attacks.Sessions, Button: "End sessions", Text: "Sessions ended"}, {What: attacks.Places, Button: "Remove known clients", Text: "Known clients removed"},
		{What: attacks.Password, Button: "Force password change", Text: "Password change forced"},
	} {
		if one.Done = v.Reset(one.What); one.Done != nil || one.What != attacks.Password || v.Report.NoPassword == "" {
			all = append(all, one)
		}
	}
	return all
}

// Left reports whether more than one thing is still to be done.
func (v victimView) Left() bool {
	n := 0
	for _, one := range v.Resets() {
		if one.Done == nil {
			n++
		}
	}
	return n > 1
}

// A topView is one of the tables of who took part.
type topView struct {
	AttackView
	Title, Kind string
	Rows        []attacks.Named
}

// topsShown is how many of each.
const topsShown = 5

// Tops are the three, without those that are empty or tell nothing.
func (v AttackView) Tops() (all []topView) {
	for _, t := range []topView{
		{v, "IP addresses", "address", v.Report.TopAddresses}, {v, "Networks", "network", v.Report.TopNetworks}, {v, "Accounts", "account", v.Report.TopAccounts},
	} {
		if t.Kind == "address" && slices.Contains(v.Report.Shapes, attacks.Botnet) {
			continue // each has one: they tell nothing
		}
		if t.Rows = t.Rows[:min(topsShown, len(t.Rows))]; len(t.Rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// Of is the look-up of a row; empty for a network.
func (t topView) Of(n attacks.Named) string {
	switch {
	case t.Kind == "account":
		return t.LookUpOf(n.Name, "")
	case t.Kind == "address" && !strings.Contains(n.Name, "/"):
		return t.LookUpOf("", n.Name)
	}
	return ""
}

// A column is one of the plot.
type column struct{ X, Y, W, H, Text string }

const (
	columnsWide = 600.0
	columnsHigh = 80.0
)

// Columns are the plot: attempts that came to nothing over time.
func (v AttackView) Columns() (all []column) {
	m := v.Report.Minutes
	if len(m.Counts) == 0 {
		return nil
	}
	keys, high := []int64{}, int64(1)
	for at, n := range m.Counts {
		keys, high = append(keys, at), max(high, n)
	}
	slices.Sort(keys)
	first, last := keys[0], keys[len(keys)-1]
	w := columnsWide / float64(max(20, last-first+1))
	for _, at := range keys {
		n, start := m.Counts[at], time.Unix(at*m.Each*60, 0)
		h := max(1, float64(n)/float64(high)*columnsHigh)
		all = append(all, column{coord(float64(at-first) * w), coord(columnsHigh - h), coord(max(0.5, w*0.9)), coord(h),
			fmt.Sprintf("%s: %s", newMoment(v.Now, start).Text, comma(int(n)))})
	}
	return all
}

// PlotWords are the plot for those who do not see it.
func (v AttackView) PlotWords() string {
	each := "per minute"
	if n := v.Report.Minutes.Each; n > 1 {
		each = "per " + guard.Spell(time.Duration(n)*time.Minute)
	}
	return fmt.Sprintf("Failed attempts, %s, from %s to %s.", each, newMoment(v.Now, v.Report.Began).Text, newMoment(v.Now, cmp.Or(v.Report.Last, v.Now)).Text)
}

// AttackLinks are the attacks that are running, for the first page.
func (v NowView) AttackLinks() (all []turn) {
	for _, a := range v.Overview.Attacks {
		all = append(all, turn{v.At("/attacks/" + url.PathEscape(a.ID)), attackWords(a, v.Now)})
	}
	return all
}

// attackWords is a running attack in a few words.
func attackWords(a attacks.Brief, now time.Time) string {
	text := map[string]string{attacks.Site: "Attack on the site", attacks.Account: "Brute force against one account", attacks.Address: "Brute force from one IP address", attacks.Spray: "Password spraying"}[a.Kind]
	return text + ", since " + newMoment(now, a.Began).Text
}
