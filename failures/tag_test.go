package failures

import (
	"encoding/binary"
	"testing"
	"time"
)

func newGuesses(t *testing.T) (m *Memory, pass func(time.Duration)) {
	t.Helper()
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	m, err := NewMemory(Config{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return m, func(d time.Duration) { now = now.Add(d) }
}

// account is like a keyed digest: all of it differs from one to the next.
func account(n uint64) (k Key) {
	x := n*0x9e3779b97f4a7c15 + 1
	for i := range 2 {
		x ^= x >> 29
		x *= 0xbf58476d1ce4e5b9
		binary.LittleEndian.PutUint64(k[8*i:], x)
	}
	return k
}

func (m *Memory) offered(g Guess) { m.Note(g, ChargeID{At: m.clock()}) }

// R6: four hundred thousand invented names push no wrong password out that came twice, and
// the table does not grow. Within what an attempt may take, they push out none.
func TestR28AFloodOfNamesPushesNoKnownPasswordOut(t *testing.T) {
	t.Parallel()
	m, pass := newGuesses(t)
	stale := Guess{Account: account(0), Value: 7}
	m.offered(stale)
	if _, known := m.Join(stale); !known {
		t.Fatal("the second try is not recognised")
	}
	for n := range uint64(400_000) {
		if n%1000 == 0 {
			pass(3 * time.Second)
		}
		m.offered(Guess{Account: account(n + 1), Value: 7})
	}
	if !m.Knows(stale) {
		t.Error("the flood pushed it out")
	}
	if late := (Guess{Account: account(2_000_000), Value: 7}); m.noted(late) {
		pass(GuessLife + time.Millisecond)
		if m.Knows(late) || m.Knows(stale) {
			t.Error("known for longer than a day")
		}
	} else {
		t.Error("after the flood nothing new is remembered")
	}
}

func (m *Memory) noted(g Guess) bool {
	m.offered(g)
	return m.Knows(g)
}

// Guessing at an account pushes out its own wrong passwords, and those that
// came again last; what failed at home stays where strangers guess.
func TestR28AnAccountsLastWrongPasswordsAreKnown(t *testing.T) {
	t.Parallel()
	m, pass := newGuesses(t)
	home, again := Guess{Account: account(1), Value: 1 | GuessScope}, Guess{Account: account(1), Value: 2}
	m.offered(home)
	m.offered(again)
	m.Join(again)
	guess := func(n uint32) Guess { return Guess{Account: account(1), Value: 100 + n} }
	for n := range uint32(30) {
		pass(10 * time.Minute)
		m.offered(guess(n))
	}
	known := 0
	for n := range uint32(30) {
		if m.Knows(guess(n)) {
			known++
		}
	}
	if known != GuessesKept-1 || GuessesKept != 8 || !m.Knows(guess(29)) || !m.Knows(home) || !m.Knows(again) {
		t.Errorf("%d guesses are known, the last %v, that from home %v, that which came again %v",
			known, m.Knows(guess(29)), m.Knows(home), m.Knows(again))
	}
	// What may still be settled makes room for nothing.
	for n := range uint32(30) {
		m.offered(guess(50 + n))
	}
	if m.Knows(guess(79)) {
		t.Error("a guess that is being looked at made room for another")
	}
}

// A wrong password is known for exactly a day, and at its own account only.
func TestR28AWrongPasswordIsKnownForADayAtItsAccount(t *testing.T) {
	t.Parallel()
	m, pass := newGuesses(t)
	one := Guess{Account: account(1), Value: 7}
	m.offered(one)
	beside := one
	beside.Account[0] ^= 1 // in the same set
	if m.Knows(beside) {
		t.Error("it is known at another account")
	}
	pass(24*time.Hour - time.Millisecond)
	if !m.Knows(one) {
		t.Error("it is not known for a day")
	}
	pass(2 * time.Millisecond)
	if m.Knows(one) {
		t.Error("it is known for longer than a day")
	}
}

// What a login makes good is what failed from its place lately, and strangers'
// passwords only: neither what others guessed elsewhere nor what was mistyped where
// the account is known.
func TestR28WhatALoginMakesGoodIsItsOwn(t *testing.T) {
	t.Parallel()
	m, pass := newGuesses(t)
	mine := func(value uint32) Guess { return Guess{Account: account(1), Value: value, Place: 1} }
	m.offered(mine(1))
	pass(15*time.Minute + time.Millisecond)
	m.offered(mine(2))
	m.offered(mine(3 | GuessScope))
	m.offered(Guess{Account: account(1), Value: 4, Place: 2})
	m.offered(Guess{Account: Key{0: account(1)[0], 9: account(1)[9], 10: account(1)[10]}, Value: 5, Place: 1})
	if got := m.GuessesFrom(mine(6), 15*time.Minute); len(got) != 1 || got[0] != 2 {
		t.Errorf("made good are %v, want 2 alone", got)
	}
}

// Each attempt that offered a password says how it ended, and the charge of the
// first goes back when it must: from everything if it was made at this place, else
// from the account alone; and never for an attempt that cannot have been counted.
func TestR28WhoLetsGoOfAGuessTakesBackWhatIsItsOwn(t *testing.T) {
	t.Parallel()
	first := Guess{Account: account(1), Value: 7, Place: 1}
	second := first
	second.Place = 2
	type answer struct{ take, all bool }
	drop := func(m *Memory, g Guess, id ChargeID, joined, right bool) answer {
		take, all := m.Drop(g, id, joined, right)
		return answer{take, all}
	}
	charged := func(m *Memory) (id ChargeID) {
		id = ChargeID{At: m.clock()}
		m.Note(first, id)
		m.Join(second)
		return id
	}
	t.Run("the first withdraws, the other was right", func(t *testing.T) {
		m, _ := newGuesses(t)
		id := charged(m)
		if got := drop(m, first, id, false, false); got != (answer{}) {
			t.Errorf("the first: %+v, want nothing: the other relies on it", got)
		}
		if got := drop(m, second, id, true, true); got != (answer{true, false}) {
			t.Errorf("the other: %+v, want the account's alone", got)
		}
		if m.Knows(first) {
			t.Error("a right password is known as a wrong one")
		}
	})
	t.Run("the other was right first", func(t *testing.T) {
		m, _ := newGuesses(t)
		id := charged(m)
		if got := drop(m, second, id, true, true); got != (answer{}) {
			t.Errorf("the other: %+v, want nothing: the first takes its own back", got)
		}
		if got := drop(m, first, id, false, true); got != (answer{true, true}) {
			t.Errorf("the first: %+v, want all", got)
		}
	})
	t.Run("both withdraw, the first in the end", func(t *testing.T) {
		m, _ := newGuesses(t)
		id := charged(m)
		drop(m, second, id, true, false)
		if got := drop(m, first, id, false, false); got != (answer{true, true}) {
			t.Errorf("the first: %+v, want all", got)
		}
	})
	t.Run("too late to have been counted", func(t *testing.T) {
		m, pass := newGuesses(t)
		id := charged(m)
		pass(7 * time.Minute)
		m.Join(second)
		for range 2 {
			if got := drop(m, second, id, true, false); got != (answer{}) {
				t.Errorf("%+v, want nothing", got)
			}
		}
		if !m.Knows(first) {
			t.Error("what was wrong is forgotten")
		}
	})
	t.Run("right, though its charge is another's by now", func(t *testing.T) {
		m, _ := newGuesses(t)
		id := charged(m)
		id.At--
		if got := drop(m, second, id, true, true); got != (answer{}) || m.Knows(first) {
			t.Errorf("%+v, and it is known: %v; want nothing taken and forgotten", got, m.Knows(first))
		}
	})
}
