package counters_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"authguard/captchamode/challenge"
	"authguard/internal/alerts"
	"authguard/internal/counters"
	"authguard/internal/outbox"
	"authguard/internal/testing/clocktest"
)

func TestR26AStoreOfSpentChallengesThatFillsIsToldOnce(t *testing.T) {
	t.Parallel()
	log, clock := new(bytes.Buffer), clocktest.At(time.Unix(1_800_000_000, 0))
	told, err := alerts.New(alerts.Config{PerHour: 1}, outbox.Store{Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	spent, settled := challenge.NewMemorySpent(100, clock.Now), challenge.NewMemorySpent(100, clock.Now)
	c := &counters.Room{Stores: []challenge.Spent{spent, settled}, Alerts: told}
	for i := range 100 {
		if warned := len(c.Warnings()) > 0; warned != (i >= 80) {
			t.Errorf("with %d of 100 spent the overview warns: %t", i, warned)
		}
		if _, err := spent.Spend(t.Context(), [16]byte{byte(i)}, clock.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		c.Look()
	}
	clock.Advance(5 * time.Minute)
	for range 3 {
		c.Look()
	}
	filling, room := strings.Count(log.String(), "kind=challenge-store-filling"), strings.Count(log.String(), "kind=challenge-store-recovered")
	if filling != 1 || room != 1 || len(c.Warnings()) != 0 {
		t.Errorf("told %d times that it fills and %d times that there is room, want once each:\n%s", filling, room, log)
	}
	for i := range 80 { // settled tickets take room, too
		until := clock.Now().Add(time.Duration(1+2*(i/40)) * time.Minute)
		if _, err := settled.Spend(t.Context(), [16]byte{byte(i)}, until); err != nil {
			t.Fatal(err)
		}
	}
	for minute, warned := range []bool{true, true, true, true, false} { // half full is no room yet
		if minute == 1 {
			for i := range 20 {
				_, _ = settled.Spend(t.Context(), [16]byte{byte(100 + i)}, clock.Now().Add(2*time.Minute))
			}
		}
		c.Look()
		if got := len(c.Warnings()) > 0; got != warned {
			t.Errorf("minute %d, %.0f %% full: warned %v, want %v", minute, 100*settled.Full(), got, warned)
		}
		clock.Advance(time.Minute)
	}
}
