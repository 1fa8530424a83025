package doctor

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"authguard/internal/config"
)

func parseInfo(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

func (r redisConfig) info(ctx context.Context, client *redis.Client, is role, n *notes) {
	text, err := client.Info(ctx).Result()
	if !n.check("redis.info", "",
		advice(err != nil, "Grant it +info, or check maxmemory-policy (noeviction), appendonly (yes) and the version (6.2 "+
			"or newer) yourself.",
			"does not allow INFO, so version, memory, persistence and role could not be checked: %s.", why(err))) {
		return
	}
	info := parseInfo(text)
	version(n, info["redis_version"])
	memory(n, info)
	persistence(ctx, client, n, info)
	r.role(n, is, info)
}

// version checks for Redis 6.2, which the scripts need.
func version(n *notes, text string) {
	var major, minor int
	_, err := fmt.Sscanf(text, "%d.%d", &major, &minor)
	n.check("redis.version", fmt.Sprintf("is version %s.", text),
		advice(err != nil, "Check yourself that it is 6.2 or newer.", "does not return its version (%q).", text),
		problem(major < 6 || major == 6 && minor < 2, "Upgrade it to a maintained version.",
			"is version %s; authguard needs 6.2.", text))
}

// memory checks whether Redis could evict counters or reject writes.
func memory(n *notes, info map[string]string) {
	const noEviction = "noeviction"
	most, _ := strconv.ParseInt(info["maxmemory"], 10, 64)
	used, _ := strconv.ParseInt(info["used_memory"], 10, 64)
	policy := info["maxmemory_policy"]
	if most == 0 {
		n.ok("redis.policy", "evicts no keys: it has no memory limit.")
		n.ok("redis.memory", "has no memory limit.")
		return
	}
	n.check("redis.policy", "evicts no keys when it is full.",
		problem(policy != noEviction, "Run CONFIG SET maxmemory-policy noeviction, and set it in redis.conf. If other "+
			"programs need eviction, give authguard its own Redis.",
			"evicts keys when it is full (maxmemory-policy %s), so a flood could delete counters and known clients.", policy))
	const mend = "Raise maxmemory (CONFIG SET maxmemory, and redis.conf), or give authguard its own Redis."
	part := 100 * float64(used) / float64(most)
	n.check("redis.memory", fmt.Sprintf("has used %.0f %% of its memory.", part),
		problem(used >= most && policy == noEviction, mend,
			"is full (%d of %d MiB): it rejects writes, and every node counts locally.", used>>20, most>>20),
		advice(part > 80, mend, "has used %.0f %% of its memory (%d of %d MiB).", part, used>>20, most>>20))
}

// persistence checks what a restart would lose.
func persistence(ctx context.Context, client *redis.Client, n *notes, info map[string]string) {
	for field, what := range map[string]string{"rdb_last_bgsave_status": "its last snapshot",
		"aof_last_write_status": "its append-only file", "aof_last_bgrewrite_status": "its append-only file"} {
		if !n.check("redis.persistence", "",
			problem(info[field] == "err", "Check its log: the disk may be full, or the folder not writable. Until then Redis "+
				"may reject every write.", "could not write %s.", what)) {
			return
		}
	}
	if info["aof_enabled"] == "1" {
		n.ok("redis.persistence", "keeps an append-only file.")
		return
	}
	save, err := client.ConfigGet(ctx, "save").Result()
	n.check("redis.persistence", "keeps snapshots.",
		advice(err != nil, "Grant +config|get, or check yourself that it keeps snapshots or an append-only file.",
			"keeps no append-only file, and snapshots could not be checked: %s.", why(err)),
		advice(save["save"] == "", "Run CONFIG SET appendonly yes and CONFIG SET appendfsync everysec, and set both in "+
			"redis.conf. Then a crash loses at most a second.",
			"keeps no data on disk: known clients and counters are lost when it restarts."))
}

// role checks that the server has the role that the configuration expects.
func (r redisConfig) role(n *notes, is role, info map[string]string) {
	mode := r.Settings.Redis.Mode
	n.check("redis.mode", "",
		problem(info["cluster_enabled"] == "1" && mode != config.RedisCluster,
			"Set redis.mode: cluster, and list several of its nodes in redis.addresses.", "is a node of a Cluster."))
	mend := "Set the master. A failover may be under way, so run doctor again in a minute."
	if mode == config.RedisStandalone {
		mend = "Set the master in redis.addresses, or set redis.mode: sentinel, so that the nodes follow a failover."
	}
	slave, name := info["role"] == "slave", "master"
	if slave {
		name = "replica"
	}
	n.check("redis.role", "is a "+name+".",
		problem(slave && is == master, mend, "is a replica of %s:%s, which cannot be written to.", info["master_host"],
			info["master_port"]),
		advice(slave && info["master_link_status"] != "up", "Check its log, masterauth, and the network between the two.",
			"is a replica that has lost its master, so it would take over with old counters."))
}

// open checks that the server requires a password. Otherwise an attacker could write counters and known clients.
func (r redisConfig) open(ctx context.Context, address string, n *notes) {
	if r.reachOf(ctx, hostOf(address)) <= loopback {
		n.ok("redis.open", "is on this machine.")
		return
	}
	if r.Settings.Redis.TLSCert != "" {
		return // the certificate alone may admit this client, so the test proves nothing
	}
	stranger := redis.NewClient(r.options(address, "", ""))
	defer stranger.Close()
	n.check("redis.open", "requires a password.",
		problem(stranger.Ping(ctx).Err() == nil,
			"Set a password (requirepass, or an ACL user and user default off), and the same in redis.password.",
			"requires no password, so any client on its network can forge known clients and reset counters."))
}

func (r redisConfig) plain(ctx context.Context, address string, n *notes) {
	n.check("redis.tls", "is reached over TLS or a private network.",
		advice(r.tls == nil && r.reachOf(ctx, hostOf(address)) == public,
			"Enable TLS in Redis (tls-port) and here (redis.tls: true), or use a private network.",
			"is not on a private network and is reached without TLS: the password and every key can be intercepted."))
}

// permitted lists the commands that authguard uses, directly or in scripts, with typical arguments. KEY is one of its
// keys.
var permitted = []string{
	"PING", "TIME", "GET KEY", "MGET KEY KEY", "EXISTS KEY", "SET KEY 1", "DEL KEY", "EXPIRE KEY 1", "PEXPIRE KEY 1",
	"HDEL KEY 1", "HGET KEY 1", "HGETALL KEY", "HLEN KEY", "GETRANGE KEY 0 1", "SETRANGE KEY 0 1", "HMGET KEY 1",
	"HSET KEY 1 1",
	"ZADD KEY 1 1", "ZMSCORE KEY 1", "ZRANGE KEY 0 1", "ZREM KEY 1", "ZREMRANGEBYSCORE KEY 0 1", "ZSCORE KEY 1",
	"EVAL 0 1 KEY", "EVALSHA 0 1 KEY",
}

// slow is the advice for a server that answers PING but nothing else in time.
const slow = "Check its load, SLOWLOG GET and the network, then run doctor again."

//go:embed redisacl.lua
var aclScript string

// commands checks the permissions of the ACL user. It uses a script, which the user must be able to run anyway.
func (r redisConfig) commands(ctx context.Context, client *redis.Client, n *notes) {
	set, args := r.Settings.Redis, []any{}
	for _, line := range permitted {
		args = append(args, strings.ReplaceAll(line, "KEY", set.Prefix+"doctor"))
	}
	if set.Mode == config.RedisCluster {
		args = append(args, "CLUSTER SLOTS")
	}
	missing, err := client.Eval(ctx, aclScript, nil, args...).StringSlice()
	if err == redis.Nil && set.Username == "" {
		n.ok("redis.acl", "is used as its default user.")
		return
	}
	n.check("redis.acl", "grants its user every needed command.",
		advice(err == redis.Nil, r.grant(), "is older than 7.0, so its user's permissions cannot be checked."),
		problem(says(err, "NOPERM"), r.grant(), "does not allow its user to run scripts (EVAL): %s.", why(err)),
		problem(err != nil, slow, "did not run a script, so its user's permissions could not be checked: %s.", why(err)),
		problem(len(missing) > 0, r.grant(), "does not allow its user to run %s on keys that begin with %q.",
			strings.Join(missing, ", "), set.Prefix))
}

func (r redisConfig) grant() string {
	set := r.Settings.Redis
	rights := ""
	for _, line := range permitted {
		name, _, _ := strings.Cut(line, " ")
		rights += " +" + strings.ToLower(name)
	}
	if set.Database != 0 {
		rights += " +select"
	}
	if set.Mode == config.RedisCluster {
		rights += " +cluster|slots +cluster|info +cluster|nodes +readonly +command"
	}
	return "As its administrator: ACL SETUSER " + cmp.Or(set.Username, "default") + " ~" + set.Prefix + "*" + rights +
		" (and +info +config|get for these checks), then ACL SAVE, or the same in redis.conf."
}
