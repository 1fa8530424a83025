package failurestest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"authguard/failures"
)

// A history is the expected state of one key: all its charges, and whether each is decided.
type history struct {
	limits  *failures.Limits
	charges []entry
	cleared time.Duration // the newest charge that the backoff ignores; -1: none
}

type entry struct {
	at      time.Duration
	decided bool
	moment  failures.ChargeID
}

func (h *history) room(now time.Duration) bool {
	for _, r := range h.limits.List() {
		if h.within(now, r.Window) >= r.Failures {
			return false
		}
	}
	p, fresh := h.limits.Backoff(), 0
	for _, c := range h.charges {
		if now-c.at <= p.Window && c.at > h.cleared {
			fresh++
		}
	}
	return fresh == 0 || now-h.charges[len(h.charges)-1].at >= p.Delay(fresh)
}

func (h *history) within(now, window time.Duration) (n int) {
	for _, c := range h.charges {
		if now-c.at <= window {
			n++
		}
	}
	return n
}

// crowded describes a closed window with more charges than its limit allows; "" if there is none.
func (h *history) crowded() string {
	for _, r := range h.limits.List() {
		for i := range h.charges {
			if j := i + r.Failures; j < len(h.charges) && h.charges[j].at-h.charges[i].at <= r.Window {
				return fmt.Sprintf("%d charges within %v", r.Failures+1, h.charges[j].at-h.charges[i].at)
			}
		}
	}
	return ""
}

func limitSets(t *rapid.T) []*failures.Limits {
	window := rapid.IntRange(1, 40_000)
	limit := func(label string) failures.Limit {
		return failures.Limit{
			Failures: rapid.IntRange(1, 12).Draw(t, label),
			Window:   time.Duration(window.Draw(t, label)) * time.Millisecond,
		}
	}
	backedOff := failures.Backoff{
		After:  rapid.IntRange(1, 4).Draw(t, "after"),
		First:  300 * time.Millisecond,
		Max:    3 * time.Second,
		Window: 30 * time.Second,
	}
	return []*failures.Limits{
		failures.MustLimits(failures.Backoff{}, limit("a0"), limit("a1"), limit("a2")),
		failures.MustLimits(failures.Backoff{}, limit("b0"), limit("b1")),
		failures.MustLimits(backedOff, limit("c0")),
	}
}

// model compares the store with a simple model on random histories.
func model(t *testing.T, f Fixture) {
	now := time.Duration(0)
	run := byte(0)
	rapid.Check(t, func(rt *rapid.T) {
		f.Advance(Retain + time.Second) // charges of earlier runs have expired
		now += Retain + time.Second
		run++
		all := limitSets(rt)
		keys := make([]history, len(all))
		subjects := make([]failures.Subject, len(all))
		for i, l := range all {
			keys[i].limits, keys[i].cleared = l, -1
			subjects[i] = subject(byte(i*80)+run%80, l)
		}
		for range rapid.IntRange(1, 120).Draw(rt, "steps") {
			step := time.Duration(rapid.IntRange(0, 4000).Draw(rt, "ms")) * time.Millisecond
			f.Advance(step)
			now += step
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				i := rapid.IntRange(0, len(keys)-1).Draw(rt, "key")
				if n := len(keys[i].charges); n > 0 {
					keys[i].cleared = keys[i].charges[n-1].at
				}
				must(t, f.Store.Clear(t.Context(), subjects[i:i+1], failures.BackoffBit))
			case 1, 2:
				settle(t, rt, f, keys, subjects, now)
			default:
				offer(t, rt, f, keys, subjects, now)
			}
		}
	})
}

func offer(t *testing.T, rt *rapid.T, f Fixture, keys []history, subjects []failures.Subject, now time.Duration) {
	chosen := slices.Clone(subjects[rapid.IntRange(0, len(subjects)-1).Draw(rt, "from"):])
	first := len(subjects) - len(chosen)
	room := true
	for i := range chosen {
		room = keys[first+i].room(now) && room
	}
	at, _ := f.charge(t, chosen...)
	if (at.Charged()) != room {
		rt.Fatalf("at %v: charged %v, the rules have room: %v", now, at.Charged(), room)
	}
	if !at.Charged() {
		return
	}
	for i := range chosen {
		h := &keys[first+i]
		h.charges = append(h.charges, entry{at: now, moment: at})
		if why := h.crowded(); why != "" {
			rt.Fatalf("key %d: %s", first+i, why)
		}
	}
}

// settle takes back or decides one key's newest undecided charge.
func settle(t *testing.T, rt *rapid.T, f Fixture, keys []history, subjects []failures.Subject, now time.Duration) {
	i := rapid.IntRange(0, len(keys)-1).Draw(rt, "key")
	h := &keys[i]
	for j := len(h.charges) - 1; j >= 0; j-- {
		c := &h.charges[j]
		if c.decided || now-c.at > PendingFor {
			continue
		}
		if rapid.Bool().Draw(rt, "succeeded") {
			must(t, f.Store.TakeBack(t.Context(), c.moment, subjects[i:i+1]))
			h.charges = slices.Delete(h.charges, j, j+1)
		} else {
			c.decided = true
			must(t, f.Store.Failed(t.Context(), c.moment, subjects[i:i+1]))
		}
		return
	}
}
