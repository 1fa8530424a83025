package trial

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"authguard/internal/loginlog"
	"authguard/internal/tops"
)

// A Report is what policies would have done, side by side.
type Report struct {
	Log loginlog.Stats `json:"log"`
	// Accounts and Addresses are how many different ones there are, to within 1 %.
	Accounts  int      `json:"accounts"`
	Addresses int      `json:"addresses"`
	Policies  []Result `json:"policies"`
}

// A Result is what one policy would have done.
type Result struct {
	Name    string  `json:"name"`
	Guesses Guesses `json:"guesses"`
	Logins  Logins  `json:"logins"`
	// Mode is when CAPTCHA mode would have been on, and ModeOn how long in all.
	Mode   []Span        `json:"mode"`
	ModeOn time.Duration `json:"mode_on"`
	// Reasons are the first reason for each attempt that was stopped for good.
	Reasons map[string]int64 `json:"reasons,omitempty"`
	// Through are those with most wrong passwords looked at, Hindered the people that
	// met most.
	Through  []Through `json:"through"`
	Hindered []Case    `json:"hindered"`
	Series   []Bucket  `json:"series"`
	// Bounded: there were more pairs at once than are kept, so that some people were
	// taken for attackers.
	Bounded bool `json:"bounded,omitempty"`
}

// Guesses are the wrong passwords of the log, and those that nobody looked at then.
type Guesses struct {
	All     int64 `json:"all"`
	Checked int64 `json:"checked"`
	// Slips of the Checked are of people: the same account logged in from the same
	// address within a day.
	Slips int64 `json:"slips"`
	// Stopped are those that were not looked at: challenged, told to wait, refused.
	Stopped [3]int64 `json:"stopped"`
}

// Logins are the right passwords of the log.
type Logins struct {
	All int64 `json:"all"`
	// Known came from a known place.
	Known int64 `json:"known"`
	// Met are those that were challenged, told to wait or refused, themselves or before
	// with a wrong password; one can be in several. Hindered are in one at least.
	Met      [3]int64 `json:"met"`
	Hindered int64    `json:"hindered"`
	// People of the Hindered are different pairs of account and address, counted up to
	// a million.
	People int64 `json:"people"`
	// KeptOut got in only later, or not.
	KeptOut     int64         `json:"kept_out"`
	LongestWait time.Duration `json:"longest_wait"`
}

// A Span is a time in CAPTCHA mode.
type Span struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to,omitzero"`  // zero: until the end of the log
	Pressure int       `json:"failure_rate"` // that switched it
}

// A Through is whose wrong passwords were looked at.
type Through struct {
	Kind    string `json:"kind"` // "account" or "address"
	Name    string `json:"name"`
	Checked int64  `json:"checked"` // at least
}

// A Case is somebody with the right password who met something.
type Case struct {
	Account    string        `json:"account,omitempty"`
	Address    string        `json:"address"`
	At         time.Time     `json:"at"`
	Since      time.Time     `json:"since"` // their first try
	Challenged int           `json:"challenged"`
	Delayed    int           `json:"delayed"`
	Refused    int           `json:"blocked"`
	Waited     time.Duration `json:"total_delay"`
	KeptOut    bool          `json:"kept_out"`
	Reasons    []string      `json:"reasons,omitempty"`
}

// result is what the run comes to, after the last attempt.
func (r *run) result(name string) Result {
	for len(r.again) > 0 { // who still waits when the log ends
		if err := r.until(r.again[0].At); err != nil {
			break
		}
	}
	out := r.sum
	out.Name = name
	out.Logins.People = int64(len(r.people))
	for _, s := range out.Mode {
		to := s.To
		if to.IsZero() {
			to = r.now
		}
		out.ModeOn += to.Sub(s.From)
	}
	for i, kind := range []string{"account", "address"} {
		out.Through = append(out.Through, mostOf(r.guessed[i], kind, r.options.Cases)...)
	}
	out.Series = r.series.all()
	return out
}

func mostOf(t *tops.Top[int64], kind string, most int) (all []Through) {
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
