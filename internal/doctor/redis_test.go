package doctor_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authguard/internal/config"
	"authguard/internal/doctor"
	"authguard/internal/redisstore"
	"authguard/internal/seal"
	"authguard/internal/testing/redistest"
)

func withRedis(t *testing.T, addresses ...string) doctor.Config {
	c := whole(t, func(s *config.Config) { s.Redis.Addresses = addresses })
	return c
}

func TestASoundRedisHasNothingWrong(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t, "--appendonly", "yes")
	r := examine(t, withRedis(t, s.Addr))
	r.nothingWrong("data", "keys")
	r.wants(map[string]doctor.State{
		"redis": good, "redis.ping": good, "redis.version": good, "redis.policy": good, "redis.memory": good,
		"redis.persistence": good, "redis.write": good, "redis.open": good, "redis.tls": good, "redis.nodes": good, "redis.clock": good,
	})
	if keys := s.Do(t, "DBSIZE"); keys != int64(0) {
		t.Errorf("it left %v keys behind", keys)
	}
}

func TestARedisThatMayDropCountersIsAProblem(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t)
	c := withRedis(t, s.Addr)
	s.Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	examine(t, c).wants(map[string]doctor.State{"redis.policy": good}) // there is no limit
	s.Do(t, "CONFIG", "SET", "maxmemory", "200mb")
	for policy, state := range map[string]doctor.State{"allkeys-lru": problem, "volatile-ttl": problem, "noeviction": good} {
		s.Do(t, "CONFIG", "SET", "maxmemory-policy", policy)
		examine(t, c).wants(map[string]doctor.State{"redis.policy": state, "redis.memory": good})
	}
}

func TestARedisWithLittleMemoryLeftIsTold(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t)
	s.Do(t, "SETRANGE", "weight", 20<<20, "x")
	s.Do(t, "CONFIG", "SET", "maxmemory", "28mb")
	examine(t, withRedis(t, s.Addr)).wants(map[string]doctor.State{"redis.memory": advice})
	s.Do(t, "CONFIG", "SET", "maxmemory", "10mb")
	examine(t, withRedis(t, s.Addr)).wants(map[string]doctor.State{"redis.write": problem})
}

func TestARedisThatForgetsAtARestartIsAdvice(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t)
	c := withRedis(t, s.Addr)
	examine(t, c).wants(map[string]doctor.State{"redis.persistence": advice})
	s.Do(t, "CONFIG", "SET", "save", "3600 1")
	examine(t, c).wants(map[string]doctor.State{"redis.persistence": good})
	s.Do(t, "CONFIG", "SET", "save", "")
	s.Do(t, "CONFIG", "SET", "appendonly", "yes")
	examine(t, c).wants(map[string]doctor.State{"redis.persistence": good})
}

func TestAWrongPasswordIsAProblemAndNeverTold(t *testing.T) {
	t.Parallel()
	const right, wrong = "right-and-long", "wrong-and-long"
	s := redistest.Standalone(t, "--requirepass", right)
	for password, state := range map[string]doctor.State{"": problem, wrong: problem, right: ""} {
		c := withRedis(t, s.Addr)
		c.Settings.Redis.Password = config.Secret(password)
		r := examine(t, c)
		r.wants(map[string]doctor.State{"redis.password": state})
		if strings.Contains(r.String(), right) || strings.Contains(r.String(), wrong) {
			t.Errorf("the password is told: %s", r)
		}
	}
	open := withRedis(t, redistest.Standalone(t).Addr)
	open.Settings.Redis.Username, open.Settings.Redis.Password = "ann", "x"
	examine(t, open).wants(map[string]doctor.State{"redis.password": problem})
}

func TestAUserWithTooFewRightsIsAProblem(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t)
	all := "~ag:* +ping +time +get +mget +exists +set +del +expire +pexpire +hdel +hget +hgetall +hlen +hmget +hset +getrange +setrange " +
		"+zadd +zmscore +zrange +zrem +zremrangebyscore +zscore +eval +evalsha"
	if text, err := os.ReadFile("../../docs/how-to/several-nodes.md"); err != nil || !strings.Contains(strings.Join(strings.Fields(string(text)), " "), strings.TrimPrefix(all, "~ag:* ")) {
		t.Error("docs/how-to/several-nodes.md has other rights", err)
	}
	for name, one := range map[string]struct {
		rights string
		want   map[string]doctor.State
	}{
		"whatitneeds": {all + " +info +config|get", map[string]doctor.State{"redis.write": good, "redis.info": "", "redis.persistence": advice}},
		"noinfo":      {all, map[string]doctor.State{"redis.write": good, "redis.info": advice, "redis.policy": ""}},
		"noconfig":    {all + " +info", map[string]doctor.State{"redis.write": good, "redis.persistence": advice}},
		"noset":       {all + " -set", map[string]doctor.State{"redis.acl": problem}},
		"noscripts":   {all + " -eval", map[string]doctor.State{"redis.acl": problem}},
		"noping":      {all + " -ping", map[string]doctor.State{"redis.acl": problem, "redis": ""}},
		"otherkeys":   {strings.Replace(all, "~ag:", "~shop:", 1), map[string]doctor.State{"redis.acl": problem}},
	} {
		args := []any{"ACL", "SETUSER", name, "on", ">secret-of-" + name}
		for word := range strings.FieldsSeq(one.rights) {
			args = append(args, word)
		}
		s.Do(t, args...)
		c := withRedis(t, s.Addr)
		c.Settings.Redis.Username, c.Settings.Redis.Password = name, config.Secret("secret-of-"+name)
		r := examine(t, c)
		r.wants(one.want)
		if strings.Contains(r.String(), "secret-of") {
			t.Errorf("the password is told: %s", r)
		}
	}
}

func TestAReplicaAsTheConfiguredAddressIsAProblem(t *testing.T) {
	t.Parallel()
	master, replica := redistest.Standalone(t), redistest.Standalone(t)
	host, port, _ := net.SplitHostPort(master.Addr)
	replica.Do(t, "REPLICAOF", host, port)
	examine(t, withRedis(t, replica.Addr)).wants(map[string]doctor.State{"redis.write": problem})
	examine(t, withRedis(t, master.Addr)).wants(map[string]doctor.State{"redis.write": good})
}

// That it ends is the claim.
func TestARedisThatHangsIsAFindingNotAHang(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t)
	c := withRedis(t, s.Addr)
	c.Within = time.Second
	s.Stop(t)
	defer s.Continue(t)
	examine(t, c).wants(map[string]doctor.State{"redis": problem, "redis.version": ""})
}

func TestARedisThatIsAwayIsAProblem(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t)
	s.Kill()
	examine(t, withRedis(t, s.Addr)).wants(map[string]doctor.State{"redis": problem})
}

func TestASlowRedisIsAdvice(t *testing.T) {
	t.Parallel()
	c := withRedis(t, redistest.Standalone(t).Addr)
	c.Settings.Redis.Timeout = time.Nanosecond
	examine(t, c).wants(map[string]doctor.State{"redis": good, "redis.ping": advice})
}

func TestAClockThatIsOffIsTold(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t)
	for by, state := range map[time.Duration]doctor.State{
		-20 * time.Second: problem, 20 * time.Second: problem, -3 * time.Second: advice, 3 * time.Second: advice, 0: good,
	} {
		c := withRedis(t, s.Addr)
		c.Now = func() time.Time { return time.Now().Add(by) }
		examine(t, c).wants(map[string]doctor.State{"redis.clock": state})
	}
}

func TestARedisBeyondThisMachineNeedsAPasswordAndTLS(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		at, password string
		open, tls    doctor.State
	}{
		{"127.0.0.1", "", good, good}, {"10.0.0.1", "", problem, good}, {"203.0.113.1", "", problem, advice},
		{"10.0.0.1", "secret", good, good}, {"203.0.113.1", "secret", good, advice},
	} {
		s := redistest.Standalone(t)
		if one.password != "" {
			s = redistest.Standalone(t, "--requirepass", one.password)
		}
		_, port, _ := net.SplitHostPort(s.Addr)
		c := withRedis(t, "localhost:"+port)
		c.Settings.Redis.Password = config.Secret(one.password)
		c.Lookup = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr(one.at)}, nil
		}
		examine(t, c).wants(map[string]doctor.State{"redis": good, "redis.open": one.open, "redis.tls": one.tls})
	}
}

func TestARedisBehindTLSIsLookedAtIfItsSignerIsKnown(t *testing.T) {
	t.Parallel()
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	certificate(t, cert, key, 100*24*time.Hour)
	s := redistest.Standalone(t, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	_, secure, _ := net.SplitHostPort(redistest.FreeAddress(t))
	s.Do(t, "CONFIG", "SET", "tls-port", secure)
	c := withRedis(t, net.JoinHostPort("127.0.0.1", secure))
	c.Settings.Redis.TLS = true
	for signer, state := range map[string]doctor.State{cert: good, "": problem} {
		c.Settings.Redis.TLSCA = signer
		examine(t, c).wants(map[string]doctor.State{"redis": state})
	}
	c.Settings.Redis.TLS = false
	examine(t, c).wants(map[string]doctor.State{"redis": problem})
}

func TestTheWrongModeIsAProblem(t *testing.T) {
	t.Parallel()
	alone := redistest.Standalone(t).Addr
	member := redistest.Standalone(t, "--cluster-enabled", "yes").Addr
	examine(t, withRedis(t, member)).wants(map[string]doctor.State{"redis.mode": problem})
	for _, mode := range []config.RedisMode{config.RedisCluster, config.RedisSentinel} {
		c := withRedis(t, alone)
		c.Settings.Redis.Mode, c.Settings.Redis.Master = mode, "main"
		examine(t, c).wants(map[string]doctor.State{"redis.mode": problem})
	}
}

func TestEveryMasterOfAClusterIsChecked(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	c := withRedis(t, cluster.Addrs()[:2]...)
	c.Settings.Redis.Mode = config.RedisCluster
	r := examine(t, c)
	r.nothingWrong("data", "keys", "redis.persistence")
	for _, s := range cluster.Nodes[:3] {
		if !strings.Contains(r.String(), fmt.Sprintf("Redis %s is version", s.Addr)) {
			t.Errorf("the master %s was not checked: %s", s.Addr, r)
		}
	}
	cluster.Nodes[2].Do(t, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
	examine(t, c).wants(map[string]doctor.State{"redis.policy": problem, "redis.write": good})
	cluster.Nodes[5].Kill() // the replica of the third master
	cluster.Nodes[2].Kill()
	c.Within = 2 * time.Second
	examine(t, c).wants(map[string]doctor.State{"redis.write": problem})
}

func TestTheMasterOfSentinelsIsChecked(t *testing.T) {
	t.Parallel()
	w := redistest.Sentinel(t)
	c := withRedis(t, w.Addrs()...)
	c.Settings.Redis.Mode, c.Settings.Redis.Master = config.RedisSentinel, redistest.MasterName
	r := examine(t, c)
	r.nothingWrong("data", "keys", "redis.persistence")
	r.wants(map[string]doctor.State{"redis": good, "redis.write": good, "redis.version": good})
	c.Settings.Redis.Master = "unknown"
	examine(t, c).wants(map[string]doctor.State{"redis": problem})
}

// What nodes of another version, or with other keys, have left in Redis is a problem, in the
// words of the server that does not start.
func TestARedisOfAnotherVersionIsAProblem(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t)
	c := withRedis(t, s.Addr)
	c.Settings.KeysFile = filepath.Join(t.TempDir(), "keys")
	keys, err := seal.Load(c.Settings.KeysFile)
	if err != nil {
		t.Fatal(err)
	}
	for signed, says := range map[string]string{
		"":                        "",
		"1 " + keys.Fingerprint(): "",
		keys.Fingerprint():        "another version of authguard uses prefix",
		"2 " + keys.Fingerprint(): "key layout 2; this version's: 1",
		"1 0000000000000000-1234": "the keys files of the nodes differ",
	} {
		s.Do(t, "DEL", redisstore.SignKey(c.Settings.Redis.Prefix))
		if signed != "" {
			s.Do(t, "SET", redisstore.SignKey(c.Settings.Redis.Prefix), signed)
		}
		want := good
		if says != "" {
			want = problem
		}
		r := examine(t, c)
		r.wants(map[string]doctor.State{"redis.nodes": want})
		for _, one := range r.all {
			if one.Name == "redis.nodes" && !strings.Contains(one.Text, says) {
				t.Errorf("%q: it says %+v", signed, one)
			}
		}
	}
}
