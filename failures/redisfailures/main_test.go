package redisfailures_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/failures/failurestest"
	"authguard/failures/redisfailures"
	"authguard/internal/redistest"
)

// claims are what holds on every kind of Redis.
var claims = map[string]func(t *testing.T, on redisOf){
	"Contract":                            keepsTheContract,
	"AgreesWithMemory":                    agreesWithMemory,
	"BurstOverThreeNodes":                 burstOverThreeNodes,
	"SuccessesAtOnceLeaveNothing":         successesAtOnce,
	"ChargeIsOneTrip":                     chargeIsOneTrip,
	"ScriptsStayInOneSlot":                scriptsStayInOneSlot,
	"KeysExpireAndHoldNoText":             keysExpireAndHoldNoText,
	"RefusalLeavesNothingElsewhere":       refusalLeavesNothing,
	"RefusalIsUndoneForACallerThatLeft":   refusalIsUndone,
	"ClosedKeyCostsNoCall":                closedKeyCostsNoCall,
	"UnlockReachesOtherNodes":             unlockReachesOtherNodes,
	"LateSuccessReachesOtherNodes":        lateSuccessReachesOtherNodes,
	"ClosedNeedsAStart":                   closedNeedsAStart,
	"ChargeAsAStranger":                   chargeAsAStranger,
	"ChargeAsAPrivilegedPlace":            chargeAsAPrivilegedPlace,
	"ChargeAsASpentPlace":                 chargeAsASpentPlace,
	"ChargeAsWithEmptyLists":              chargeAsWithEmptyLists,
	"ForgottenPlaceIsAStrangerEverywhere": forgottenPlaceIsAStranger,
	"ScriptAndRecordAgreeOnStatus":        scriptAndRecordAgree,
	"ClosedKeyLetsPrivilegedPlacesPass":   closedKeyLetsPrivilegedPass,
	"ClearForgetsWhatWasDecided":          clearForgetsWhatWasDecided,
}

func TestOnOneServer(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	on := redisOf{open: func(t testing.TB) redis.UniversalClient { return server.Client(t) }}
	run(t, on)
}

// A proxy may hide a cluster: one address, and yet one script for each place.
func TestOnOneServerByPlaces(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	on := redisOf{open: func(t testing.TB) redis.UniversalClient { return server.Client(t) }, split: true}
	run(t, on)
}

func TestOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	on := redisOf{open: func(t testing.TB) redis.UniversalClient { return cluster.Client(t) }, split: true}
	run(t, on)
	t.Run("ReshardingLosesNoDecision", func(t *testing.T) { resharding(t, on.realm(), cluster) })
}

func run(t *testing.T, on redisOf) {
	t.Run("claims", func(t *testing.T) {
		for name, claim := range claims {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				claim(t, on.realm())
			})
		}
	})
	// Alone, since it makes every other claim's scripts go away too.
	t.Run("FlushedScriptsLoseNoDecision", func(t *testing.T) { flushedScripts(t, on.realm()) })
}

// realm is the same Redis with another realm.
func (on redisOf) realm() redisOf {
	on.prefix = fmt.Sprintf("t%d:", realms.Add(1))
	return on
}

var realms atomic.Int64

// redisOf is a kind of Redis, and a realm in it that one claim has to itself.
type redisOf struct {
	open   func(t testing.TB) redis.UniversalClient
	split  bool
	prefix string
}

func (on redisOf) options() redisfailures.Options {
	return redisfailures.Options{
		Prefix: on.prefix, PendingFor: failurestest.PendingFor, Retain: failurestest.Retain, SplitPlaces: on.split,
	}
}

// node is a store with a client of its own, as another process would have.
func (on redisOf) node(t testing.TB) *redisfailures.Store {
	t.Helper()
	return newStore(t, on.open(t), on.options())
}

func newStore(t testing.TB, client redis.UniversalClient, o redisfailures.Options) *redisfailures.Store {
	t.Helper()
	s, err := redisfailures.New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// A clock stands still until it is advanced.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// names are the names of all keys of the realm.
func (on redisOf) names(t testing.TB, client redis.UniversalClient) (all []string) {
	t.Helper()
	var mu sync.Mutex
	err := eachMaster(t.Context(), client, func(ctx context.Context, c *redis.Client) error {
		keys := c.Scan(ctx, 0, on.prefix+"*", 1000).Iterator()
		mu.Lock()
		defer mu.Unlock()
		for keys.Next(ctx) {
			all = append(all, keys.Val())
		}
		return keys.Err()
	})
	must(t, err)
	return all
}

func eachMaster(ctx context.Context, client redis.UniversalClient, do func(context.Context, *redis.Client) error) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, do)
	}
	return do(ctx, client.(*redis.Client))
}

// expire does what Redis does by itself in the time that a test's clock skips.
func (on redisOf) expire(t testing.TB, client redis.UniversalClient) {
	t.Helper()
	for _, name := range on.names(t, client) {
		if strings.HasPrefix(name, on.prefix+"{") {
			must(t, client.Del(t.Context(), name).Err())
		}
	}
}

// fixture is a store whose clock stands still.
func (on redisOf) fixture(t *testing.T) failurestest.Fixture {
	client, c := on.open(t), newClock()
	store := newStore(t, client, clocked(on.options(), c.Now))
	return failurestest.Fixture{Store: store, Advance: func(d time.Duration) {
		c.Advance(d)
		if d > failurestest.Retain {
			on.expire(t, client)
		}
	}}
}

func keepsTheContract(t *testing.T, on redisOf) {
	failurestest.Run(t, func(t *testing.T) failurestest.Fixture {
		return on.realm().fixture(t)
	})
}

var plain = failures.MustLadder(failures.Backoff{}, failures.Rung{Failures: 3, Window: time.Minute})

var wide = failures.MustLadder(failures.Backoff{}, failures.Rung{Failures: 1000, Window: time.Minute})

// digest is like a keyed digest: all of it differs from one to the next.
func digest(kind byte, n int) (k failures.Key) {
	x := uint64(n)*0x9e3779b97f4a7c15 + uint64(kind)*0xbf58476d1ce4e5b9
	for i := range k {
		x ^= x >> 27
		x *= 0x94d049bb133111eb
		k[i] = byte(x >> 56)
	}
	return k
}

func subject(n int, l *failures.Ladder) failures.Subject {
	return failures.Subject{Shard: digest('s', n), Key: digest('s', n), Ladder: l, Bind: failures.Every}
}

func charge(t testing.TB, s *redisfailures.Store, subjects ...failures.Subject) (failures.ChargeID, []failures.Usage) {
	t.Helper()
	standings := make([]failures.Usage, len(subjects))
	at, err := s.Charge(t.Context(), subjects, standings)
	must(t, err)
	return at, standings
}

// fail charges and tells that it was a failure.
func fail(t testing.TB, s *redisfailures.Store, subjects ...failures.Subject) bool {
	t.Helper()
	at, _ := charge(t, s, subjects...)
	must(t, s.Failed(t.Context(), at, subjects))
	return at != 0
}

func count(t testing.TB, s *redisfailures.Store, subject failures.Subject) int {
	t.Helper()
	var out [1]failures.Usage
	must(t, s.Read(t.Context(), []failures.Subject{subject}, out[:]))
	return out[0].Count
}

func base64Of(k failures.Key) string { return base64.RawURLEncoding.EncodeToString(k[:]) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// clocked makes a store's scripts take the time from a clock.
func clocked(o redisfailures.Options, clock func() time.Time) redisfailures.Options {
	o.Clock = clock
	return o
}
