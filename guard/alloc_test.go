package guard_test

import (
	"net/netip"
	"testing"

	"authguard/captchamode"
	"authguard/failures"
	"authguard/guard"
	"authguard/trusted"
)

// What a failed attempt allocates in memory is what its ticket's copies share,
// and now and then room for its moment. Not parallel: AllocsPerRun counts the allocations of the whole process.
func TestAFailedAttemptAllocatesItsTicket(t *testing.T) {
	counters, err := failures.NewMemory(failures.Config{})
	if err != nil {
		t.Fatal(err)
	}
	places, err := trusted.NewMemory(trusted.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	never := captchamode.DefaultConfig()
	never.Floor, never.Ceiling = 1e9, 1e9
	mode, err := captchamode.NewMode(never, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(guard.Config{
		Policy: guard.DefaultPolicy(), Secret: []byte("at least sixteen random bytes"), Store: guard.NewLocal(counters, places), Mode: mode,
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	fail := func() {
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
	for range 32 {
		fail()
	}
	if got := testing.AllocsPerRun(31, fail); got > 2 { // the other is room for a second failure
		t.Errorf("%v allocations, want at most 2", got)
	}
}

const names = "abcdefghijklmnopqrstuvwxyz012345"
