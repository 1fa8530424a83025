package failures

import (
	"math/bits"
	"slices"
	"sync"
	"time"
)

// A Miss is one password that was wrong at one account: what spraying is made of
// (R28). All of it is pieces of keyed digests.
type Miss struct {
	Value   uint32 // stands for the password, at every account alike; never 0
	Account uint32
	Network uint16
	// Of is the Value of which this Miss counts one network alone; 0: all of them.
	Of uint32
}

// ofNetwork marks a Value that stands for a password in one network.
const ofNetwork = 1 << 25

// Counted are the two misses that an attempt makes: one on the whole site, to which
// a network contributes at most its share (SprayShare), and one in its network,
// without a share. So a network that tries a password everywhere spoils it for itself.
func (m Miss) Counted() [2]Miss {
	// A piece of the account stands for the network: no share is ever used up.
	within := Miss{Value: (m.Value^uint32(m.Network)<<8)&(1<<24-1) | ofNetwork, Account: m.Account,
		Network: uint16(m.Account), Of: m.Value}
	return [2]Miss{m, within}
}

// SprayShare is at how many accounts one network's failures count, of so many that
// make a spray: three tenths.
func SprayShare(accounts int) int { return max(1, accounts*3/10) }

// A Spray is a password that strangers try on many accounts.
type Spray struct {
	Value    uint32
	Since    time.Time // the first of the misses that told
	Until    time.Time // when so many accounts no longer lie in SprayWindow
	Accounts int       // that it was wrong at, since then
	Networks int       // that it came from, at most as many as accounts tell
}

const (
	// SprayWindow is how long a miss counts, and so how long a password stays
	// recognised after its last one.
	SprayWindow = 24 * time.Hour
	// MaxSprayAccounts bounds how many accounts may make a spray.
	MaxSprayAccounts = 16
	// MaxSprays is how many passwords can be recognised at once. With one in four
	// thousand of 2²⁴ values, one stranger in four thousand with another password
	// would be taken for one of them.
	MaxSprays = 4096

	sprayBuckets = 4096
	sprayWays    = 32 // misses in a bucket: 131,072 in all, in 1.5 MB
	sprayMinutes = uint16(SprayWindow / time.Minute)
)

// Sprays find out which passwords are tried on many accounts, in a sketch of
// fixed size. It is safe for concurrent use. A flood of different passwords
// pushes out those that missed least, and of these the oldest.
type Sprays struct {
	mu      sync.RWMutex
	buckets [sprayBuckets][sprayWays]miss
	found   map[uint32]*Spray
	adopted map[uint32]Spray // that all nodes have found together
	told    func(Spray)
}

type miss struct {
	value   uint32
	account uint32
	network uint16
	minute  uint16
}

// NewSprays returns an empty sketch. told is what to tell people of: that a
// password is sprayed, and again when it was wrong at ten times as many accounts.
// It must not block, and may be nil.
func NewSprays(told func(Spray)) *Sprays {
	return &Sprays{found: map[uint32]*Spray{}, told: told}
}

// Adopt replaces what all nodes have found together.
func (s *Sprays) Adopt(all []Spray) {
	adopted := make(map[uint32]Spray, len(all))
	for _, one := range all {
		adopted[one.Value] = one
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adopted = adopted
}

// Has reports whether the password of a miss is being sprayed, on the whole site or
// from the network of the miss.
func (s *Sprays) Has(m Miss, now time.Time) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, one := range m.Counted() {
		if s.has(one.Value, now) {
			return true
		}
	}
	return false
}

func (s *Sprays) has(value uint32, now time.Time) bool {
	one := s.found[value]
	return one != nil && now.Before(one.Until) || now.Before(s.adopted[value].Until)
}

// Add counts a miss. If its password has been wrong at so many accounts within
// SprayWindow, it is sprayed from then on.
func (s *Sprays) Add(m Miss, accounts int, now time.Time) {
	for _, counted := range m.Counted() {
		if one := s.add(counted, accounts, now); one != nil && s.told != nil {
			s.told(*one)
		}
	}
}

func (s *Sprays) add(m Miss, accounts int, now time.Time) (told *Spray) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has(m.Of, now) {
		return nil // a spray everywhere needs no count by network
	}
	bucket, minute := s.bucket(m.Value), minuteOf(now)
	fresh := bucket.note(m, accounts, minute)
	var room [sprayWays]miss
	missed := bucket.of(m.Value, minute, room[:0])
	one := s.found[m.Value]
	known := one != nil && now.Before(one.Until)
	if !known && len(missed) < accounts {
		return nil
	}
	if !known {
		one = s.find(m.Value, now)
		one.Since = now.Add(-time.Duration(minute-missed[0].minute) * time.Minute)
		one.Accounts = len(missed) - 1
		fresh = true
	}
	if len(missed) >= accounts {
		oldest := missed[len(missed)-accounts]
		one.Until = later(one.Until, now.Add(SprayWindow-time.Duration(minute-oldest.minute)*time.Minute))
	}
	one.Networks = max(one.Networks, networks(missed))
	if m.Of != 0 {
		one.Networks = 1
	}
	if !fresh {
		return nil
	}
	if one.Accounts++; one.Accounts == accounts || tenfold(one.Accounts, accounts) {
		copied := *one
		return &copied
	}
	return nil
}

// find makes room for one more password. At the bound the one that ends first
// goes.
func (s *Sprays) find(value uint32, now time.Time) *Spray {
	if len(s.found) >= MaxSprays {
		var first *Spray
		for _, one := range s.found {
			if first == nil || one.Until.Before(first.Until) {
				first = one
			}
		}
		delete(s.found, first.Value)
	}
	one := &Spray{Value: value, Until: now}
	s.found[value] = one
	return one
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// tenfold reports whether n is ten, a hundred … times as many.
func tenfold(n, accounts int) bool {
	for accounts < n {
		accounts *= 10
	}
	return n == accounts
}

// TakeBack removes a miss: the same person has logged in since. What has been
// found stays found until its end: else who mistypes a sprayed password at
// accounts of his own, where that pushes out what told, and then logs in, would
// end the spray.
func (s *Sprays) TakeBack(m Miss) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range m.Counted() {
		bucket := s.bucket(m.Value)
		for i := range bucket {
			if one := &bucket[i]; one.value == m.Value && one.account == m.Account {
				*one = miss{}
			}
		}
	}
}

type bucket [sprayWays]miss

func (s *Sprays) bucket(value uint32) *bucket { return (*bucket)(&s.buckets[SprayBucket(value)]) }

// SprayBucket is where a password's misses lie: one of 4,096 buckets.
func SprayBucket(value uint32) uint32 { return bits.ReverseBytes32(value*0x9e3779b1) % sprayBuckets }

func minuteOf(t time.Time) uint16 { return uint16(t.Unix() / 60) }

// of adds a password's misses that count, oldest first, to all, which is empty and
// has room.
func (b *bucket) of(value uint32, minute uint16, all []miss) []miss {
	for i := range b {
		if b[i].value == value && minute-b[i].minute < sprayMinutes {
			all = append(all, b[i])
		}
	}
	slices.SortFunc(all, func(x, y miss) int { return int(minute-y.minute) - int(minute-x.minute) })
	return all
}

// note puts a miss into the bucket, and reports whether its account is new and its
// network had a share left.
func (b *bucket) note(m Miss, most int, minute uint16) (fresh bool) {
	noted := miss{m.Value, m.Account, m.Network, minute}
	room, own, neighbour := -1, -1, -1 // neighbour is of the same network
	mine, share := 0, SprayShare(most)
	older := func(i, than int) bool { return than < 0 || minute-b[i].minute > minute-b[than].minute }
	for i := range b {
		one := &b[i]
		switch old := minute-one.minute >= sprayMinutes; {
		case one.value == 0 || old:
			room = i
		case one.value == m.Value && one.account == m.Account:
			*one = noted
			return false
		case one.value == m.Value:
			if mine++; older(i, own) {
				own = i
			}
			if one.network == m.Network {
				if share--; older(i, neighbour) {
					neighbour = i
				}
			}
		}
	}
	switch {
	case share <= 0:
		b[neighbour] = noted
		return false
	case mine >= most:
		room = own
	case room < 0:
		room = b.least(minute)
	}
	b[room] = noted
	return true
}

// least is the miss that is worth least: of the password that missed the fewest
// accounts, and of these the oldest.
func (b *bucket) least(minute uint16) (least int) {
	fewest := len(b) + 1
	for i := range b {
		n := 0
		for j := range b {
			if b[j].value == b[i].value {
				n++
			}
		}
		if n < fewest || n == fewest && minute-b[i].minute > minute-b[least].minute {
			least, fewest = i, n
		}
	}
	return least
}

func networks(missed []miss) (n int) {
	for i := range missed {
		if !slices.ContainsFunc(missed[:i], func(one miss) bool { return one.network == missed[i].network }) {
			n++
		}
	}
	return n
}
