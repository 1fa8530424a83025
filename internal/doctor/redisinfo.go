package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"authguard/internal/config"
)

// An info is what INFO tells, by field.
type info map[string]string

func parseInfo(text string) info {
	all := info{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

func (i info) number(name string) int64 {
	n, _ := strconv.ParseInt(i[name], 10, 64)
	return n
}

// askInfo is false, and says so, where INFO is forbidden.
func askInfo(ctx context.Context, client redis.UniversalClient, n *notes) (info, bool) {
	text, err := client.Info(ctx).Result()
	if err != nil {
		n.advice("redis.info", "Grant it +info, or look at maxmemory-policy (noeviction), appendonly (yes) and the version (6.2 or newer) yourself.",
			"does not tell about itself, so its version, memory, persistence and role could not be checked: %s.", why(err))
		return nil, false
	}
	return parseInfo(text), true
}

// version needs Redis 6.2, for what the scripts use.
func version(n *notes, text string) {
	var major, minor int
	if _, err := fmt.Sscanf(text, "%d.%d", &major, &minor); err != nil {
		n.advice("redis.version", "See yourself that it is 6.2 or newer.", "does not tell its version (%q).", text)
		return
	}
	if major < 6 || major == 6 && minor < 2 {
		n.problem("redis.version", "Update it to a version that is still maintained.", "is version %s; authguard needs 6.2.", text)
		return
	}
	n.ok("redis.version", "is version %s.", text)
}

const noEviction = "noeviction"

// memory looks whether counters can be dropped, or refused.
func (r redisConfig) memory(n *notes, i info) {
	most, used, policy := i.number("maxmemory"), i.number("used_memory"), i["maxmemory_policy"]
	if most == 0 {
		n.ok("redis.policy", "drops nothing: it has no memory limit.")
		n.ok("redis.memory", "has no memory limit.")
		return
	}
	if policy == noEviction {
		n.ok("redis.policy", "drops nothing when it is full.")
	} else {
		n.problem("redis.policy", "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; give authguard a Redis of its own if others need it otherwise.",
			"drops keys when it is full (maxmemory-policy %s): counters and known places may vanish, and a flood could make them.", policy)
	}
	const mend = "Raise maxmemory (CONFIG SET maxmemory, and redis.conf), or give authguard a Redis of its own."
	switch part := 100 * float64(used) / float64(most); {
	case used >= most && policy == noEviction:
		n.problem("redis.memory", mend, "is full (%d of %d MiB): it refuses to count, and every node counts alone.", used>>20, most>>20)
	case part > 80:
		n.advice("redis.memory", mend, "has used %.0f %% of its memory (%d of %d MiB).", part, used>>20, most>>20)
	default:
		n.ok("redis.memory", "has used %.0f %% of its memory.", part)
	}
}

const mendPersistence = "CONFIG SET appendonly yes and CONFIG SET appendfsync everysec, then the same in redis.conf: appendonly yes, appendfsync everysec. At most a second is lost then."

// persistence looks what a restart would forget.
func persistence(ctx context.Context, client redis.UniversalClient, n *notes, i info) {
	for field, what := range map[string]string{"rdb_last_bgsave_status": "its last snapshot", "aof_last_write_status": "its append-only file", "aof_last_bgrewrite_status": "its append-only file"} {
		if i[field] == "err" {
			n.problem("redis.persistence", "See its log: the disk may be full, or the folder not its own. Until then Redis may refuse every write.", "could not write %s.", what)
			return
		}
	}
	if i["aof_enabled"] == "1" {
		n.ok("redis.persistence", "keeps an append-only file.")
		return
	}
	save, err := client.ConfigGet(ctx, "save").Result()
	switch {
	case err != nil:
		n.advice("redis.persistence", "Grant +config|get, or see yourself that it keeps snapshots or an append-only file.",
			"keeps no append-only file, and does not tell whether it keeps snapshots: %s.", why(err))
	case save["save"] == "":
		n.advice("redis.persistence", mendPersistence, "keeps nothing on disk: known places and counters are lost when it restarts.")
	default:
		n.ok("redis.persistence", "keeps snapshots.")
	}
}

// role looks whether the server is what the configuration takes it for.
func (r redisConfig) role(n *notes, s redisServer, i info) {
	mode := r.Settings.Redis.Mode
	if i["cluster_enabled"] == "1" && mode != config.RedisCluster {
		n.problem("redis.mode", "Set redis.mode: cluster, and name several of its nodes.", "is a node of a Cluster.")
	}
	slave := i["role"] == "slave"
	switch {
	case s.role == master && slave:
		n.problem("redis.role", "Name the master"+byMode(mode)+".", "is a replica of %s:%s, which cannot be written to.", i["master_host"], i["master_port"])
	case s.role == replica && slave && i["master_link_status"] != "up":
		n.advice("redis.role", "See its log: masterauth and the network between the two.", "is a replica that does not hear its master, so it would take over with old counters.")
	default:
		n.ok("redis.role", "is a %s.", roleName(slave))
	}
}

func roleName(slave bool) string {
	if slave {
		return "replica"
	}
	return "master"
}

func byMode(mode config.RedisMode) string {
	if mode == config.RedisStandalone {
		return " in redis.addresses, or use redis.mode: sentinel so that the nodes follow it"
	}
	return "; a failover may be under way, so look again in a minute"
}
