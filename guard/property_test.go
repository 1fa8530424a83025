//go:build !race

package guard_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/testing/world"
)

// A check is one password that was looked at and was wrong.
type check struct {
	at               time.Time
	account, address string
	privileged       bool
}

// TestR2EveryLimitHoldsInEveryWindow runs random histories, with successes,
// solved challenges, privileged places and abandoned checks among them, and
// then looks at every window of every limitSet.
func TestR2EveryLimitHoldsInEveryWindow(t *testing.T) {
	t.Parallel()
	attempts := 0
	rapid.Check(t, func(rt *rapid.T) {
		mode := captchamode.DefaultConfig()
		mode.ThresholdMin, mode.ThresholdMax = 1e6, 1e6
		w := world.New(t, world.Options{Mode: &mode})
		var wrong []check
		pairs, fresh := map[string][]check{}, map[string][]check{} // fresh: since the pair's last success
		// One seed for a history: a draw for every choice would take minutes
		// under the race detector.
		dice := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		for range rapid.IntRange(1100, 1800).Draw(rt, "attempts") {
			attempts++
			steps := []int{0, 1, 100, 900, 5_000, 60_000, 400_000}
			w.Clock.Advance(time.Duration(steps[dice.IntN(len(steps))]) * time.Millisecond)
			account := fmt.Sprintf("account%d", dice.IntN(4))
			from := fmt.Sprintf("192.0.2.%d", 1+dice.IntN(4))
			a, password := world.From(account, from), "wrong"
			if dice.IntN(10) == 0 {
				a = w.Solved(t, account, from)
			}
			if dice.IntN(20) == 0 {
				password = world.Right
			}
			d, ok := w.Try(t, a, password)
			pair := account + " " + from
			switch one := (check{w.Clock.Now(), account, from, d.Known}); {
			case d.Action != guard.Proceed:
			case ok:
				delete(fresh, pair)
			default:
				delayed(rt, pair, fresh[pair], one.at)
				fresh[pair] = append(fresh[pair], one)
				pairs[pair] = append(pairs[pair], one)
				if !d.Verdict.Solved {
					wrong = append(wrong, one)
					budget(rt, pair, pairs[pair])
				}
			}
		}
		hold(rt, "address", guard.DefaultPolicy().Address, wrong, func(c check) string { return strangers(c, c.address) })
		hold(rt, "network", guard.DefaultPolicy().Network, wrong, func(c check) string { return strangers(c, "192.0.2") })
		hold(rt, "account", guard.DefaultPolicy().Account, wrong, func(c check) string { return strangers(c, c.account) })
	})
	if attempts < 100_000 {
		t.Errorf("only %d attempts were made", attempts)
	}
	t.Logf("%d attempts", attempts)
}

func strangers(c check, subject string) string {
	if c.privileged {
		return ""
	}
	return subject
}

// hold fails if some closed window of a limit holds more checks of one subject
// than the limit allows without a solved challenge.
func hold(t *rapid.T, what string, limits []guard.Limit, wrong []check, subject func(check) string) {
	by := map[string][]time.Time{}
	for _, c := range wrong {
		if s := subject(c); s != "" {
			by[s] = append(by[s], c.at)
		}
	}
	for s, at := range by {
		for _, l := range limits {
			for i := range at {
				if j := i + l.Failures; j < len(at) && at[j].Sub(at[i]) <= l.Window {
					t.Fatalf("%s %s: %d passwords within %v, limit %d per %v", what, s, l.Failures+1, at[j].Sub(at[i]), l.Failures, l.Window)
				}
			}
		}
	}
}

// delayed fails if a pair was tried again before it was due.
func delayed(t *rapid.T, pair string, before []check, now time.Time) {
	n, last := 0, now
	for _, c := range before {
		if now.Sub(c.at) <= time.Hour {
			n, last = n+1, c.at
		}
	}
	delay := time.Second
	for range n - 3 {
		delay = min(2*delay, 20*time.Second)
	}
	if n >= 3 && now.Sub(last) < delay {
		t.Fatalf("%s: tried %v after failure %d, due after %v", pair, now.Sub(last), n, delay)
	}
}

// budget fails if a privileged pair had more passwords checked than its budget
// without a solved challenge.
func budget(t *rapid.T, pair string, checks []check) {
	newest := checks[len(checks)-1]
	if !newest.privileged {
		return
	}
	for _, l := range guard.DefaultPolicy().KnownClient {
		if i := len(checks) - 1 - l.Failures; i >= 0 && newest.at.Sub(checks[i].at) <= l.Window {
			t.Fatalf("%s: more than its budget of %d within %v", pair, l.Failures, l.Window)
		}
	}
}
