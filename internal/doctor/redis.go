package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/internal/config"
	"authguard/internal/redisstore"
	"authguard/internal/seal"
)

type role uint8

const (
	master  role = iota
	replica      // of a master that Sentinels monitor
)

type redisConfig struct {
	Config
	tls *tls.Config
}

func redisServers(ctx context.Context, c Config) []Check {
	if !c.Settings.Redis.On() {
		return nil
	}
	encryption, err := c.RedisTLS(c.Settings.Redis)
	n := new(notes)
	if !n.check("redis.tls", "", problem(err != nil, "Set PEM files that the user that runs authguard serve can read.",
		"redis: %s.", why(err))) {
		return n.checks()
	}
	r := redisConfig{c, encryption}
	var found []Check
	var servers map[string]role
	switch c.Settings.Redis.Mode {
	case config.RedisSentinel:
		found, servers = r.sentinels(ctx)
	case config.RedisCluster:
		found, servers = r.cluster(ctx)
	default:
		servers = map[string]role{c.Settings.Redis.Addresses[0]: master}
	}
	return append(found, r.servers(ctx, servers)...)
}

func (r redisConfig) options(address, username, password string) *redis.Options {
	return &redis.Options{
		Addr: address, Username: username, Password: password, TLSConfig: r.tls.Clone(),
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true,
		DialTimeout: r.Within, ReadTimeout: r.Within, WriteTimeout: r.Within, PoolTimeout: r.Within,
	}
}

// client connects to a server as the nodes do.
func (r redisConfig) client(address string) *redis.Client {
	set := r.Settings.Redis
	o := r.options(address, set.Username, set.Password.Reveal())
	o.DB = set.Database
	return redis.NewClient(o)
}

// each checks several servers concurrently and returns the findings and the answers, in order. A server that hangs has
// the zero answer.
func each[T any](ctx context.Context, r redisConfig, name, kind string, addresses []string, do func(context.Context,
	string, *notes) T) (*notes, []T) {
	answers := make([]T, len(addresses))
	all := together(len(addresses), func(i int) (found []Check) {
		found, answers[i] = look(ctx, r.Within, name, kind+" "+addresses[i], func(ctx context.Context,
			n *notes) T {
			return do(ctx, addresses[i], n)
		})
		return found
	})
	return &notes{all: all}, answers
}

func (r redisConfig) servers(ctx context.Context, roles map[string]role) []Check {
	n, _ := each(ctx, r, "redis", "Redis", inOrder(roles), func(ctx context.Context, address string,
		n *notes) (none struct{}) {
		client := r.client(address)
		defer client.Close()
		if !r.ping(ctx, client, roles[address], n) {
			return none
		}
		r.info(ctx, client, roles[address], n)
		r.open(ctx, address, n)
		r.plain(ctx, address, n)
		r.commands(ctx, client, n)
		r.signature(ctx, client, n)
		r.clock(ctx, client, n)
		return none
	})
	return n.checks()
}

// ping checks that the server answers, and how fast. The median of several pings ignores one slow answer.
func (r redisConfig) ping(ctx context.Context, client *redis.Client, is role, n *notes) bool {
	const pings = 5
	var took []time.Duration
	for began := time.Now(); len(took) <= pings && (len(took) < 2 || time.Since(began) < r.Within/4); {
		sent := time.Now()
		if err := client.Ping(ctx).Err(); err != nil {
			r.silent(n, is, err)
			return false
		}
		took = append(took, time.Since(sent))
	}
	n.ok("redis", "answers.")
	took = slices.Sorted(slices.Values(took[1:])) // the first also connects
	median, budget := took[len(took)/2].Round(time.Microsecond), r.Settings.Redis.Timeout
	n.check("redis.ping", fmt.Sprintf("answers a PING in %v.", median),
		advice(median > budget/5, "Move Redis closer to the nodes, reduce its load, or raise redis.timeout.",
			"answers a PING in %v: over a fifth of redis.timeout (%v), after which a node decides locally.", median, budget))
	return true
}

func (r redisConfig) silent(n *notes, is role, err error) {
	n.check("redis", "",
		problem(says(err, "NOAUTH", "WRONGPASS", "invalid password", "without any password configured"),
			"Set redis.password (AUTHGUARD_REDIS_PASSWORD), and redis.username for an ACL user, to what the server expects.",
			"rejects redis.username and redis.password: %s.", why(err)).as("redis.password"),
		problem(says(err, "NOPERM"), r.grant(), "does not grant its user enough permissions: %s.", why(err)).as("redis.acl"),
		problem(says(err, "LOADING"), "Wait until it has finished, and run doctor again.", "is still loading its data."),
		advice(is == replica, "Start it again. If it was removed for good, run SENTINEL RESET "+r.Settings.Redis.Master+
			" on each Sentinel, one after the other.",
			"is a replica that cannot be reached, so it cannot take over: %s.", why(err)),
		problem(true, "Start it, and check its address, TLS settings and firewalls. Until then every node counts locally "+
			"with its share of the limits.",
			"cannot be used: %s.", why(err)))
}

// says reports whether an error contains one of these texts: Redis has no error codes.
func says(err error, words ...string) bool {
	return err != nil && slices.ContainsFunc(words, func(word string) bool { return strings.Contains(err.Error(), word) })
}

// signature checks that this node's counters are compatible with those of the nodes that use the server.
func (r redisConfig) signature(ctx context.Context, client *redis.Client, n *notes) {
	prefix, fingerprint := r.Settings.Redis.Prefix, ""
	if keys, err := seal.Read(r.keysFile()); err == nil {
		fingerprint = keys.Fingerprint()
	}
	signed, err := client.Get(ctx, redisstore.SignKey(prefix)).Result()
	if says(err, "MOVED", "NOPERM") {
		return // another master has the key, or redis.acl reports this
	}
	var apart error
	if err == nil {
		apart = redisstore.Compare(signed, fingerprint, prefix)
	}
	n.check("redis.nodes", "has only compatible nodes.",
		problem(apart != nil, "Until then authguard serve does not start, and a running node counts locally.",
			"cannot be used. %s.", why(apart)),
		problem(err != nil && !errors.Is(err, redis.Nil), slow, "does not return which nodes use it: %s.", why(err)))
}

func (r redisConfig) clock(ctx context.Context, client *redis.Client, n *notes) {
	began := time.Now()
	told, err := client.Time(ctx).Result()
	rtt, now := time.Since(began), r.Now()
	if n.check("redis.clock", "", problem(says(err, "NOPERM"), r.grant(), "does not return its time: %s.", why(err)),
		problem(err != nil, slow, "does not return its time: %s.", why(err))) {
		clock(n, "redis.clock", told, now, rtt)
	}
}
