package failures

import (
	"encoding/binary"
	"testing"
	"time"
)

func newTags(t *testing.T) (m *Memory, pass func(time.Duration)) {
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

// Knows reports whether a tag is noted.
func (m *Memory) Knows(t Tag) bool { return m.Note(t, ChargeID{}) }

func (m *Memory) offered(t Tag) { m.Note(t, ChargeID{At: m.clock()}) }

func (m *Memory) noted(t Tag) bool {
	m.offered(t)
	return m.Knows(t)
}

// Guessing at an account pushes out its own wrong passwords, and those that
// came again last; what failed at home stays where strangers guess.
func TestR28AnAccountsLastWrongPasswordsAreKnown(t *testing.T) {
	t.Parallel()
	m, pass := newTags(t)
	home, again := Tag{Account: account(1), Value: 1 | TagScope}, Tag{Account: account(1), Value: 2}
	m.offered(home)
	m.offered(again)
	m.Repeated(again, ChargeID{At: m.clock()})
	guess := func(n uint32) Tag { return Tag{Account: account(1), Value: 100 + n} }
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
	if known != TagsKept-1 || TagsKept != 8 || !m.Knows(guess(29)) || !m.Knows(home) || !m.Knows(again) {
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
	m, pass := newTags(t)
	one := Tag{Account: account(1), Value: 7}
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
	m, pass := newTags(t)
	mine := func(value uint32) Tag { return Tag{Account: account(1), Value: value, Client: 1} }
	m.offered(mine(1))
	pass(15*time.Minute + time.Millisecond)
	m.offered(mine(2))
	m.offered(mine(3 | TagScope))
	m.offered(Tag{Account: account(1), Value: 4, Client: 2})
	m.offered(Tag{Account: Key{0: account(1)[0], 9: account(1)[9], 10: account(1)[10]}, Value: 5, Client: 1})
	if got := m.TagsFrom(mine(6), 15*time.Minute); len(got) != 1 || got[0] != 2 {
		t.Errorf("made good are %v, want 2 alone", got)
	}
}

// Whoever fails with a password again takes the own charge back, and the first one's
// stands: also if the first one then ends without a check.
func TestR28OneChargeStandsForARepeatedPassword(t *testing.T) {
	t.Parallel()
	one := Tag{Account: account(1), Value: 7}
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).UnixMilli()
	first, second, third := ChargeID{At: now}, ChargeID{At: now}, ChargeID{At: now + 1} // two in one millisecond
	note := func(m *Memory) {
		if m.Note(one, first) || !m.Note(one, second) || !m.Note(one, third) {
			t.Error("not the second and the third one repeat it")
		}
	}
	t.Run("the first withdraws after a failure", func(t *testing.T) {
		m, _ := newTags(t)
		note(m)
		if !m.Repeated(one, second) || m.Withdrawn(one, first) || !m.Repeated(one, third) {
			t.Error("not the first one's charge alone stands")
		}
	})
	t.Run("the first withdraws before", func(t *testing.T) {
		m, _ := newTags(t)
		note(m)
		if !m.Withdrawn(one, first) || m.Repeated(one, second) || !m.Repeated(one, third) {
			t.Error("not the second one's charge alone stands")
		}
	})
	t.Run("it was right", func(t *testing.T) {
		m, _ := newTags(t)
		note(m)
		m.Right(one)
		if m.Knows(one) || !m.Withdrawn(one, first) {
			t.Error("a right password is recognized as a wrong one")
		}
	})
	t.Run("the first is never settled", func(t *testing.T) {
		m, pass := newTags(t)
		note(m)
		pass(time.Hour)
		if !m.Repeated(one, second) || m.Withdrawn(one, first) {
			t.Error("its charge does not stand")
		}
	})
	t.Run("one without room withdraws", func(t *testing.T) {
		m, _ := newTags(t)
		note(m)
		if other := (ChargeID{At: first.At - 1}); !m.Withdrawn(one, other) || !m.Knows(one) {
			t.Error("it took the note of another attempt with it")
		}
	})
}
