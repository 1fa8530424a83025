package passwords

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	bcryptTook = 200 * time.Millisecond
	quicker    = 40 * time.Millisecond // PBKDF2
)

// A busy checker takes as long as the kind of hash, times load, four times as long for long passwords with PBKDF2.
func busyChecker(t *testing.T, load *time.Duration) *Checker {
	t.Helper()
	c, err := NewChecker(12, func(h *Hash, password string) bool {
		took := quicker
		if h.Kind() == "bcrypt" {
			took = bcryptTook
		} else if len(password) >= 64 {
			took *= 10
		}
		time.Sleep(took * *load)
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answered checks a password and returns after how long the answer is released.
func answered(c *Checker, hash, password string) time.Duration {
	began, s := time.Now(), Stored{Hash: hash, Usable: true}
	_, _ = c.Check(&s, password)
	c.Hold(context.Background(), s)
	return time.Since(began)
}

// Without the hold: 200 ms and 40 ms.
func TestR12EveryWrongAnswerIsReleasedAtTheTimeOfTheSlowestKind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		load := time.Duration(1)
		c := busyChecker(t, &load)
		answered(c, aBcrypt, "wrong")
		for range 3 {
			for what, hash := range map[string]string{
				"bcrypt": aBcrypt, "PBKDF2": aPBKDF2, "unknown": "", "no password": "!", "DES": aDES,
			} {
				if took := answered(c, hash, "wrong"); took != 250*time.Millisecond {
					t.Errorf("%s: %v", what, took)
				}
			}
		}
	})
}

// Unknown accounts are checked like accounts: with their kinds, in proportion to the recent ones, and never with two.
func TestR12UnknownAccountsDoTheWorkOfRecentAccounts(t *testing.T) {
	t.Parallel()
	count := new(counting)
	c, err := NewChecker(12, count.compare)
	if err != nil {
		t.Fatal(err)
	}
	work := func(times int) map[string]int {
		count.did = nil
		for range times {
			_, _ = c.Check(new(Stored), "wrong")
		}
		kindOf := map[string]int{}
		for _, r := range count.did {
			kindOf[kinds[r.kind].name]++
		}
		return kindOf
	}
	if got := work(100); !maps.Equal(got, map[string]int{"bcrypt": 100}) {
		t.Errorf("before any account: %v", got)
	}
	c.Learn(aPBKDF2)
	c.Learn(aDES)
	if got := work(100); !maps.Equal(got, map[string]int{"PBKDF2-SHA256": 100}) {
		t.Errorf("all accounts have PBKDF2: %v", got)
	}
	for range 3 {
		_, _ = c.Check(&Stored{Hash: anApr1}, "wrong")
	}
	got := work(4000)
	if n := got["Apache MD5 (apr1)"]; n+got["PBKDF2-SHA256"] != 4000 || n < 2800 || n > 3200 { // 7 standard deviations
		t.Errorf("3 of 4 recent accounts have apr1: %v", got)
	}
	for range Sample {
		_, _ = c.Check(&Stored{Hash: aBcrypt}, "wrong")
	}
	if got := work(100); !maps.Equal(got, map[string]int{"bcrypt": 100}) {
		t.Errorf("the last %d had bcrypt: %v", Sample, got)
	}
}

// A quick check that begins with a late one is answered no sooner.
func TestR12ALateCheckDelaysAllAlike(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		load := time.Duration(1)
		c := busyChecker(t, &load)
		answered(c, aBcrypt, "wrong")
		answered(c, aPBKDF2, "wrong")
		load = 2
		var late, quick time.Duration
		var both sync.WaitGroup
		both.Go(func() { late = answered(c, aBcrypt, "wrong") })
		both.Go(func() { quick = answered(c, aPBKDF2, "wrong") })
		both.Wait()
		if late != 500*time.Millisecond || quick != late {
			t.Errorf("late: %v, quick: %v", late, quick)
		}
	})
}

func TestR12OverloadRaisesTheCommonTimeToFourTimesAndItFallsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		load := time.Duration(1)
		c := busyChecker(t, &load)
		answered(c, aBcrypt, "wrong")
		load = 3
		if took := answered(c, aBcrypt, "wrong"); took != 750*time.Millisecond {
			t.Errorf("three times as slow: %v", took)
		}
		load = 100
		if took := answered(c, aBcrypt, "wrong"); took != 100*bcryptTook {
			t.Errorf("a hundred times as slow: %v", took)
		}
		load = 1
		if took := answered(c, aBcrypt, "wrong"); took != 4*bcryptTook {
			t.Errorf("after it: %v", took)
		}
		for range 640 {
			answered(c, aBcrypt, "wrong")
		}
		if took := answered(c, aBcrypt, "wrong"); took > 260*time.Millisecond {
			t.Errorf("641 checks later: %v", took)
		}
	})
}

func TestR12LongPasswordsAreReleasedApartFromShortOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		load, long := time.Duration(1), strings.Repeat("long ", 20)
		c := busyChecker(t, &load)
		for range 2 {
			answered(c, aBcrypt, "short")
			answered(c, aPBKDF2, long)
		}
		for _, hash := range []string{aBcrypt, aPBKDF2, ""} {
			a, b := answered(c, hash, "short"), answered(c, hash, long)
			if a != 250*time.Millisecond || b != 500*time.Millisecond {
				t.Errorf("%.10s: %v, long: %v", hash, a, b)
			}
		}
	})
}

func TestAHoldEndsWhenTheClientGoesAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		load := time.Duration(1)
		c := busyChecker(t, &load)
		answered(c, aBcrypt, "wrong")
		s := Stored{Hash: aPBKDF2, Usable: true}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, _ = c.Check(&s, "wrong")
		c.Hold(ctx, s)
		if took := time.Since(began); took != 50*time.Millisecond {
			t.Errorf("held for %v", took)
		}
		c.Hold(t.Context(), Stored{}) // not checked here: an LDAP directory did
	})
}

// A table of random costs must not fill the memory.
func TestR6TheKindsThatAreTimedAreBounded(t *testing.T) {
	t.Parallel()
	c, _ := NewChecker(12, func(*Hash, string) bool { return false })
	for i := range 3000 {
		_, _ = c.Check(&Stored{Hash: strings.Replace(aPBKDF2, "$1000$", fmt.Sprintf("$%d$", 1000+i), 1)}, "wrong")
	}
	c.hold.mu.Lock()
	defer c.hold.mu.Unlock()
	if n := len(c.hold.quickest); n > 1000 || n == 0 {
		t.Errorf("%d kinds", n)
	}
}
