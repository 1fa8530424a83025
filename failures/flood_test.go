//go:build !race

package failures_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"authguard/failures"
	"authguard/failures/failurestest"
)

func TestR6FloodOfNamesPushesNoCounterOut(t *testing.T) {
	t.Parallel()
	c := newClock()
	m := newMemory(t, c, failures.MinBytes)
	for range 4 {
		fail(t, m, victim)
	}
	names := uint64(500_000) // more than the bound has room for
	if asked, err := strconv.ParseUint(os.Getenv("FLOOD_NAMES"), 10, 64); err == nil {
		names = asked
	}
	for n := range names {
		k := nameKey(n)
		fail(t, m, failures.Subject{Shard: k, Key: k, Limits: nameLimits, Bind: failures.Every})
	}
	keys, bytes := m.Size()
	if bytes > failures.MinBytes {
		t.Errorf("%d keys take %d bytes, over the bound of %d", keys, bytes, failures.MinBytes)
	}
	if !fail(t, m, victim) {
		t.Error("the victim's fifth failure found no room: its count grew")
	}
	if fail(t, m, victim) {
		t.Error("the victim's sixth failure found room: its count was forgotten")
	}
}

func TestAtTheBoundNewNamesAreStricterNeverForgotten(t *testing.T) {
	t.Parallel()
	c := newClock()
	m := newMemory(t, c, failures.MinBytes)
	for n := range uint64(450_000) {
		k := nameKey(n)
		fail(t, m, failures.Subject{Shard: k, Key: k, Limits: nameLimits, Bind: failures.Every})
	}
	for n := range uint64(1000) {
		k := nameKey(1<<50 + n)
		late := failures.Subject{Shard: k, Key: k, Limits: nameLimits, Bind: failures.Every}
		checked := 0
		for range 10 {
			if fail(t, m, late) {
				checked++
			}
		}
		if checked > 5 {
			t.Fatalf("a name that came late got %d checks, over its limit of 5", checked)
		}
	}
	c.Advance(failurestest.Retain + time.Second)
	m.Sweep()
	if keys, _ := m.Size(); keys != 0 {
		t.Errorf("%d keys are left after the flood has passed", keys)
	}
	if !fail(t, m, victim) {
		t.Error("no room for a new name after the flood has passed")
	}
}

func TestKeyThatSharedTakesItsCountAlong(t *testing.T) {
	t.Parallel()
	c := newClock()
	m := newMemory(t, c, failures.MinBytes)
	for n := range uint64(450_000) {
		k := nameKey(n)
		fail(t, m, failures.Subject{Shard: k, Key: k, Limits: nameLimits, Bind: failures.Every})
	}
	c.Advance(23 * time.Hour)
	unbound := victim
	unbound.Bind = 0
	for range 3 {
		fail(t, m, unbound)
	}
	c.Advance(2 * time.Hour) // the flood is dead, the victim's failures are not
	m.Sweep()
	for i, room := range []bool{true, true, false} {
		if fail(t, m, victim) != room {
			t.Errorf("failure %d of 5: room %v", 4+i, !room)
		}
	}
}
