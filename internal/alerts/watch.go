package alerts

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/events"
)

const (
	// failuresBefore is how many wrong passwords of strangers make a success
	// from a new place worth an alert.
	failuresBefore = 5
	// maxAccounts is how many accounts under attack are told apart in a day;
	// those beyond are told once, as a whole.
	maxAccounts  = 10000
	accountQuiet = 24 * time.Hour
	sweepEvery   = time.Minute
	// tooMany stands for the accounts beyond maxAccounts. No account has this
	// name: [events.Escape] leaves no line breaks.
	tooMany = "\n"
)

// A watcher finds the edges in what happens. It has no clock and is not safe
// for concurrent use.
type watcher struct {
	attack   *attack              // nil while there is none
	attacked map[string]time.Time // accounts under attack, and when that was told
	swept    time.Time            // when old ones were last deleted
	raise    func(at time.Time, kind Kind, body string)
}

func (w *watcher) event(e *guard.Event) {
	ending := events.EndingOf(e)
	if w.attack != nil {
		w.attack.add(e, ending)
	}
	if underAttack(e) {
		w.account(e)
	}
	if ending == events.Succeeded && e.NewPlace && e.AccountFailures >= failuresBefore {
		w.raise(e.At, SuspiciousSuccess, fmt.Sprintf("account %s from %s (%s), after %d wrong passwords from places that nobody had used before",
			Name(e.Account), events.AddressText(e.Address), events.Escape(e.Door), e.AccountFailures))
	}
}

// underAttack reports whether the event met a full rung of its account's ladder
// for strangers.
func underAttack(e *guard.Event) bool {
	if e.Privileged {
		return false
	}
	for _, r := range e.Reasons.All() {
		if r.Cause == guard.LimitReached && r.Subject == guard.OnAccount {
			return true
		}
	}
	return false
}

// account tells that an account is under attack, once a day.
func (w *watcher) account(e *guard.Event) {
	name := events.Escape(e.Account)
	switch {
	case w.told(name, e.At):
	case w.room(e.At):
		w.attacked[name] = e.At
		w.raise(e.At, AccountAttacked, fmt.Sprintf("account %s: %d wrong passwords from strange places; the last try from %s",
			Name(e.Account), e.AccountFailures, events.AddressText(e.Address)))
	case !w.told(tooMany, e.At):
		w.attacked[tooMany] = e.At
		w.raise(e.At, AccountAttacked, fmt.Sprintf("more than %d accounts within a day; no more of them are named", maxAccounts))
	}
}

func (w *watcher) told(name string, at time.Time) bool {
	last, ok := w.attacked[name]
	return ok && at.Sub(last) < accountQuiet
}

// room forgets what is older than a day, at most once a minute: a flood of
// names must not cost a walk over the whole memory for each.
func (w *watcher) room(at time.Time) bool {
	if len(w.attacked) >= maxAccounts && at.Sub(w.swept) >= sweepEvery {
		w.swept = at
		maps.DeleteFunc(w.attacked, func(_ string, last time.Time) bool { return at.Sub(last) >= accountQuiet })
	}
	return len(w.attacked) < maxAccounts
}

func (w *watcher) modeSwitch(s events.ModeSwitch) {
	// The alert of an attack and that of the mode it causes go out together:
	// the second sends the bundle.
	w.attackEdge(s)
	on, was := s.To == events.ModeOn, s.From == events.ModeOn
	byPerson := s.Cause == events.CauseForced
	switch {
	case on && (!was || byPerson):
		w.raise(s.At, ModeOn, modeText(s))
	case !on && (was || byPerson):
		w.raise(s.At, ModeOff, modeText(s))
	}
}

func (w *watcher) attackEdge(s events.ModeSwitch) {
	switch {
	case w.attack == nil && s.Attacked:
		w.attack = newAttack(s.At)
		w.raise(s.At, AttackBegan, fmt.Sprintf("%.4g failures per minute; CAPTCHA mode begins at %.4g", s.Pressure, s.Threshold))
	case w.attack != nil && !s.Attacked:
		w.raise(s.At, AttackEnded, w.attack.summary(s.At))
		w.attack = nil
	}
}

func modeText(s events.ModeSwitch) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cause: %s; %.4g failures per minute, threshold %.4g", s.Cause, s.Pressure, s.Threshold)
	if s.Who != "" {
		fmt.Fprintf(&b, "\nby %s: %s", Name(s.Who), Name(s.Why))
	}
	if !s.Until.IsZero() {
		fmt.Fprintf(&b, "\nuntil %s", clock(s.Until))
	}
	return b.String()
}
