package redisstore_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/captchamode/challenge/challengetest"
	"authguard/failures"
	"authguard/failures/failurestest"
	"authguard/internal/redisstore"
	"authguard/internal/testing/clocktest"
	"authguard/internal/testing/redistest"
	"authguard/trusted"
	"authguard/trusted/trustedtest"
)

// TestMain draws fewer random histories than rapid would by itself, since each goes
// through Redis. `make long` asks for more.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks").Value; checks.String() == "100" { // rapid's own number
		_ = checks.Set("25")
	}
	os.Exit(m.Run())
}

// claims are what holds on every kind of Redis.
var claims = map[string]func(t *testing.T, on redisOf){
	"CountersContract":     countersContract,
	"KnownClientsContract": knownClientsContract,
	"SpentContract":        spentContract,
	"SpraysContract":       spraysContract,

	"SpentKeysLiveUntilTheEnd": spentKeysLiveUntilTheEnd,

	"AgreesWithMemory":                     agreesWithMemory,
	"R1BurstOverThreeNodes":                r1BurstOverThreeNodes,
	"RefusalLeavesNothing":                 refusalLeavesNothing,
	"OutcomesLeaveWhatTheySay":             outcomesLeaveWhatTheySay,
	"R14KnownClientHasLimits":              knownClientHasLimits,
	"DeviceVouchesUntilAReset":             deviceVouchesUntilAReset,
	"ForgottenClientIsUnknownEverywhere":   forgottenClientIsUnknownEverywhere,
	"ForgottenSpentClientGetsTheDelay":     forgottenSpentClientGetsTheDelay,
	"KnownOnlyChargesNoUnknownClient":      knownOnlyChargesNoUnknownClient,
	"ClosedAccountCostsNoTrip":             closedAccountCostsNoTrip,
	"ClosedAccountOpensInTime":             closedAccountOpensInTime,
	"LostKnownClientsAreRestored":          lostKnownClientsAreRestored,
	"NodesThatCountApartAreRefused":        nodesThatCountApartAreRefused,
	"EmptiedRedisIsNoticed":                emptiedRedisIsNoticed,
	"LoginIsTwoTrips":                      loginIsTwoTrips,
	"FailureIsWrittenOnlyIfItFilledALimit": failureIsWrittenOnlyIfItFilledALimit,
	"BlockedWithoutTakingBack":             blockedWithoutTakingBack,
	"R30SharedAddressIsSoOnEveryNode":      r30SharedAddressIsSoOnEveryNode,
	"R30SharedAddressIsNoKnownClient":      r30SharedAddressIsNoKnownClient,
	"R23KeysExpireAndHoldNoText":           r23KeysExpireAndHoldNoText,
	"R28AShareThatFailsLosesNothing":       r28AShareThatFailsLosesNothing,
	"ClearForgetsWhatHasFailed":            clearForgetsWhatHasFailed,
	"KeysLiveForEarlierLimits":             keysLiveForEarlierLimits,
}

func TestOnOneServer(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	run(t, redisOf{open: func(t testing.TB) redis.UniversalClient { return server.Client(t) }})
}

func TestOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	on := redisOf{open: func(t testing.TB) redis.UniversalClient { return cluster.Client(t) }}
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

var realms atomic.Int64

// redisOf is a kind of Redis, and a realm in it that one claim has to itself.
type redisOf struct {
	open   func(t testing.TB) redis.UniversalClient
	prefix string
}

// realm is the same Redis with another realm.
func (on redisOf) realm() redisOf {
	on.prefix = fmt.Sprintf("t%d:", realms.Add(1))
	return on
}

// node is a store with a client of its own, as another process would have.
func (on redisOf) node(t testing.TB, o redisstore.Options) *redisstore.Store {
	t.Helper()
	return newStore(t, on.open(t), on.prefix, o)
}

func newStore(t testing.TB, client redis.UniversalClient, prefix string, o redisstore.Options) *redisstore.Store {
	t.Helper()
	o.Prefix = prefix
	s, err := redisstore.New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newClock() *clocktest.Clock { return clocktest.At(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)) }

// names are the names of all keys of the realm.
func (on redisOf) names(t testing.TB, client redis.UniversalClient) (all []string) {
	t.Helper()
	var mu sync.Mutex
	must(t, eachMaster(t.Context(), client, func(ctx context.Context, c *redis.Client) error {
		keys := c.Scan(ctx, 0, on.prefix+"*", 1000).Iterator()
		mu.Lock()
		defer mu.Unlock()
		for keys.Next(ctx) {
			all = append(all, keys.Val())
		}
		return keys.Err()
	}))
	return all
}

func eachMaster(ctx context.Context, client redis.UniversalClient, do func(context.Context,
	*redis.Client) error) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, do)
	}
	return do(ctx, client.(*redis.Client))
}

// expire does what Redis does by itself in the time that a test's clock skips.
func (on redisOf) expire(t testing.TB, client redis.UniversalClient) {
	t.Helper()
	for _, name := range on.names(t, client) {
		must(t, client.Del(t.Context(), name).Err())
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func countersContract(t *testing.T, on redisOf) {
	client := on.open(t)
	failurestest.Run(t, func(t *testing.T) failurestest.Fixture {
		c := newClock()
		realm := on.realm()
		s := newStore(t, client, realm.prefix, redisstore.Options{PendingFor: failurestest.PendingFor, Clock: c.Now})
		return failurestest.Fixture{Store: redisstore.CountersOf(s), Advance: func(d time.Duration) {
			if c.Advance(d); d > failurestest.Retain {
				realm.expire(t, client)
			}
		}}
	})
}

func knownClientsContract(t *testing.T, on redisOf) {
	client := on.open(t)
	trustedtest.Run(t, func(t *testing.T) trusted.Store {
		return redisstore.KnownClients{Store: newStore(t, client, on.realm().prefix, redisstore.Options{})}
	})
}

func spentContract(t *testing.T, on redisOf) {
	client := on.open(t)
	challengetest.RunSpent(t, func(*testing.T) challengetest.Fixture {
		return challengetest.Fixture{Store: redisstore.NewSpent(client, on.realm().prefix)}
	})
}

// Redis's clock cannot be moved, so this stands in for the claims of the contract
// that move it: the key is there for as long as the ID may be tried, and not for
// ever.
func spentKeysLiveUntilTheEnd(t *testing.T, on redisOf) {
	client, on := on.open(t), on.realm()
	const life = 10 * time.Minute
	began := time.Now()
	until := began.Add(life)
	if first, err := redisstore.NewSpent(client, on.prefix).Spend(t.Context(), [16]byte{1}, until); !first || err != nil {
		t.Fatal(first, err)
	}
	took := time.Since(began)
	names := on.names(t, client)
	want(t, "keys", len(names), 1)
	ends, err := client.PExpireTime(t.Context(), names[0]).Result() // Unix time
	must(t, err)
	// a second, and what Redis took
	if after := ends - time.Duration(until.UnixMilli())*time.Millisecond; after < 0 || after > time.Second+took {
		t.Errorf("the key goes %v after the ID has expired", after)
	}
}

// A key outlives a shorter window if earlier limits, which may return, had a longer one.
func keysLiveForEarlierLimits(t *testing.T, on redisOf) {
	s, client := redisstore.CountersOf(on.node(t, redisstore.Options{})), on.open(t)
	one := []failures.Subject{{Limits: limitSet(1, time.Minute).Keeping(limitSet(20, time.Hour)), Bind: failures.Every}}
	id, err := s.Charge(t.Context(), one, make([]failures.Usage, 1))
	must(t, err)
	names := on.names(t, client)
	want(t, "keys", len(names), 1)
	ends, err := client.PExpireTime(t.Context(), names[0]).Result() // Unix time
	must(t, err)
	if life := ends - time.Duration(id.At)*time.Millisecond; life < time.Hour {
		t.Errorf("the key lives for %v after its charge, want an hour", life)
	}
}

// What was decided of a charge says nothing of another one with its stamp.
func clearForgetsWhatHasFailed(t *testing.T, on redisOf) {
	s := redisstore.CountersOf(on.node(t, redisstore.Options{Clock: newClock().Now}))
	one := []failures.Subject{{Limits: limitSet(1, time.Minute), Bind: failures.Every}}
	var usage [1]failures.Usage
	charge := func() failures.ChargeID {
		id, err := s.Charge(t.Context(), one, usage[:])
		must(t, err)
		return id
	}
	must(t, s.Failed(t.Context(), charge(), one))
	must(t, s.Clear(t.Context(), one, failures.Every))
	charge()
	charge()
	want(t, "full", usage[0].Over, failures.Mask(1))
	want(t, "failed", usage[0].Failed, failures.Mask(0))
}
