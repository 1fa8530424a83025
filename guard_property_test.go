package authguard_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/world"
)

// A check is one password that was looked at and was wrong.
type check struct {
	at               time.Time
	account, address string
	privileged       bool
}

// TestEveryLadderHoldsInEveryWindow runs random histories, with successes,
// solved challenges, privileged places and abandoned checks among them, and
// then looks at every window of every ladder.
func TestEveryLadderHoldsInEveryWindow(t *testing.T) {
	t.Parallel()
	attempts := 0
	rapid.Check(t, func(rt *rapid.T) {
		mode := captchamode.DefaultConfig()
		mode.Floor, mode.Ceiling = 1e6, 1e6
		w := world.New(t, world.Options{Mode: &mode})
		var wrong []check
		for range rapid.IntRange(200, 1500).Draw(rt, "attempts") {
			attempts++
			w.Clock.Advance(time.Duration(rapid.SampledFrom([]int{0, 1, 100, 900, 5_000, 60_000, 400_000}).Draw(rt, "ms")) * time.Millisecond)
			account := fmt.Sprintf("account%d", rapid.IntRange(0, 3).Draw(rt, "account"))
			from := fmt.Sprintf("192.0.2.%d", rapid.IntRange(1, 4).Draw(rt, "address"))
			a, password := world.From(account, from), "wrong"
			if rapid.IntRange(0, 9).Draw(rt, "solve") == 0 {
				a = w.Solved(t, account, from)
			}
			if rapid.IntRange(0, 19).Draw(rt, "right") == 0 {
				password = world.Right
			}
			d, ok := w.Try(t, a, password)
			solved := d.Solve.Solved
			if d.Action == guard.Proceed && !ok && !solved {
				wrong = append(wrong, check{w.Clock.Now(), account, from, d.Privileged})
			}
		}
		hold(rt, "address", guard.DefaultPolicy().Address, wrong, func(c check) string { return strangers(c, c.address) })
		hold(rt, "network", guard.DefaultPolicy().Network, wrong, func(c check) string { return strangers(c, "192.0.2") })
		hold(rt, "account", guard.DefaultPolicy().Account, wrong, func(c check) string { return strangers(c, c.account) })
	})
	if attempts < 50_000 {
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
