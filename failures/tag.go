package failures

import (
	"encoding/binary"
	"sync"
	"time"
)

// A Tag is the password tag of a login attempt, to recognize repeated passwords (R28).
type Tag struct {
	Account Key
	// Value is a keyed, truncated digest of the password; never 0. Values with different TagScope bits are separate:
	// neither kind replaces the other.
	Value uint32
	// Client is a part of the client's digest.
	Client uint16
}

const (
	// TagScope is the bit of Value that separates the two scopes.
	TagScope = 1 << 25
	// TagLife is how long a wrong password is recognized after its first attempt: as long as that counts in the longest
	// default window.
	TagLife = 24 * time.Hour
	// TagsKept is the maximum number of tags per account and scope.
	TagsKept = 8
)

const (
	tagShards = 64
	tagSets   = 256 // in each shard: 16,384 in all
	tagWays   = 16  // notes in each set: 262,144 in all, in at most 6 MB
	// tagsProven is the number of confirmed notes in a set that a flood of names cannot replace.
	tagsProven = 12
)

// tags is a bounded table (R6) with the tags of all accounts. An account's tags are in one set. A password whose tag
// finds no room counts each time.
type tags [tagShards]struct {
	mu   sync.Mutex
	sets [tagSets]*[tagWays]note // nil until used
}

// A note is a tag and the time of the charge that it depends on. Later attempts with the same password take their own
// charge back and rely on this one.
type note struct {
	account   uint64
	value     uint32 // 0: the note is empty
	at        uint32 // time of the charge
	client    uint16
	confirmed bool // another attempt relies on the charge
}

const (
	tagLife = uint32(TagLife / time.Millisecond)
	// tagYoung is the longest time that settling an attempt takes. A younger note is not replaced.
	tagYoung = uint32(6 * time.Minute / time.Millisecond)
)

// Note stores a tag with its charge. It reports whether the tag was there: the attempt repeats a password. With the
// zero ChargeID it stores nothing.
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

// Repeated confirms that a password that Note recognized has failed. It reports whether the attempt takes its charge
// back, because the charge of the note counts instead; that one then stays. If the note is gone, the attempt's own
// charge is stored with the tag.
//
// The caller may take the charge back later.
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

// Right removes the tag of a correct password.
func (m *Memory) Right(t Tag) {
	set, mu := m.tagsOf(t.Account)
	defer mu.Unlock()
	if known := find(set, &t, uint32(m.clock())); known != nil {
		*known = note{}
	}
}

// Withdrawn is for a password that Note did not recognize, and that was not checked. It reports whether the attempt
// takes its charge back: not if another attempt confirmed the note. Otherwise Withdrawn removes the tag.
func (m *Memory) Withdrawn(t Tag, id ChargeID) (takeBack bool) {
	set, mu := m.tagsOf(t.Account)
	defer mu.Unlock()
	known := find(set, &t, uint32(m.clock()))
	if known == nil || known.at != uint32(id.At) { // the tag found no room
		return true
	}
	if known.confirmed {
		return false
	}
	*known = note{}
	return true
}

// TagsFrom returns the values of the account's other tags from the same client, if not older than within.
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

// tagsOf locks the account's set and returns it with its lock.
func (m *Memory) tagsOf(account Key) (set *[tagWays]note, mu *sync.Mutex) {
	shard := &m.tags[account[9]%tagShards]
	shard.mu.Lock()
	at := &shard.sets[account[10]]
	if *at == nil {
		*at = new([tagWays]note)
	}
	return *at, &shard.mu
}

// noted returns the part of the digest that distinguishes the accounts of a set.
func noted(account *Key) uint64 { return binary.LittleEndian.Uint64(account[:8]) }

func (n *note) beside(t *Tag) bool {
	return n.value != 0 && (n.value^t.Value)&TagScope == 0 && n.account == noted(&t.Account)
}

// age returns 0 for a note that is slightly newer than now, because another attempt read the clock later.
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

// room returns the note to replace; nil if there is none. The number of notes per account is limited, so that attacks
// on one account cost no other. A flood of names consists of unconfirmed notes, which are replaced first.
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

// older returns the note to replace first: an unconfirmed one, then the older one; nil while both are young.
func older(a, b *note, now uint32) *note {
	switch {
	case b.age(now) <= tagYoung:
		return a
	case a == nil || a.confirmed && !b.confirmed || a.confirmed == b.confirmed && b.age(now) > a.age(now):
		return b
	}
	return a
}
