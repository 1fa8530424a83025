package doctor

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/internal/config"
	"authguard/internal/redisstore"
	"authguard/internal/seal"
	"authguard/internal/times"
)

//go:embed write.lua
var writeScript string

const (
	// slow is the advice for a server that answers PING but nothing else in time.
	slow = "Check its load, SLOWLOG GET and the network, then run doctor again."
	// grant is the advice for a user without a permission.
	grant = "Grant its user the permissions that docs/how-to/several-nodes.md lists, then run ACL SAVE."
)

// redisServer checks Redis through the client that the nodes use, which finds the masters.
func redisServer(ctx context.Context, c Config, n *notes) {
	set := c.Settings.Redis
	set.Timeout = c.Within
	client, err := set.Connect(nil)
	if !n.check("redis.tls", "", problem(err != nil, "Set PEM files that the user that runs authguard serve can read.",
		"cannot be used: %s.", why(err))) {
		return
	}
	defer client.Close()
	if !answers(ctx, c, client, n) {
		return
	}
	widest := c.widestReach(ctx, set.Addresses)
	open(ctx, c, widest, n)
	n.check("redis.tls", "is reached over TLS or a private network.",
		advice(!set.TLS && widest == public,
			"Enable TLS in Redis (tls-port) and here (redis.tls: true), or use a private network.",
			"is not on a private network and is reached without TLS: the password and every key can be intercepted."))
	if takesWrites(ctx, c, client, n) {
		signature(ctx, c, client, n)
	}
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		redisNode(ctx, c, client, n)
		return
	}
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		one := &notes{about: "Redis " + master.Options().Addr}
		redisNode(ctx, c, master, one)
		n.add(one.checks()...)
		return nil
	})
	n.check("redis.write", "", problem(err != nil, slow, "does not return the masters of its Cluster: %s.", why(err)))
}

// answers checks that Redis answers, and how fast. The fastest of three answers ignores a busy moment.
func answers(ctx context.Context, c Config, client redis.UniversalClient, n *notes) bool {
	err := client.Ping(ctx).Err() // also connects
	if !n.check("redis", "answers.",
		problem(says(err, "NOAUTH", "WRONGPASS", "invalid password", "without any password configured"),
			"Set redis.password (AUTHGUARD_REDIS_PASSWORD), and redis.username for an ACL user, to what the server "+
				"expects; for Sentinels, redis.sentinel_password and redis.sentinel_username.",
			"rejects the user name or the password: %s.", why(err)).as("redis.password"),
		problem(says(err, "cluster support disabled", "unknown command"),
			"Set redis.mode, and list the addresses of servers of that mode in redis.addresses.",
			"does not run in redis.mode (%s): %s.", c.Settings.Redis.Mode, why(err)).as("redis.mode"),
		problem(says(err, "NOPERM"), grant, "does not grant its user enough permissions: %s.", why(err)).as("redis.acl"),
		problem(says(err, "LOADING"), "Wait until it has finished, and run doctor again.", "is still loading its data."),
		problem(err != nil, "Start it, and check its address, TLS settings and firewalls; with Sentinels also redis.master. "+
			"Until then every node counts locally with its share of the limits.", "cannot be used: %s.", why(err))) {
		return false
	}
	fastest, budget := c.Within, c.Settings.Redis.Timeout
	for range 3 {
		began := time.Now()
		if client.Ping(ctx).Err() == nil {
			fastest = min(fastest, time.Since(began))
		}
	}
	n.check("redis.ping", fmt.Sprintf("answers a PING in %s.", times.FormatDuration(fastest.Round(time.Microsecond))),
		advice(fastest > budget/5, "Move Redis closer to the nodes, reduce its load, or raise redis.timeout.",
			"answers a PING in %s: over a fifth of redis.timeout (%s), after which a node decides locally.",
			times.FormatDuration(fastest), times.FormatDuration(budget)))
	return true
}

// says reports whether an error contains one of these texts: Redis has no error codes.
func says(err error, words ...string) bool {
	for _, word := range words {
		if err != nil && strings.Contains(err.Error(), word) {
			return true
		}
	}
	return false
}

// open checks that Redis requires a password. Otherwise an attacker could write counters and known clients.
func open(ctx context.Context, c Config, widest reach, n *notes) {
	set := c.Settings.Redis
	if widest <= loopback {
		n.ok("redis.open", "is on this machine.")
		return
	}
	if set.TLSCert != "" {
		return // the certificate alone may admit this client, so the test proves nothing
	}
	set.Username, set.Password, set.Timeout = "", "", c.Within
	anonymous, err := set.Connect(nil)
	if err != nil {
		return
	}
	defer anonymous.Close()
	n.check("redis.open", "requires a password.",
		problem(anonymous.Ping(ctx).Err() == nil,
			"Set a password (requirepass, or an ACL user and user default off), and the same in redis.password.",
			"requires no password, so any client on its network can forge known clients and reset counters."))
}

// takesWrites runs a script that writes a key and deletes it; in a Cluster, with 64 keys spread over its slots.
func takesWrites(ctx context.Context, c Config, client redis.UniversalClient, n *notes) bool {
	keys := 1
	if c.Settings.Redis.Mode == config.RedisCluster {
		keys = 64
	}
	cmds, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range keys {
			pipe.Eval(ctx, writeScript, []string{c.Settings.Redis.Prefix + "doctor" + strconv.Itoa(i)})
		}
		return nil
	})
	for _, cmd := range cmds {
		if err == nil {
			err = cmd.Err()
		}
	}
	return n.check("redis.write", "can be written.",
		problem(says(err, "NOPERM", "ACL failure", "user executing the script"), grant,
			"does not allow its user to run scripts that write: %s.",
			why(err)).as("redis.acl"),
		problem(says(err, "READONLY"), "Set the master in redis.addresses, or set redis.mode: sentinel, so that the nodes "+
			"follow a failover.", "is a replica, which cannot be written to."),
		problem(says(err, "MOVED", "CLUSTERDOWN") && c.Settings.Redis.Mode != config.RedisCluster,
			"Set redis.mode: cluster, and list several of its nodes in redis.addresses.",
			"is a node of a Cluster.").as("redis.mode"),
		problem(says(err, "OOM"), "Raise maxmemory (CONFIG SET maxmemory, and redis.conf), or give authguard its own Redis.",
			"is full: it rejects writes, and every node counts locally."),
		problem(says(err, "MISCONF"), "Check its log: the disk may be full, or the folder not writable.",
			"rejects writes because it could not save its data."),
		problem(says(err, "CLUSTERDOWN"), "Start the missing masters (see CLUSTER NODES), or run CLUSTER FAILOVER TAKEOVER "+
			"on a replica.", "has parts that no master serves, so each node counts locally: %s.", why(err)),
		problem(err != nil, slow, "cannot be written: %s.", why(err)))
}

// signature checks that this node's counters are compatible with those of the nodes that use Redis.
func signature(ctx context.Context, c Config, client redis.UniversalClient, n *notes) {
	prefix, fingerprint := c.Settings.Redis.Prefix, ""
	if keys, err := seal.Read(c.Settings.KeysPath()); err == nil {
		fingerprint = keys.Fingerprint()
	}
	signed, _, err := redisstore.Look(ctx, client, prefix)
	var apart error
	if err == nil && signed != "" {
		apart = redisstore.Compare(signed, fingerprint, prefix)
	}
	n.check("redis.nodes", "has only compatible nodes.",
		problem(apart != nil, "Until then authguard serve does not start, and a running node counts locally.",
			"cannot be used. %s.", why(apart)),
		problem(says(err, "NOPERM"), grant, "does not return which nodes use it: %s.", why(err)).as("redis.acl"),
		problem(err != nil, slow, "does not return which nodes use it: %s.", why(err)))
}

// redisNode checks what each master has of its own: version, eviction, persistence and clock.
func redisNode(ctx context.Context, c Config, client redis.Cmdable, n *notes) {
	began := time.Now()
	told, err := client.Time(ctx).Result()
	rtt, now := time.Since(began), c.Now()
	if n.check("redis.clock", "",
		problem(says(err, "NOPERM"), grant, "does not return its time: %s.", why(err)).as("redis.acl"),
		problem(err != nil, slow, "does not return its time: %s.", why(err))) {
		clock(n, "redis.clock", told, now, rtt)
	}
	text, err := client.Info(ctx).Result()
	if !n.check("redis.info", "",
		advice(err != nil, "Grant it +info, or check maxmemory-policy (noeviction), appendonly (yes) and the version (6.2 "+
			"or newer) yourself.", "does not allow INFO, so version, memory and persistence could not be checked: %s.",
			why(err))) {
		return
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	redisVersion(n, info["redis_version"])
	memory(n, info)
	persistence(ctx, client, n, info)
}

// redisVersion checks for Redis 6.2, which the scripts need.
func redisVersion(n *notes, text string) {
	var major, minor int
	_, err := fmt.Sscanf(text, "%d.%d", &major, &minor)
	n.check("redis.version", fmt.Sprintf("is version %s.", text),
		advice(err != nil, "Check yourself that it is 6.2 or newer.", "does not return its version (%q).", text),
		problem(major < 6 || major == 6 && minor < 2, "Upgrade it to a maintained version.",
			"is version %s; authguard needs 6.2.", text))
}

// memory checks whether Redis could evict counters, and whether it may soon reject writes.
func memory(n *notes, info map[string]string) {
	most, _ := strconv.ParseFloat(info["maxmemory"], 64)
	used, _ := strconv.ParseFloat(info["used_memory"], 64)
	policy := info["maxmemory_policy"]
	n.check("redis.policy", "evicts no keys.",
		problem(most > 0 && policy != "noeviction", "Run CONFIG SET maxmemory-policy noeviction, and set it in redis.conf. "+
			"If other programs need eviction, give authguard its own Redis.",
			"evicts keys when it is full (maxmemory-policy %s), so a flood could delete counters and known clients.", policy))
	n.check("redis.memory", "has memory left.",
		advice(most > 0 && used > 0.8*most, "Raise maxmemory (CONFIG SET maxmemory, and redis.conf), or give authguard its "+
			"own Redis.", "has used %.0f of %.0f MiB of its memory.", used/(1<<20), most/(1<<20)))
}

// persistence checks that a restart does not lose everything. A hosted Redis may forbid CONFIG.
func persistence(ctx context.Context, client redis.Cmdable, n *notes, info map[string]string) {
	save, err := client.ConfigGet(ctx, "save").Result()
	n.check("redis.persistence", "keeps its data on disk.",
		advice(info["aof_enabled"] != "1" && (err != nil || save["save"] == ""), "Run CONFIG SET appendonly yes and CONFIG "+
			"SET appendfsync everysec, and set both in redis.conf. Then a crash loses at most a second.",
			"keeps no append-only file and no snapshots that doctor can see: a restart loses known clients and counters."))
}
