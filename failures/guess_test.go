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
	if known != GuessesKept-1 || !m.Knows(guess(29)) || !m.Knows(home) || !m.Knows(again) {
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
