package control_test

import (
	"database/sql"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/database/databasetest"
	"authguard/internal/metrics"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func topAddresses(t *metrics.Tops, now time.Time, n int) []metrics.Top {
	return t.First("", now, n).Addresses
}

func topAccounts(t *metrics.Tops, now time.Time, n int) []metrics.Top {
	return t.First("", now, n).Accounts
}

func failed(account, address string, at time.Time) guard.Event {
	e := guard.Event{At: at, Account: account, Action: guard.Proceed, Settled: true, Outcome: guard.Failed}
	if address != "" {
		e.Address = netip.MustParseAddr(address)
	}
	return e
}

func refused(account, address string, at time.Time) guard.Event {
	e := failed(account, address, at)
	e.Settled, e.Action = false, guard.Block
	return e
}

func TestTopsTellFailedFromStoppedAndLeaveSuccessesOut(t *testing.T) {
	t.Parallel()
	tops := new(metrics.Tops)
	success := failed("ann", "192.0.2.1", noon)
	success.Outcome = guard.Succeeded
	undecided := failed("ann", "192.0.2.1", noon)
	undecided.Settled = false
	tops.Handle([]guard.Event{
		failed("ann", "192.0.2.1", noon), refused("ann", "192.0.2.1", noon.Add(time.Second)), failed("bob", "192.0.2.1", noon),
		success, undecided,
	})
	ann, bob := metrics.Top{Name: "ann", Failures: 1, Stopped: 1, LastSeen: noon.Add(time.Second)}, metrics.Top{Name: "bob", Failures: 1, LastSeen: noon}
	if got := topAccounts(tops, noon, 9); len(got) != 2 || got[0] != ann || got[1] != bob {
		t.Errorf("accounts: %+v", got)
	}
	if got := topAddresses(tops, noon, 1); len(got) != 1 || got[0].Failures != 2 || got[0].Stopped != 1 {
		t.Errorf("addresses: %+v", got)
	}
}

func TestTopsForgetAfterAnHour(t *testing.T) {
	t.Parallel()
	tops := new(metrics.Tops)
	for i := range 90 {
		tops.Handle([]guard.Event{failed("ann", "192.0.2.1", noon.Add(time.Duration(i)*time.Minute))})
	}
	last := noon.Add(89 * time.Minute)
	if got := topAccounts(tops, last, 9); len(got) != 1 || got[0].Failures != 60 {
		t.Errorf("after 90 minutes: %+v", got)
	}
	if got := topAccounts(tops, last.Add(30*time.Minute), 9); len(got) != 1 || got[0].Failures != 30 {
		t.Errorf("half an hour later: %+v", got)
	}
	if got := topAddresses(tops, last.Add(time.Hour), 9); len(got) != 0 {
		t.Errorf("an hour later: %+v", got)
	}
}

func TestAnIPv6NetworkOfOneCustomerIsOneAddress(t *testing.T) {
	t.Parallel()
	tops := new(metrics.Tops)
	for i := range 50 {
		tops.Handle([]guard.Event{failed("ann", fmt.Sprintf("2001:db8::%x", i+1), noon)})
	}
	tops.Handle([]guard.Event{failed("ann", "::ffff:192.0.2.1", noon), failed("ann", "192.0.2.1", noon)})
	got := topAddresses(tops, noon, 9)
	if len(got) != 2 || got[0].Failures != 50 || got[0].Name != "2001:db8::32" || got[1].Name != "192.0.2.1" || got[1].Failures != 2 {
		t.Errorf("%+v", got)
	}
}

func TestAFloodOfNamesPushesNobodyHeavyOut(t *testing.T) {
	t.Parallel()
	tops := new(metrics.Tops)
	const flood, every = 60_000, 500 // 240 of 60,240 are ann's, all within a minute
	for i := range flood {
		tops.Handle([]guard.Event{failed(fmt.Sprintf("made-up-%d", i), "", noon.Add(time.Duration(i)*500*time.Microsecond))})
		if i%every == 0 {
			tops.Handle([]guard.Event{failed("ann", "192.0.2.1", noon), refused("ann", "192.0.2.1", noon)})
		}
	}
	got := topAccounts(tops, noon.Add(time.Minute), 1)
	if len(got) != 1 || got[0].Name != "ann" || got[0].Failures+got[0].Stopped < 160 || got[0].Failures > flood/every {
		t.Errorf("%+v", got)
	}
}

func TestAFloodOfNamesCannotGrowTheTops(t *testing.T) {
	t.Parallel()
	tops := new(metrics.Tops)
	long := strings.Repeat("x", 200)
	for i := range 30_000 {
		at := noon.Add(time.Duration(i) * 200 * time.Millisecond) // 100 minutes
		tops.Handle([]guard.Event{failed(fmt.Sprint(long, i), fmt.Sprintf("2001:db8:%x:%x::1", i>>16, i&0xffff), at)})
	}
	if got := len(topAccounts(tops, noon.Add(100*time.Minute), 1<<20)); got > 60*256 {
		t.Errorf("%d accounts are remembered", got)
	}
}

func TestWhatIsNoAccountNameIsNoTop(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		w := newDesk(t, db)
		for _, name := range []string{"", "\x00", strings.Repeat("x", 300), "\xff"} {
			w.w.Wrong(t, name, "192.0.2.1")
		}
		w.tops.Handle(w.w.Events())
		if got := topAccounts(w.tops, w.w.Clock.Now(), 9); len(got) != 0 {
			t.Errorf("%+v", got)
		}
	})
}
