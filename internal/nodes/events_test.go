package nodes_test

import (
	"sync/atomic"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/redisstore"
	"authguard/internal/testing/redistest"
)

// An event's limit and the site's go the way of all limits in an outage: each node has
// its share, and Redis counts the whole limit when it is back.
func TestR22EventsAndTheSitesLimitGoOnInParts(t *testing.T) {
	t.Parallel()
	r := redistest.Standalone(t)
	p := policy()
	p.Events = map[string][]guard.EventLimit{"sms": {
		{Count: 40, Window: time.Hour, Action: guard.Block, By: guard.OnSubject}, {Count: 400, Window: time.Hour,
			Action: guard.Block, By: guard.OnSite},
	}}
	p.Site = []guard.Limit{{Failures: 40, Window: time.Hour, Action: guard.Block}}
	s := newSite(t, 2, redisstore.Server{Addresses: []string{r.Addr}}, p)
	send := func(node, n int) (through int64) {
		var all atomic.Int64
		for range n {
			d, err := s.nodes[node].Exceeded(t.Context(), "sms", guard.Subjects{Subject: "+44 20 7946 0000"})
			if err != nil {
				t.Fatal(err)
			}
			if d.Action == guard.Proceed {
				all.Add(1)
			}
		}
		return all.Load()
	}
	guess := func(node, from, n int) (looked int) {
		for i := range n {
			if d := s.guess(t, node, "user"+address(from+i), address(from+i)); d.Action == guard.Proceed {
				looked++
			}
		}
		return looked
	}
	r.Do(t, "REPLICAOF", "127.0.0.1", "1") // answers, so that no charge is made unheard
	for node := range 2 {                  // half of the limit, shared by two
		if got := send(node, 50); got != 10 {
			t.Errorf("node %d let %d events through alone, want 10", node, got)
		}
		if got := guess(node, 100*node, 50); got != 10 {
			t.Errorf("node %d looked at %d passwords alone, want 10", node, got)
		}
	}
	r.Do(t, "REPLICAOF", "NO", "ONE")
	s.up(t, true)
	if got := send(0, 50); got != 40 {
		t.Errorf("with Redis again %d events went through, want the whole limit of 40", got)
	}
	if err := s.nodes[1].SetPolicy(p); err != nil { // a full site is believed for a second, and a policy ends that
		t.Fatal(err)
	}
	if got := guess(1, 500, 50); got != 40 {
		t.Errorf("with Redis again %d passwords were checked, want the whole limit of 40", got)
	}
}
