package alerts

import (
	"fmt"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/events"
)

// A watcher finds the edges in what happens. It has no clock and is not safe
// for concurrent use.
type watcher struct {
	failuresBefore int
	attack         *attack // nil while there is none
	accounts       *attacked
	raise          func(at time.Time, kind Kind, body string)
}

func (w *watcher) event(e *guard.Event) {
	ending := events.EndingOf(e)
	if w.attack != nil {
		w.attack.add(e, ending)
	}
	if underAttack(e) {
		w.account(e)
	}
	if ending == events.Succeeded && e.NewPlace && e.AccountFailures >= w.failuresBefore {
		w.raise(e.At, SuspiciousSuccess, fmt.Sprintf("account %s from %s (%s), after %d wrong passwords from places that nobody had used before",
			Name(e.Account), events.AddressText(e.Address), events.Escape(e.Door), e.AccountFailures))
	}
}

func (w *watcher) account(e *guard.Event) {
	switch w.accounts.see(events.Escape(e.Account), e.At) {
	case fresh:
		w.raise(e.At, AccountAttacked, fmt.Sprintf("account %s: %d wrong passwords from strange places; the last try from %s",
			Name(e.Account), e.AccountFailures, events.AddressText(e.Address)))
	case overflow:
		w.raise(e.At, AccountAttacked, fmt.Sprintf("more than %d accounts within a day; no more of them are named", maxAccounts))
	}
}

func (w *watcher) modeSwitch(s events.ModeSwitch) {
	// An alert of an attack and one of the mode that follows from it go out
	// together: the second sends the bundle.
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
