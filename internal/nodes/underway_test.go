package nodes_test

import (
	"fmt"
	"net/netip"
	"testing"

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
	s := newSite(t, 3, redisstore.Server{Addresses: []string{r.Addr}}, policy(), 0)
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
