package redisfailures_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/failures/redisfailures"
	"authguard/internal/redistest"
)

var limit = failures.MustLadder(failures.Backoff{}, failures.Rung{Failures: 10, Window: time.Minute})

// nodes are three stores, each with a client of its own.
func (on redisOf) nodes(t testing.TB) (all [3]*redisfailures.Store) {
	for i := range all {
		all[i] = on.node(t)
	}
	return all
}

// attemptOn is what a guess at one account from an address of its own is
// charged to.
func attemptOn(account failures.Key, n int) []failures.Subject {
	network, address := digest('n', n/5), digest('i', n)
	return []failures.Subject{
		{Shard: network, Key: address, Ladder: wide, Bind: failures.Every},
		{Shard: network, Key: network, Ladder: wide, Bind: failures.Every},
		{Shard: account, Key: account, Ladder: limit, Bind: failures.Every},
		{Shard: account, Key: digest('p', n), Ladder: wide, Bind: failures.Every},
	}
}

// R1, over nodes: 500 guesses at once, and exactly the limit is charged.
func burstOverThreeNodes(t *testing.T, on redisOf) {
	nodes := on.nodes(t)
	for round := range 5 {
		account := digest('a', round)
		moments := atOnce(t, 500, func(n int) (failures.ChargeID, error) {
			return nodes[n%3].Charge(t.Context(), attemptOn(account, n), make([]failures.Usage, 4))
		})
		charged := 0
		for n, at := range moments {
			if at == 0 {
				want(t, "charges of an address that was refused", count(t, nodes[0], attemptOn(account, n)[0]), 0)
				continue
			}
			charged++
			must(t, nodes[1].TakeBack(t.Context(), at, attemptOn(account, n)))
		}
		want(t, "charged", charged, 10)
	}
}

// atOnce does something n times in parallel, of which 200 at a time.
func atOnce(t *testing.T, n int, do func(n int) (failures.ChargeID, error)) []failures.ChargeID {
	moments := make([]failures.ChargeID, n)
	places := make(chan struct{}, 200)
	var all sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			var err error
			if moments[i], err = do(i); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	all.Wait()
	return moments
}

// Every charge is found again by the node that settles it, whoever made it.
func successesAtOnce(t *testing.T, on redisOf) {
	nodes := on.nodes(t)
	account := digest('a', 1)
	atOnce(t, 200, func(n int) (failures.ChargeID, error) {
		subjects := attemptOn(account, n)
		subjects[2].Ladder = wide
		at, err := nodes[n%3].Charge(t.Context(), subjects, make([]failures.Usage, 4))
		if at == 0 || err != nil {
			return 0, fmt.Errorf("moment %d: %w", at, err)
		}
		return at, nodes[(n+1)%3].TakeBack(t.Context(), at, subjects)
	})
	if left := on.names(t, on.open(t)); len(left) != 0 {
		t.Fatalf("keys are left: %q", left)
	}
}

// SCRIPT FLUSH, a restart and a failover all leave a server without scripts.
func flushedScripts(t *testing.T, on redisOf) {
	nodes, client := on.nodes(t), on.open(t)
	account := digest('a', 1)
	stop := make(chan struct{})
	var flushing sync.WaitGroup
	flushing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := eachMaster(t.Context(), client, func(ctx context.Context, c *redis.Client) error { return c.ScriptFlush(ctx).Err() }); err != nil {
					t.Error(err)
				}
			}
		}
	})
	charged := 0
	for _, at := range atOnce(t, 500, func(n int) (failures.ChargeID, error) {
		return nodes[n%3].Charge(t.Context(), attemptOn(account, n), make([]failures.Usage, 4))
	}) {
		if at != 0 {
			charged++
		}
	}
	close(stop)
	flushing.Wait()
	want(t, "charged", charged, 10)
}

// While a slot is moved its scripts run on neither server for a moment.
func resharding(t *testing.T, on redisOf, cluster *redistest.ClusterOf) {
	nodes := on.nodes(t)
	account := digest('a', 1)
	slot := on.open(t).ClusterKeySlot(t.Context(), on.prefix+"{"+base64Of(account)+"}").Val()
	stop := make(chan struct{})
	var guessing sync.WaitGroup
	var charged, guesses atomic.Int64
	for worker := range 6 {
		guessing.Go(func() {
			for n := worker; ; n += 6 {
				select {
				case <-stop:
					return
				default:
				}
				at, err := nodes[n%3].Charge(t.Context(), attemptOn(account, n), make([]failures.Usage, 4))
				if err != nil {
					t.Errorf("guess %d: %v", n, err)
				}
				if at != 0 {
					charged.Add(1)
				}
				guesses.Add(1)
			}
		})
	}
	for to := range 6 {
		cluster.Move(t, int(slot), to%3)
		seen := guesses.Load()
		redistest.Until(t, "guesses after the move", func() bool { return guesses.Load() > seen+50 })
	}
	close(stop)
	guessing.Wait()
	want(t, "charged", charged.Load(), 10)
}

func refusalLeavesNothing(t *testing.T, on redisOf) {
	store := on.node(t)
	account := digest('a', 1)
	for n := range 10 {
		want(t, "room", fail(t, store, attemptOn(account, n)...), true)
	}
	subjects := attemptOn(account, 100)
	at, st := charge(t, store, subjects...)
	want(t, "moment", at, 0)
	want(t, "full", st[2].Over, failures.Mask(1))
	want(t, "failed", st[2].Failed, failures.Mask(1))
	for _, i := range []int{0, 1, 3} {
		want(t, "standing of one with room", st[i], failures.Usage{})
		want(t, "charges of one with room", count(t, store, subjects[i]), 0)
	}
}

// Whoever is refused has guessed nothing, also if he did not wait to hear it.
func refusalIsUndone(t *testing.T, on redisOf) {
	client, hangUp := on.open(t), new(hangingUp)
	client.AddHook(hangUp)
	store := newStore(t, client, on.options())
	account := digest('a', 1)
	for n := range 10 {
		fail(t, store, attemptOn(account, n)...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	hangUp.after.Store(&cancel)
	subjects := attemptOn(account, 100)
	at, err := store.Charge(ctx, subjects, make([]failures.Usage, 4))
	must(t, err)
	want(t, "moment", at, 0)
	want(t, "the caller has left", errors.Is(ctx.Err(), context.Canceled), true)
	want(t, "charges of the address", count(t, store, subjects[0]), 0)
}

// What was decided of a charge says nothing of another one with its stamp.
func clearForgetsWhatWasDecided(t *testing.T, on redisOf) {
	store := newStore(t, on.open(t), clocked(on.options(), newClock().Now))
	once := failures.Subject{Ladder: failures.MustLadder(failures.Backoff{}, failures.Rung{Failures: 1, Window: time.Minute}), Bind: failures.Every}
	fail(t, store, once)
	must(t, store.Clear(t.Context(), []failures.Subject{once}))
	charge(t, store, once)
	_, st := charge(t, store, once)
	want(t, "full", st[0].Over, failures.Mask(1))
	want(t, "failed", st[0].Failed, failures.Mask(0))
}

func keysExpireAndHoldNoText(t *testing.T, on redisOf) {
	store, client := on.node(t), on.open(t)
	store.Start()
	for n := range 30 {
		subjects := attemptOn(digest('a', n/3), n)
		at, _ := charge(t, store, subjects...)
		if n%2 == 0 {
			must(t, store.TakeBack(t.Context(), at, subjects[:1]))
		}
		if n%10 == 0 {
			must(t, store.Clear(t.Context(), subjects[3:]))
		}
	}
	all := on.names(t, client)
	if len(all) < 10 {
		t.Fatalf("only %d keys", len(all))
	}
	for _, name := range all {
		life := client.PTTL(t.Context(), name).Val()
		if life <= 0 || life > 24*time.Hour+time.Second {
			t.Errorf("%q lives for %v", name, life)
		}
		rest := strings.TrimPrefix(name, on.prefix)
		if rest != "unlocks" && rest != "places" && !digests(rest) {
			t.Errorf("%q holds more than digests", name)
		}
	}
}

// digests reports whether a name is one digest in braces, and maybe another.
func digests(name string) bool {
	const base64 = 22
	return (len(name) == base64+2 || len(name) == 2*base64+2) && name[0] == '{' && name[base64+1] == '}'
}
