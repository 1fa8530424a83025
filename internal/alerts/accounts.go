package alerts

import (
	"maps"
	"time"

	"authguard/guard"
)

const (
	// maxAccounts is how many accounts under attack are told apart in a day;
	// what is beyond them is told once, as a whole.
	maxAccounts  = 10000
	accountQuiet = 24 * time.Hour
	sweepEvery   = time.Minute
)

// attacked remembers of which accounts it was told that they are under attack.
type attacked struct {
	told  map[string]time.Time
	full  time.Time // when it was last told that there are too many
	swept time.Time // when old ones were last looked for
}

func newAttacked() *attacked { return &attacked{told: make(map[string]time.Time)} }

type news uint8

const (
	known news = iota
	fresh
	overflow // the first in a day that found no room
)

func (a *attacked) see(account string, at time.Time) news {
	if last, ok := a.told[account]; ok && at.Sub(last) < accountQuiet {
		return known
	}
	if _, ok := a.told[account]; !ok && !a.room(at) {
		if !a.full.IsZero() && at.Sub(a.full) < accountQuiet {
			return known
		}
		a.full = at
		return overflow
	}
	a.told[account] = at
	return fresh
}

// room forgets what is older than a day. It does not look at each of a flood
// of names: that would cost a walk over the whole memory for every event.
func (a *attacked) room(at time.Time) bool {
	if len(a.told) < maxAccounts {
		return true
	}
	if at.Sub(a.swept) < sweepEvery {
		return false
	}
	a.swept = at
	maps.DeleteFunc(a.told, func(_ string, last time.Time) bool { return at.Sub(last) >= accountQuiet })
	return len(a.told) < maxAccounts
}

// underAttack reports whether the event met a full rung of its account's
// ladder for strangers.
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
