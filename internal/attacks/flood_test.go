//go:build !race

package attacks

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/internal/database/databasetest"
)

// R6, R31: names and addresses that an attacker makes up cost no more memory, and push out
// nobody who was lost.
func TestAFloodPushesOutNobodyWhoWasLost(t *testing.T) {
	t.Parallel()
	s := newScene(t, databasetest.SQLite(t))
	s.turns(s.Recorder, true)
	s.fails("bob", "198.51.100.1")
	s.fails("bob", "198.51.100.2", right)
	s.botnet(s.Recorder, 0, 50_000)
	for i := range mostStrange + 10 {
		s.fails(fmt.Sprint("own", i), fmt.Sprintf("172.16.%d.%d", i/250, i%250), right)
	}
	s.fails("last", "198.51.100.1")
	s.fails("last", "198.51.100.3", right)
	s.flush()
	a := s.list(1)[0]
	if a.Attempts != 50_002 || a.Addresses < 48_000 || a.Addresses > 50_002 || a.Lost < 2 || a.Lost > 12 || a.Strange != mostStrange {
		t.Errorf("%d attempts, %d addresses, %d lost, %d strange", a.Attempts, a.Addresses, a.Lost, a.Strange)
	}
	lost, _ := s.victims(a.ID)
	for _, name := range []string{"bob", "last"} {
		if !slices.ContainsFunc(lost, func(l string) bool { return strings.HasPrefix(l, name+" ") }) {
			t.Errorf("%s was pushed out", name)
		}
	}
	size := 0
	if err := s.config.DB.QueryRow(`SELECT MAX(LENGTH(data)) FROM attack_parts`).Scan(&size); err != nil || size > 120_000 {
		t.Errorf("a part takes %d bytes, %v", size, err)
	}
	of := s.in("")
	if len(of.early) > mostEarly || len(of.back) > int(lookBack/time.Minute)+1 {
		t.Errorf("%d early, %d minutes", len(of.early), len(of.back))
	}
}

// R6: beyond what the memory tells apart more is suspect, and never less.
func TestACrowdedMemorySuspectsMore(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	own := func(others int) []string {
		m := newMemory()
		for i := range others {
			m.failed(failureOf(fmt.Sprint("nobody", i), "192.0.2.1", noon))
		}
		for range 2 { // the same person, who mistypes
			m.failed(failureOf("ann", "203.0.113.9", noon))
		}
		return m.why(unknownClient{account: "ann", address: "203.0.113.9", at: noon})
	}
	if why := own(crowded / 2); len(why) != 0 {
		t.Errorf("in time of peace: %q", why)
	}
	if why := own(crowded * 11 / 10); !slices.Contains(why, AfterFailures) {
		t.Errorf("in a flood: %q", why)
	}
}
