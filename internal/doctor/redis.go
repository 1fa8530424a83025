package doctor

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/internal/config"
	"authguard/internal/redisstore"
)

// A role is what a server is there for.
type role uint8

const (
	master  role = iota
	replica      // of a master that Sentinels watch
)

// A redisServer is one to look at.
type redisServer struct {
	address string
	role    role
}

// A reading is what a server's clock said.
type reading struct {
	known bool
	off   time.Duration // ahead of this machine's
}

// redisServers looks at all that there are.
func redisServers(ctx context.Context, c Config) []Check {
	if !c.Settings.Redis.On() {
		return nil
	}
	encryption, err := c.RedisTLS(c.Settings.Redis)
	if err != nil {
		n := new(notes)
		n.problem("redis.tls", "Name PEM files that the user who runs authguard serve can read.", "redis: %s.", why(err))
		return n.checks()
	}
	r := redisConfig{c, encryption}
	var found []Check
	var servers []redisServer
	switch c.Settings.Redis.Mode {
	case config.RedisSentinel:
		found, servers = r.sentinels(ctx)
	case config.RedisCluster:
		found, servers = r.cluster(ctx)
	default:
		servers = []redisServer{{address: c.Settings.Redis.Addresses[0]}}
	}
	return append(found, r.servers(ctx, servers)...)
}

// A redisConfig is how to come to the servers.
type redisConfig struct {
	Config
	tls *tls.Config
}

// client is a connection to one server, as the nodes make it.
func (r redisConfig) client(address string) redis.UniversalClient {
	set := r.Settings.Redis
	return r.connect(redisstore.Server{
		Addresses: []string{address}, Username: set.Username, Password: set.Password.Reveal(), Database: set.Database,
	})
}

// connect adds what is common to servers and Sentinels.
func (r redisConfig) connect(s redisstore.Server) redis.UniversalClient {
	if r.tls != nil {
		s.TLS = r.tls.Clone()
	}
	return redisstore.Connect(s, r.Within)
}

// servers looks at each, and then at their clocks together.
func (r redisConfig) servers(ctx context.Context, all []redisServer) []Check {
	clocks := make([]reading, len(all))
	checks := together(len(all), func(i int) (found []Check) {
		found, clocks[i] = look(ctx, r.Within, "redis", "Redis "+all[i].address, func(ctx context.Context, n *notes) reading {
			return r.server(ctx, all[i], n)
		})
		return found
	})
	if r.Settings.Redis.Mode == config.RedisCluster {
		n := new(notes)
		apart(n, clocks)
		checks = append(checks, n.checks()...)
	}
	return checks
}

// server looks at one.
func (r redisConfig) server(ctx context.Context, s redisServer, n *notes) reading {
	client := r.client(s.address)
	defer client.Close()
	if !r.ping(ctx, client, s, n) {
		return reading{}
	}
	if info, ok := askInfo(ctx, client, n); ok {
		version(n, info["redis_version"])
		r.memory(n, info)
		persistence(ctx, client, n, info)
		r.role(n, s, info)
	}
	r.open(ctx, s, n)
	r.plain(ctx, s, n)
	r.commands(ctx, client, n)
	return r.clock(ctx, client, n)
}

// pings are so many that one slow one does not count.
const pings = 5

// ping looks whether the server answers, and how fast.
func (r redisConfig) ping(ctx context.Context, client redis.UniversalClient, s redisServer, n *notes) bool {
	if err := client.Ping(ctx).Err(); err != nil { // which also connects
		r.silent(n, s, err)
		return false
	}
	var took []time.Duration
	for began := time.Now(); len(took) < pings && (len(took) == 0 || time.Since(began) < r.Within/4); {
		sent := time.Now()
		if err := client.Ping(ctx).Err(); err != nil {
			r.silent(n, s, err)
			return false
		}
		took = append(took, time.Since(sent))
	}
	n.ok("redis", "answers.")
	slices.Sort(took)
	r.pace(n, took[len(took)/2])
	return true
}

func (r redisConfig) pace(n *notes, median time.Duration) {
	budget := r.Settings.Redis.Timeout
	if median > budget/5 {
		n.advice("redis.ping", "Bring Redis nearer to the nodes, give it less else to do, or raise redis.timeout.",
			"takes %v for a PING: over a fifth of redis.timeout (%v), after which a node decides alone.", median.Round(time.Microsecond), budget)
		return
	}
	n.ok("redis.ping", "takes %v for a PING.", median.Round(time.Microsecond))
}

// silent says why a server is of no use.
func (r redisConfig) silent(n *notes, s redisServer, err error) {
	switch {
	case redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "WRONGPASS"), strings.Contains(err.Error(), "invalid password"),
		strings.Contains(err.Error(), "without any password configured"):
		n.problem("redis.password", "Set redis.password (AUTHGUARD_REDIS_PASSWORD), and redis.username for an ACL user, to what the server expects.",
			"does not accept the user and password of redis: %s.", why(err))
	case redis.HasErrorPrefix(err, "NOPERM"):
		n.problem("redis.acl", r.grant(), "lets its user do too little: %s.", why(err))
	case redis.HasErrorPrefix(err, "LOADING"):
		n.problem("redis", "Wait until it has, and look again.", "is still loading its data.")
	case s.role == replica:
		n.advice("redis", "Start it again; if it was taken away for good, SENTINEL RESET "+r.Settings.Redis.Master+" on each Sentinel, one after the other.",
			"is a replica that cannot be used, so it cannot take over: %s.", why(err))
	default:
		n.problem("redis", "Start it, and see that its address, its TLS and every firewall on the way let this machine in. Meanwhile every node counts alone, with divided limits.",
			"cannot be used: %s.", why(err))
	}
}

// clock compares the server's with this machine's.
func (r redisConfig) clock(ctx context.Context, client redis.UniversalClient, n *notes) reading {
	began := time.Now()
	told, err := client.Time(ctx).Result()
	rtt, now := time.Since(began), r.Now()
	if err != nil {
		n.problem("redis.clock", r.grant(), "does not tell its time: %s.", why(err))
		return reading{}
	}
	off := offset(told, now, rtt)
	clock(n, "redis.clock", off, rtt)
	return reading{true, off}
}

// apart compares the clocks of a Cluster's masters.
func apart(n *notes, clocks []reading) {
	var offs []time.Duration
	for _, one := range clocks {
		if one.known {
			offs = append(offs, one.off)
		}
	}
	if len(offs) < 2 {
		return
	}
	if by := slices.Max(offs) - slices.Min(offs); by > clocksApart {
		n.problem("redis.clocks", "Set the clocks of all masters by NTP (timedatectl set-ntp true, or chrony).",
			"The clocks of the Cluster's masters are %v apart: beyond %v attempts cannot be counted, and every node counts alone.", by.Round(time.Millisecond), clocksApart)
		return
	}
	n.ok("redis.clocks", "The Cluster's masters have the same time.")
}
