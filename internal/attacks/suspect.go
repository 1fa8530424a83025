package attacks

import (
	"slices"
	"time"

	"authguard/guard"
	"authguard/internal/events"
	"authguard/internal/tops"
)

const (
	// fewFailures is how many wrong passwords people type before the right one, in a new
	// place: so many from there alone make nobody suspect.
	fewFailures = 5
	// rememberFor is how long who failed is remembered, at least: half of it.
	rememberFor = 2 * time.Hour
	// crowded is how many pairs one generation tells apart well. Beyond that a pair counts as
	// another one: at the bound more is suspect, never less (R6).
	crowded = 100_000
	// mostSprayed is how many sprayed passwords are remembered.
	mostSprayed = 1000
)

// A memory is who failed lately: enough to tell whoever logs in after somebody else's
// failures from somebody who mistyped.
type memory struct {
	hash        func(string) uint64
	now, before generation
	since       time.Time
	sprayed     []uint32 // passwords, the newest last
}

// A generation is half of a memory. The second of two is for accounts that failed from
// several addresses, and for addresses that failed at several accounts.
type generation struct {
	accounts, addresses [2]tops.Seen
	pairs               tops.Seen
	known               int
}

// failed notes a wrong password.
func (m *memory) failed(e *guard.Event) {
	m.age(e.At)
	if !e.Address.IsValid() {
		return
	}
	account, address, pair := m.keys(e.Account, addressOf(e.Address))
	g := &m.now
	if new := !g.pairs.Has(pair) || g.known > crowded; new {
		g.known++
		if g.accounts[0].Has(account) {
			g.accounts[1].Add(account)
		}
		if g.addresses[0].Has(address) {
			g.addresses[1].Add(address)
		}
	}
	g.pairs.Add(pair)
	g.accounts[0].Add(account)
	g.addresses[0].Add(address)
}

// tried notes the password of an attempt.
func (m *memory) tried(e *guard.Event) {
	if !e.Sprayed || e.Guess == 0 || slices.Contains(m.sprayed, e.Guess) {
		return
	}
	if len(m.sprayed) >= mostSprayed {
		m.sprayed = m.sprayed[1:]
	}
	m.sprayed = append(m.sprayed, e.Guess)
}

// age begins a new generation when it is time.
func (m *memory) age(at time.Time) {
	switch {
	case m.since.IsZero():
		m.since = at
	case at.Sub(m.since) >= rememberFor:
		m.now, m.before, m.since = generation{}, generation{}, at
	case at.Sub(m.since) >= rememberFor/2:
		m.now, m.before, m.since = generation{}, m.now, at
	}
}

func (m *memory) keys(account, address string) (a, b, pair uint64) {
	return m.hash("a" + account), m.hash("b" + address), m.hash("p" + address + " " + account)
}

// A stranger is a success from a new place, as long as it may still turn out to be more.
type stranger struct {
	account, address, door string // as they were typed; address is what counts as one
	shown                  string // the address itself
	guess                  uint32
	sprayed                bool
	failures               int
	at                     time.Time
}

func strangerOf(e *guard.Event) stranger {
	return stranger{e.Account, addressOf(e.Address), e.Door, events.AddressText(e.Address), e.Guess, e.Sprayed, e.AccountFailures, e.At}
}

// why says what speaks against a login from a new place; nothing does for somebody who
// mistyped a few times where nobody else failed.
func (m *memory) why(s stranger) (why []string) {
	account, address, pair := m.keys(s.account, s.address)
	here, elsewhere, guesses := false, false, false
	for _, g := range [...]*generation{&m.now, &m.before} {
		own := g.pairs.Has(pair)
		here = here || own
		elsewhere = elsewhere || g.accounts[1].Has(account) || g.accounts[0].Has(account) && !own
		guesses = guesses || g.addresses[1].Has(address) || g.addresses[0].Has(address) && !own
	}
	if elsewhere || s.failures >= fewFailures || s.failures > 0 && !here {
		why = append(why, AfterFailures)
	}
	if guesses {
		why = append(why, FromGuesser)
	}
	if s.sprayed || s.guess != 0 && slices.Contains(m.sprayed, s.guess) {
		why = append(why, WithSprayed)
	}
	return why
}
