package trustedtest

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"authguard/trusted"
)

// A model is the expected state of one account: a list in order of use. Its times only increase, and it stays below
// trusted.MaxSpent, where stores may differ.
type model struct {
	used  []use // least recently used first
	reset time.Time
}

type use struct {
	place trusted.Key
	spent bool
	first time.Time
	last  time.Time
}

func (m *model) touch(place trusted.Key, spent bool, now time.Time) bool {
	one := use{place, spent, now, now}
	if i := m.find(place, now); i >= 0 && !spent && !m.used[i].spent {
		one.first = m.used[i].first
	} else if !spent && !m.room(now) {
		return false
	}
	m.drop(place)
	m.used = append(m.used, one)
	return true
}

// room evicts a client if there are ten and none of them is new.
func (m *model) room(now time.Time) bool {
	known, evict := 0, -1
	for i, u := range m.used {
		if u.spent {
			continue
		}
		known++
		if brief := u.last.Sub(u.first) < trusted.LongStanding; evict < 0 ||
			brief && m.used[evict].last.Sub(m.used[evict].first) >= trusted.LongStanding {
			evict = i
		}
	}
	switch {
	case known < trusted.DefaultLimits:
		return true
	case slices.ContainsFunc(m.used, func(u use) bool { return !u.spent && now.Sub(u.first) < trusted.NewFor }):
		return false
	}
	m.used = slices.Delete(m.used, evict, evict+1)
	return true
}

func (m *model) find(place trusted.Key, now time.Time) int {
	return slices.IndexFunc(m.expire(now), func(u use) bool { return u.place == place })
}

func (m *model) drop(place trusted.Key) {
	m.used = slices.DeleteFunc(m.used, func(u use) bool { return u.place == place })
}

func (m *model) expire(now time.Time) []use {
	m.used = slices.DeleteFunc(m.used, func(u use) bool { return now.Sub(u.last) >= trusted.DefaultTTL })
	return m.used
}

func (m *model) status(place trusted.Key, now time.Time) trusted.Status {
	for _, u := range m.expire(now) {
		switch {
		case u.place != place:
		case u.spent:
			return trusted.Spent
		default:
			return trusted.Known
		}
	}
	return trusted.Unknown
}

// histories uses a different account for each run, so that all share one store.
func histories(t *testing.T, s subject) {
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		history(t, rt, s, key('r', runs))
	})
}

const modelClients = 14

func history(t *testing.T, rt *rapid.T, s subject, who trusted.Key) {
	var m model
	now := start
	for range rapid.IntRange(1, 60).Draw(rt, "steps") {
		now = now.Add(
			time.Duration(
				rapid.SampledFrom([]int64{1, 60_000, 3_700_000, 3_700_000, 86_400_000, 40 * 86_400_000}).Draw(rt, "passes"),
			) * time.Millisecond,
		)
		where := place(rapid.IntRange(1, modelClients).Draw(rt, "place"))
		switch rapid.SampledFrom([]string{"remember", "remember", "remember", "spend", "forget", "reset"}).Draw(rt, "does") {
		case "remember":
			if m.touch(where, false, now) {
				s.remember(t, who, where, now)
			} else {
				s.full(t, who, where, now)
			}
		case "spend":
			s.spend(t, who, where, now)
			m.touch(where, true, now)
		case "forget":
			s.forget(t, who, where, now)
			m.drop(where)
		case "reset":
			s.forget(t, who, trusted.Key{}, now)
			m.used, m.reset = nil, now
		}
		if got, want := s.status(t, who, where, now), m.status(where, now); got != want {
			rt.Fatalf("place %v has status %d, the model says %d", where, got, want)
		}
	}
	agree(t, rt, s, who, &m, now)
}

func agree(t *testing.T, rt *rapid.T, s subject, who trusted.Key, m *model, now time.Time) {
	for n := 1; n <= modelClients; n++ {
		if got, want := s.status(t, who, place(n), now), m.status(place(n), now); got != want {
			rt.Fatalf("place %d has status %d, the model says %d", n, got, want)
		}
	}
	if got := s.resetAt(t, who); !got.Equal(m.reset) {
		rt.Fatalf("reset at %v, the model says %v", got, m.reset)
	}
}
