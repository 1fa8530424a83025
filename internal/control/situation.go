package control

import (
	"cmp"
	"context"
	"slices"
	"time"

	"authguard/captchamode"
	"authguard/internal/attacks"
)

// The states of a Situation.
const (
	UnderAttack  = "attack"  // attempts go on
	AttackOver   = "stopped" // no attempts any more, but CAPTCHA mode is still on or cools down
	AccountsOpen = "open"    // no attack; possibly compromised accounts to secure
	NoAttack     = "quiet"
)

// goingFor is how long after its last attempt an attack on one account or from one IP address goes on. It has no
// detector that notices its end.
const goingFor = 5 * time.Minute

// A Situation answers administrators' first questions. Its numbers are those of one attack's record, which the attack's
// page and the alerts show too: of the running attack, else of the newest with accounts to secure, else of the last.
type Situation struct {
	State string `json:"state" help:"attack, stopped (CAPTCHA mode is still on), open (accounts to secure) or quiet"`
	// Of is the attack; nil if none is recorded.
	Of      *attacks.Brief `json:"of,omitempty" help:"The attack that the numbers are of"`
	Going   Going          `json:"still_going_on"`
	Stopped Stopped        `json:"was_it_stopped"`
	Entered Entered        `json:"who_got_in"`
	Next    NextStep       `json:"what_next"`
	attack  attacks.Attack
}

// Attack returns the whole record; its ID is empty if there is none.
func (s Situation) Attack() attacks.Attack { return s.attack }

// Going answers whether the attack goes on.
type Going struct {
	Yes         bool      `json:"yes"`
	Last        time.Time `json:"last_attempt,omitzero" help:"The last failed or stopped attempt"`
	FailureRate int       `json:"failure_rate" help:"Failed logins, unsolved challenges and overload of the last minute"`
	Threshold   float64   `json:"threshold" help:"CAPTCHA mode turns on above this failure rate"`
}

// The answers of Stopped.
const (
	Yes    = "yes"
	Partly = "partly"
	No     = "no"
)

// Stopped answers whether the attack was stopped.
type Stopped struct {
	Answer     string `json:"answer" help:"yes; partly: CAPTCHA mode does not stop it; no: every password was checked"`
	Challenged int64  `json:"challenged"`
	Solved     int64  `json:"challenges_solved"`
	Delayed    int64  `json:"delayed"`
	Blocked    int64  `json:"blocked"`
	Checked    int64  `json:"passwords_checked" help:"Wrong passwords that were checked"`
}

// Entered answers who got in.
type Entered struct {
	Compromised int `json:"compromised" help:"Accounts with a suspicious sign-in during the attack"`
	Open        int `json:"open" help:"Those that are not secured"`
	NewClients  int `json:"new_clients" help:"Other accounts with a sign-in from an unknown client"`
	OpenInAll   int `json:"open_in_all" help:"Accounts to secure after all attacks of the last week"`
}

// A NextStep is the next change, by itself or by an administrator.
type NextStep struct {
	// Do are codes: secure-accounts, end-override (CAPTCHA mode is forced off) or nothing.
	Do    []string  `json:"do" help:"What an administrator should do: secure-accounts, end-override"`
	OffAt time.Time `json:"captcha_off_at,omitzero" help:"When CAPTCHA mode turns off by itself"`
	Until time.Time `json:"forced_until,omitzero" help:"When an administrator's override of CAPTCHA mode ends"`
}

// The codes of NextStep.
const (
	SecureAccounts = "secure-accounts"
	EndOverride    = "end-override"
)

func (c *Control) situation(ctx context.Context, o *Overview) Situation {
	var last attacks.Attack
	if all, err := c.config.Attacks.List(ctx, c.config.Realm, 0, topRows); err == nil && len(all) > 0 {
		kept, _ := c.Accounts.Kept(ctx)
		last = wholeFirst(c.opened(all, kept))[0]
	}
	open, _ := c.OpenAccounts(ctx)
	return SituationOf(o, last, open)
}

// SituationOf answers from the mode and the attacks of an overview, the last attack (zero: none), and the number of
// accounts to secure.
func SituationOf(o *Overview, last attacks.Attack, open int) (s Situation) {
	mode := o.State
	a, going := mostUrgent(o, last)
	s.attack, open = a, max(open, a.Open)
	switch onSite := mode.Level == captchamode.Attack; {
	case onSite && mode.Low.IsZero(), going && a.Kind != attacks.Site:
		s.State = UnderAttack
	case onSite, mode.On && mode.Override.State == captchamode.Automatic:
		s.State = AttackOver
	case open > 0:
		s.State = AccountsOpen
	default:
		s.State = NoAttack
	}
	s.Going = Going{Yes: s.State == UnderAttack, Last: a.Last, FailureRate: mode.FailureRate.Total(),
		Threshold: mode.Threshold}
	s.Entered = Entered{Compromised: a.Lost, Open: a.Open, NewClients: a.Strange, OpenInAll: open}
	s.Stopped = Stopped{Answer: stopped(a, mode), Challenged: a.Challenged, Solved: a.Solved, Delayed: a.Waited,
		Blocked: a.Refused, Checked: a.Failed}
	s.Next = NextStep{Do: []string{}, OffAt: o.OffAt, Until: mode.Override.Until}
	if open > 0 {
		s.Next.Do = append(s.Next.Do, SecureAccounts)
	}
	if mode.Level == captchamode.Attack && mode.Override.State == captchamode.ForcedOff {
		s.Next.Do = append(s.Next.Do, EndOverride)
	}
	if a.ID != "" {
		s.Of = &attacks.Brief{ID: a.ID, Kind: a.Kind, Began: a.Began, Subject: a.Subject}
	}
	return s
}

// mostUrgent returns the attack to show: the running one on the site, the busiest other one that goes on, first of those
// with accounts to secure, the newest with accounts to secure, or the last.
func mostUrgent(o *Overview, last attacks.Attack) (a attacks.Attack, going bool) {
	for _, one := range o.Attacks {
		switch on := o.Now.Sub(one.Last) <= goingFor; {
		case one.Kind == attacks.Site:
			return one, on
		case on && (!going || cmp.Or(min(1, one.Open)-min(1, a.Open), cmp.Compare(one.Attempts, a.Attempts)) > 0):
			a, going = one, true
		}
	}
	if going {
		return a, true
	}
	for _, one := range wholeFirst(slices.Concat(o.Attacks, o.Unsecured)) {
		if one.Open > 0 {
			return one, false
		}
	}
	return last, false
}

// wholeFirst moves attacks that others continued to the end: the larger attack has their accounts.
func wholeFirst(all []attacks.Attack) []attacks.Attack {
	slices.SortStableFunc(all, func(a, b attacks.Attack) int { return min(1, len(a.PartOf)) - min(1, len(b.PartOf)) })
	return all
}

// going reports whether a running attack's attempts go on.
func going(a attacks.Attack, mode captchamode.State, now time.Time) bool {
	switch {
	case !a.Running():
		return false
	case a.Kind == attacks.Site:
		return mode.Level == captchamode.Attack && mode.Low.IsZero()
	}
	return now.Sub(a.Last) <= goingFor
}

func stopped(a attacks.Attack, mode captchamode.State) string {
	switch {
	case a.Challenged+a.Waited+a.Refused == 0:
		return No
	case a.Kind == attacks.Site && mode.Level == captchamode.Attack && !mode.On:
		return Partly
	}
	return Yes
}
