package nodes_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/guard"
	"authguard/internal/redisstore"
	"authguard/internal/testing/redistest"
)

// sprays are what any node has told of.
type sprays struct {
	mu  sync.Mutex
	all []failures.Spray
}

func (s *sprays) add(one failures.Spray) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
}

func (s *sprays) told() []failures.Spray {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]failures.Spray(nil), s.all...)
}

// begin is an unknown client's attempt at one node, with a password that can be recognised.
func (n *node) begin(t *testing.T, account, address, password string) guard.Decision {
	t.Helper()
	d, err := n.Begin(context.Background(), guard.Attempt{SendsCode: true,
		Account: account, Address: netip.MustParseAddr(address), Integration: "test", PasswordTag: n.Fingerprint(password),
	})
	if err != nil || d.Action != guard.Proceed {
		t.Fatalf("%s: %v, %v", account, d.Action, err)
	}
	return d
}

func (n *node) settle(t *testing.T, d guard.Decision, o guard.Outcome) {
	t.Helper()
	if err := n.Settle(context.Background(), d.Ticket, o); err != nil {
		t.Fatal(err)
	}
}

// One password fails at five accounts at one node and at five others at another:
// neither has seen a spray, both know of it, and people are told once.
func TestR28NodesRecogniseASprayTogether(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, at redisstore.Server) {
		s := newSite(t, 2, at, policy())
		s.up(t, true)
		client := redisstore.Connect(at, patient)
		t.Cleanup(func() { _ = client.Close() })
		misses := 0
		miss := func(node int) {
			n := s.nodes[node]
			n.settle(t, n.begin(t, fmt.Sprint("victim", misses), address(misses), "summer"), guard.Failed)
			misses++
		}
		for i := range 9 {
			miss(i / 5)
		}
		// each for the site and for its network
		redistest.Until(t, "Redis to know of nine accounts", func() bool { return seen(t, client) == 18 })
		if n := len(s.told.told()); n != 0 {
			t.Fatalf("told %d times after nine accounts", n)
		}
		miss(1)
		for i, n := range s.nodes {
			redistest.Until(t, fmt.Sprintf("node %d to know the spray", i), func() bool {
				d := n.begin(t, fmt.Sprint("bob", i), address(100+i), "summer")
				n.settle(t, d, guard.Abandoned) // counts nowhere, so it may be asked again
				return d.Insufficient
			})
			d := n.begin(t, fmt.Sprint("carol", i), address(200+i), "another")
			if n.settle(t, d, guard.Abandoned); d.Insufficient {
				t.Errorf("node %d takes another password for the sprayed one", i)
			}
		}
		for misses < 30 { // it goes on, at both
			miss(misses % 2)
		}
		redistest.Until(t, "Redis to know of thirty", func() bool { return accounts(t, client) == "30" })
		told := s.told.told()
		if len(told) != 1 || told[0].Accounts != 10 || told[0].Networks != 10 {
			t.Errorf("told of %+v, want one spray of ten accounts from ten addresses", told)
		}
	})
}

const (
	seenKey  = redisstore.DefaultPrefix + "{" + redisstore.DefaultPrefix + "spray}seen"
	foundKey = redisstore.DefaultPrefix + "{" + redisstore.DefaultPrefix + "spray}found"
)

// seen is how many misses Redis keeps.
func seen(t *testing.T, client redis.UniversalClient) (n int) {
	t.Helper()
	all, err := client.Get(context.Background(), seenKey).Result()
	if err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	const size = 12
	for i := 0; i+size <= len(all); i += size {
		if strings.Trim(all[i:i+8], "\x00") != "" {
			n++
		}
	}
	return n
}

// accounts is at how many the one sprayed password was wrong, as Redis says it.
func accounts(t *testing.T, client redis.UniversalClient) string {
	t.Helper()
	found, err := client.HVals(context.Background(), foundKey).Result()
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	return strings.Fields(found[0])[2]
}
