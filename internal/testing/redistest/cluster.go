package redistest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A ClusterOf is a Redis Cluster.
type ClusterOf struct {
	// Nodes are the three masters, then a replica of each.
	Nodes []*Server
}

const slots = 16384

// Cluster starts three masters and three replicas. Nobody in it counts as gone,
// however slow the machine is, before Hasty.
func Cluster(t testing.TB) *ClusterOf {
	t.Helper()
	c := &ClusterOf{}
	for range 6 {
		s := newServer(t, "--save", "", "--appendonly", "no", "--cluster-enabled", "yes",
			"--cluster-node-timeout", "600000", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
		s.Start(t)
		c.Nodes = append(c.Nodes, s)
	}
	for i, s := range c.Nodes[:3] {
		s.Do(t, "CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
	}
	for _, s := range c.Nodes[1:] {
		host, port, _ := net.SplitHostPort(s.Addr)
		c.Nodes[0].Do(t, "CLUSTER", "MEET", host, port)
	}
	c.settled(t, 6)
	for i, s := range c.Nodes[3:] {
		master := c.Nodes[i].Do(t, "CLUSTER", "MYID")
		Until(t, "a replica to know its master", func() bool {
			return strings.Contains(s.Do(t, "CLUSTER", "NODES").(string), master.(string))
		})
		s.Do(t, "CLUSTER", "REPLICATE", master)
	}
	c.settled(t, 6)
	Until(t, "the replicas to follow", func() bool {
		for _, s := range c.Nodes[3:] {
			if !strings.Contains(s.Do(t, "INFO", "replication").(string), "master_link_status:up") {
				return false
			}
		}
		return true
	})
	return c
}

// Hasty makes whoever is silent for a second count as gone, for tests in which
// somebody is.
func (c *ClusterOf) Hasty(t testing.TB) {
	t.Helper()
	for _, s := range running(c.Nodes) {
		s.Do(t, "CONFIG", "SET", "cluster-node-timeout", 1000)
	}
}

// TakeOver makes a master's replica the master of its slots, as the Cluster does
// when the master is gone.
func (c *ClusterOf) TakeOver(t testing.TB, master int) {
	t.Helper()
	c.Nodes[3+master].Do(t, "CLUSTER", "FAILOVER", "TAKEOVER")
}

// settled waits until every node knows all others and all slots are served.
func (c *ClusterOf) settled(t testing.TB, nodes int) {
	t.Helper()
	Until(t, "the cluster to settle", func() bool {
		for _, s := range c.Nodes {
			info := s.Do(t, "CLUSTER", "INFO").(string)
			known := strings.Count(strings.TrimSpace(s.Do(t, "CLUSTER", "NODES").(string)), "\n") + 1
			if !strings.Contains(info, "cluster_state:ok") || known != nodes {
				return false
			}
		}
		return true
	})
}

// Addrs are the addresses of all nodes.
func (c *ClusterOf) Addrs() (addrs []string) {
	for _, s := range c.Nodes {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// Client connects to the cluster.
func (c *ClusterOf) Client(t testing.TB) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.Addrs(), DialTimeout: forever, ReadTimeout: forever, WriteTimeout: forever, PoolTimeout: forever,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Move hands a slot from the master that has it to another one, keys and all,
// the way a resharding does.
func (c *ClusterOf) Move(t testing.TB, slot, to int) {
	t.Helper()
	from := c.owner(t, slot)
	if from == to {
		return
	}
	a, b := c.Nodes[from], c.Nodes[to]
	idA, idB := a.Do(t, "CLUSTER", "MYID"), b.Do(t, "CLUSTER", "MYID")
	b.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", idA)
	a.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", idB)
	host, port, _ := net.SplitHostPort(b.Addr)
	for {
		keys := a.Do(t, "CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		a.Do(t, append([]any{"MIGRATE", host, port, "", 0, forever.Milliseconds(), "KEYS"}, keys...)...)
	}
	for _, s := range []*Server{b, a, c.Nodes[3-from-to]} {
		s.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", idB)
	}
}

// HalfMoved begins to move a slot and leaves it between two masters. Of keys whose
// names begin with half one is there, half+"here"; those that begin with other are
// with the same master, in a slot that stays.
func (c *ClusterOf) HalfMoved(t testing.TB) (half, other string) {
	t.Helper()
	half = "{half}"
	client := c.Client(t)
	slotOf := func(key string) int { return int(client.ClusterKeySlot(context.Background(), key).Val()) }
	if err := client.Set(context.Background(), half+"here", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	slot := slotOf(half)
	from := c.owner(t, slot)
	to := (from + 1) % 3
	for i := 0; other == ""; i++ {
		if name := fmt.Sprintf("{%d}", i); slotOf(name) != slot && c.owner(t, slotOf(name)) == from {
			other = name
		}
	}
	c.Nodes[to].Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.Nodes[from].Do(t, "CLUSTER", "MYID"))
	c.Nodes[from].Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.Nodes[to].Do(t, "CLUSTER", "MYID"))
	return half, other
}

// owner is the index of the master that serves a slot.
func (c *ClusterOf) owner(t testing.TB, slot int) int {
	t.Helper()
	client := c.Nodes[0].Client(t)
	ranges, err := client.ClusterSlots(context.Background()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range ranges {
		for i, s := range c.Nodes[:3] {
			if r.Start <= slot && slot <= r.End && r.Nodes[0].Addr == s.Addr {
				return i
			}
		}
	}
	t.Fatalf("nobody serves slot %d", slot)
	return 0
}
