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
		c.check(eventName.MatchString(name), path,
			"must have a name of 1 to 40 lower-case letters, digits and -, such as password-reset")
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

// compileEvents makes the rules of each event, one for each kind of subject.
func compileEvents(all map[string][]EventLimit) map[string][]*rule {
	compiled := make(map[string][]*rule, len(all))
	for name, limits := range all {
		for _, by := range eventKinds {
			var own []Limit
			for _, l := range limits {
				if l.By == by {
					own = append(own, l.limit())
				}
			}
			if len(own) > 0 {
				r := newRule(by, own, failures.Backoff{})
				r.event = name
				compiled[name] = append(compiled[name], r)
			}
		}
		// The smallest limit is charged first: nothing else is charged for nothing then.
		slices.SortStableFunc(compiled[name], func(a, b *rule) int { return a.least() - b.least() })
	}
	return compiled
}

// least is the smallest count that stops an event.
func (r *rule) least() int {
	n := failures.MaxFailures + 1
	for _, l := range r.limits {
		if l.Action != Alert && !l.Monitor {
			n = min(n, l.Failures)
		}
	}
	return n
}
