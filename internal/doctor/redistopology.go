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

// inOrder are the servers' addresses, masters first, so that two runs tell the
// same.
func inOrder(servers map[string]role) []string {
	return slices.SortedFunc(maps.Keys(servers), func(a, b string) int {
		return cmp.Or(cmp.Compare(servers[a], servers[b]), strings.Compare(a, b))
	})
}

// A sentinelView is what one Sentinel knows. It is zero if the Sentinel hung.
type sentinelView struct {
	err      error
	master   string   // its address
	replicas []string // their addresses
	others   int      // Sentinels that it knows
	quorum   error    // why it could not get a failover done; nil: it could
}

// sentinels asks each, and returns every server that any of them knows.
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
		n.about = "Sentinel " + addresses[i]
		r.judgeSentinel(n, v, len(servers) > 0)
	}
	if len(servers) == 0 {
		return n.checks(), nil
	}
	n.about = ""
	masters := slices.DeleteFunc(inOrder(servers), func(address string) bool { return servers[address] != master })
	n.check("redis.sentinels", "",
		problem(len(masters) > 1, "Wait for a failover to end; otherwise SENTINEL RESET on those that are wrong.", "The Sentinels differ over who is master: %s.", strings.Join(masters, ", ")))
	n.check("redis.sentinels", fmt.Sprintf("There are %d Sentinels.", sentinels),
		advice(sentinels < 3, "Run at least three, on machines that do not fail together.", "There are %d Sentinels: the loss of one can leave nobody to appoint a new master.", sentinels))
	n.check("redis.replicas", fmt.Sprintf("The master has %d replicas.", replicas),
		advice(replicas == 0, "Add a replica: replicaof in its redis.conf.", "The master has no replica, so nobody can take over."))
	return n.checks(), servers
}

func (r redisConfig) sentinel(ctx context.Context, address string, _ *notes) (v sentinelView) {
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
	v.quorum = client.CkQuorum(ctx, set.Master).Err()
	return v
}

// judgeSentinel says what is wrong with one Sentinel; others: another one told
// of the servers.
func (r redisConfig) judgeSentinel(n *notes, v sentinelView, others bool) {
	if v.err == nil && v.master == "" {
		return // it hung, which has been said
	}
	n.check("redis.sentinel", fmt.Sprintf("knows the master, %s.", v.master),
		problem(v.quorum != nil, "Start the Sentinels that are missing.", "could not get a failover done: %s.", why(v.quorum)).as("redis.quorum"),
		problem(says(v.err, "No such master"), "Set redis.master to the name after `sentinel monitor` in sentinel.conf.", "knows no master called %q.", r.Settings.Redis.Master).as("redis.master"),
		problem(says(v.err, "unknown command"), "Name the Sentinels (usually port 26379) in redis.addresses, or set redis.mode: standalone.", "is not a Sentinel.").as("redis.mode"),
		problem(says(v.err, "NOAUTH", "WRONGPASS", "NOPERM"), "Set redis.sentinel_username and redis.sentinel_password to a user with +sentinel.", "does not accept its user: %s.", why(v.err)),
		advice(v.err != nil && others, "Start it, or name another one in redis.addresses.", "cannot be asked: %s.", why(v.err)),
		problem(v.err != nil, "Start it, and see that its address and every firewall on the way let this machine in.", "cannot be asked: %s.", why(v.err)))
}

// A clusterView is what one node knows of its Cluster. It is zero if the node
// hung.
type clusterView struct {
	err      error
	state    string         // "ok", or not
	replicas map[string]int // of each master that has slots
}

// cluster asks every node that the configuration names, and returns the masters
// that any of them knows.
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
		n.about = "Redis " + addresses[i]
		r.judgeNode(n, v, len(masters) > 0)
	}
	for _, address := range inOrder(masters) {
		n.about = "Redis " + address
		n.check("redis.replicas", fmt.Sprintf("has %d replicas.", replicas[address]),
			advice(replicas[address] == 0, "Add a replica: redis-cli --cluster add-node NEW "+address+" --cluster-slave.",
				"is a master of the Cluster and has no replica: without it, its part of the accounts is counted by each node alone."))
	}
	return n.checks(), masters
}

func (r redisConfig) view(ctx context.Context, address string, _ *notes) (v clusterView) {
	client := r.client(address)
	defer client.Close()
	state, err := client.ClusterInfo(ctx).Result()
	if err != nil && !redis.HasErrorPrefix(err, "NOPERM") { // the slots will do
		return clusterView{err: err}
	}
	//nolint:staticcheck // CLUSTER SHARDS needs Redis 7
	slots, err := client.ClusterSlots(ctx).Result()
	if err != nil {
		return clusterView{err: err}
	}
	v = clusterView{state: parseInfo(state)["cluster_state"], replicas: map[string]int{}}
	// CLUSTER SLOTS leaves out the replicas of an idle Cluster until they have
	// had something to copy, so CLUSTER NODES is better if it may be asked.
	listed, err := client.ClusterNodes(ctx).Result()
	for _, s := range slots {
		if len(s.Nodes) == 0 {
			continue
		}
		m, n := s.Nodes[0], len(s.Nodes)-1
		if err == nil {
			n = replicasOf(listed, m.ID)
		}
		if host, port, err := net.SplitHostPort(m.Addr); err == nil && host == "" { // it does not know its own
			m.Addr = net.JoinHostPort(hostOf(address), port)
		}
		v.replicas[m.Addr] = n
	}
	return v
}

// replicasOf counts in the answer of CLUSTER NODES a master's replicas that
// have not failed.
func replicasOf(listed, id string) (n int) {
	for line := range strings.Lines(listed) {
		// ID, address, flags, the master's ID, …
		f := strings.Fields(line)
		if len(f) > 3 && f[3] == id && strings.Contains(f[2], "slave") && !strings.Contains(f[2], "fail") && !strings.Contains(f[2], "noaddr") {
			n++
		}
	}
	return n
}

// judgeNode says what is wrong with one of the configured nodes; others:
// another one told of the masters.
func (r redisConfig) judgeNode(n *notes, v clusterView, others bool) {
	disabled := says(v.err, "cluster support disabled")
	switch {
	case v.err == nil && v.replicas == nil: // it hung, which has been said
	case v.err != nil && !others && !disabled:
		r.silent(n, master, v.err)
	default:
		n.check("redis.cluster", "says that its Cluster is well.",
			problem(disabled, "Set redis.mode: standalone, or name nodes of the Cluster.", "is not a node of a Cluster.").as("redis.mode"),
			advice(v.err != nil, "Start it, or take it out of redis.addresses.", "is a node of the Cluster and cannot be asked: %s.", why(v.err)),
			advice(v.state == "", "Grant it +cluster|info.", "does not tell whether its Cluster is well."),
			problem(v.state != "ok", "Start the masters that are missing (CLUSTER NODES names them), or let a replica take over: CLUSTER FAILOVER TAKEOVER on it.",
				"says that its Cluster is not well (cluster_state:%s): attempts are counted by each node alone.", v.state))
	}
}
