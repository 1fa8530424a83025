package doctor

import (
	"context"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A clusterView is what one node knows of its Cluster.
type clusterView struct {
	err      error
	state    string         // "ok", or not
	replicas map[string]int // of each master that has slots
}

// cluster asks every node that the configuration names, and takes the masters
// that any of them knows.
func (r redisConfig) cluster(ctx context.Context) ([]Check, []redisServer) {
	addresses := r.Settings.Redis.Addresses
	views := make([]clusterView, len(addresses))
	checks := together(len(addresses), func(i int) (found []Check) {
		found, views[i] = look(ctx, r.Within, "redis.cluster", "Redis "+addresses[i], func(ctx context.Context, n *notes) clusterView {
			return r.view(ctx, addresses[i])
		})
		return found
	})
	n, all := new(notes), map[string]int{}
	for _, v := range views {
		for address, replicas := range v.replicas {
			all[address] = max(all[address], replicas)
		}
	}
	for i, v := range views {
		r.clusterNode(n, addresses[i], v, len(all) > 0)
	}
	if len(all) > 0 {
		spare(n, all)
	}
	return append(checks, n.checks()...), masters(all)
}

func (r redisConfig) view(ctx context.Context, address string) (v clusterView) {
	client := r.client(address)
	defer client.Close()
	state, err := client.ClusterInfo(ctx).Result()
	if err == nil {
		v.state = parseInfo(state)["cluster_state"]
	} else if !redis.HasErrorPrefix(err, "NOPERM") { // the slots will do
		return clusterView{err: err}
	}
	//nolint:staticcheck // CLUSTER SHARDS needs Redis 7
	slots, err := client.ClusterSlots(ctx).Result()
	if err != nil {
		return clusterView{err: err}
	}
	listed, err := client.ClusterNodes(ctx).Result()
	followers := replicasOf(listed)
	v.replicas = map[string]int{}
	for _, s := range slots {
		if len(s.Nodes) == 0 {
			continue
		}
		m, n := s.Nodes[0], len(s.Nodes)-1
		if err == nil {
			n = followers[m.ID]
		}
		v.replicas[complete(m.Addr, address)] = n
	}
	return v
}

// replicasOf counts what CLUSTER NODES tells of each master's replicas that
// have not failed. CLUSTER SLOTS leaves out those of an idle Cluster until they
// have had something to copy.
func replicasOf(listed string) map[string]int {
	all := map[string]int{}
	for line := range strings.Lines(listed) {
		// ID, address, flags, the master's ID, …
		f := strings.Fields(line)
		if len(f) > 3 && strings.Contains(f[2], "slave") && !strings.Contains(f[2], "fail") && !strings.Contains(f[2], "noaddr") {
			all[f[3]]++
		}
	}
	return all
}

// complete is a node's address; a node that does not know its own is where it
// was asked.
func complete(address, asked string) string {
	if host, port, err := net.SplitHostPort(address); err == nil && host == "" {
		return net.JoinHostPort(hostOf(asked), port)
	}
	return address
}

// clusterNode judges what one of the configured nodes told.
func (r redisConfig) clusterNode(n *notes, address string, v clusterView, others bool) {
	about := "Redis " + address
	switch {
	case v.err != nil && strings.Contains(v.err.Error(), "cluster support disabled"):
		n.problem("redis.mode", "Set redis.mode: standalone, or name nodes of the Cluster.", "%s is no node of a Cluster.", about)
	case v.err != nil && others:
		n.advice("redis.cluster", "Start it, or take it out of redis.addresses.", "%s, a node of the Cluster, cannot be asked: %s.", about, why(v.err))
	case v.err != nil:
		one := &notes{about: about}
		r.silent(one, redisServer{address: address}, v.err)
		for _, c := range one.checks() {
			n.add(c)
		}
	case v.state == "":
		n.advice("redis.cluster", "Grant it +cluster|info.", "%s does not tell whether its Cluster is well.", about)
	case v.state != "ok":
		n.problem("redis.cluster", "Start the masters that are missing (CLUSTER NODES names them), or let a replica take over: CLUSTER FAILOVER TAKEOVER on it.",
			"%s says that its Cluster is not well (cluster_state:%s): attempts are counted by each node alone.", about, v.state)
	default:
		n.ok("redis.cluster", "%s says that its Cluster is well.", about)
	}
}

// spare looks for masters whose loss would be felt.
func spare(n *notes, replicas map[string]int) {
	for _, m := range masters(replicas) {
		if replicas[m.address] == 0 {
			n.advice("redis.replicas", "Add a replica: redis-cli --cluster add-node NEW "+m.address+" --cluster-slave.",
				"Redis %s, a master of the Cluster, has no replica: without it, its part of the accounts is counted by each node alone.", m.address)
		} else {
			n.ok("redis.replicas", "Redis %s has %d replicas.", m.address, replicas[m.address])
		}
	}
}

// masters are those of the map, in order.
func masters(replicas map[string]int) (all []redisServer) {
	for address := range replicas {
		all = append(all, redisServer{address: address})
	}
	inOrder(all)
	return all
}
