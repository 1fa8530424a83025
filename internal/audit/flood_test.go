package audit

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/database/databasetest"
	"authguard/internal/events"
	"authguard/internal/operation"
)

// TestR31AFloodOfInventedNamesFlushesNoEvidence: 750 refused attempts a second
// wrote 733 rows a second, and the bound on rows then deleted alice's login.
func TestR31AFloodOfInventedNamesFlushesNoEvidence(t *testing.T) {
	t.Parallel()
	for name, flood := range map[string]struct {
		from func(i int) netip.Addr
		sums int // in each of two minutes
	}{
		"one address":    {func(int) netip.Addr { return client }, 1},
		"many addresses": {func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}) }, mostSums + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
				l := openLog(t, open, Config{})
				l.Handle([]guard.Event{success("alice")})
				l.HandleSwitch(events.ModeSwitch{At: noon, From: "off", To: "on", Cause: "forced", Who: "root"})
				if err := l.Record(t.Context(), operation.Action{Who: "root", What: "unlock", Subject: "bob"}); err != nil {
					t.Fatal(err)
				}
				for second := range 120 {
					for i := range 750 {
						e := refusal(fmt.Sprint("made-up-", second, "-", i))
						e.At, e.Address = noon.Add(time.Duration(second)*time.Second), flood.from(750*second+i)
						l.Handle([]guard.Event{e})
					}
					l.Tick(noon.Add(time.Duration(second) * time.Second))
				}
				drain(l)
				var rows, sum, summed int
				err := l.db.QueryRow("SELECT count(*), sum(count), count(CASE WHEN detail = 'login, summed up' THEN 1 END) FROM audit WHERE decision = 'blocked'").Scan(&rows, &sum, &summed)
				if err != nil {
					t.Fatal(err)
				}
				if sum != 120*750 || summed != 2*flood.sums || rows != summed+2*60 {
					t.Errorf("%d rows (%d of them sums) for %d events, want %d and %d for 90000", rows, summed, sum, 2*flood.sums+2*60, 2*flood.sums)
				}
				if _, err := l.trim(t.Context(), 100); err != nil {
					t.Fatal(err)
				}
				all, err := l.Recent(t.Context(), Filter{Limit: MaxLimit})
				if err != nil || len(all) != 100 {
					t.Fatalf("%d rows are left (%v), want 100", len(all), err)
				}
				kept := map[string]int{}
				for _, r := range all {
					kept[r.Decision]++
				}
				if kept["succeeded"] != 1 || kept["on"] != 1 || kept["unlock"] != 1 {
					t.Errorf("of alice's login, the switch and the administrator's action are left: %v", kept)
				}
			})
		})
	}
}

func TestASumSaysWhatItsAttemptsHaveInCommon(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		one := func(account, address string, second int) {
			e := refusal(account)
			e.At, e.Address = noon.Add(time.Duration(second)*time.Second), netip.MustParseAddr(address)
			l.Handle([]guard.Event{e})
		}
		for i := range perMinute(events.Refused) {
			one(fmt.Sprint("before", i), "198.51.100.1", 0)
		}
		for i := range 3 {
			one("alice", fmt.Sprint("203.0.113.", i), 1+i)
			one(fmt.Sprint("invented", i), "192.0.2.7", 2+i)
			one("bob", fmt.Sprintf("2001:db8:1:%d::1", i), 3)
		}
		rows := written(t, l, Filter{Network: One(netip.MustParseAddr("203.0.113.200"))})
		if len(rows) != 1 {
			t.Fatalf("%d rows for an address in the network: %+v", len(rows), rows)
		}
		want := Row{
			ID: rows[0].ID, At: rows[0].At, Last: rows[0].Last, Kind: KindAttempt, Decision: "blocked", Account: "alice",
			Address: "203.0.113.0/24", Count: 3, Detail: "login, summed up",
		}
		if rows[0] != want || !want.At.Equal(noon.Add(time.Second)) || !want.Last.Equal(noon.Add(3*time.Second)) {
			t.Errorf("got %+v", rows[0])
		}
		if rows := written(t, l, Filter{Network: One(client)}); len(rows) != 1 || rows[0].Account != "" || rows[0].Address != "192.0.2.7" || rows[0].Count != 3 {
			t.Errorf("many names from one address: %+v", rows)
		}
		if rows := written(t, l, Filter{Account: "bob"}); len(rows) != 1 || rows[0].Address != "2001:db8:1::/48" || rows[0].Count != 3 {
			t.Errorf("one name from a network: %+v", rows)
		}
	})
}

// TestR31EachPartHasAFifth: four nodes purge at once.
func TestR31EachPartHasAFifth(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		at := noon
		for _, group := range []struct {
			kind, decision string
			rows           int
			detail         string
		}{
			{KindAdmin, "unlock", 40, ""}, {KindMode, "on", 10, ""}, {KindAttempt, "succeeded", 1200, "login"}, {KindAttempt, "failed", 700, "login"},
			{KindAttempt, "failed", 300, "login" + summedUp}, {KindEvent, "reached", 50, "event, subject x" + summedUp},
			{KindAttempt, "blocked", 1450, "login"}, {KindAttempt, "challenged", 1510, "login"},
		} {
			var rows []Row
			for range group.rows {
				at = at.Add(time.Millisecond)
				rows = append(rows, Row{At: at, Kind: group.kind, Decision: group.decision, Count: 1, Detail: group.detail})
			}
			if err := l.insert(t.Context(), rows); err != nil {
				t.Fatal(err)
			}
		}
		var nodes sync.WaitGroup
		for range 4 {
			nodes.Go(func() {
				if _, err := l.trim(t.Context(), 2000); err != nil {
					t.Error(err)
				}
			})
		}
		nodes.Wait()
		left := map[string]int{}
		all, err := l.db.Query("SELECT part, kind || ' ' || decision, count(*) FROM audit GROUP BY 1, 2")
		if err != nil {
			t.Fatal(err)
		}
		defer all.Close()
		for all.Next() {
			var part, n int
			var what string
			if err := all.Scan(&part, &what, &n); err != nil {
				t.Fatal(err)
			}
			left[fmt.Sprint(part, " ", what)] = n
		}
		want := map[string]int{
			"4 admin unlock": 40, "4 mode on": 10, "3 attempt succeeded": 850, "2 attempt failed": 300, "1 attempt failed": 400, "0 attempt challenged": 400,
		}
		if fmt.Sprint(left) != fmt.Sprint(want) {
			t.Errorf("left %v, want %v", left, want)
		}
	})
}
