package nodes_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"authguard/internal/redisstore"
	"authguard/internal/testing/redistest"
)

// left reports whether a node has left Redis for a reason that contains the text.
func (s *site) left(text string) (found bool) {
	s.reasons.Range(func(why, _ any) bool {
		found = found || strings.Contains(why.(string), text)
		return !found
	})
	return found
}

// Nodes that run notice a node of another version within a round, and count alone by the
// rules of a loss, so that no limit is counted twice; they are back when it has gone.
func TestNodesLeaveARedisThatAnotherVersionUses(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, at redisstore.Server) {
		s := newSite(t, 2, at, policy())
		for i := range 3 {
			s.guess(t, i, "alice", address(i))
		}
		client := redisstore.Connect(at, patient)
		defer client.Close()
		key := redisstore.SignKey(redisstore.DefaultPrefix)
		redistest.Until(t, "the nodes to sign", func() bool { return client.Get(t.Context(), key).Val() != "" })
		ours := client.Get(t.Context(), key).Val()
		theirs := fmt.Sprint(redisstore.Layout+1, " 5f0c2b6e9d1a7734-c41fe02a")
		sign := func(text string) {
			if err := client.Set(t.Context(), key, text, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		sign(theirs)
		s.up(t, false)
		if !s.left("another version of authguard") {
			t.Error("no reason was given")
		}
		for i := range 60 {
			s.guess(t, i, "alice", address(100+i))
		}
		if got := s.checks("alice"); got > limit+limit/2 {
			t.Errorf("%d passwords were checked, want %d at most", got, limit+limit/2)
		}
		sign(ours)
		s.up(t, true)
	})
}

// An attacker who can empty Redis gets each limit once more for each time, known clients
// are kept, and every node notices each time.
func TestEachLossOfRedisGivesALimitOnceMoreAndIsNoticed(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, at redisstore.Server) {
		const losses = 3
		s := newSite(t, 2, at, policy())
		s.login(t, 0, "alice", home)
		n := 0
		for lost := range losses + 1 {
			redistest.Until(t, "the limit to be used up", func() bool {
				n++
				s.guess(t, n, "bob", address(n))
				return s.checks("bob") == limit*(lost+1)
			})
			for i := range 20 {
				s.guess(t, i, "bob", address(5000+n+i))
			}
			s.atHome(t, fmt.Sprint("after ", lost))
			if lost < losses {
				before := s.emptied.Load()
				s.flush(t)
				redistest.Until(t, "both nodes to notice", func() bool { return s.emptied.Load() >= before+2 })
			}
		}
		if got := s.checks("bob"); got != limit*(losses+1) {
			t.Errorf("%d of %d were checked after %d losses", got, limit, losses)
		}
	})
}

// One master of a Cluster that starts empty is enough.
func TestALossOfOneMasterIsNoticed(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2, redisstore.Server{Addresses: redistest.Cluster(t).Addrs(), Cluster: true}, policy())
	client := redisstore.Connect(s.at, patient)
	defer client.Close()
	redistest.Until(t, "the nodes to look", func() bool {
		return client.Get(t.Context(),
			redisstore.DefaultPrefix+"life63").Val() != ""
	})
	var masters sync.Map
	if err := client.(*redis.ClusterClient).ForEachMaster(t.Context(), func(_ context.Context,
		master *redis.Client) error {
		masters.Store(master, true)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	lost := int64(0)
	masters.Range(func(master, _ any) bool {
		if err := master.(*redis.Client).FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		lost += 2
		redistest.Until(t, "both nodes to notice", func() bool { return s.emptied.Load() >= lost })
		return true
	})
	if lost != 6 || s.emptied.Load() != lost {
		t.Errorf("%d losses of 3 masters were noticed at 2 nodes", s.emptied.Load())
	}
}
