package redisfailures_test

import (
	"testing"
	"time"

	"authguard/failures"
	"authguard/failures/redisfailures"
	"authguard/internal/redistest"
)

func closedKeyCostsNoCall(t *testing.T, on redisOf) {
	store, seen := on.spied(t)
	store.Start()
	redistest.Until(t, "the store to have started", func() bool { return seen.trips.Load() > 0 })
	account := digest('a', 1)
	for n := range 10 {
		fail(t, store, attemptOn(account, n)...)
	}
	redistest.Until(t, "the key to be known as closed", func() bool {
		before := store.Counts().Closed
		charge(t, store, attemptOn(account, 50)...)
		return store.Counts().Closed > before
	})
	scripts := len(seen.scripts())
	for n := range 1000 {
		at, st := charge(t, store, attemptOn(account, 100+n)...)
		want(t, "moment", at, 0)
		want(t, "failed", st[2].Failed, failures.Mask(1))
		want(t, "count", st[2].Count, 10)
		if free := st[2].FreeIn; free <= 0 || free > time.Minute {
			t.Fatalf("free in %v", free)
		}
	}
	want(t, "scripts run for 1000 knocks", len(seen.scripts())-scripts, 0)
	lifted := attemptOn(account, 2000)
	lifted[2].Bind = 0
	at, _ := charge(t, store, lifted...)
	want(t, "charged where the rung does not bind", at != 0, true)
}

// closedOn fills an account and waits until a node remembers it as closed.
func closedOn(t *testing.T, node *redisfailures.Store, account failures.Key) {
	t.Helper()
	redistest.Until(t, "the key to be known as closed", func() bool {
		before := node.Counts().Closed
		fail(t, node, subjectOf(account))
		return node.Counts().Closed > before
	})
}

func subjectOf(account failures.Key) failures.Subject {
	return failures.Subject{Shard: account, Key: account, Ladder: limit, Bind: failures.Every}
}

func unlockReachesOtherNodes(t *testing.T, on redisOf) {
	here, there := on.node(t), on.node(t)
	here.Start()
	one := subjectOf(digest('a', 1))
	closedOn(t, here, one.Key)
	must(t, there.Clear(t.Context(), []failures.Subject{one}))
	began := time.Now()
	redistest.Until(t, "the other node to charge again", func() bool {
		at, _ := charge(t, here, one)
		return at != 0
	})
	if took := time.Since(began); took > time.Second {
		t.Errorf("an unlock took %v to reach the other node", took)
	}
}

// A success that is told long after its charge counted as a failure opens the
// key, also where it is remembered as closed.
func lateSuccessReachesOtherNodes(t *testing.T, on redisOf) {
	c := newClock()
	here := newStore(t, on.open(t), clocked(on.options(), c.Now))
	there := newStore(t, on.open(t), clocked(on.options(), c.Now))
	here.Start()
	one := subjectOf(digest('a', 1))
	slow, _ := charge(t, there, one)
	c.Advance(7 * time.Second)
	closedOn(t, here, one.Key)
	must(t, there.TakeBack(t.Context(), slow, []failures.Subject{one}))
	redistest.Until(t, "the other node to charge again", func() bool {
		at, _ := charge(t, here, one)
		return at != 0
	})
}

func closedNeedsAStart(t *testing.T, on redisOf) {
	store := on.node(t)
	for range 20 {
		fail(t, store, subjectOf(digest('a', 1)))
	}
	want(t, "answers from memory", store.Counts().Closed, 0)
}
