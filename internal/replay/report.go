package replay

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"authguard/internal/events"
)

// Report compares what several policies would have done.
type Report struct {
	Log Stats `json:"log"`
	// Accounts and Addresses are the numbers of distinct ones, within 1 %.
	Accounts  int      `json:"accounts"`
	Addresses int      `json:"addresses"`
	Policies  []Result `json:"policies"`
}

// Result is what one policy would have done.
type Result struct {
	Name    string  `json:"name"`
	Guesses Guesses `json:"guesses"`
	Logins  Logins  `json:"logins"`
	// Mode lists the times with CAPTCHA mode on; ModeOn is their total.
	Mode   []Span        `json:"mode"`
	ModeOn time.Duration `json:"mode_on"`
	// Reasons counts attempts by the first reason that stopped them.
	Reasons map[string]int64 `json:"reasons,omitempty"`
	// Through are the accounts and addresses with the most checked guesses, Hindered the most affected users.
	Through  []Through `json:"through"`
	Hindered []Case    `json:"hindered"`
	Series   []Bucket  `json:"series"`
	// Bounded: more account and IP pairs were active than are kept, so some users count as attackers.
	Bounded bool `json:"bounded,omitempty"`
}

// Guesses counts the log's wrong passwords, including those that were not checked.
type Guesses struct {
	All     int64 `json:"all"`
	Checked int64 `json:"checked"`
	// Slips are the Checked ones that are corrected typos: the same account logged in from the same IP address within a
	// day.
	Slips int64 `json:"slips"`
	// Stopped counts guesses that were challenged, delayed or blocked.
	Stopped [3]int64 `json:"stopped"`
}

// Logins counts the log's right passwords.
type Logins struct {
	All int64 `json:"all"`
	// Known came from a known client.
	Known int64 `json:"known"`
	// Met counts logins that were challenged, delayed or blocked, themselves or with a wrong password before. One login
	// may be in several; Hindered counts it once.
	Met      [3]int64 `json:"met"`
	Hindered int64    `json:"hindered"`
	// People is the number of distinct account and IP pairs among Hindered, up to a million.
	People int64 `json:"people"`
	// KeptOut got in later or not at all.
	KeptOut     int64         `json:"kept_out"`
	LongestWait time.Duration `json:"longest_wait"`
}

// Span is a time in CAPTCHA mode.
type Span struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to,omitzero"`  // zero: until the end of the log
	Pressure int       `json:"failure_rate"` // failure rate that turned it on
}

// Through is an account or address with checked guesses.
type Through struct {
	Kind    string `json:"kind"` // "account" or "address"
	Name    string `json:"name"`
	Checked int64  `json:"checked"` // lower bound
}

// Case is an affected user with the right password.
type Case struct {
	Account    string        `json:"account,omitempty"`
	Address    string        `json:"address"`
	At         time.Time     `json:"at"`
	Since      time.Time     `json:"since"` // the first attempt
	Challenged int           `json:"challenged"`
	Delayed    int           `json:"delayed"`
	Refused    int           `json:"blocked"`
	Waited     time.Duration `json:"total_delay"`
	KeptOut    bool          `json:"kept_out"`
	Reasons    []string      `json:"reasons,omitempty"`
}

// result completes the run after the last attempt.
func (r *run) result() (Result, error) {
	const forever = 1 << 40 // users who still wait when the log ends
	if err := r.Until(time.Unix(forever, 0), r.attempt); err != nil {
		return Result{}, err
	}
	out := r.sum
	out.Logins.People = int64(len(r.people))
	for _, s := range out.Mode {
		out.ModeOn += cmp.Or(s.To, r.Now).Sub(s.From)
	}
	for i, kind := range []string{"account", "address"} {
		out.Through = append(out.Through, mostOf(r.guessed[i], kind, r.options.Cases)...)
	}
	out.Series = r.Buckets
	return out, nil
}

func mostOf(t *events.Top[int64], kind string, most int) (all []Through) {
	for name, n := range t.All() {
		all = append(all, Through{kind, name, *n})
	}
	slices.SortFunc(all, func(a, b Through) int {
		return cmp.Or(cmp.Compare(b.Checked, a.Checked), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), most)]
}

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return "unknown"
	}
	return a.String()
}
