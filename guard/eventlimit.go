package guard

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"authguard/failures"
)

// An EventLimit is one rung on something that is no login: at most Count of the
// event in any closed interval of length Window for one subject, and what happens
// beyond.
type EventLimit struct {
	Count  int
	Window time.Duration
	Action Action // Refuse, Challenge, Wait or Alert
	// By is what it counts for: OnAccount, OnAddress, OnNetwork, OnSubject or OnSite.
	By SubjectKind
	// Monitor: decided, recorded and shown, not enforced.
	Monitor bool
}

// MaxEvents is how many events a policy may limit: each has metrics of its own.
const MaxEvents = 100

var eventName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

// eventKinds are what an event can be counted for, as problems list them.
var eventKinds = []SubjectKind{OnAccount, OnAddress, OnNetwork, OnSubject, OnSite}

// events checks each event's limits, ladder by ladder: those that count for the same.
func (c *checker) events(all map[string][]EventLimit) {
	c.check(len(all) <= MaxEvents, "events", "must be at most %d, not %d", MaxEvents, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		path := "events." + name
		c.check(eventName.MatchString(name), path, "must have a name of 1 to 40 lower-case letters, digits and -, such as password-reset")
		c.check(len(all[name]) > 0, path, "must have a limit such as 5/1h block by account")
		for i, l := range all[name] {
			at := fmt.Sprintf("%s[%d]", path, i)
			c.check(slices.Contains(eventKinds, l.By), at+".by", "must be account, address, network, subject or site")
			c.check(l.Action == Block || l.Action == Challenge || l.Action == Delay || l.Action == Alert, at+".action",
				"must be block, challenge, delay or alert, not %s", l.Action)
		}
		for _, by := range eventKinds {
			c.eventLadder(path, by, all[name])
		}
	}
}

// eventLadder checks those of an event's limits that count for one kind of subject.
func (c *checker) eventLadder(path string, by SubjectKind, limits []EventLimit) {
	ladder, rungs := make([]Limit, len(limits)), 0
	for i, l := range limits {
		if ladder[i].Monitor = true; l.By == by { // what is watched only stops nothing
			ladder[i] = l.limit()
			rungs++
		}
	}
	c.check(rungs <= failures.MaxRungs, path, "at most %d limits by %s, not %d", failures.MaxRungs, by, rungs)
	for i, l := range ladder {
		if limits[i].By != by {
			continue
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		ok := c.check(l.Failures >= 1 && l.Failures <= failures.MaxFailures, at+".count",
			"must be from 1 to %d, not %d", failures.MaxFailures, l.Failures)
		ok = c.check(l.Window >= time.Millisecond && l.Window <= failures.MaxWindow && whole(l.Window), at+".window",
			"must be from 1ms to %v in whole milliseconds, not %v", failures.MaxWindow, l.Window) && ok
		if ok {
			c.reachable(at, "count", ladder, i)
		}
	}
}

func (l EventLimit) limit() Limit {
	return Limit{Failures: l.Count, Window: l.Window, Action: l.Action, Monitor: l.Monitor}
}

// eventRules are an event's limits made ready: a ladder for each subject, and those
// that one trip to the store charges together.
type eventRules struct {
	by    [len(subjectNames)]*rule // nil: nothing is limited by it
	trips []eventTrip
}

// An eventTrip is charged all or not at all: the address with its network, or one
// other subject.
type eventTrip struct {
	rules       [subjectCount]*rule // by place in the Charge
	ladders     Ladders
	first, last uint8
	binds       [lifted + 1]Binds
}

func compileEvents(all map[string][]EventLimit) map[string]*eventRules {
	compiled := make(map[string]*eventRules, len(all))
	for name, limits := range all {
		compiled[name] = compileEvent(limits)
	}
	return compiled
}

func compileEvent(limits []EventLimit) *eventRules {
	e := new(eventRules)
	for _, by := range eventKinds {
		var ladder []Limit
		for _, l := range limits {
			if l.By == by {
				ladder = append(ladder, l.limit())
			}
		}
		if len(ladder) > 0 {
			e.by[by] = newRule(by, ladder, failures.Backoff{})
		}
	}
	for _, one := range [][2]*rule{{e.by[OnAddress], e.by[OnNetwork]}, {e.by[OnAccount]}, {e.by[OnSubject]}, {e.by[OnSite]}} {
		if one != [2]*rule{} {
			e.trips = append(e.trips, newEventTrip(one))
		}
	}
	// What is full first is asked first: nothing else is charged for nothing then.
	slices.SortStableFunc(e.trips, func(a, b eventTrip) int { return a.least() - b.least() })
	return e
}

// least is the smallest count that stops an event at this trip.
func (t *eventTrip) least() int {
	n := failures.MaxFailures + 1
	for _, r := range t.rules[t.first:t.last] {
		for _, l := range r.limits {
			if l.Action != Alert && !l.Monitor {
				n = min(n, l.Failures)
			}
		}
	}
	return n
}

// newEventTrip is for rules in the place of the address and of the network.
func newEventTrip(rules [2]*rule) (t eventTrip) {
	nothing := failures.MustLadder(failures.Backoff{})
	for i := range t.ladders {
		t.ladders[i] = nothing
	}
	t.first, t.last = AddressSubject, AddressSubject
	for i, r := range rules {
		if r == nil {
			continue
		}
		if t.last == AddressSubject {
			t.first = uint8(i)
		}
		t.last = uint8(i) + 1
		t.rules[i], t.ladders[i] = r, r.ladder
		for l := range t.binds {
			for status := range t.binds[l] {
				t.binds[l][status][i] = r.bindsEvent(lift(l))
			}
		}
	}
	return t
}

// bindsEvent are the rungs that stop an event.
func (r *rule) bindsEvent(l lift) failures.Mask {
	bind := r.enforce &^ failures.BackoffBit &^ r.then[Alert]
	switch {
	case l&allowedAddress != 0 && r.ofAddress():
		return 0
	case l&claimedSolve != 0:
		bind &^= r.then[Challenge]
	}
	return bind
}
