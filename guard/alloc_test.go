package guard_test

import (
	"net/netip"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/failures"
	"authguard/guard"
	"authguard/trusted"
)

// What a failed attempt allocates in memory is what its ticket's copies share,
// and now and then room for its moment. Not parallel: AllocsPerRun counts the allocations of the whole process.
func TestAFailedAttemptAllocatesItsTicket(t *testing.T) {
	fail := failing(t, nil)
	for range 32 {
		fail()
	}
	if got := testing.AllocsPerRun(31, fail); got > 2 { // the other is room for a second failure
		t.Errorf("%v allocations, want at most 2", got)
	}
}

// A reading of the clock is 50 of such an attempt's 650 ns.
func TestAFailedAttemptReadsTheClockOnce(t *testing.T) {
	t.Parallel()
	read := 0
	fail := failing(t, func() time.Time { read++; return time.Now() })
	read = 0
	if fail(); read != 1 {
		t.Errorf("the clock was read %d times, want 1", read)
	}
}

// failing makes attempts that fail, each for another account from another address.
func failing(t *testing.T, now func() time.Time) (fail func()) {
	counters, err := failures.NewMemory(failures.Config{})
	if err != nil {
		t.Fatal(err)
	}
	places, err := trusted.NewMemory(trusted.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	never := captchamode.DefaultConfig()
	never.ThresholdMin, never.ThresholdMax = 1e9, 1e9
	mode, err := captchamode.NewMode(never, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(guard.Config{
		Policy: guard.DefaultPolicy(), Secret: []byte("at least sixteen random bytes"), Store: guard.NewLocal(counters, places), Mode: mode, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	return func() {
		who := byte(n % 32)
		n++
		d, err := g.Begin(t.Context(), guard.Attempt{Account: names[who : who+1], Address: netip.AddrFrom4([4]byte{192, 0, who, 1})})
		if err != nil || d.Action != guard.Proceed {
			t.Fatal(d.Action, d.Reasons, err)
		}
		if err := g.Settle(t.Context(), d.Ticket, guard.Failed); err != nil {
			t.Fatal(err)
		}
	}
}

const names = "abcdefghijklmnopqrstuvwxyz012345"
