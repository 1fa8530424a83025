package attacks

import (
	"slices"
	"time"

	"authguard/guard"
	"authguard/internal/events"
	"authguard/internal/times"
)

const (
	// mostLedTo limits the attempts on an account or from an IP address that are kept for an attack detected later.
	mostLedTo = 100
	runSlots  = 128
)

// sources find the attacks that one attempt of an unknown client reveals. CAPTCHA mode's detector reveals those on the
// site.
var sources = [...]func(e *guard.Event) []subject{fullLimits, sprayedPassword}

// fullLimits finds attacks by the limits of the account and the IP address that unknown clients fill, monitored or not.
// At the memory bound, accounts share a counter; then only the account's own failures count.
func fullLimits(e *guard.Event) (all []subject) {
	for _, r := range e.Reasons {
		if r.Cause != guard.LimitReached {
			continue
		}
		switch own := r.Limit == nil || e.AccountFailures >= r.Limit.Failures; {
		case r.Subject == guard.OnAccount && own:
			all = append(all, subject{Account, events.Escape(e.Account)})
		case r.Subject == guard.OnAddress && e.Address.IsValid():
			all = append(all, subject{Address, addressOf(e.Address)})
		}
	}
	return all
}

func sprayedPassword(e *guard.Event) []subject {
	if e.Sprayed {
		return []subject{{kind: Spray}}
	}
	return nil
}

// lookBack counts the event in its minute, for an attack that is detected later.
func (of *realm) lookBack(e *guard.Event, ending events.Ending) {
	minute, n := e.At.Unix()/60, len(of.back)
	if n == 0 || of.back[n-1].minute < minute {
		of.back = slices.DeleteFunc(of.back,
			func(b backMinute) bool { return b.minute <= minute-int64(lookBack/time.Minute) })
		of.back = append(of.back, backMinute{minute, newTally(of.all.hash)})
	}
	of.back[len(of.back)-1].add(e, ending)
}

// subjectsOf returns the attacks that an attempt would belong to.
func subjectsOf(e *guard.Event) []subject {
	all := []subject{{kind: Site}}
	if e.Account != "" {
		all = append(all, subject{Account, events.Escape(e.Account)})
	}
	if e.Address.IsValid() {
		all = append(all, subject{Address, addressOf(e.Address)})
	}
	if e.Sprayed {
		all = append(all, subject{kind: Spray})
	}
	return all
}

// A run is the newest attempts on one account or from one IP address, at most quietAfter apart, before a limit fills.
type run struct {
	events []guard.Event
	good   int
}

// recognize keeps an attempt of an unknown client, and begins the attacks that it reveals.
func (of *realm) recognize(e *guard.Event) {
	for _, s := range subjectsOf(e) {
		if of.runs[s.kind] == nil || of.running[s] != nil {
			continue
		}
		if t := of.runs[s.kind].Of(s.name); t != nil {
			if n := len(t.events); n > 0 && e.At.Sub(t.events[n-1].At) > quietAfter {
				*t = run{}
			} else if n >= mostLedTo {
				t.events = t.events[1:]
			}
			t.events = append(t.events, *e)
		}
	}
	for _, source := range sources {
		for _, s := range source(e) {
			switch {
			case of.running[s] != nil:
			case of.count(s.kind) < MostAtOnce:
				of.beginFrom(s, e)
			case e.At.Sub(of.crowded[s.kind]) >= sameFor: // invented names must not suppress an alert in silence
				of.crowded[s.kind] = e.At
				of.all.reports = append(of.all.reports, func() { of.all.config.Crowded(of.name, s.kind) })
			}
		}
	}
}

// beginFrom begins an attack with the attempts that led to it, unless the IP address is shared: its users mistype too,
// but then log in.
func (of *realm) beginFrom(s subject, e *guard.Event) {
	if t := of.run(s); s.kind == Address && (t == nil || len(t.events) < fewFailures || 2*t.good >= len(t.events)) {
		return
	}
	one := of.begin(s, e.At, e.At)
	one.resumed = true
	if ledTo := of.takeRun(s); len(ledTo) > 0 {
		one.add(ledTo)
	} else {
		one.add([]guard.Event{*e})
	}
}

// count returns the number of running attacks of a kind.
func (of *realm) count(kind string) (n int) {
	for s := range of.running {
		if s.kind == kind {
			n++
		}
	}
	return n
}

// run returns the newest attempts on an account or from an IP address, or nil.
func (of *realm) run(s subject) *run {
	if of.runs[s.kind] != nil {
		for name, one := range of.runs[s.kind].All() {
			if name == s.name {
				return one
			}
		}
	}
	return nil
}

// takeRun returns the attempts that led to an attack, and resets them.
func (of *realm) takeRun(s subject) (ledTo []guard.Event) {
	if one := of.run(s); one != nil {
		ledTo, *one = one.events, run{}
	}
	return ledTo
}

func (of *realm) good(e *guard.Event) {
	if !e.Address.IsValid() {
		return
	}
	if t := of.runs[Address].Of(addressOf(e.Address)); t != nil {
		t.good++
	}
}

// add counts attempts from before the detection.
func (one *running) add(attempts []guard.Event) {
	for i := range attempts {
		e := &attempts[i]
		one.tally.add(e, events.EndingOf(e))
		one.seen = times.Later(one.seen, e.At)
		if e.At.Before(one.began) {
			one.began = e.At
		}
	}
}

// rotate drops old runs, so that names from long ago weigh nothing.
func (of *realm) rotate(now time.Time) {
	for kind, old := range of.runs {
		fresh := events.NewTop[run](runSlots)
		for name, t := range old.All() {
			if n := len(t.events); n > 1 && now.Sub(t.events[n-1].At) <= quietAfter {
				for range n - 1 {
					fresh.Of(name)
				}
				*fresh.Of(name) = *t
			}
		}
		of.runs[kind] = fresh
	}
}
