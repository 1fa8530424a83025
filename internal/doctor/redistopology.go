package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// inOrder returns the servers' addresses, masters first, so that all runs report the same.
func inOrder(servers map[string]role) []string {
	return slices.SortedFunc(maps.Keys(servers), func(a, b string) int {
		return cmp.Or(cmp.Compare(servers[a], servers[b]), strings.Compare(a, b))
	})
}

// sentinelView is what one Sentinel knows; zero if it hung.
type sentinelView struct {
	err      error
	master   string   // its address
	replicas []string // their addresses
	others   int      // Sentinels that it knows
}

func (r redisConfig) sentinels(ctx context.Context) ([]Check, map[string]role) {
	addresses := r.Settings.Redis.Addresses
	n, views := each(ctx, r, "redis.sentinel", "Sentinel", addresses, r.sentinel)
	servers, sentinels, replicas := map[string]role{}, 0, 0
	for _, v := range views {
		for _, address := range v.replicas {
			if _, known := servers[address]; !known {
				servers[address] = replica
			}
		}
		if v.master != "" {
			servers[v.master] = master
		}
		sentinels, replicas = max(sentinels, v.others+1), max(replicas, len(v.replicas))
	}
	for i, v := range views {
		if n.about = "Sentinel " + addresses[i]; v.err != nil {
			r.silentSentinel(n, v.err, len(servers) > 0)
		}
	}
	if len(servers) == 0 {
		return n.checks(), nil
	}
	n.about = ""
	masters := slices.DeleteFunc(inOrder(servers), func(address string) bool { return servers[address] != master })
	n.check("redis.sentinels", "",
		problem(len(masters) > 1, "Wait for a failover to end, or run SENTINEL RESET on those that are wrong.",
			"The Sentinels disagree about the master: %s.", strings.Join(masters, ", ")))
	n.check("redis.sentinels", fmt.Sprintf("There are %d Sentinels.", sentinels),
		advice(sentinels < 3, "Run at least three, on machines that do not fail together.",
			"There are %d Sentinels: after the loss of one, no failover may be possible.", sentinels))
	n.check("redis.replicas", fmt.Sprintf("The master has %d replicas.", replicas),
		advice(replicas == 0, "Add a replica: replicaof in its redis.conf.",
			"The master has no replica, so no failover is possible."))
	return n.checks(), servers
}

func (r redisConfig) sentinel(ctx context.Context, address string, n *notes) (v sentinelView) {
	set := r.Settings.Redis
	client := redis.NewSentinelClient(r.options(address, set.SentinelUsername, set.SentinelPassword.Reveal()))
	defer client.Close()
	one, err := client.Master(ctx, set.Master).Result()
	if err != nil {
		return sentinelView{err: err}
	}
	replicas, err := client.Replicas(ctx, set.Master).Result()
	if err != nil {
		return sentinelView{err: err}
	}
	for _, one := range replicas {
		v.replicas = append(v.replicas, net.JoinHostPort(one["ip"], one["port"]))
	}
	v.master = net.JoinHostPort(one["ip"], one["port"])
	v.others, _ = strconv.Atoi(one["num-other-sentinels"])
	quorum := client.CkQuorum(ctx, set.Master).Err()
	n.check("redis.sentinel", fmt.Sprintf("knows the master, %s.", v.master),
		problem(quorum != nil, "Start the Sentinels that are missing.", "could not complete a failover: %s.",
			why(quorum)).as("redis.quorum"))
	return v
}

// silentSentinel reports why a Sentinel cannot be queried. others is whether another Sentinel named the servers.
func (r redisConfig) silentSentinel(n *notes, err error, others bool) {
	n.check("redis.sentinel", "",
		problem(says(err, "No such master"), "Set redis.master to the name after sentinel monitor in sentinel.conf.",
			"knows no master called %q.", r.Settings.Redis.Master).as("redis.master"),
		problem(says(err, "unknown command"),
			"List the Sentinels (usually port 26379) in redis.addresses, or set redis.mode: standalone.",
			"is not a Sentinel.").as("redis.mode"),
		problem(says(err, "NOAUTH", "WRONGPASS", "NOPERM"),
			"Set redis.sentinel_username and redis.sentinel_password to a user with +sentinel.", "rejects its user: %s.",
			why(err)),
		advice(others, "Start it, or set another one in redis.addresses.", "cannot be reached: %s.", why(err)),
		problem(true, "Start it, and check its address and firewalls.", "cannot be reached: %s.", why(err)))
}

// clusterView is what one node knows of its Cluster; zero if it hung.
type clusterView struct {
	err      error
	replicas map[string]int // number for each master that has slots
}

// cluster queries every node that the configuration names, and returns the masters that any of them knows.
func (r redisConfig) cluster(ctx context.Context) ([]Check, map[string]role) {
	addresses := r.Settings.Redis.Addresses
	n, views := each(ctx, r, "redis.cluster", "Redis", addresses, r.view)
	masters, replicas := map[string]role{}, map[string]int{}
	for _, v := range views {
		for address, has := range v.replicas {
			masters[address], replicas[address] = master, max(replicas[address], has)
		}
	}
	for i, v := range views {
		if n.about = "Redis " + addresses[i]; v.err != nil {
			r.silentNode(n, v.err, len(masters) > 0)
		}
	}
	for _, address := range inOrder(masters) {
		n.about = "Redis " + address
		n.check("redis.replicas", fmt.Sprintf("has %d replicas.", replicas[address]),
			advice(replicas[address] == 0, "Add a replica: redis-cli --cluster add-node NEW "+address+" --cluster-slave.",
				"is a master of the Cluster without a replica: if it is lost, each node counts its part of the accounts locally."))
	}
	return n.checks(), masters
}

func (r redisConfig) view(ctx context.Context, address string, n *notes) (v clusterView) {
	client := r.client(address)
	defer client.Close()
	info, err := client.ClusterInfo(ctx).Result()
	if err != nil && !redis.HasErrorPrefix(err, "NOPERM") { // the slots suffice
		return clusterView{err: err}
	}
	//nolint:staticcheck // CLUSTER SHARDS needs Redis 7
	slots, err := client.ClusterSlots(ctx).Result()
	if err != nil {
		return clusterView{err: err}
	}
	state := parseInfo(info)["cluster_state"]
	n.check(
		"redis.cluster",
		"reports a healthy Cluster.",
		advice(state == "", "Grant it +cluster|info.", "does not return the state of its Cluster."),
		problem(
			state != "ok",
			"Start the missing masters (see CLUSTER NODES), or run CLUSTER FAILOVER TAKEOVER on a replica.",
			"reports an unhealthy Cluster (cluster_state:%s): each node counts attempts locally.",
			state,
		),
	)
	v.replicas = map[string]int{}
	// CLUSTER SLOTS omits the replicas of an idle Cluster until they have something to copy, so CLUSTER NODES is better
	// where it is permitted.
	listed, err := client.ClusterNodes(ctx).Result()
	for _, s := range slots {
		if len(s.Nodes) == 0 {
			continue
		}
		m, replicas := s.Nodes[0], len(s.Nodes)-1
		if err == nil {
			replicas = replicasOf(listed, m.ID)
		}
		if host, port, err := net.SplitHostPort(m.Addr); err == nil && host == "" { // it does not know its own address
			m.Addr = net.JoinHostPort(hostOf(address), port)
		}
		v.replicas[m.Addr] = replicas
	}
	return v
}

// replicasOf counts a master's healthy replicas in the answer of CLUSTER NODES.
func replicasOf(listed, id string) (n int) {
	for line := range strings.Lines(listed) {
		// ID, address, flags, the master's ID, …
		f := strings.Fields(line)
		if len(f) > 3 && f[3] == id && strings.Contains(f[2], "slave") && !strings.Contains(f[2], "fail") &&
			!strings.Contains(f[2], "noaddr") {
			n++
		}
	}
	return n
}

// silentNode reports why a configured node cannot be queried. others is whether another node named the masters.
func (r redisConfig) silentNode(n *notes, err error, others bool) {
	disabled := says(err, "cluster support disabled")
	if !others && !disabled {
		r.silent(n, master, err)
		return
	}
	n.check("redis.cluster", "",
		problem(disabled, "Set redis.mode: standalone, or list nodes of the Cluster.", "is not a node of a Cluster.").as(
			"redis.mode"),
		advice(true, "Start it, or remove it from redis.addresses.", "is a node of the Cluster and cannot be reached: %s.",
			why(err)))
}
