package nodes_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"authguard/failures"
	"authguard/guard"
	"authguard/internal/nodes"
	"authguard/internal/redisstore"
	"authguard/internal/testing/redistest"
)

// What was under way when Redis went is part of the limit in Redis: five attempts there, and
// one more on each of three nodes.
func TestR22WhatIsUnderWayIsPartOfTheLimit(t *testing.T) {
	t.Parallel()
	r := redistest.Standalone(t)
	s := newSite(t, 3, redisstore.Server{Addresses: []string{r.Addr}}, policy())
	begin := func(n, from int) bool {
		d, err := s.nodes[n].Begin(t.Context(), guard.Attempt{
			Account: "alice", Address: netip.MustParseAddr(fmt.Sprintf("198.51.%d.1", from)),
		})
		if err != nil {
			t.Fatal(err)
		}
		return d.Action == guard.Proceed
	}
	for i := range 5 {
		if !begin(0, i) {
			t.Fatalf("attempt %d did not proceed", i)
		}
	}
	r.Kill()
	checked := 5
	for i := range 30 {
		if begin(i%3, 100+i) {
			checked++
		}
	}
	if checked != 8 {
		t.Errorf("%d passwords were checked, want 8", checked)
	}
}

// A node's share of stricter limits keeps what its share of the earlier ones counts, which may return.
func TestANodesShareForgetsNothingUnderStricterLimits(t *testing.T) {
	t.Parallel()
	limits := func(n int, window time.Duration) *failures.Limits {
		return failures.MustLimits(failures.Backoff{}, failures.Limit{Failures: n, Window: window})
	}
	first := limits(60, time.Hour)
	share := nodes.Share(limits(1, time.Minute).Keeping(first), 2)
	if now, was := share.Keep(), nodes.Share(first, 2).List()[0].Failures; now < was {
		t.Errorf("%d charges are kept, but the share of the earlier limit is %d", now, was)
	}
	if got := share.Retain(); got != time.Hour {
		t.Errorf("charges are kept for %v, want those of the earlier limit's hour", got)
	}
}
