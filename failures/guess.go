package failures

import (
	"encoding/binary"
	"math"
	"sync"
	"time"
)

// A Guess is a password that was offered for an account, as far as a Memory has
// to know it: enough to recognise it when it is offered again (R28).
type Guess struct {
	Account Key
	// Value is a keyed and truncated digest of the password; never 0. Values
	// that differ in a bit of GuessScope are kept apart: neither kind pushes out
	// the other.
	Value uint32
	// Place is a piece of the digest of where the guess came from.
	Place uint16
}

const (
	// GuessScope are the bits of a Guess's Value that part one scope from another.
	GuessScope = 1 << 25
	// GuessLife is how long a wrong password is remembered, from its first try
	// on: as long as that counts in the longest window out of the box.
	GuessLife = 24 * time.Hour
	// GuessesKept is how many of one account are remembered in each scope.
	GuessesKept = 8
)

const (
	guessShards = 64
	guessSets   = 256 // in each shard: 16,384 in all
	guessWays   = 16  // guesses in each set: 262,144 in all, in 6 MB
	// guessProven is how many guesses of a set may be there for good: of those
	// that came again. Only they outlive a flood of names.
	guessProven = 12
)

// guesses are the wrong passwords of all accounts in a table of fixed size (R6).
// An account's all lie in one set. What finds no room is not remembered, and so
// counts each time that it comes.
type guesses [guessShards]struct {
	mu   sync.Mutex
	sets [guessSets][guessWays]guess
}

// A guess is charged once, to whoever made it first. The others that offer it
// hold on to that charge: it stays for as long as one of them may be wrong.
type guess struct {
	account uint64
	value   uint32 // 0: there is none
	at      uint32 // when it was charged
	place   uint16
	holders uint16 // more than one: it came again
	orphan  bool   // whoever was charged withdrew, and left the charge to the others
}

const (
	guessLife = uint32(GuessLife / time.Millisecond)
	// guessYoung is how long an attempt may take to be settled at the most. A guess
	// that is younger than that makes room for no other.
	guessYoung = uint32(6 * time.Minute / time.Millisecond)
)

// Knows reports whether a guess is one of the account's last wrong passwords, or
// being looked at right now.
func (m *Memory) Knows(g Guess) bool {
	set, mu := m.guessesOf(g.Account)
	defer mu.Unlock()
	for i := range set { // most are new, and then the clock is of no use
		if one := &set[i]; one.is(&g) && uint32(m.clock())-one.at <= guessLife {
			return true
		}
	}
	return false
}

// Join holds on to the charge of an earlier attempt with the same guess; it
// reports false if there is none. The ID is made now, and There is when that
// charge was.
func (m *Memory) Join(g Guess) (id ChargeID, ok bool) {
	set, mu := m.guessesOf(g.Account)
	defer mu.Unlock()
	now := m.clock()
	return join(find(set, g, uint32(now)), now)
}

func join(known *guess, now int64) (id ChargeID, ok bool) {
	if known == nil {
		return ChargeID{}, false
	}
	age := uint32(now) - known.at
	if age <= guessYoung || known.holders == 1 {
		known.holders = max(known.holders, known.holders+1)
	}
	return ChargeID{At: now, There: now - int64(age)}, true
}

// Note remembers a guess that was charged. If another attempt was quicker, it
// joins that one instead, and reports true with what Join would: the caller is to
// take its own back.
func (m *Memory) Note(g Guess, id ChargeID) (held ChargeID, joined bool) {
	set, mu := m.guessesOf(g.Account)
	defer mu.Unlock()
	now := max(m.clock(), id.At)
	if held, joined = join(find(set, g, uint32(now)), now); joined {
		return held, true
	}
	if room := makeRoom(set, g, uint32(now)); room != nil {
		*room = guess{account: tag(g.Account), value: g.Value, at: uint32(id.At), place: g.Place, holders: 1}
	}
	return ChargeID{}, false
}

// Drop says that an attempt with a guess has ended in another way than as wrong:
// its password was right, or it was not looked at. The charge is the one that it
// made or, if it joined, holds on to. Drop tells whether this attempt is to take the
// charge back now: from its account and, with all, from everything. A right
// password is forgotten.
func (m *Memory) Drop(g Guess, id ChargeID, joined, right bool) (take, all bool) {
	set, mu := m.guessesOf(g.Account)
	defer mu.Unlock()
	now := uint32(m.clock())
	known := find(set, g, now)
	if known == nil || known.at != uint32(id.At) {
		if known != nil && right {
			*known = guess{}
		}
		return !joined, !joined
	}
	all = !joined || known.place == g.Place
	switch last := known.let(now); {
	case right:
		take = !joined || known.orphan
	case last:
		take = true
	case joined:
		return false, false
	default: // others rely on the charge
		known.orphan = true
		return false, false
	}
	*known = guess{}
	return take, take && all
}

// let lets go of a guess, and reports whether nobody holds it any more.
func (g *guess) let(now uint32) (last bool) {
	if now-g.at > guessYoung {
		return false // who joined since was not counted
	}
	if g.holders < math.MaxUint16 { // else there are more than were counted
		g.holders--
	}
	return g.holders == 0
}

// GuessesFrom are the values of an account's younger guesses from a place, apart
// from its own.
func (m *Memory) GuessesFrom(g Guess, within time.Duration) (values []uint32) {
	set, mu := m.guessesOf(g.Account)
	defer mu.Unlock()
	now := uint32(m.clock())
	for i := range set {
		one := &set[i]
		if one.account == tag(g.Account) && one.place == g.Place && one.value != 0 && one.value != g.Value &&
			(one.value^g.Value)&GuessScope == 0 && now-one.at <= uint32(within.Milliseconds()) {
			values = append(values, one.value)
		}
	}
	return values
}

// guessesOf is the account's set, and its lock, which is held.
func (m *Memory) guessesOf(account Key) (set *[guessWays]guess, mu *sync.Mutex) {
	shard := &m.guesses[account[9]%guessShards]
	shard.mu.Lock()
	return &shard.sets[account[10]], &shard.mu
}

// tag tells the accounts of a set apart.
func tag(account Key) uint64 { return binary.LittleEndian.Uint64(account[:8]) }

func (one *guess) is(g *Guess) bool { return one.value == g.Value && one.account == tag(g.Account) }

func find(set *[guessWays]guess, g Guess, now uint32) *guess {
	for i := range set {
		if one := &set[i]; one.is(&g) && now-one.at <= guessLife {
			return one
		}
	}
	return nil
}

// makeRoom is the place of a new guess; nil if there is none. An account has a
// few places, so that guessing at one costs no other. Among accounts those
// guesses go first that never came again: a flood of names is made of them.
func makeRoom(set *[guessWays]guess, g Guess, now uint32) *guess {
	var free, own, once, proven *guess
	owned, provens := 0, 0
	older := func(a, b *guess) *guess {
		if now-b.at > guessYoung && (a == nil || now-b.at > now-a.at) {
			return b
		}
		return a
	}
	var ownProven *guess
	for i := range set {
		one := &set[i]
		mine := one.account == tag(g.Account) && (one.value^g.Value)&GuessScope == 0
		switch {
		case one.value == 0 || now-one.at > guessLife:
			free = one
			continue
		case one.holders > 1:
			proven = older(proven, one)
			provens++
		default:
			once = older(once, one)
		}
		if mine && one.holders > 1 {
			ownProven = older(ownProven, one)
		} else if mine {
			own = older(own, one)
		}
		if mine {
			owned++
		}
	}
	switch {
	case owned >= GuessesKept && own != nil:
		return own
	case owned >= GuessesKept:
		return ownProven
	case free != nil:
		return free
	case once == nil && provens > guessProven:
		return proven
	}
	return once
}
