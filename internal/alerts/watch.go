package alerts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/events"
	"authguard/internal/tops"
)

const (
	// failuresBefore is how many wrong passwords from unknown clients make a success from a new client suspicious.
	failuresBefore = 5
	// maxAccounts limits the accounts with an alert per day; one more alert stands for all others.
	maxAccounts  = 10000
	accountQuiet = 24 * time.Hour
	// resumedFrom is how many thresholds of attempts an attack that resumes within a day needs for a new alert. A burst
	// just above the threshold raises none.
	resumedFrom = 20
	sweepEvery  = time.Minute
	// tooMany is the key for accounts beyond maxAccounts. [events.Escape] leaves no line break in names.
	tooMany = "\n"
)

// A watcher finds alerts in the events of one realm. It has no clock and is not safe for concurrent use.
type watcher struct {
	attack   *attack              // nil outside attacks
	silent   *events.ModeSwitch   // CAPTCHA mode turned on without an alert
	resumed  int                  // attacks without an alert since the last one
	attacked map[string]time.Time // alerted accounts and addresses, with the alert's time
	swept    time.Time            // last cleanup of attacked
	ratio    ratio
	raise    func(at time.Time, kind Kind, body string)
	kept     func() string // says where the running attack is recorded
}

func newWatcher(kept func() string, raise func(at time.Time, kind Kind, body string)) *watcher {
	return &watcher{attacked: make(map[string]time.Time), raise: raise, kept: kept}
}

func (w *watcher) event(e *guard.Event) {
	if e.Limited != "" {
		if e.Edge != guard.Met {
			w.limit(e)
		}
		return
	}
	ending := events.EndingOf(e)
	if w.attack != nil {
		if w.attack.add(e, ending); w.attack.silent && w.attack.attempts >= w.attack.alertFrom {
			w.speak(e.At)
		}
	}
	w.failures(e, ending)
	if underAttack(e) {
		w.account(e)
	}
	if refused(e, e.Action != guard.Block) {
		w.address(e)
	}
	w.clients(e)
	if e.Settled && e.Outcome == guard.Insufficient && w.first("sprayed\n"+events.Escape(e.Account), e.At) {
		w.raise(e.At, SprayedRight, fmt.Sprintf("account %s from %s (%s); it was answered as wrong. Reset the account's "+
			"password",
			Name(e.Account), events.AddressText(e.Address), events.Escape(e.Integration)))
	}
	if ending == events.Succeeded && e.NewClient && (e.Sprayed || e.AccountFailures >= failuresBefore) {
		with := ""
		if e.Sprayed {
			with = ", with a password used for password spraying"
		}
		w.raise(e.At, SuspiciousSuccess,
			fmt.Sprintf("account %s from %s (%s), after %d wrong passwords from unknown clients%s",
				Name(e.Account), events.AddressText(e.Address), events.Escape(e.Integration), e.AccountFailures, with))
	}
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

// underAttack reports whether an unknown client exceeded a limit of the account by the account's own failures. At the
// memory bound, accounts share a counter.
func underAttack(e *guard.Event) bool {
	return !e.Known && slices.ContainsFunc(e.Reasons, func(r guard.Reason) bool {
		return r.Cause == guard.LimitReached && r.Subject == guard.OnAccount &&
			(r.Limit == nil || e.AccountFailures >= r.Limit.Failures)
	})
}

// account raises at most one alert a day for an attacked account.
func (w *watcher) account(e *guard.Event) {
	name := events.Escape(e.Account)
	switch {
	case w.notified(name, e.At):
	case w.room(e.At):
		w.attacked[name] = e.At
		w.raise(e.At, AccountAttacked,
			fmt.Sprintf("account %s: %d wrong passwords from unknown clients; the last attempt from %s",
				Name(e.Account), e.AccountFailures, events.AddressText(e.Address)))
	case !w.notified(tooMany, e.At):
		w.attacked[tooMany] = e.At
		w.raise(e.At, AccountAttacked, fmt.Sprintf("more than %d accounts within a day; further ones are not listed",
			maxAccounts))
	}
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

// refused reports whether a limit of the IP address or network blocked the event or, with watched, would have.
func refused(e *guard.Event, watched bool) bool {
	return !e.Known && slices.ContainsFunc(e.Reasons, func(r guard.Reason) bool {
		return r.Cause == guard.LimitReached && (r.Subject == guard.OnAddress || r.Subject == guard.OnNetwork) &&
			r.Limit != nil && r.Limit.Action == guard.Block && r.Monitored == watched
	})
}

// address raises at most one alert a day for a blocked IP address.
func (w *watcher) address(e *guard.Event) {
	name, many := "address\n"+events.AddressText(e.Address), "address\n"
	switch {
	case w.notified(name, e.At):
	case w.room(e.At) && e.Action != guard.Block:
		w.attacked[name] = e.At
		w.raise(e.At, AddressMonitored, fmt.Sprintf("address %s (%s), which last tried the account %s",
			events.AddressText(e.Address), events.Escape(e.Integration), Name(e.Account)))
	case w.room(e.At):
		w.attacked[name] = e.At
		w.raise(e.At, AddressRefused, fmt.Sprintf("address %s (%s), which last tried the account %s. It is blocked until "+
			"its failures leave the window, except for known clients. "+
			"For legitimate users: authguard unlock --address IP, or raise limits.address", events.AddressText(e.Address),
			events.Escape(e.Integration), Name(e.Account)))
	case !w.notified(many, e.At):
		w.attacked[many] = e.At
		w.raise(e.At, AddressRefused, "many addresses within a day; further ones are not listed")
	}
}

// failures raises alerts if more logins fail than usual, and when that ends. It is silent during an attack.
func (w *watcher) failures(e *guard.Event, ending events.Ending) {
	if e.Repeat || ending != events.Failed && ending != events.Succeeded {
		return
	}
	switch edge, is, usual := w.ratio.count(e.At, ending == events.Failed, w.attack != nil); edge {
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
	if w.notified(name, at) {
		return false
	}
	if w.room(at) {
		w.attacked[name] = at
	}
	return true
}

func (w *watcher) notified(name string, at time.Time) bool {
	last, ok := w.attacked[name]
	return ok && at.Sub(last) < accountQuiet
}

// room reports whether another entry fits. It deletes entries older than a day at most once a minute, so that a flood
// of names does not scan the map each time.
func (w *watcher) room(at time.Time) bool {
	if len(w.attacked) >= maxAccounts && at.Sub(w.swept) >= sweepEvery {
		w.swept = at
		maps.DeleteFunc(w.attacked, func(_ string, last time.Time) bool { return at.Sub(last) >= accountQuiet })
	}
	return len(w.attacked) < maxAccounts
}

func (w *watcher) modeSwitch(s events.ModeSwitch) {
	// An attack and the mode that it causes go out in one message: the second alert sends it.
	w.attackEdge(s)
	if s.Cause == events.CauseSteady {
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
	silent := w.attack != nil && w.attack.silent
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

func (w *watcher) attackEdge(s events.ModeSwitch) {
	switch {
	case w.attack == nil && s.Attacked:
		w.attack = newAttack(s)
		if !w.attack.silent {
			w.began(s.At)
		}
	case w.attack != nil && !s.Attacked:
		if w.attack.silent {
			w.resumed++
		} else {
			w.raise(s.At, AttackEnded, w.attack.summary(s.At)+w.kept())
		}
		w.attack = nil
	case w.attack != nil && w.attack.silent && s.Cause == events.CauseFailureRate && !s.Resumed:
		w.speak(s.At)
	}
}

// began raises the alert of an attack and mentions attacks without an alert since the last one.
func (w *watcher) began(at time.Time) {
	of, again := w.attack.start, ""
	if w.resumed > 0 {
		again = fmt.Sprintf("; short attacks without an alert since then: %d", w.resumed)
	}
	w.resumed = 0
	w.raise(at, AttackBegan, fmt.Sprintf("failure rate %s a minute; CAPTCHA mode turns on above %s%s",
		events.Rate(of.FailureRate), events.Rate(of.Threshold), again))
}

// speak raises the postponed alerts of a resumed attack.
func (w *watcher) speak(at time.Time) {
	w.attack.silent = false
	if w.began(at); w.silent != nil {
		w.raise(at, ModeOn, modeText(*w.silent))
		w.silent = nil
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
		fmt.Fprintf(&b, "\nuntil %s", clock(s.Until))
	}
	return b.String()
}

const (
	topSlots       = 64
	topShown       = 5
	maxUnknownKept = 20
)

// An attack collects the numbers for its summary, in bounded memory.
type attack struct {
	began          time.Time
	start          events.ModeSwitch
	silent         bool // small, and resumes an attack that had its alert
	attempts       int  // failed or stopped; from alertFrom on it is not small
	alertFrom      int
	counts         map[events.Ending]int
	addresses      crowd
	accounts       crowd
	newClients     int      // logins from unknown clients
	unknownClients []string // the first of them; the attacker may be among them
}

func newAttack(s events.ModeSwitch) *attack {
	return &attack{began: s.At, start: s, silent: s.Resumed, alertFrom: int(resumedFrom * s.Threshold),
		counts: make(map[events.Ending]int), addresses: newCrowd(), accounts: newCrowd()}
}

func (a *attack) add(e *guard.Event, ending events.Ending) {
	switch ending {
	case events.Undecided:
		return
	case events.Succeeded:
		a.addSuccess(e)
	case events.Failed, events.Challenged, events.Refused, events.Waited, events.FakeFailure:
		a.attempts++
		a.addresses.add(events.AddressText(e.Address))
		a.accounts.add(events.Escape(e.Account))
	}
	a.counts[ending]++
}

func (a *attack) addSuccess(e *guard.Event) {
	if !e.NewClient {
		return
	}
	if a.newClients++; a.newClients <= maxUnknownKept {
		a.unknownClients = append(a.unknownClients, fmt.Sprintf("%s from %s", Name(e.Account), events.AddressText(e.Address)))
	}
}

func (a *attack) summary(end time.Time) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("Duration: %s, from %s to %s.", end.Sub(a.began).Round(time.Second), clock(a.began), clock(end))
	line("Failed: %d, challenged: %d, delayed: %d, blocked: %d.",
		a.counts[events.Failed], a.counts[events.Challenged], a.counts[events.Waited], a.counts[events.Refused]+
			a.counts[events.FakeFailure])
	line("About %d IP addresses and %d accounts.", a.addresses.distinct.Count(), a.accounts.distinct.Count())
	line("Top IP addresses (attempts, at least): %s.", a.addresses.first(func(s string) string { return s }))
	line("Most attacked accounts (attempts, at least): %s.", a.accounts.first(Name))
	line("Logins from unknown clients meanwhile: %d.%s", a.newClients, a.successes())
	return b.String()
}

func (a *attack) successes() string {
	if len(a.unknownClients) == 0 {
		return ""
	}
	text := " Check them: " + strings.Join(a.unknownClients, "; ")
	if more := a.newClients - len(a.unknownClients); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text + "."
}

// A crowd counts the IP addresses or accounts of an attack.
type crowd struct {
	distinct *tops.Distinct
	busiest  *tops.Top[int]
}

func newCrowd() crowd { return crowd{tops.NewDistinct(), tops.New[int](topSlots)} }

func (c crowd) add(name string) {
	c.distinct.Add(name)
	if n := c.busiest.Of(name); n != nil {
		*n++
	}
}

func (c crowd) first(show func(string) string) string {
	counts := map[string]int{}
	for name, n := range c.busiest.All() {
		counts[name] = *n
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var parts []string
	for _, name := range names[:min(topShown, len(names))] {
		parts = append(parts, fmt.Sprintf("%s (%d)", show(name), counts[name]))
	}
	return cmp.Or(strings.Join(parts, ", "), "none stands out")
}
