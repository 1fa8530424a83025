package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"authguard/captchamode/challenge"
	"authguard/internal/alerts"
	"authguard/internal/clocktest"
)

func TestR26AStoreOfSpentChallengesThatFillsIsToldOnce(t *testing.T) {
	t.Parallel()
	log, clock := new(logBuffer), clocktest.At(time.Unix(1_800_000_000, 0))
	told, err := alerts.New(alerts.Config{PerHour: 1}, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	spent := challenge.NewMemorySpent(100, clock.Now)
	c := &counting{spent: spent, settled: challenge.NewMemorySpent(100, clock.Now), alerts: told}
	for i := range 100 {
		if warned := len(c.warn()) > 0; warned != (i >= 80) {
			t.Errorf("with %d of 100 spent the overview warns: %t", i, warned)
		}
		if _, err := spent.Spend(t.Context(), [16]byte{byte(i)}, clock.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		c.lookForRoom()
	}
	clock.Advance(5 * time.Minute)
	for range 3 {
		c.lookForRoom()
	}
	filling, room := strings.Count(log.String(), "kind=challenges-filling"), strings.Count(log.String(), "kind=challenges-room")
	if filling != 1 || room != 1 || len(c.warn()) != 0 {
		t.Errorf("told %d times that it fills and %d times that there is room, want once each:\n%s", filling, room, log)
	}
}
