package passwords

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// A Mix says how the password of an account that does not exist is checked (R12):
// like that of one that does. Where a third of the accounts have Argon2 of some cost
// and the others bcrypt, so do the names that nobody has, each always the same. What
// a check takes then tells which kind of hash the account has, if it exists, and not
// whether it does. When accounts are upgraded, as large a part of the other names
// moves on with them.
//
// An account whose hash cannot be checked, or that has none, counts as one that does
// not exist. A Mix is safe for concurrent use. The nil Mix knows of no hash.
type Mix struct {
	secret []byte
	usual  recipe // until anything is known

	mu     sync.Mutex
	counts map[recipe]int
	order  []recipe                   // of counts: the same at each node
	seen   *lru.Cache[string, recipe] // of accounts; nil once a census was taken
}

// remembered is how many accounts a Mix goes by if it has no census.
const remembered = 10_000

// NewMix makes the Mix of one source. The secret is the same at all nodes, so that
// they treat a name alike. Until it has seen a hash it knows of bcrypt at the checker's
// cost alone.
func NewMix(secret []byte, usual *Checker) *Mix {
	m := &Mix{secret: secret, usual: usual.usual(), counts: map[recipe]int{}}
	m.seen, _ = lru.NewWithEvict(remembered, func(_ string, r recipe) { m.count(r, -1) })
	return m
}

// Take replaces what is known by a census of all accounts, or of a sample of them.
func (m *Mix) Take(c *Census) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(c.recipes) > 0 {
		m.counts, m.seen = maps.Clone(c.recipes), nil
		m.sort()
	}
}

// Stored is what is known of an account's password, for Checker.Check: its hash, or
// what is checked instead.
func (m *Mix) Stored(account, hash string, usable bool) Stored {
	s := Stored{Hash: hash, Usable: usable && !NoPassword(hash)}
	if m == nil {
		return s
	}
	if h, err := Parse(hash); err == nil {
		m.saw(account, h.recipe)
	} else {
		s.Instead = m.draw(account).decoy()
	}
	return s
}

// None is what is known of an account that does not exist.
func (m *Mix) None(name string) Stored { return m.Stored(name, "", false) }

// saw learns the recipe of an account: each counts once, however often somebody
// asks for it. After a census only what is new to it is.
func (m *Mix) saw(account string, r recipe) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		if m.counts[r] == 0 {
			m.count(r, 1)
		}
		return
	}
	before, known := m.seen.Get(account)
	if known && before == r {
		return
	}
	m.seen.Remove(account) // uncounts it
	m.count(r, 1)
	m.seen.Add(account, r)
}

// count adds to the accounts of a recipe. The caller holds the lock.
func (m *Mix) count(r recipe, n int) {
	before := m.counts[r]
	if m.counts[r] = before + n; before+n <= 0 {
		delete(m.counts, r)
	}
	if before == 0 || before+n <= 0 {
		m.sort()
	}
}

func (m *Mix) sort() {
	m.order = slices.SortedFunc(maps.Keys(m.counts), func(a, b recipe) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), slices.Compare(a.numbers[:], b.numbers[:]),
			cmp.Compare(a.saltSize, b.saltSize), cmp.Compare(a.keySize, b.keySize))
	})
}

// draw is the recipe that a name has that nobody has.
func (m *Mix) draw(name string) recipe {
	digest := hmac.New(sha256.New, m.secret)
	digest.Write([]byte("authguard decoy\x00" + name))
	m.mu.Lock()
	defer m.mu.Unlock()
	total := 0
	for _, n := range m.counts {
		total += n
	}
	at, _ := bits.Mul64(binary.BigEndian.Uint64(digest.Sum(nil)), uint64(total))
	for _, r := range m.order {
		if n := uint64(m.counts[r]); at < n {
			return r
		} else {
			at -= n
		}
	}
	return m.usual
}

// A Census counts the hashes of accounts by their kinds. The zero Census has none;
// it is for one goroutine.
type Census struct {
	recipes map[recipe]int
	kinds   map[Count]int
}

// A Count is how many accounts have a hash of one kind.
type Count struct {
	Kind     string `json:"kind"`
	Accounts int    `json:"accounts"`
	// Problem is why the hash cannot be checked; empty if it can.
	Problem string `json:"problem,omitempty"`
	// Weak: whoever gets the table finds most of these passwords.
	Weak bool `json:"weak,omitempty"`
	// None: these accounts have no password, which is no fault.
	None bool `json:"none,omitempty"`
}

// Add counts n accounts with a hash.
func (c *Census) Add(hash string, n int) {
	if c.kinds == nil {
		c.kinds, c.recipes = map[Count]int{}, map[recipe]int{}
	}
	h, err := Parse(hash)
	one := Count{}
	switch {
	case NoPassword(hash):
		one.Kind, one.None = "no password", true
	case err != nil:
		one.Kind, _ = KindOf(hash)
		one.Problem = strings.TrimPrefix(err.Error(), ErrHash.Error()+": it is ")
	default:
		one.Kind, one.Weak = h.Kind(), h.Weak()
		c.recipes[h.recipe] += n
	}
	c.kinds[one] += n
}

// Counts are the kinds, the most frequent first.
func (c *Census) Counts() (all []Count) {
	for one, n := range c.kinds {
		one.Accounts = n
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Accounts, a.Accounts), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Problem, b.Problem))
	})
	return all
}
