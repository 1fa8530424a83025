package passwords

import (
	"fmt"
	"slices"
	"testing"
)

// kindsOf counts the kinds by which names are checked that nobody has.
func kindsOf(t *testing.T, m *Mix, names int) map[string]int {
	t.Helper()
	of := map[string]int{}
	c, err := NewChecker(4, func(h *Hash, _ string) bool { of[h.Kind()]++; return true })
	if err != nil {
		t.Fatal(err)
	}
	for i := range names {
		if ok, err := c.Check(m.None(fmt.Sprint("nobody", i)), "x"); ok || err != nil {
			t.Fatalf("nobody%d: %v, %v", i, ok, err)
		}
	}
	return of
}

func newMix(t *testing.T) *Mix {
	t.Helper()
	c, err := NewChecker(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	return NewMix([]byte("a secret"), c)
}

const (
	aPBKDF2 = "pbkdf2_sha256$1000$saltsaltsalt$F7o7+5VTVzFAO998X6s3AHrDsJVdMiIlgndIMe19NvY="
	aBcrypt = "$2b$05$0yvY.UkZAHUWBmTaW2l54enKRR2kgsr1fLIuox5s0XlEI1Jn1xOC6"
	anApr1  = "$apr1$fAFnt3mN$ReKmiQO4pVTZetrP2svuZ0"
	aDES    = "6FZSgRFTLxtYc"
)

func TestR12NamesThatNobodyHasAreCheckedAsAccountsAre(t *testing.T) {
	t.Parallel()
	m := newMix(t)
	if of := kindsOf(t, m, 100); of["bcrypt"] != 100 {
		t.Errorf("before anything is known: %v", of)
	}
	var c Census
	c.Add(aPBKDF2, 600)
	c.Add(aBcrypt, 300)
	c.Add(anApr1, 100)
	c.Add(aDES, 5000) // is not checked, so it is no way to check
	c.Add("", 5000)
	m.Take(&c)
	of := kindsOf(t, m, 10_000)
	for kind, want := range map[string]int{"PBKDF2-SHA256": 6000, "bcrypt": 3000, "Apache MD5 (apr1)": 1000} {
		if off := of[kind] - want; off < -150 || off > 150 { // three standard deviations; the same in every run
			t.Errorf("%s: %d names of 10000, want about %d", kind, of[kind], want)
		}
	}
	if of["DES crypt"] != 0 || len(of) != 3 {
		t.Errorf("kinds: %v", of)
	}
}

// When accounts move to another kind, names that nobody has do, and only in that
// direction: nobody is told from them by moving, or by not moving.
func TestR12NamesThatNobodyHasAreUpgradedAsAccountsAre(t *testing.T) {
	t.Parallel()
	m := newMix(t)
	take := func(old, upgraded int) {
		var c Census
		c.Add(aPBKDF2, old)
		c.Add(aBcrypt, upgraded)
		m.Take(&c)
	}
	upgraded := func() (names []string) {
		for i := range 1000 {
			if s := m.None(fmt.Sprint("nobody", i)); s.Instead.Kind() == "bcrypt" {
				names = append(names, fmt.Sprint("nobody", i))
			}
		}
		return names
	}
	take(900, 100)
	before := upgraded()
	take(500, 500)
	after := upgraded()
	for _, name := range before {
		if !slices.Contains(after, name) {
			t.Errorf("%s has gone back", name)
		}
	}
	if n := len(after) - len(before); n < 350 || n > 450 {
		t.Errorf("%d of 1000 names were upgraded with 400 of 1000 accounts", n)
	}
}

// Two nodes, and one that was restarted, treat a name alike.
func TestR12ANameIsCheckedAlikeEverywhere(t *testing.T) {
	t.Parallel()
	a, b := newMix(t), newMix(t)
	for i, hash := range []string{aPBKDF2, aBcrypt, anApr1} {
		a.Stored(fmt.Sprint(i), hash, true)
	}
	for i, hash := range []string{anApr1, aPBKDF2, aBcrypt} {
		b.Stored(fmt.Sprint(i), hash, true)
	}
	for i := range 300 {
		name := fmt.Sprint("nobody", i)
		if a.None(name).Instead.recipe != b.None(name).Instead.recipe {
			t.Errorf("%s differs", name)
		}
	}
}

// Whoever asks for one account again and again learns nothing by what that changes.
func TestR12AnAccountCountsOnce(t *testing.T) {
	t.Parallel()
	m := newMix(t)
	m.Stored("kim", aPBKDF2, true)
	for range 1000 {
		m.Stored("lee", aBcrypt, true)
	}
	if of := kindsOf(t, m, 1000); of["bcrypt"] < 450 || of["bcrypt"] > 550 {
		t.Errorf("%v", of)
	}
	m.Stored("lee", aPBKDF2, true) // changed elsewhere
	if of := kindsOf(t, m, 1000); of["PBKDF2-SHA256"] != 1000 {
		t.Errorf("%v", of)
	}
	for i := range remembered + 100 {
		m.Stored(fmt.Sprint(i), anApr1, true)
	}
	if m.counts[m.order[0]] != remembered || len(m.order) != 1 {
		t.Errorf("%v", m.counts)
	}
}

func TestACensusNamesKinds(t *testing.T) {
	t.Parallel()
	var c Census
	for hash, n := range map[string]int{aPBKDF2: 3, anApr1: 2, aDES: 4, "!": 1, "": 1, "$2b$31$0yvY.UkZAHUWBmTaW2l54enKRR2kgsr1fLIuox5s0XlEI1Jn1xOC6": 5} {
		c.Add(hash, n)
	}
	want := []Count{
		{Kind: "bcrypt", Accounts: 5, Problem: "bcrypt, more expensive than a password check may be"},
		{Kind: "DES crypt", Accounts: 4, Problem: "DES crypt"},
		{Kind: "PBKDF2-SHA256", Accounts: 3},
		{Kind: "Apache MD5 (apr1)", Accounts: 2, Weak: true},
		{Kind: "no password", Accounts: 2, None: true},
	}
	if got := c.Counts(); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
