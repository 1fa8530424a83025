//go:build !race

package replay_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"authguard/internal/replay"
)

// Eight logins a minute around noon, and almost none else: after a week the threshold is
// five times eight at noon before anybody comes, and the floor by night.
func TestTheReportHasTheThresholdOfTheHour(t *testing.T) {
	t.Parallel()
	var lines []line
	for minute := range 9 * 24 * 60 {
		logins := 0
		if hour := minute / 60 % 24; hour >= 10 && hour < 14 {
			logins = 8
		} else if minute%10 == 0 {
			logins = 1
		}
		for i := range logins {
			lines = append(lines, at(minute*60+i, fmt.Sprint("user", minute, "-", i), "198.51.100.7", "ok"))
		}
	}
	p := replayed(t, lines, replay.Options{}, defaults()).Policies[0]
	seen := map[int]float64{}
	for _, b := range p.Series {
		if d := b.At.Sub(monday); d >= 8*24*time.Hour && b.Threshold > 0 {
			seen[int(d.Hours())%24] = b.Threshold
		}
	}
	if seen[3] != 30 || seen[12] < 39 || seen[12] > 41 {
		t.Errorf("at three %v, at noon %v", seen[3], seen[12])
	}
}

// The figures are those of a count by hand: each attempt with the plainest code
// there is, over all that came before.
func TestTheReportIsWhatIsCountedByHand(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 1))
		var lines []line
		second := 0
		for range 1500 {
			second += random.IntN(90)
			if random.IntN(500) == 0 {
				second += 30 * 3600
			}
			outcome := "failure"
			if random.IntN(3) == 0 {
				outcome = "success"
			}
			lines = append(lines, at(second, fmt.Sprint("name", random.IntN(20)), fmt.Sprintf("10.0.0.%d", random.IntN(8)), outcome))
		}
		r := replayed(t, lines, replay.Options{Cases: 3000}, defaults())
		want := byHand(t, lines)
		if got := r.Policies[0]; got.Guesses != want.Guesses || got.Logins != want.Logins {
			t.Errorf("seed %d:\n%+v\n%+v\nby hand\n%+v\n%+v", seed, got.Guesses, got.Logins, want.Guesses, want.Logins)
		}
		for _, through := range r.Policies[0].Through {
			if n := want.Reasons[through.Kind+" "+through.Name]; n != through.Checked {
				t.Errorf("seed %d: %+v, by hand %d", seed, through, n)
			}
		}
	}
}
