//go:build !race

package guard_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authguard/guard"
	"authguard/internal/testing/world"
)

// What follows measures two numbers of the default policy by simulation, each beside
// the number that it replaced. docs/decisions/0017 has the results.

// A student is somebody behind the campus's one address who has not logged in from
// there yet.
type student struct {
	name    string
	next    time.Time
	solves  bool // the next try brings a solved challenge along
	refused bool
	in      time.Time
}

// firstDay lets 2,000 students log in between eight and six. Three in ten passwords are
// mistyped, whoever is challenged solves that, and whoever has to wait comes back when
// told, who is refused an hour later than that. It returns how many were ever refused and how long the unluckiest took.
func firstDay(t *testing.T, p guard.Policy) (refused int, longest time.Duration) {
	t.Helper()
	dice := rand.New(rand.NewPCG(2000, 1))
	w := world.New(t, world.Options{Policy: &p})
	first := map[*student]time.Time{}
	var waiting []*student
	for i := range 2000 {
		s := &student{name: fmt.Sprint("student", i), next: w.Clock.Now().Add(time.Duration(dice.IntN(36_000)) * time.Second)}
		first[s] = s.next
		waiting = append(waiting, s)
	}
	byTime := func(a, b *student) int { return cmp.Or(a.next.Compare(b.next), cmp.Compare(a.name, b.name)) }
	slices.SortFunc(waiting, byTime)
	for len(waiting) > 0 {
		s := waiting[0]
		waiting = waiting[1:]
		w.Clock.Advance(s.next.Sub(w.Clock.Now()))
		a, password := world.From(s.name, home), world.Right
		if s.solves {
			a = w.Solved(t, s.name, home)
		}
		if dice.IntN(10) < 3 {
			password = "mistyped"
		}
		d, ok := w.Try(t, a, password)
		s.solves = d.Action == guard.Challenge
		s.refused = s.refused || d.Action == guard.Block
		s.next = s.next.Add(max(d.RetryAfter, 15*time.Second))
		if d.Action == guard.Block {
			s.next = s.next.Add(time.Hour)
		}
		if ok {
			s.in = w.Clock.Now()
			continue
		}
		i, _ := slices.BinarySearchFunc(waiting, s, byTime)
		waiting = slices.Insert(waiting, i, s)
	}
	for s, came := range first {
		if s.refused {
			refused++
		}
		longest = max(longest, s.in.Sub(came))
	}
	return refused, longest
}

func TestTwoThousandStudentsBehindOneAddressAreNotRefused(t *testing.T) {
	t.Parallel()
	before := guard.DefaultPolicy()
	before.Address = slices.Clone(before.Address)
	before.Address[3].Failures = 200
	refused, longest := firstDay(t, before)
	t.Logf("refused from 200 in a day on: %d of 2,000, the longest for %v", refused, longest)
	if refused < 500 || longest < 12*time.Hour {
		t.Error("the simulation does not show what the limit is for")
	}
	refused, longest = firstDay(t, guard.DefaultPolicy())
	t.Logf("by default: %d, the longest took %v", refused, longest)
	if refused != 0 || longest > 10*time.Minute {
		t.Errorf("%d were refused, and one took %v", refused, longest)
	}
}

// botnet lets 1,000 people log in for three weeks and then, with the mode on for an
// attack, for a day, without cookies: as many programs do. It returns how many were
// challenged at a place from which they had logged in before.
func botnet(t *testing.T, places int) (challenged int) {
	t.Helper()
	p := guard.DefaultPolicy()
	p.KnownClients.MaxClients = places
	dice := rand.New(rand.NewPCG(1000, 1))
	w := world.New(t, world.Options{Policy: &p})
	type person struct {
		name string
		has  []string
		been map[string]bool
	}
	people := make([]person, 1000)
	for i := range people {
		// Most people log in from two to four places, one in ten from six to eight.
		n := [...]int{2, 2, 2, 2, 3, 3, 3, 4, 4, 6 + dice.IntN(3)}[dice.IntN(10)]
		people[i] = person{fmt.Sprint("person", i), nil, map[string]bool{}}
		for k := range n {
			people[i].has = append(people[i].has, world.Address(10*i+k))
		}
	}
	day := func(attacked bool) {
		for range 4 {
			for i := range people {
				one := &people[i]
				from := one.has[min(dice.IntN(len(one.has)), dice.IntN(len(one.has)))] // the first most often
				w.Clock.Advance(21600 * time.Millisecond)
				d, ok := w.Try(t, world.From(one.name, from), world.Right)
				if attacked && one.been[from] && d.Action == guard.Challenge {
					challenged++
				}
				one.been[from] = one.been[from] || ok
			}
		}
	}
	for range 21 {
		day(false)
	}
	w.Force(t)
	day(true)
	return challenged
}

func TestTenPlacesAreEnoughForPeopleWhoAreKnown(t *testing.T) {
	t.Parallel()
	five, ten := botnet(t, 5), botnet(t, guard.DefaultPolicy().KnownClients.MaxClients)
	t.Logf("of 4,000 logins in an attack, at places that people had logged in from: %d challenged with five places, %d with ten", five, ten)
	if five == 0 {
		t.Error("the simulation does not show what the number is for")
	}
	if ten != 0 {
		t.Errorf("%d were challenged", ten)
	}
}

func TestR15TwentyThousandHeldCostNoPrivilegedLogin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, world.Options{Running: true})
		w.Right(t, "alice", "192.0.2.10")
		for i := range 5 { // attempts that nobody settles yet
			if d, _ := w.Begin(t.Context(), world.From("alice", world.Address(i))); d.Action != guard.Proceed {
				t.Fatal(d.Action)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 20_500 {
			all.Go(func() { _, _ = w.Begin(ctx, world.From("alice", world.Address(i/50))) })
		}
		synctest.Wait()
		if held := w.Held(); held != 20_000 {
			t.Errorf("%d are held, want 20,000", held)
		}
		began := time.Now()
		if !w.Right(t, "alice", "192.0.2.10") {
			t.Error("a privileged login was kept out")
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("a privileged login waited %v", took)
		}
		cancel()
		all.Wait()
		if held := w.Held(); held != 0 {
			t.Errorf("%d are held after all have gone", held)
		}
	})
}
