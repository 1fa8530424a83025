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

// known is what a node remembers of Redis's answers, all of it bounded. It saves
// trips. It decides one thing only: while a key is known to be full, attempts at it
// are refused without asking.
type known struct {
	// privileged are places that were when this node last asked: their
	// networks need not be charged.
	privileged *lru.Cache[placeOf, struct{}]
	// closed are keys without room, and accounts what was known of the places
	// of accounts without room. Together they refuse without a trip.
	closed   *lru.Cache[failures.Key, shut]
	accounts *lru.Cache[trusted.Key, placesAt]
	answered atomic.Uint64

	mu sync.Mutex // for failed
	// failed are young charges that are known to have failed (R3).
	failed *lru.Cache[failures.Key, decided]
}

type placeOf struct{ account, place trusted.Key }

// A shut key has no room for charges by these rules.
type shut struct {
	ladder *failures.Limits
	bind   failures.Mask
	usage  failures.Usage
	read   time.Time
	until  time.Time
}

// placesAt is what was known of an account's places at a time.
type placesAt struct {
	record trusted.Record
	read   time.Time
}

func newKnown() *known {
	return &known{
		privileged: cache[placeOf, struct{}](), closed: cache[failures.Key, shut](),
		accounts: cache[trusted.Key, placesAt](),
		failed:   cache[failures.Key, decided](),
	}
}

func cache[K comparable, V any]() *lru.Cache[K, V] {
	made, _ := lru.New[K, V](remembered) // fails for a size below 1 only
	return made
}

// expects reports whether the attempt's place was privileged before.
func (k *known) expects(c *guard.Charge) bool {
	return k.privileged.Contains(placeOf{c.Account, clientsOf(c)[0].asked})
}

// learn notes what an answer says of the attempt's place and, if there was no
// room, of all of the account's.
func (k *known) learn(c *guard.Charge, account *part, sent time.Time) {
	if place := (placeOf{c.Account, c.ClientKey()}); c.Status == trusted.Known {
		k.privileged.Add(place, struct{}{})
	} else {
		k.privileged.Remove(place)
	}
	if all := account.told[min(len(account.at), len(account.told)):]; len(all) > 0 && account.refused {
		k.accounts.Add(c.Account, placesAt{recordOf(all[0]), sent})
	}
}

// refuses answers for a key that is known to be closed, if it is known what the
// attempt's place is.
func (k *known) refuses(c *guard.Charge, limits trusted.Limits, now time.Time) bool {
	c.AtDevice, c.Status = false, trusted.Unknown
	if c.Account != (trusted.Key{}) {
		account, ok := k.accounts.Get(c.Account)
		if !ok || now.Sub(account.read) >= believeFor {
			return false
		}
		live := account.record.Live(c.Now, limits)
		c.Find(&live)
	}
	refused := false
	for i := range c.Subjects() {
		if one := &c.Subjects()[i]; c.Counts(one) {
			refused = k.isClosed(one, c.Bound(one), now) || refused
		}
	}
	if refused {
		k.answered.Add(1)
	}
	return refused
}

// isClosed writes what is known of a closed key into the subject's usage.
func (k *known) isClosed(subject *guard.Subject, bound failures.Mask, now time.Time) bool {
	known, ok := k.closed.Get(subject.Key)
	if !ok || known.ladder != subject.Limits || known.bind != bound || !now.Before(known.until) {
		return false
	}
	subject.Usage = known.usage
	subject.Usage.FreeIn -= now.Sub(known.read)
	return true
}

// close notes that a key is full of charges that nobody will take back, until
// the first of its full rungs opens.
func (k *known) close(subject *failures.Subject, certain []uint32, cleared clearedAt, at uint32, sent time.Time) {
	one := shut{ladder: subject.Limits, bind: subject.Bind, read: sent, until: sent.Add(believeFor)}
	fresh := cleared.fresh(certain)
	subject.Use(certain, at, fresh, 0, &one.usage)
	alone := *subject
	for rung := range 16 {
		var usage failures.Usage
		if alone.Bind = one.usage.Over & (1 << rung); alone.Bind != 0 {
			alone.Use(certain, at, fresh, 0, &usage)
			if opens := sent.Add(usage.FreeIn); opens.Before(one.until) {
				one.until = opens
			}
		}
	}
	k.closed.Add(subject.Key, one)
}

// opened forgets what may no longer be closed.
func (k *known) opened(key failures.Key) { k.closed.Remove(key) }

// cleared forgets what was known of a key.
func (k *known) cleared(key failures.Key) {
	k.opened(key)
	k.failed.Remove(key)
}

// fail notes that a charge of a key has failed.
func (k *known) fail(stamp int64, key failures.Key, pendingFor uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := uint32(stamp)
	known, _ := k.failed.Get(key)
	own := slices.DeleteFunc(slices.Clone(known.own), func(one uint32) bool {
		age := at - one
		return age > pendingFor && age < math.MaxInt32
	})
	k.failed.Add(key, decided{own: append(own, at), others: known.others})
}

// certain are the charges that nobody will take back: those that are known to
// have failed, and those older than a password check takes.
func (k *known) certain(key failures.Key, charges []uint32, now, pendingFor uint32) []uint32 {
	young := len(charges)
	for young > 0 && now-charges[young-1] <= pendingFor {
		young--
	}
	known, _ := k.failed.Get(key)
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
//	asked        the subjects at which attempts wait (ask.lua): a sorted set
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
