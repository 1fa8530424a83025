package failures

import (
	"math/bits"
	"slices"
	"sync"
	"time"
)

// A Miss is one wrong password for one account, for the detection of password spraying (R28). All fields are parts of
// keyed digests.
type Miss struct {
	Value   uint32 // identifies the password, equally for all accounts; never 0
	Account uint32
	Network uint16
	// Of is set if this Miss counts in one network only: the Value of the site-wide Miss.
	Of uint32
}

const ofNetwork = 1 << 25

// Counted returns the two misses of an attempt. The site-wide one counts at most SprayShare accounts per network; the
// one within the network counts all. A network that sprays a password alone therefore affects only its own clients.
func (m Miss) Counted() [2]Miss {
	// The account replaces the network here, so no share is ever used up.
	within := Miss{Value: (m.Value^uint32(m.Network)<<8)&(1<<24-1) | ofNetwork, Account: m.Account,
		Network: uint16(m.Account), Of: m.Value}
	return [2]Miss{m, within}
}

// SprayShare returns how many accounts one network contributes to a spray: three tenths of the required accounts.
func SprayShare(accounts int) int { return max(1, accounts*3/10) }

// A Spray is a password that unknown clients try on many accounts.
type Spray struct {
	Value    uint32
	Since    time.Time // the oldest miss that counted when the spray was detected
	Until    time.Time // when too few of its accounts lie in SprayWindow
	Accounts int       // accounts with this wrong password since then
	Networks int       // their networks, as far as misses are still stored
}

const (
	// SprayWindow is how long a miss counts, and therefore how long a password stays recognized after its last miss.
	SprayWindow = 24 * time.Hour
	// MaxSprayAccounts bounds the number of accounts required for a spray.
	MaxSprayAccounts = 16
	// MaxSprays bounds the detected passwords. At this bound, one of 4,096 unknown clients with another password is a
	// false positive, because values have 24 bits.
	MaxSprays = 4096

	sprayBuckets = 4096
	sprayWays    = 32 // misses in a bucket: 131,072 in all, in at most 1.5 MB
	sprayMinutes = uint16(SprayWindow / time.Minute)
)

// Sprays detect passwords that are tried on many accounts, in a bounded sketch. Safe for concurrent use. A
// flood of different passwords replaces those with the fewest accounts first, and of these the oldest misses.
type Sprays struct {
	mu      sync.RWMutex
	buckets [sprayBuckets]*bucket // nil until used
	found   map[uint32]*Spray
	adopted map[uint32]Spray // detected by all nodes together
	told    func(Spray)
}

type miss struct {
	value   uint32
	account uint32
	network uint16
	minute  uint16
}

// NewSprays returns an empty sketch. The callback receives each detected spray, and again when its accounts have
// grown tenfold. It must not block, and may be nil.
func NewSprays(told func(Spray)) *Sprays {
	return &Sprays{found: map[uint32]*Spray{}, told: told}
}

// Adopt replaces the sprays that all nodes have detected together.
func (s *Sprays) Adopt(all []Spray) {
	adopted := make(map[uint32]Spray, len(all))
	for _, one := range all {
		adopted[one.Value] = one
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adopted = adopted
}

// Has reports whether the password of a miss is sprayed, site-wide or in its network.
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

// Add counts a miss. Its password is a spray once it was wrong for this many accounts within SprayWindow.
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
		return nil // a site-wide spray needs no count per network
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

// tenfold reports whether n is accounts times a power of ten.
func tenfold(n, accounts int) bool {
	for accounts < n {
		accounts *= 10
	}
	return n == accounts
}

// TakeBack removes a miss after the same user has signed in. It does not end a detected spray. Otherwise an attacker
// could replace its misses with those of their own accounts, sign in there, and end it.
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

func (s *Sprays) bucket(value uint32) *bucket {
	at := &s.buckets[SprayBucket(value)]
	if *at == nil {
		*at = new(bucket)
	}
	return *at
}

// SprayBucket returns the number of the bucket that holds a password's misses: 0 to 4,095.
func SprayBucket(value uint32) uint32 { return bits.ReverseBytes32(value*0x9e3779b1) % sprayBuckets }

func minuteOf(t time.Time) uint16 { return uint16(t.Unix() / 60) }

// of appends to all a password's misses that still count, oldest first. all must be empty.
func (b *bucket) of(value uint32, minute uint16, all []miss) []miss {
	for i := range b {
		if b[i].value == value && minute-b[i].minute < sprayMinutes {
			all = append(all, b[i])
		}
	}
	slices.SortFunc(all, func(x, y miss) int { return int(minute-y.minute) - int(minute-x.minute) })
	return all
}

// note stores a miss. It reports whether the account is new and the network's share is not used up.
func (b *bucket) note(m Miss, most int, minute uint16) (fresh bool) {
	noted := miss{m.Value, m.Account, m.Network, minute}
	room, own, neighbour := -1, -1, -1 // neighbour is the oldest of the same network
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

// least returns the index of the miss to replace: of the password with the fewest accounts, and of these the oldest.
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
