package doctor

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"authguard/internal/redisstore"
)

// A sentinelView is what one Sentinel knows.
type sentinelView struct {
	err      error
	master   string   // its address
	replicas []string // their addresses
	others   int      // Sentinels that it knows
	quorum   error    // why it could not have a failover done; nil: it could
}

// sentinels asks each, and takes every server that any of them knows.
func (r redisConfig) sentinels(ctx context.Context) ([]Check, []redisServer) {
	addresses := r.Settings.Redis.Addresses
	views := make([]sentinelView, len(addresses))
	checks := together(len(addresses), func(i int) (found []Check) {
		found, views[i] = look(ctx, r.Within, "redis.sentinel", "Sentinel "+addresses[i], func(ctx context.Context, _ *notes) sentinelView {
			return r.sentinel(ctx, addresses[i])
		})
		return found
	})
	n := new(notes)
	servers := serversOf(views)
	for i, v := range views {
		r.sentinelNode(n, addresses[i], v, len(servers) > 0)
	}
	if len(servers) > 0 {
		agreement(n, views)
	}
	return append(checks, n.checks()...), servers
}

func (r redisConfig) sentinel(ctx context.Context, address string) (v sentinelView) {
	set := r.Settings.Redis
	client := r.connect(redisstore.Server{
		Addresses: []string{address}, Username: set.SentinelUsername, Password: set.SentinelPassword.Reveal(),
	})
	defer client.Close()
	told := redis.NewMapStringStringCmd(ctx, "sentinel", "master", set.Master)
	if v.err = client.Process(ctx, told); v.err != nil {
		return v
	}
	one := told.Val()
	v.master = net.JoinHostPort(one["ip"], one["port"])
	v.others, _ = strconv.Atoi(one["num-other-sentinels"])
	list := redis.NewMapStringStringSliceCmd(ctx, "sentinel", "replicas", set.Master)
	if v.err = client.Process(ctx, list); v.err != nil {
		return v
	}
	for _, one := range list.Val() {
		v.replicas = append(v.replicas, net.JoinHostPort(one["ip"], one["port"]))
	}
	v.quorum = client.Process(ctx, redis.NewStringCmd(ctx, "sentinel", "ckquorum", set.Master))
	return v
}

// sentinelNode judges what one Sentinel told.
func (r redisConfig) sentinelNode(n *notes, address string, v sentinelView, others bool) {
	set, about := r.Settings.Redis, "Sentinel "+address
	switch {
	case v.err != nil && strings.Contains(v.err.Error(), "No such master"):
		n.problem("redis.master", "Set redis.master to the name after `sentinel monitor` in sentinel.conf.", "%s knows no master called %q.", about, set.Master)
	case v.err != nil && strings.Contains(v.err.Error(), "unknown command"):
		n.problem("redis.mode", "Name the Sentinels (usually port 26379) in redis.addresses, or set redis.mode: standalone.", "%s is no Sentinel.", about)
	case v.err != nil && (redis.HasErrorPrefix(v.err, "NOAUTH") || redis.HasErrorPrefix(v.err, "WRONGPASS") || redis.HasErrorPrefix(v.err, "NOPERM")):
		n.problem("redis.sentinel", "Set redis.sentinel_username and redis.sentinel_password to a user with +sentinel.", "%s does not accept its user: %s.", about, why(v.err))
	case v.err != nil && others:
		n.advice("redis.sentinel", "Start it, or name another one in redis.addresses.", "%s cannot be asked: %s.", about, why(v.err))
	case v.err != nil:
		n.problem("redis.sentinel", "Start it, and see that its address and every firewall on the way let this machine in.", "%s cannot be asked: %s.", about, why(v.err))
	case v.quorum != nil:
		n.problem("redis.quorum", "Start the Sentinels that are missing.", "%s could not have a failover done: %s.", about, why(v.quorum))
	default:
		n.ok("redis.sentinel", "%s knows the master, %s.", about, v.master)
	}
}

const enoughSentinels = 3

// agreement looks at what the Sentinels know together.
func agreement(n *notes, views []sentinelView) {
	var addresses []string
	most, replicas := 0, 0
	for _, v := range views {
		if v.err == nil {
			addresses = append(addresses, v.master)
			most, replicas = max(most, v.others+1), max(replicas, len(v.replicas))
		}
	}
	slices.Sort(addresses)
	if addresses = slices.Compact(addresses); len(addresses) > 1 {
		n.problem("redis.sentinels", "Wait for a failover to end; otherwise SENTINEL RESET on those that are wrong.", "The Sentinels differ over who is master: %s.", strings.Join(addresses, ", "))
	}
	if most < enoughSentinels {
		n.advice("redis.sentinels", "Run at least three, on machines that do not fail together.", "There are %d Sentinels: the loss of one can leave nobody to appoint a new master.", most)
	} else {
		n.ok("redis.sentinels", "There are %d Sentinels.", most)
	}
	if replicas == 0 {
		n.advice("redis.replicas", "Add a replica: replicaof in its redis.conf.", "The master has no replica, so nobody can take over.")
	} else {
		n.ok("redis.replicas", "The master has %d replicas.", replicas)
	}
}

// serversOf are all masters, then all replicas.
func serversOf(views []sentinelView) (all []redisServer) {
	known := map[string]bool{}
	add := func(address string, role role) {
		if !known[address] {
			known[address] = true
			all = append(all, redisServer{address, role})
		}
	}
	for _, v := range views {
		if v.err == nil && v.master != "" {
			add(v.master, master)
		}
	}
	for _, v := range views {
		for _, address := range v.replicas {
			add(address, replica)
		}
	}
	inOrder(all)
	return all
}

// inOrder puts masters first, each by address, so that two runs tell the same.
func inOrder(all []redisServer) {
	slices.SortFunc(all, func(a, b redisServer) int {
		return cmp.Or(cmp.Compare(a.role, b.role), strings.Compare(a.address, b.address))
	})
}
