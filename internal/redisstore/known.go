package redisstore

import (
	"fmt"
	"math"
	"slices"
	"strings"
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
	// ladders are as charge.lua wants them.
	ladders *lru.Cache[bound, ladderArgs]

	mu sync.Mutex // for failed
	// failed are young charges that are known to have failed (R3).
	failed *lru.Cache[failures.Key, decided]
}

type placeOf struct{ account, place trusted.Key }

// A shut key has no room for charges by these rules.
type shut struct {
	ladder *failures.Ladder
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
		accounts: cache[trusted.Key, placesAt](), ladders: cache[bound, ladderArgs](),
		failed: cache[failures.Key, decided](),
	}
}

func cache[K comparable, V any]() *lru.Cache[K, V] {
	made, _ := lru.New[K, V](remembered) // fails for a size below 1 only
	return made
}

// expects reports whether the attempt's place was privileged before.
func (k *known) expects(c *guard.Charge) bool {
	return k.privileged.Contains(placeOf{c.Account, placesOf(c)[0].asked})
}

// learn notes what an answer says of the attempt's place and, if there was no
// room, of all of the account's.
func (k *known) learn(c *guard.Charge, account *part, sent time.Time) {
	if place := (placeOf{c.Account, c.Place()}); c.Status == trusted.Privileged {
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
	c.AtDevice, c.Status = false, trusted.Stranger
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
			refused = k.shut(one, c.Bound(one), now) || refused
		}
	}
	if refused {
		k.answered.Add(1)
	}
	return refused
}

// shut writes what is known of a closed key into the subject's usage.
func (k *known) shut(subject *guard.Subject, bound failures.Mask, now time.Time) bool {
	known, ok := k.closed.Get(subject.Key)
	if !ok || known.ladder != subject.Ladder || known.bind != bound || !now.Before(known.until) {
		return false
	}
	subject.Usage = known.usage
	subject.Usage.FreeIn -= now.Sub(known.read)
	return true
}

// close notes that a key is full of charges that nobody will take back, until
// the first of its full rungs opens.
func (k *known) close(subject *failures.Subject, certain []uint32, cleared clearedAt, at uint32, sent time.Time) {
	one := shut{ladder: subject.Ladder, bind: subject.Bind, read: sent, until: sent.Add(believeFor)}
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

// A bound ladder is one with the rungs that bind, for each status or for any.
type bound struct {
	ladder *failures.Ladder
	binds  [3]failures.Mask
	n      int
}

// ladderArgs are what charge.lua wants to know of one.
type ladderArgs struct{ lives, text any }

func (k *known) ladder(l *failures.Ladder, binds []failures.Mask) ladderArgs {
	key := bound{ladder: l, n: len(binds)}
	copy(key.binds[:], binds)
	if made, ok := k.ladders.Get(key); ok {
		return made
	}
	least := math.MaxInt32
	var masks, rungs, backoff strings.Builder
	for _, mask := range binds {
		fmt.Fprintf(&masks, "%d ", mask)
	}
	for _, r := range l.Rungs() {
		least = min(least, r.Failures)
		fmt.Fprintf(&rungs, "%d %d ", r.Failures, r.Window.Milliseconds())
	}
	if b := l.Backoff(); b.First > 0 {
		least = min(least, b.After)
		fmt.Fprintf(&backoff, "%d %d %d %d", b.After, b.First.Milliseconds(), b.Max.Milliseconds(), b.Window.Milliseconds())
	}
	made := ladderArgs{l.Longest().Milliseconds() + slack, fmt.Sprintf("%d %d / %s/ %s/ %s", least, l.Keep(), &masks,
		&rungs, &backoff)}
	k.ladders.Add(key, made)
	return made
}
