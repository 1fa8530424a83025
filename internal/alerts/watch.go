package alerts

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"authguard/guard"
	"authguard/internal/events"
	"authguard/internal/times"
)

const (
	// failuresBefore is how many wrong passwords from unknown clients make a success from a new client suspicious.
	failuresBefore = 5
	// maxNotified limits what is remembered as alerted. Of attacks on accounts and from IP addresses, at most that many are
	// alerted in a day, and one alert stands for all others.
	maxNotified = 10000
	quietFor    = 24 * time.Hour
	sweepEvery  = time.Minute
	// newClients is how many new clients (IP addresses) within newClientsIn an account may sign in from without an alert.
	newClients   = 10
	newClientsIn = time.Hour
)

// A watcher finds alerts in the events of one realm. It has no clock and is not safe for concurrent use.
type watcher struct {
	silent   *events.ModeSwitch   // CAPTCHA mode turned on without an alert
	notified map[string]time.Time // what was alerted, with the alert's time
	swept    time.Time            // last cleanup of notified
	ratio    ratio
	fresh    *lru.Cache[string, []signIn] // last successes from new clients, by account
	raise    func(at time.Time, kind Kind, body string)
	// attack reports whether the site is under attack, and whether the attack is too small for an alert.
	attack func() (running, silent bool)
}

type signIn struct {
	from netip.Addr
	at   time.Time
}

func newWatcher(attack func() (running, silent bool), raise func(at time.Time, kind Kind, body string)) *watcher {
	fresh, _ := lru.New[string, []signIn](maxNotified / 10) // the size is right
	return &watcher{notified: make(map[string]time.Time), raise: raise, attack: attack, fresh: fresh}
}

func (w *watcher) event(e *guard.Event) {
	if e.Limited != "" {
		if e.Edge != guard.Met {
			w.limit(e)
		}
		return
	}
	ending := events.EndingOf(e)
	w.failures(e, ending)
	w.clients(e)
	if e.Settled && e.Outcome == guard.Insufficient && (e.Sprayed || !e.Reasons.Has(guard.StepUpNeeded)) &&
		w.first("sprayed\n"+events.Escape(e.Account), e.At) {
		w.raise(e.At, SprayedRight, fmt.Sprintf("account %s from %s (%s); it was answered as wrong. Reset the account's "+
			"password",
			Name(e.Account), events.AddressText(e.Address), events.Escape(e.Integration)))
	}
	monitored := guard.Reason{Cause: guard.PasswordLeaked, Monitored: true}
	if slices.Contains(e.Reasons, monitored) && w.first("leaked\n"+events.Escape(e.Account), e.At) {
		w.raise(e.At, LeakedPassword, fmt.Sprintf("account %s from %s (%s)", Name(e.Account),
			events.AddressText(e.Address), events.Escape(e.Integration)))
	}
	if ending == events.Succeeded && e.NewClient {
		w.newClient(e)
	}
	if ending == events.Succeeded && e.NewClient && (e.Sprayed || e.AccountFailures >= failuresBefore) &&
		!e.Reasons.Has(guard.CodeAccepted) { // the owner, whatever others know of the password
		with := ""
		if e.Sprayed {
			with = ", with a password used for password spraying"
		}
		w.raise(e.At, SuspiciousSuccess,
			fmt.Sprintf("account %s from %s (%s), after %d wrong passwords from unknown clients%s",
				Name(e.Account), events.AddressText(e.Address), events.Escape(e.Integration), e.AccountFailures, with))
	}
}

// newClient raises an alert if an account signs in from many new clients, which is not one person: a proxy's route or a
// back end takes wrong passwords for right ones, or many people share the password.
func (w *watcher) newClient(e *guard.Event) {
	last, _ := w.fresh.Get(e.Account)
	last = append(slices.DeleteFunc(last, func(s signIn) bool {
		return s.from == e.Address || e.At.Sub(s.at) >= newClientsIn
	}), signIn{e.Address, e.At})
	if len(last) > newClients {
		last = last[len(last)-newClients:]
		if w.first("new clients\n"+events.Escape(e.Account), e.At) {
			w.raise(e.At, ManyNewClients, fmt.Sprintf("account %s from more than %d new clients within an hour, the last of "+
				"them %s (%s)", Name(e.Account), newClients, events.AddressText(e.Address), events.Escape(e.Integration)))
		}
	}
	w.fresh.Add(e.Account, last)
}

// limit raises the alert of a limit on events with the action alert.
func (w *watcher) limit(e *guard.Event) {
	if e.Action != guard.Alert || len(e.Reasons) > 0 && e.Reasons[0].Monitored {
		return
	}
	body, kind := fmt.Sprintf("%s: %s", events.Escape(e.Limited), events.LimitText(e)), EventLimit
	switch {
	case e.Account != "":
		body += ", account " + Name(e.Account)
	case e.Address.IsValid():
		body += ", address " + events.AddressText(e.Address)
	case e.Subject != "":
		body += ", subject " + e.Subject
	}
	if e.Edge == guard.Over {
		kind, body = EventQuiet, fmt.Sprintf("%s; %d exceeded it", body, e.Count)
	}
	w.raise(e.At, kind, body)
}

// clients raises at most one alert a day for a client fingerprint that reached its limit, whatever the action.
func (w *watcher) clients(e *guard.Event) {
	i := slices.IndexFunc(e.Reasons, func(r guard.Reason) bool {
		return r.Cause == guard.LimitReached && r.Subject == guard.OnIdentity
	})
	if i < 0 || e.Known || e.Reasons[i].Limit == nil {
		return
	}
	if client := fmt.Sprintf("%08x", e.Identity); w.first("client\n"+client, e.At) {
		l := e.Reasons[i].Limit
		w.raise(e.At, ClientsAttack, fmt.Sprintf("fingerprint %s: %d wrong passwords within %s from unknown clients; the "+
			"last attempt for account %s from %s",
			client, l.Failures, guard.Spell(l.Window), Name(e.Account), events.AddressText(e.Address)))
	}
}

// failures raises alerts if more logins fail than usual, and when that ends. It is silent during an attack.
func (w *watcher) failures(e *guard.Event, ending events.Ending) {
	attacked, silent := w.attack()
	if attacked && !silent {
		w.speak() // another node may have reported the attack
	}
	if e.Repeat || ending != events.Failed && ending != events.Succeeded {
		return
	}
	switch edge, is, usual := w.ratio.count(e.At, ending == events.Failed, attacked); edge {
	case above:
		w.raise(e.At, ManyFailures, fmt.Sprintf("%.2g failed logins for each successful one in the last %d minutes; "+
			"normal: %.2g. "+
			"This may be a slow brute-force attack, or a broken login program", is, ratioWindow/time.Minute, usual))
	case below:
		w.raise(e.At, FewerFailures, fmt.Sprintf("%.2g failed logins for each successful one", is))
	}
}

// first reports whether the alert was not raised within a day. Without room to remember it, it is raised again:
// invented names must not suppress alerts.
func (w *watcher) first(name string, at time.Time) bool {
	if last, ok := w.notified[name]; ok && at.Sub(last) < quietFor {
		return false
	}
	if w.room(at) {
		w.notified[name] = at
	}
	return true
}

// room reports whether another entry fits. It deletes entries older than a day at most once a minute, so that a flood
// of names does not scan the map each time.
func (w *watcher) room(at time.Time) bool {
	if len(w.notified) >= maxNotified && at.Sub(w.swept) >= sweepEvery {
		w.swept = at
		maps.DeleteFunc(w.notified, func(_ string, last time.Time) bool { return at.Sub(last) >= quietFor })
	}
	return len(w.notified) < maxNotified
}

func (w *watcher) modeSwitch(s events.ModeSwitch) {
	switch s.Cause {
	case events.CauseDaily: // see Alerter.AttackBegan
		return
	case events.CauseSteady:
		w.raise(
			s.At,
			SteadyFailureRate,
			fmt.Sprintf("failure rate %s a minute, threshold %s. It has stayed above half of the "+
				"threshold "+
				"for most of the last day, while few accounts log in. "+
				"If this is normal, set captcha_mode.baseline; otherwise run authguard captcha enable.", events.Rate(s.FailureRate),
				events.Rate(s.Threshold)),
		)
		return
	}
	_, silent := w.attack()
	if s.Would == events.ModeOn {
		if silent {
			return
		}
		w.raise(s.At, ModeMonitored, modeText(s)+
			"\nNo challenge is required, because CAPTCHA mode is monitored (authguard limit list)")
		return
	}
	on, was := s.To == events.ModeOn, s.From == events.ModeOn
	byPerson := s.Cause == events.CauseForced
	switch {
	case on && !was && silent && !byPerson:
		w.silent = &s
	case on && (!was || byPerson):
		w.silent = nil
		w.raise(s.At, ModeOn, modeText(s))
	case !on && was && w.silent != nil && !byPerson:
		w.silent = nil
	case !on && (was || byPerson):
		w.silent = nil
		w.raise(s.At, ModeOff, modeText(s))
	}
}

func modeText(s events.ModeSwitch) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cause: %s; failure rate %s a minute, threshold %s", s.Cause, events.Rate(s.FailureRate),
		events.Rate(s.Threshold))
	if s.Who != "" {
		fmt.Fprintf(&b, "\nby %s: %s", Name(s.Who), Name(s.Why))
	}
	if !s.Until.IsZero() {
		fmt.Fprintf(&b, "\nuntil %s", times.Text(s.Until.UTC()))
	}
	return b.String()
}
