package redisstore

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"authguard/failures"
	"authguard/guard"
	"authguard/trusted"
)

const (
	// believeFor is how long a node may answer from what Redis said: as long
	// as an unlock on another node may take to show.
	believeFor = time.Second
	// remembered is how many of each the caches hold; some 30 MB in all.
	remembered = 1 << 16
	// slack is how many milliseconds longer than its windows a key lives: a
	// clock may be set back.
	slack = 1000
)

// memory is what a node remembers between attempts, all of it bounded. What it forgets costs
// round trips, and no decision.
type memory struct {
	// blocked are keys whose limits block, by failures that stand. Their attempts are blocked
	// without a round trip. An account's block has its known clients.
	blocked *lru.Cache[failures.Key, block]
	avoided atomic.Uint64 // round trips
	// known are clients that were known at the last attempt: only their account's shard is
	// charged. Without it, each login of a client that is known by its IP address takes back
	// what its network was charged, in a third round trip.
	known *lru.Cache[clientOf, struct{}]

	mu sync.Mutex // for failed
	// failed are young charges that stand. This is no cache: Redis does not know which charges
	// are undecided (R3).
	failed *lru.Cache[failures.Key, decided]
}

type clientOf struct{ account, client trusted.Key }

// A block is what Redis said of a key whose enforced limits are full, or of an account whose
// attempt was blocked. It holds until a time, but for believeFor at most.
type block struct {
	limits   *failures.Limits // nil: there is no block, only known clients
	enforced failures.Mask
	usage    failures.Usage
	read     time.Time
	until    time.Time
	clients  *trusted.Record // of an account; nil: not read
}

func newMemory() *memory {
	return &memory{blocked: bounded[failures.Key, block](), known: bounded[clientOf, struct{}](),
		failed: bounded[failures.Key, decided]()}
}

func bounded[K comparable, V any]() *lru.Cache[K, V] {
	made, _ := lru.New[K, V](remembered) // fails for a size below 1 only
	return made
}

// expects reports whether the client was known at its last attempt.
func (m *memory) expects(c *guard.Charge) bool {
	return m.known.Contains(clientOf{c.Account, clientsOf(c)[0].asked})
}

// learn notes whether the client is known.
func (m *memory) learn(c *guard.Charge) {
	if client := (clientOf{c.Account, c.ClientKey()}); c.Status == trusted.Known {
		m.known.Add(client, struct{}{})
	} else {
		m.known.Remove(client)
	}
}

// blocks reports whether a counted subject is known to block, and writes its usage. For an
// account it also has to know what kind the client is.
func (m *memory) blocks(c *guard.Charge, limits trusted.Limits, now time.Time) bool {
	c.AtDevice, c.Status = false, trusted.Unknown
	if c.Account != (trusted.Key{}) {
		account, _ := m.blocked.Get(failures.Key(c.Account))
		if account.clients == nil || now.Sub(account.read) >= believeFor {
			return false
		}
		live := account.clients.Live(c.Now, limits)
		c.Find(&live)
	}
	blocked := false
	for i := range c.Subjects() {
		one := &c.Subjects()[i]
		if !c.Counts(one) {
			continue
		}
		if b, _ := m.blocked.Get(one.Key); b.limits == one.Limits && b.enforced == c.Bound(one) && now.Before(b.until) {
			one.Usage, blocked = b.usage, true
			one.Usage.FreeIn -= now.Sub(b.read)
		}
	}
	if blocked {
		m.avoided.Add(1)
	}
	return blocked
}

// block notes that failures that stand block a key, until the first of its full limits has
// room.
func (m *memory) block(subject *failures.Subject, certain []uint32, cleared clearedAt, at uint32, b block) {
	b.limits, b.enforced, b.until = subject.Limits, subject.Bind, b.read.Add(believeFor)
	fresh := cleared.fresh(certain)
	subject.Use(certain, at, fresh, 0, &b.usage)
	alone := *subject
	for limit := range 16 {
		var usage failures.Usage
		if alone.Bind = b.usage.Over & (1 << limit); alone.Bind != 0 {
			alone.Use(certain, at, fresh, 0, &usage)
			if opens := b.read.Add(usage.FreeIn); opens.Before(b.until) {
				b.until = opens
			}
		}
	}
	m.blocked.Add(subject.Key, b)
}

// unblock forgets what may no longer be blocked.
func (m *memory) unblock(key failures.Key) { m.blocked.Remove(key) }

// clear forgets what was known of a key.
func (m *memory) clear(key failures.Key) {
	m.unblock(key)
	m.failed.Remove(key)
}

// fail notes that a charge of a key has failed.
func (m *memory) fail(stamp int64, key failures.Key, pendingFor uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := uint32(stamp)
	known, _ := m.failed.Get(key)
	own := slices.DeleteFunc(slices.Clone(known.own), func(one uint32) bool {
		age := at - one
		return age > pendingFor && age < math.MaxInt32
	})
	m.failed.Add(key, decided{own: append(own, at), others: known.others})
}

// certain are the charges that nobody will take back: those that are known to
// have failed, and those older than a password check takes.
func (m *memory) certain(key failures.Key, charges []uint32, now, pendingFor uint32) []uint32 {
	young := len(charges)
	for young > 0 && now-charges[young-1] <= pendingFor {
		young--
	}
	known, _ := m.failed.Get(key)
	stamps := slices.Concat(known.own, known.others)
	certain := slices.Clone(charges[:young])
	for _, one := range charges[young:] {
		if i := slices.Index(stamps, one); i >= 0 {
			stamps = slices.Delete(stamps, i, i+1)
			certain = append(certain, one)
		}
	}
	return certain
}

// limitsArg are limits as charge.lua reads them, with those that are enforced for each status,
// or for any. It is written anew for each charge: at 0.3 µs that costs less than a cache's upkeep.
func limitsArg(l *failures.Limits, enforced []failures.Mask) []byte {
	least, backoff := math.MaxInt32, l.Backoff()
	for _, limit := range l.List() {
		least = min(least, limit.Failures)
	}
	if backoff.First > 0 {
		least = min(least, backoff.After)
	}
	text := numbers(make([]byte, 0, 96), int64(least), int64(l.Keep()))
	text = append(text, "/ "...)
	for _, mask := range enforced {
		text = numbers(text, int64(mask))
	}
	text = append(text, "/ "...)
	for _, limit := range l.List() {
		text = numbers(text, int64(limit.Failures), limit.Window.Milliseconds())
	}
	text = append(text, "/ "...)
	if backoff.First > 0 {
		text = numbers(text, int64(backoff.After), backoff.First.Milliseconds(), backoff.Max.Milliseconds(),
			backoff.Window.Milliseconds())
	}
	return text
}

// numbers appends each number and a space.
func numbers(text []byte, all ...int64) []byte {
	for _, n := range all {
		text = append(strconv.AppendInt(text, n, 10), ' ')
	}
	return text
}

// Every key that authguard has in Redis, each after the realm's prefix ("ag:"
// unless configured):
//
//	{S}          charges of the subject S that is a shard: an account, a network
//	{S}K         charges of a subject kept with it: a pair, an address
//	{S}p         the places of account S
//	{S}v         the accounts that log in from address S (Addresses), as its places
//	asked        the subjects at which attempts wait (asm.lua): a sorted set
//	{S}d, {S}Kd  which young charges of a subject have failed (decided.go): a hash
//	{S}w         the tags of the last passwords of account S, for a day: 24 bits of each
//	c:ID         a challenge that was used up
//	s:ID         a ticket of the decision API that was settled
//	lifeN        a random text for as long as Redis keeps what it knows (site.go)
//	keys         the nodes' signature: the layout's number, and the fingerprint of their keys
//	{PREFIXmode}counted  what each node has counted for CAPTCHA mode: a hash
//	{PREFIXmode}agreed   what the nodes have agreed on about it: a hash
//	{PREFIXspray}seen    the latest wrong passwords of all strangers (spray.lua): a string
//	{PREFIXspray}found   which passwords are sprayed: a hash
//
// S is the first 12 bytes of the shard's digest, K the first 9 of the
// subject's, ID all 16, in base64: multiples of three need no padding. Digests
// are keyed, so nobody can aim at a collision, and nothing that anybody typed is
// in a name. By chance two of 2³² shards share 12 bytes once in 2³³ sites, and
// two of a million addresses that tried one account 9 bytes once in 2³³
// accounts; they would count together, which is stricter. A shorter name saves
// 8 bytes of some 120 in a key.
//
// What stands in braces is a key's hash tag: all keys of an account lie in one
// slot of a Cluster, as do all of a network, and an attempt touches two slots.
//
// Charges are a string of the newest (charge.lua; 5 bytes more where a login has let
// the delay of a pair with failures begin anew), which lives as long as its
// ladder's longest window and a second. Tags are a string, too. Places
// are a sorted set with two members for each (places.lua), which lives as long as a
// privilege; an account that is known always has one.
const (
	shardBytes   = 12
	subjectBytes = 9
	// DefaultPrefix begins every key.
	DefaultPrefix = "ag:"
)

func (s *Store) shardKey(shard [16]byte) []byte {
	b := make([]byte, 0, len(s.prefix)+32)
	b = append(append(b, s.prefix...), '{')
	return append(base64.RawURLEncoding.AppendEncode(b, shard[:shardBytes]), '}')
}

// subjectKey is the key of a subject's charges.
func (s *Store) subjectKey(shard, subject [16]byte) string {
	b := s.shardKey(shard)
	if subject != shard {
		b = base64.RawURLEncoding.AppendEncode(b, subject[:subjectBytes])
	}
	return string(b)
}

func (s *Store) knownClientsKey(account [16]byte) string {
	return string(append(s.shardKey(account), 'p'))
}

func (s *Store) sharersKey(address [16]byte) string {
	return string(append(s.shardKey(address), 'v'))
}

func (s *Store) tagsKey(account [16]byte) string {
	return string(append(s.shardKey(account), 'w'))
}

// sprayKeys are those of spray.lua.
func (s *Store) sprayKeys() []any {
	tag := s.prefix + "{" + s.prefix + "spray}"
	return []any{tag + "seen", tag + "found"}
}

// idKey is the key of a challenge or a ticket.
func idKey(prefix string, id [16]byte) string {
	return prefix + base64.RawURLEncoding.EncodeToString(id[:])
}
