package nodes_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/redisstore"
	"authguard/internal/redistest"
)

// What was under way when Redis went counts against a node's part: five charges
// on one of three nodes leave it nothing, and the two others one each, so that
// seven of five are checked at most.
func TestR22WhatIsUnderWayCountsAgainstTheNodesPart(t *testing.T) {
	t.Parallel()
	r := redistest.Standalone(t)
	s := newSite(t, 3, redisstore.Server{Addresses: []string{r.Addr}}, policy())
	try := func(n, from int) guard.Action {
		d, err := s.nodes[n].Begin(t.Context(), guard.Attempt{Account: "alice", Address: netip.MustParseAddr(fmt.Sprintf("198.51.%d.1", from))})
		if err != nil {
			t.Fatal(err)
		}
		return d.Action
	}
	for i := range 5 {
		if got := try(0, i); got != guard.Proceed {
			t.Fatalf("attempt %d: %v", i, got)
		}
	}
	r.Kill()
	checked := 5
	for i := range 30 {
		if try(i%3, 100+i) == guard.Proceed {
			checked++
		}
	}
	if checked != 7 {
		t.Errorf("%d passwords were checked, want 7", checked)
	}
}

// What nodes counted alone counts in Redis when it is back: a guess on each of
// three nodes, without Redis, leaves two of five with it.
func TestR22WhatWasCountedAloneCountsAfterwards(t *testing.T) {
	t.Parallel()
	r := redistest.Standalone(t)
	s := newSite(t, 3, redisstore.Server{Addresses: []string{r.Addr}}, policy())
	guess := func(n, from int) bool {
		d, err := s.nodes[n].Begin(t.Context(), guard.Attempt{Account: "alice", Address: netip.MustParseAddr(fmt.Sprintf("198.51.%d.1", from))})
		if err != nil {
			t.Fatal(err)
		}
		if d.Action != guard.Proceed {
			return false
		}
		if err := s.nodes[n].Settle(t.Context(), d.Ticket, guard.Failed); err != nil {
			t.Fatal(err)
		}
		return true
	}
	r.Kill()
	checked := 0
	for i := range 30 {
		if guess(i%3, i) {
			checked++
		}
	}
	if checked != 3 {
		t.Errorf("%d passwords were checked without Redis, want one a node", checked)
	}
	r.Start(t)
	for _, n := range s.nodes {
		redistest.Until(t, "the nodes to count together", func() bool { return n.store.Up() && n.store.Unheard() == 0 })
	}
	for i := range 30 {
		if guess(i%3, 100+i) {
			checked++
		}
	}
	if checked != 5 {
		t.Errorf("%d passwords were checked in all, want 5", checked)
	}
}

// A check that takes longer than it should, as on a busy machine, may end when
// Redis has long been back. Its failure counts all the same, once.
func TestR1AFailureThatEndsLateCountsInRedis(t *testing.T) {
	t.Parallel()
	r := newReplayed(t, redistest.Standalone(t), "late:", time.Second)
	first, store := new(model), r.nodes[0]
	r.do(t, first, event{"lose", 0})
	if !r.doAt(t, store, event{"begin", 0}) {
		t.Fatal("alone, the attempt was not let through")
	}
	r.clock.Advance(2 * time.Second)
	r.do(t, first, event{"return", 0})
	r.do(t, first, event{"rejoin", 0})
	if inRedis, inNode := r.standing(t, 0); inRedis != 0 || inNode != 1 {
		t.Errorf("undecided: %d in Redis and %d in the node, want 0 and 1", inRedis, inNode)
	}
	r.doAt(t, store, event{"fail", 0})
	r.do(t, first, event{"rejoin", 0})
	if inRedis, inNode := r.standing(t, 0); inRedis != 1 || inNode != 1 {
		t.Errorf("failed: %d in Redis and %d in the node, want 1 and 1", inRedis, inNode)
	}
}

// What each node counted alone, and has failed, is decided once Redis knows it: the next
// attempt does not wait for it.
func TestR3AFailureOfAnOutageIsDecidedAfterIt(t *testing.T) {
	t.Parallel()
	r := newReplayed(t, redistest.Standalone(t), "decided:", window)
	m := new(model)
	r.do(t, m, event{"lose", 0})
	for n, store := range r.nodes {
		if !r.doAt(t, store, event{"begin", n}) {
			t.Fatal("alone, the attempt was not let through")
		}
		r.doAt(t, store, event{"fail", n})
	}
	r.do(t, m, event{"return", 0})
	for n := range r.nodes {
		r.do(t, m, event{"rejoin", n})
	}
	for n := range r.nodes {
		if r.waits(t, n) {
			t.Errorf("an attempt at node %d waits", n)
		}
	}
}
