package guard_test

import (
	"fmt"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/testing/world"
	"authguard/trusted"
)

const (
	home    = "192.0.2.10" // where alice logs in from
	nowhere = "203.0.113.7"
)

// signIn settles an attempt as succeeded and returns the device cookie that comes with it.
func signIn(t *testing.T, w *world.World, a guard.Attempt) string {
	t.Helper()
	return signInBy(t, w, a, func(here guard.Ticket) guard.Ticket { return here })
}

// signInSealed is signIn with a ticket that a client has carried.
func signInSealed(t *testing.T, w *world.World, a guard.Attempt) string {
	t.Helper()
	return signInBy(t, w, a, func(here guard.Ticket) guard.Ticket {
		opened, err := w.Open(w.Seal(&here))
		if err != nil {
			t.Fatal(err)
		}
		return opened
	})
}

func signInBy(t *testing.T, w *world.World, a guard.Attempt, carry func(guard.Ticket) guard.Ticket) string {
	t.Helper()
	d, err := w.Begin(t.Context(), a)
	if err != nil || d.Action != guard.Proceed {
		t.Fatalf("%v, %v", d.Action, err)
	}
	ticket := carry(d.Ticket)
	if err := w.Settle(t.Context(), ticket, guard.Succeeded); err != nil {
		t.Fatal(err)
	}
	cookie, _, _ := w.Guard.Device(ticket)
	return cookie
}

// countChecked counts the wrong passwords that are checked.
func countChecked(t *testing.T, w *world.World, tries int, attempt func(i int) guard.Attempt) (checked int) {
	t.Helper()
	for i := range tries {
		a := attempt(i)
		if d, _ := w.Try(t, a, fmt.Sprintf("guess %s %d", a.Address, i)); d.Action == guard.Proceed {
			checked++
		}
	}
	return checked
}

// An app that answers any password like a right one lets an attacker mint device cookies.
func TestR14CookiesMintedAtOneAddressShareOneBudget(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		var cookies []string
		for range 40 {
			cookies = append(cookies, w.Device(t, "victim", nowhere))
			w.Clock.Advance(time.Second)
		}
		w.Force(t)
		checked := countChecked(t, w, 120, func(i int) guard.Attempt {
			w.Clock.Advance(20 * time.Second) // the longest delay
			a := world.From("victim", world.Address(i))
			a.Devices = []string{cookies[i/3]}
			return a
		})
		if checked != 20 {
			t.Errorf("%d of 120 guesses with 40 cookies were checked, want the 20 of one known client", checked)
		}
	})
}

// To some apps, "victim " is another account, which the attacker can register.
func TestR14ANameInAnotherSpellingMakesNoClientKnown(t *testing.T) {
	t.Parallel()
	for spelling, known := range map[string]bool{
		"victim": true, "Victim": true, "victim ": false, "\tvictim": false, "victim\u00a0": false, "ｖｉｃｔｉｍ": false,
	} {
		for _, in := range []func(*testing.T, *world.World, guard.Attempt) string{signIn, signInSealed} {
			world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
				a := world.From("victim", nowhere)
				a.Account = spelling
				if cookie := in(t, w, a); (cookie != "") != known {
					t.Errorf("%q: device cookie %q", spelling, cookie)
				}
				a = world.From("victim", nowhere)
				d, _ := w.Try(t, a, world.Right)
				if d.Known != known {
					t.Errorf("%q makes the client known: %v, want %v", spelling, d.Known, known)
				}
				a.Account = spelling
				if cookie := in(t, w, a); (cookie != "") != known {
					t.Errorf("%q on a known client: device cookie %q", spelling, cookie)
				}
			})
		}
	}
}

func TestR14ASuccessGivesADeviceNoFreshBudget(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		w.Force(t)
		a, checked := world.From("victim", nowhere), 0
		a.Devices = []string{signIn(t, w, w.Solved(t, "victim", nowhere))}
		for range 12 {
			checked += countChecked(t, w, 3, func(int) guard.Attempt {
				w.Clock.Advance(10 * time.Second)
				return a
			})
			w.Clock.Advance(10 * time.Second)
			if d, ok := w.Try(t, a, world.Right); ok {
				a.Devices[0], _, _ = w.Guard.Device(d.Ticket)
			}
		}
		if checked != 20 {
			t.Errorf("%d guesses were checked, want 20", checked)
		}
	})
}

// A spent device is known again after a login at the address where it was issued, as an
// address is. Otherwise the browser would never be known again there.
func TestR14ALoginGivesASpentDeviceBack(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		a := world.From("alice", nowhere)
		a.Devices = []string{w.Device(t, "alice", home)}
		w.Force(t)
		countChecked(t, w, 21, func(int) guard.Attempt {
			w.Clock.Advance(20 * time.Second)
			return a
		})
		if d, _ := w.Try(t, a, world.Right); d.Action != guard.Challenge {
			t.Fatalf("the spent device: %v, want challenge", d.Action)
		}
		w.Clock.Advance(25 * time.Hour)
		w.Force(t)
		a.Devices = []string{w.Device(t, "alice", home)}
		if _, ok := w.Try(t, a, world.Right); !ok {
			t.Error("the browser is unknown after a login")
		}
	})
}

// Thirty addresses within the hour: the account keeps the client of long standing, has no
// more than ten, and the addresses without room get no device cookie either.
func TestR14NewClientsOfOneHourEvictNoneOfLongStanding(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		w.Right(t, "alice", home)
		w.Clock.Advance(25 * time.Hour)
		w.Right(t, "alice", home)
		w.Clock.Advance(48 * time.Hour)
		known, cookies := 0, 0
		add := func(i int) {
			if signIn(t, w, w.Solved(t, "alice", world.Address(i))) != "" {
				cookies++
			}
		}
		for i := range 30 {
			add(i)
			w.Clock.Advance(time.Minute)
		}
		for i := range 30 {
			if w.Status(t, "alice", world.Address(i)) == trusted.Known {
				known++
			}
		}
		if known != 9 || cookies != 9 || w.Status(t, "alice", home) != trusted.Known {
			t.Errorf("%d addresses became known with %d cookies, and home is %v; want 9, 9 and known",
				known, cookies, w.Status(t, "alice", home))
		}
		w.Clock.Advance(time.Hour)
		add(100)
		w.Clock.Advance(time.Minute)
		add(101)
		if at := func(i int) trusted.Status { return w.Status(t, "alice", world.Address(i)) }; at(100) != trusted.Known ||
			at(101) != trusted.Unknown || at(0) != trusted.Unknown || at(1) != trusted.Known {
			t.Errorf("an hour later: %v %v, and those before %v %v", at(100), at(101), at(0), at(1))
		}
		if w.Status(t, "alice", home) != trusted.Known {
			t.Error("the client of long standing was evicted before one of the last hours")
		}
		if _, ok := w.Try(t, w.Solved(t, "alice", world.Address(102)), world.Right); !ok {
			t.Error("an address without room is refused")
		}
	})
}

// A sibling host can plant cookies in front of the device cookie (cookie tossing).
func TestR14ADeviceCookieIsFoundBehindPlantedOnes(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		a := world.From("alice", nowhere)
		for i := range 90 {
			a.Devices = append(a.Devices, fmt.Sprintf("made up %d", i))
		}
		for i := range 30 {
			a.Devices = append(a.Devices, w.Device(t, fmt.Sprintf("other%d", i), world.Address(i)))
		}
		a.Devices = append(a.Devices, w.Device(t, "alice", home))
		w.Force(t)
		if d, ok := w.Try(t, a, world.Right); !ok {
			t.Errorf("alice's browser got %v", d.Action)
		}
	})
}
