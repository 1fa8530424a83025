package control

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/attacks"
	"authguard/internal/audit"
	"authguard/internal/events"
	"authguard/internal/lists"
	"authguard/internal/operation"
	"authguard/internal/times"
	"authguard/trusted"
)

// A LookUp is all information about an account, an IP address or both. Its JSON is the answer of GET /api/lookup.
type LookUp struct {
	Now time.Time `json:"now"`
	// Said tells the user why they cannot sign in, or that they can. Next tells the administrator what to do.
	Said string `json:"said"`
	Next string `json:"next"`
	// Words are the whole result as lines of text, as commands print it.
	Words []string `json:"words"`

	Explanation guard.Explanation  `json:"explanation"`
	Account     *accounts.Standing `json:"account,omitempty"`
	Entry       *lists.Entry       `json:"listed,omitempty"` // the entry that decides about the IP address
	audit.Outcome
	// Places are the account's known clients with an IP address. Unnamed counts the others: only digests are stored (R23),
	// and the audit log no longer has their IP addresses.
	Places  []KnownClient `json:"known_clients"`
	Unnamed int           `json:"unnamed_known_clients"`
	// Devices are the IP addresses of sign-ins with a device cookie, newest first. Only browsers have the cookies.
	Devices []Use `json:"devices"`
	// Forgotten is when the known clients were last removed; older device cookies are void.
	Forgotten time.Time `json:"forgotten,omitzero"`
	Sessions  int       `json:"sessions"` // at all integrations
	Recent    []Event   `json:"recent"`   // newest first
	// NoCode is set if a verification code does not help.
	NoCode bool `json:"-"`
	// Attacks are the running attacks on the site, the account or the IP address.
	Attacks []attacks.Brief `json:"attacks"`
}

// A KnownClient is an IP address from which an account has signed in.
type KnownClient struct {
	Address netip.Addr `json:"address"`
	// Spent: too many wrong passwords came from there. Shared: many accounts use it. Neither is a known client.
	Spent  bool      `json:"spent,omitempty"`
	Shared bool      `json:"shared,omitempty"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
}

// A Use is a sign-in from an IP address.
type Use struct {
	Address string    `json:"address"`
	Last    time.Time `json:"last"`
}

// An Event is a row of the audit log, in words.
type Event struct {
	audit.Row
	What string   `json:"what"`
	Why  []string `json:"why"`
	// Reason is a short label of why: the first of the reasons, or the details of an operation.
	Reason string `json:"reason,omitempty"`
	// Summed is set if the row sums up attempts that have no rows of their own.
	Summed bool `json:"summed_up,omitempty"`
	// Identity is the client fingerprint in eight hexadecimal digits, if limits.fingerprint is configured.
	Identity string `json:"fingerprint,omitempty"`
}

const recentRows = 30

// aDay is the period for which an account's failures are shown.
const aDay = 24 * time.Hour

// LookUp returns all information about an account or IP address. It changes nothing. Errors are those of Explain.
func (c *Control) LookUp(ctx context.Context, account string, address netip.Addr) (*LookUp, error) {
	e, directory, err := c.explain(ctx, account, address)
	if err != nil {
		return nil, err
	}
	l := &LookUp{Now: c.config.Now(), Explanation: e, Places: []KnownClient{}, Devices: []Use{}, Recent: []Event{}}
	if e.Account != "" {
		if err := c.lookUpAccount(ctx, directory, l); err != nil {
			return nil, err
		}
	}
	if address.IsValid() {
		if l.Entry, err = c.config.Listings.EntryOf(ctx, address, c.config.Now()); err != nil {
			return nil, err
		}
	}
	rows, err := c.config.Audit.About(ctx, c.config.Realm, e.Account, address, recentRows)
	for _, row := range rows {
		l.Recent = append(l.Recent, eventOf(row))
	}
	l.Attacks = []attacks.Brief{}
	for _, a := range c.config.Attacks.Running(c.config.Realm) {
		if a.Concerns(e.Account, address) {
			l.Attacks = append(l.Attacks, a)
		}
	}
	l.answer()
	l.Words = l.text()
	return l, err
}

// text returns the result as lines. User input is quoted.
func (l *LookUp) text() []string {
	lines := append([]string{"Answer to the user: " + l.Said, "Next step: " + l.Next, ""}, l.Explanation.Text()...)
	add := func(text string, args ...any) { lines = append(lines, fmt.Sprintf(text, args...)) }
	if l.Explanation.Account != "" {
		add("\nKnown clients:")
		for _, p := range l.Places {
			add("  %s, last %s%s%s", p.Address, times.Text(p.Last.Local()), map[bool]string{
				true: ", treated as unknown after too many wrong passwords"}[p.Spent], map[bool]string{
				true: ", shared address"}[p.Shared])
		}
		if l.Unnamed > 0 {
			add("  %d whose IP address is no longer in the audit log", l.Unnamed)
		}
		for _, d := range l.Devices {
			add("  device cookie, last %s from %s", times.Text(d.Last.Local()), d.Address)
		}
		if len(l.Places)+l.Unnamed+len(l.Devices) == 0 {
			add("  none: the user is an unknown client everywhere")
		}
		add("Sessions: %d", l.Sessions)
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 8, 2, ' ', 0)
	for i, e := range l.Recent {
		if i == 0 {
			fmt.Fprintln(w, "\nWHEN\tWHAT\tACCOUNT\tADDRESS\tTIMES\tWHY")
		}
		why := strings.Join(e.Why, "; ")
		if e.Who != "" {
			why = fmt.Sprintf("by %q", e.Who)
		}
		fmt.Fprintf(w, "%s\t%s\t%q\t%s\t%d\t%s\n", times.Text(e.At.Local()), e.What, e.Account, e.Address, e.Count, why)
	}
	_ = w.Flush() // to a buffer
	return append(lines, strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n")...)
}

// A NetworkLookUp is all information about a range.
type NetworkLookUp struct {
	Now   time.Time    `json:"now"`
	Said  string       `json:"said"`
	Next  string       `json:"next"`
	Open  bool         `json:"open"`
	Range netip.Prefix `json:"network"`
	Words []string     `json:"words"` // as lines of text
	// Counted is the network that counts the range's failures; invalid if the range is larger than one network.
	Counted netip.Prefix `json:"counted,omitzero"`
	Lines   []string     `json:"limits"` // the state of its limits, in words
	// Entries are the overlapping list entries, widest first; More counts those left out. Exactly: one has this range.
	Entries []lists.Entry `json:"lists"`
	More    int           `json:"more_lists,omitempty"`
	Exactly bool          `json:"listed"`
	Recent  []Event       `json:"recent"`
}

const shownListed = 20

// LookUpNetwork returns all information about a range. It changes nothing.
func (c *Control) LookUpNetwork(ctx context.Context, network netip.Prefix) (*NetworkLookUp, error) {
	if !network.IsValid() {
		return nil, fmt.Errorf("%w: %w", operation.ErrAsked, lists.ErrPrefix)
	}
	n := &NetworkLookUp{Now: c.config.Now(), Range: network.Masked(), Lines: []string{}, Entries: []lists.Entry{},
		Recent: []Event{}}
	all, err := c.Lists.Entries(ctx)
	if err != nil {
		return nil, err
	}
	var decides *lists.Entry
	for _, e := range all {
		if !e.Prefix.Overlaps(n.Range) {
			continue
		}
		n.Entries = append(n.Entries, e)
		n.Exactly = n.Exactly || e.Prefix == n.Range
		if e.Prefix.Bits() <= n.Range.Bits() && (decides == nil || e.Prefix.Bits() > decides.Prefix.Bits()) {
			decides = &e
		}
	}
	slices.SortStableFunc(n.Entries, func(a, b lists.Entry) int { return cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()) })
	n.More = max(0, len(n.Entries)-shownListed)
	n.Entries = n.Entries[:len(n.Entries)-n.More]
	var full *guard.Line
	if _, counted := events.PrefixesOf(n.Range.Addr()); counted.Bits() <= n.Range.Bits() {
		n.Counted = counted
		e, err := c.Explain(ctx, "", n.Range.Addr())
		if err != nil {
			return nil, err
		}
		for _, line := range e.Lines {
			if line.Subject == guard.OnNetwork {
				n.Lines = append(n.Lines, line.String())
				if line.Full && !line.Limit.Monitor && (full == nil || line.FreeIn > full.FreeIn) {
					full = &line
				}
			}
		}
	}
	page, err := c.Audit(ctx, AuditQuery{Address: n.Range.String(), Limit: recentRows}, false)
	n.Recent = page.Rows
	n.answer(decides, full)
	n.Words = append([]string{"Answer to the users: " + n.Said, "Next step: " + n.Next}, n.Lines...)
	return n, err
}

func (n *NetworkLookUp) answer(decides *lists.Entry, full *guard.Line) {
	switch {
	case decides != nil && decides.Verdict == lists.Block:
		n.Said, n.Next = "An administrator has blocked your network.",
			"To admit users, remove "+decides.Prefix.String()+
				" from the list, or allow their IP addresses with more specific entries."
	case decides != nil:
		n.Said, n.Next, n.Open = "Your network is not limited: an administrator has allowed it.",
			"Ask for the user name and look that up.", true
	case full != nil:
		n.Said = fmt.Sprintf("There were too many wrong passwords from your network, so sign-ins on new devices there are "+
			"limited for another %s.", guard.Spell(full.FreeIn))
		n.Next = "Check the attempts below. Reset the network if they are real users; known clients are not affected."
	case !n.Counted.IsValid():
		n.Said, n.Next, n.Open = "No entry covers this whole range.",
			fmt.Sprintf("Failures are counted per smaller network: look one of them up, such as %s.", smaller(n.Range)), true
	default:
		n.Said, n.Next, n.Open = "Your network is not limited.",
			"Ask for the IP address or the user name, and look those up.", true
	}
}

func smaller(p netip.Prefix) netip.Prefix {
	_, counted := events.PrefixesOf(p.Addr())
	return counted
}

func (c *Control) lookUpAccount(ctx context.Context, directory string, l *LookUp) error {
	name := l.Explanation.Account
	standing, err := c.Accounts.Standing(ctx, name)
	if err != nil {
		return err
	}
	l.Account = &standing
	if l.Outcome, err = c.config.Audit.Outcome(ctx, c.config.Realm, name, l.Now.Add(-aDay)); err != nil {
		return err
	}
	running, err := c.config.Sessions.Of(ctx, name, "")
	if err != nil {
		return err
	}
	l.Sessions = len(running)
	known, err := c.Known(ctx, directory, guard.Attempt{Account: name, Address: l.Explanation.Address})
	l.Places, l.Unnamed, l.Devices, l.Forgotten = known.Places, known.Unnamed, known.Devices, known.Forgotten
	return err
}

// Known is the known clients of an account.
type Known struct {
	Places    []KnownClient
	Unnamed   int
	Devices   []Use
	Forgotten time.Time
	// Here is when the client's device cookie was issued; zero without a valid one.
	Here time.Time
}

// Known names the known clients of an account in a directory. Only their digests are stored (R23), so it tries the
// client's IP address and those of the newest successes in the audit log.
func (c *Control) Known(ctx context.Context, directory string, a guard.Attempt) (k Known, err error) {
	rows, err := c.successes(ctx, directory, a.Account)
	if err != nil {
		return k, err
	}
	addresses, devices := []netip.Addr{}, []Use{}
	if a.Address.IsValid() {
		addresses = append(addresses, a.Address)
	}
	for _, row := range rows {
		if address, err := netip.ParseAddr(row.Address); err == nil && !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
		if row.AtDevice() && !slices.ContainsFunc(devices, func(u Use) bool { return u.Address == row.Address }) {
			devices = append(devices, Use{row.Address, times.Later(row.At, row.Last)})
		}
	}
	known, err := c.Accounts.Guard(directory).KnownClients(ctx, a, addresses)
	if err != nil {
		return k, err
	}
	k = Known{Places: []KnownClient{}, Forgotten: known.Reset, Here: known.Device}
	for _, p := range known.List {
		if !p.Address.IsValid() {
			k.Unnamed++
			continue
		}
		k.Places = append(k.Places, KnownClient{p.Address, p.Status == trusted.Spent, p.Shared, p.First, p.Last})
	}
	expired := c.config.Now().Add(-c.config.Guard.Policy().KnownClients.WithDefaults().TTL)
	k.Devices = slices.DeleteFunc(devices, func(u Use) bool {
		return !u.Last.After(known.Reset) || u.Last.Before(expired)
	})
	return k, nil
}

func eventOf(row audit.Row) Event {
	e := Event{Row: row, What: row.Decision, Why: []string{}, Reason: reasonOf(row), Summed: row.Summed(),
		Identity: row.Identity()}
	words := map[string]string{
		"succeeded": "signed in", "failed": "wrong password", "blocked": "blocked", "challenged": "challenged",
		"delayed": "delayed", "abandoned": "abandoned before the password check",
		"fake-failure": "fake failure (password not checked)",
	}
	switch row.Kind {
	case audit.KindAttempt:
	case audit.KindMode:
		e.What = modeWords(row.Decision)
		return e
	case audit.KindAttack:
		e.What = map[string]string{"started": "attack started", "ended": "attack ended"}[row.Decision]
		return e
	case audit.KindEvent:
		e.What = map[string]string{"reached": "a limit was reached", "quiet": "a limit is no longer reached"}[row.Decision]
		return e
	default:
		e.What = adminWords(row.Decision)
		return e
	}
	e.What = words[row.Decision]
	for code := range strings.SplitSeq(row.Reasons, ",") {
		if code != "" {
			e.Why = append(e.Why, guard.CodeWords(code))
		}
	}
	switch {
	case row.Sprayed():
		e.Why = append(e.Why, "sprayed password")
	case row.AtDevice():
		e.Why = append(e.Why, "known client (device cookie)")
	}
	return e
}

func reasonOf(row audit.Row) string {
	first, more, _ := strings.Cut(row.Reasons, ",")
	switch {
	case row.Kind != audit.KindAttempt:
		return row.Detail
	case row.Sprayed():
		return "sprayed password"
	case row.AtDevice():
		return "known client (device cookie)"
	case first == "":
		return row.Note()
	case more != "":
		return fmt.Sprintf("%s, %d more", guard.CodeLabel(first), 1+strings.Count(more, ","))
	}
	return guard.CodeLabel(first)
}

func modeWords(state string) string {
	switch state {
	case events.ModeOn:
		return "CAPTCHA mode on"
	case events.ModeSlow:
		return "CAPTCHA mode off, unknown clients throttled"
	}
	return "CAPTCHA mode off"
}

// shortWords are shorter than those of the operations, or for what is not in their table.
var shortWords = map[string]string{
	"user-enable": "enabled", "allow": "allowed", "allow-import": "ranges allowed",
	"captcha-on": "CAPTCHA mode forced on", "captcha-off": "CAPTCHA mode forced off",
	"captcha-auto": "CAPTCHA mode set to automatic", "captcha-clear": "CAPTCHA mode reset",
	"audit-export": "audit log exported", "passkey-add": "passkey added",
	"user-reset-password": "password reset by the owner", "password-reset-email": "password reset link sent",
	"not-me": "reported by the owner as not theirs",
}

// adminWords returns the words for an operation's code, or the code.
func adminWords(code string) string {
	if words := shortWords[code]; words != "" {
		return words
	}
	for _, o := range Operations() {
		if o.Name == code {
			return cmp.Or(o.Did, code)
		}
	}
	return code
}
