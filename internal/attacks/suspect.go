package attacks

import (
	"slices"
	"time"

	"authguard/guard"
	"authguard/internal/events"
	"authguard/internal/times"
)

const (
	// fewFailures is how many failures of an account make a success from an unknown client suspicious by themselves. Users
	// mistype fewer times.
	fewFailures = 5
	// rememberFor is how long failures are remembered; at least half of it.
	rememberFor = 2 * time.Hour
	// crowded is how many pairs one generation distinguishes well. Beyond it pairs collide: at the bound more logins are
	// suspicious, never fewer (R6).
	crowded = 100_000
	// mostSprayed limits the remembered sprayed passwords.
	mostSprayed = 1000
)

// A memory remembers recent failures, to distinguish a login after another client's failures from a corrected typo.
type memory struct {
	hash        func(string) uint64
	now, before generation
	since       time.Time
	sprayed     []uint32 // password tags, the newest last
}

// A generation is half of a memory. The second of each two is for accounts with failures from several IP addresses, and
// IP addresses with failures on several accounts.
type generation struct {
	accounts, addresses [2]events.Seen
	pairs               events.Seen
	known               int
}

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

func (m *memory) tried(e *guard.Event) {
	if !e.Sprayed || e.Guess == 0 || slices.Contains(m.sprayed, e.Guess) {
		return
	}
	if len(m.sprayed) >= mostSprayed {
		m.sprayed = m.sprayed[1:]
	}
	m.sprayed = append(m.sprayed, e.Guess)
}

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

// A unknownClient is a success from an unknown client that may become suspicious.
type unknownClient struct {
	account, address, integration string // as typed; address is what the guard counts as one
	shown                         string // the IP address itself
	guess                         uint32
	sprayed, code                 bool
	failures                      int
	at                            time.Time
	why                           []string // the reasons at that time
}

func unknownClientOf(e *guard.Event) unknownClient {
	return unknownClient{e.Account, addressOf(e.Address), e.Integration, events.AddressText(e.Address), e.Guess, e.Sprayed,
		e.Reasons.Has(guard.CodeAccepted), e.AccountFailures, e.At, nil}
}

// why returns the reasons against a login from an unknown client; none after a few typos of its own. A verification
// code identifies the owner although the password may be known, but an IP address that guesses stays an attacker's.
func (m *memory) why(s unknownClient) (why []string) {
	account, address, pair := m.keys(s.account, s.address)
	here, elsewhere, guesses := false, false, false
	for _, g := range [...]*generation{&m.now, &m.before} {
		own := g.pairs.Has(pair)
		here = here || own
		elsewhere = elsewhere || g.accounts[1].Has(account) || g.accounts[0].Has(account) && !own
		guesses = guesses || g.addresses[1].Has(address) || g.addresses[0].Has(address) && !own
	}
	if !s.code && (elsewhere || s.failures >= fewFailures || s.failures > 0 && !here) {
		why = append(why, AfterFailures)
	}
	if guesses {
		why = append(why, FromGuesser)
	}
	if !s.code && (s.sprayed || s.guess != 0 && slices.Contains(m.sprayed, s.guess)) {
		why = append(why, WithSprayed)
	}
	return why
}

// reasons returns those at the time of the login and those that came to light later: an IP address may have guessed
// right at first and gone on guessing. Later failures at the account are none: they did not lead to this login.
func (m *memory) reasons(s unknownClient) []string {
	why := slices.Clone(s.why)
	for _, w := range m.why(s) {
		if w != AfterFailures && !slices.Contains(why, w) {
			why = append(why, w)
		}
	}
	return why
}

// unknownClient records a login from an unknown client for the running attacks and for those detected later. If there
// is no room, logins without a reason go first.
func (of *realm) unknownClient(s unknownClient) {
	s.why = of.memory.why(s)
	of.early = slices.DeleteFunc(of.early, func(e unknownClient) bool { return s.at.Sub(e.at) > lookBack })
	if len(of.early) >= mostEarly {
		drop := max(0, slices.IndexFunc(of.early, func(e unknownClient) bool { return len(of.memory.reasons(e)) == 0 }))
		of.early = slices.Delete(of.early, drop, drop+1)
	}
	of.early = append(of.early, s)
	for _, one := range of.running {
		of.keep(one, s)
	}
}

// concerns reports whether a login belongs to an attack.
func (one *running) concerns(s unknownClient, why []string) bool {
	switch one.subject.kind {
	case Account:
		return events.Escape(s.account) == one.subject.name
	case Address:
		return s.address == one.subject.name
	case Spray:
		return slices.Contains(why, WithSprayed) || slices.Contains(why, FromGuesser)
	}
	return true
}

// keep records a login of an attack.
func (of *realm) keep(one *running, s unknownClient) {
	why := of.memory.reasons(s)
	if one.subject.kind == Address && s.address == one.subject.name && !slices.Contains(why, FromGuesser) {
		why = append(why, FromGuesser) // as another node has seen
	}
	if !one.concerns(s, why) {
		return
	}
	key := [2]string{events.Escape(s.account), s.shown}
	if l := one.logins[key]; l != nil {
		l.Last, l.Failures, l.fresh = times.Later(l.Last, s.at), max(l.Failures, s.failures), true
		one.suspect(l, why)
		return
	}
	if strange := len(one.logins) - one.lost; len(why) > 0 && one.lost >= mostLost || len(why) == 0 &&
		strange >= mostStrange {
		return
	}
	l := &kept{
		Login: Login{Account: key[0], Address: s.shown, Integration: events.Escape(s.integration), Failures: s.failures,
			First: s.at, Last: s.at},
		unknownClient: s,
		fresh:         true,
	}
	one.logins[key] = l
	one.suspect(l, why)
}

func (one *running) suspect(l *kept, why []string) {
	for _, w := range why {
		if !slices.Contains(l.Why, w) {
			if len(l.Why) == 0 {
				one.lost++
			}
			l.Why, l.fresh = append(l.Why, w), true
		}
	}
}

// rejudge checks again the logins without a reason.
func (of *realm) rejudge(one *running) {
	for _, l := range one.logins {
		if len(l.Why) == 0 {
			one.suspect(l, of.memory.reasons(l.unknownClient))
		}
	}
}
