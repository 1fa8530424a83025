package failures

import (
	"encoding/binary"
	"sync"
	"time"
)

// A Tag stands for a password that was offered for an account. It is enough to
// recognize a repeated password (R28).
type Tag struct {
	Account Key
	// Value is a keyed and truncated digest of the password; never 0. Values
	// that differ in a bit of TagScope are kept apart: neither kind pushes out
	// the other.
	Value uint32
	// Client is a piece of the digest of the client.
	Client uint16
}

const (
	// TagScope are the bits of a Tag's Value that part one scope from another.
	TagScope = 1 << 25
	// TagLife is how long a wrong password is recognized, from its first try
	// on: as long as that counts in the longest window out of the box.
	TagLife = 24 * time.Hour
	// TagsKept is how many tags of one account are noted in each scope.
	TagsKept = 8
)

const (
	tagShards = 64
	tagSets   = 256 // in each shard: 16,384 in all
	tagWays   = 16  // notes in each set: 262,144 in all, in 6 MB
	// tagsProven is how many notes of a set may be there for good: confirmed
	// ones. Only they outlive a flood of names.
	tagsProven = 12
)

// tags are the notes of all accounts in a table of fixed size (R6). An account's
// all lie in one set. A tag without room is not noted, and its password counts
// each time.
type tags [tagShards]struct {
	mu   sync.Mutex
	sets [tagSets][tagWays]note
}

// A note is a tag with the charge of the attempt that offered it first. It stands
// as long as that charge does: whoever fails with the same password later takes
// the own charge back, and relies on this one.
type note struct {
	account   uint64
	value     uint32 // 0: there is none
	at        uint32 // when it was charged
	client    uint16
	confirmed bool // another attempt relies on the charge
}

const (
	tagLife = uint32(TagLife / time.Millisecond)
	// tagYoung is how long an attempt may take to be settled at the most. A note
	// that is younger than that makes room for no other.
	tagYoung = uint32(6 * time.Minute / time.Millisecond)
)

// Note notes a tag with its charge, and reports whether it was noted before: the
// attempt repeats a password. The zero ChargeID is of an attempt that was not
// charged, and notes nothing.
func (m *Memory) Note(t Tag, id ChargeID) (repeats bool) {
	set, mu := m.tagsOf(t.Account)
	defer mu.Unlock()
	now := uint32(id.At)
	if !id.Charged() {
		now = uint32(m.clock())
	}
	if find(set, &t, now) != nil {
		return true
	}
	if id.Charged() {
		add(set, &t, now, now)
	}
	return false
}

// Repeated says that a password that Note found has failed, and reports whether
// the attempt is to take its charge back: the charge of the note stands for it,
// and from now on does so for good. If the note has gone meanwhile, the attempt's
// own charge stands, and is noted.
//
// The caller may take the charge back later: nothing else depends on it.
func (m *Memory) Repeated(t Tag, id ChargeID) (takeBack bool) {
	set, mu := m.tagsOf(t.Account)
	defer mu.Unlock()
	now := uint32(m.clock())
	if known := find(set, &t, now); known != nil {
		known.confirmed = true
		return true
	}
	add(set, &t, uint32(id.At), now)
	return false
}

// Right forgets a tag: its password was right.
func (m *Memory) Right(t Tag) {
	set, mu := m.tagsOf(t.Account)
	defer mu.Unlock()
	if known := find(set, &t, uint32(m.clock())); known != nil {
		*known = note{}
	}
}

// Withdrawn says that a password was not checked that Note did not find, and reports
// whether the attempt is to take its charge back: not if its note is confirmed.
// Otherwise the tag is forgotten.
func (m *Memory) Withdrawn(t Tag, id ChargeID) (takeBack bool) {
	set, mu := m.tagsOf(t.Account)
	defer mu.Unlock()
	known := find(set, &t, uint32(m.clock()))
	if known == nil || known.at != uint32(id.At) { // it found no room
		return true
	}
	if known.confirmed {
		return false
	}
	*known = note{}
	return true
}

// TagsFrom are the values of an account's younger tags from a client, apart from
// the attempt's own.
func (m *Memory) TagsFrom(t Tag, within time.Duration) (values []uint32) {
	set, mu := m.tagsOf(t.Account)
	defer mu.Unlock()
	now := uint32(m.clock())
	for i := range set {
		one := &set[i]
		if one.beside(&t) && one.client == t.Client && one.value != t.Value && one.age(now) <= uint32(within.Milliseconds()) {
			values = append(values, one.value)
		}
	}
	return values
}

// tagsOf is the account's set, and its lock, which is held.
func (m *Memory) tagsOf(account Key) (set *[tagWays]note, mu *sync.Mutex) {
	shard := &m.tags[account[9]%tagShards]
	shard.mu.Lock()
	return &shard.sets[account[10]], &shard.mu
}

// noted tells the accounts of a set apart.
func noted(account *Key) uint64 { return binary.LittleEndian.Uint64(account[:8]) }

// beside reports whether a note is of the same account and scope.
func (n *note) beside(t *Tag) bool {
	return n.value != 0 && (n.value^t.Value)&TagScope == 0 && n.account == noted(&t.Account)
}

// age is 0 for a note of an attempt that read the clock later.
func (n *note) age(now uint32) uint32 {
	if n.at-now < tagYoung {
		return 0
	}
	return now - n.at
}

func find(set *[tagWays]note, t *Tag, now uint32) *note {
	for i := range set {
		if one := &set[i]; one.value == t.Value && one.account == noted(&t.Account) && one.age(now) <= tagLife {
			return one
		}
	}
	return nil
}

func add(set *[tagWays]note, t *Tag, at, now uint32) {
	if room := room(set, t, now); room != nil {
		*room = note{account: noted(&t.Account), value: t.Value, at: at, client: t.Client}
	}
}

// room is where a new note goes; nil if there is no room. An account has a few
// notes, so that attempts at one account cost no other. A flood of names is made of
// notes that nothing confirms.
func room(set *[tagWays]note, t *Tag, now uint32) *note {
	var free, own, first *note
	owned, confirmed := 0, 0
	for i := range set {
		one := &set[i]
		if one.value == 0 || one.age(now) > tagLife {
			free = one
			continue
		}
		if one.confirmed {
			confirmed++
		}
		first = older(first, one, now)
		if one.beside(t) {
			owned++
			own = older(own, one, now)
		}
	}
	switch {
	case owned >= TagsKept:
		return own
	case free != nil:
		return free
	case first != nil && first.confirmed && confirmed <= tagsProven:
		return nil
	}
	return first
}

// older is which of two notes makes room first: one that nothing confirms, then
// the older; nil while both are young.
func older(a, b *note, now uint32) *note {
	switch {
	case b.age(now) <= tagYoung:
		return a
	case a == nil || a.confirmed && !b.confirmed || a.confirmed == b.confirmed && b.age(now) > a.age(now):
		return b
	}
	return a
}
