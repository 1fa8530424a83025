package doctor_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"authguard/internal/config"
	"authguard/internal/doctor"
	"authguard/internal/redisstore"
	"authguard/internal/redistest"
	"authguard/internal/seal"
)

func withRedis(t *testing.T, addresses ...string) doctor.Config {
	return whole(t, func(s *config.Config) { s.Redis.Addresses = addresses })
}

func TestASoundRedisHasNothingWrong(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t, "--appendonly", "yes")
	r := examine(t, withRedis(t, s.Addr))
	r.nothingWrong("data", "keys")
	r.wants(map[string]doctor.State{
		"redis": good, "redis.ping": good, "redis.version": good, "redis.policy": good, "redis.memory": good,
		"redis.persistence": good, "redis.role": good, "redis.open": good, "redis.tls": good, "redis.acl": good, "redis.clock": good,
	})
	if keys := s.Do(t, "DBSIZE"); keys != int64(0) {
		t.Errorf("it left %v keys behind", keys)
	}
}

// A server that is busy is no user without rights.
func TestASlowRedisIsNoMatterOfRights(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t)
	c := withRedis(t, s.Addr)
	c.Within = 2 * time.Second
	s.Do(t, "CLIENT", "PAUSE", "60000", "WRITE") // PING is answered, scripts are not
	r := examine(t, c)
	r.wants(map[string]doctor.State{"redis": good, "redis.acl": problem})
	for _, one := range r.all {
		if one.Name == "redis.acl" && (strings.Contains(one.Text+one.Mend, "ACL") || strings.Contains(one.Text, "does not let") || !strings.Contains(one.Text, "not answer in time")) {
			t.Errorf("it says %+v", one)
		}
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
	examine(t, withRedis(t, s.Addr)).wants(map[string]doctor.State{"redis.memory": problem})
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
	if text, err := os.ReadFile("../../docs/operations.md"); err != nil || !strings.Contains(strings.Join(strings.Fields(string(text)), " "), strings.TrimPrefix(all, "~ag:* ")) {
		t.Error("docs/operations.md has other rights", err)
	}
	for name, one := range map[string]struct {
		rights string
		want   map[string]doctor.State
	}{
		"whatitneeds": {all + " +info +config|get", map[string]doctor.State{"redis.acl": good, "redis.info": "", "redis.persistence": advice}},
		"noinfo":      {all, map[string]doctor.State{"redis.acl": good, "redis.info": advice, "redis.policy": ""}},
		"noconfig":    {all + " +info", map[string]doctor.State{"redis.acl": good, "redis.persistence": advice}},
		"nozadd":      {all + " -zadd", map[string]doctor.State{"redis.acl": problem}},
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
	examine(t, withRedis(t, replica.Addr)).wants(map[string]doctor.State{"redis.role": problem})
	examine(t, withRedis(t, master.Addr)).wants(map[string]doctor.State{"redis.role": good})
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
	signer, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	for known, state := range map[bool]doctor.State{true: good, false: problem} {
		pool := x509.NewCertPool()
		if known {
			pool.AppendCertsFromPEM(signer)
		}
		c.RedisTLS = func(config.Redis) (*tls.Config, error) { return &tls.Config{RootCAs: pool}, nil }
		examine(t, c).wants(map[string]doctor.State{"redis": state})
	}
	c.RedisTLS = nil
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

func TestEveryMasterOfAClusterIsLookedAt(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	c := withRedis(t, cluster.Addrs()[:2]...)
	c.Settings.Redis.Mode = config.RedisCluster
	var r report
	redistest.Until(t, "the nodes to have heard of the replicas", func() bool { r = examine(t, c); return r.state("redis.replicas") == good })
	r.nothingWrong("data", "keys", "redis.persistence")
	r.wants(map[string]doctor.State{"redis.cluster": good, "redis.replicas": good, "redis.acl": good})
	for _, s := range cluster.Nodes[:3] {
		if !strings.Contains(r.String(), fmt.Sprintf("Redis %s answers", s.Addr)) {
			t.Errorf("the master %s was not looked at: %s", s.Addr, r)
		}
	}
	cluster.Nodes[2].Do(t, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
	examine(t, c).wants(map[string]doctor.State{"redis.policy": problem})

	jumping := c
	var asked atomic.Int64
	jumping.Now = func() time.Time { return time.Now().Add(time.Duration(asked.Add(1)) * 10 * time.Second) }
	examine(t, jumping).wants(map[string]doctor.State{"redis.clock": problem})

	cluster.Hasty(t)
	cluster.Nodes[5].Kill() // a replica of the third master
	redistest.Until(t, "the cluster to miss the replica", func() bool { return examine(t, c).state("redis.replicas") == advice })
	cluster.Nodes[2].Kill()
	redistest.Until(t, "the cluster to miss the master", func() bool {
		r := examine(t, c)
		return r.state("redis.cluster") == problem && r.state("redis") != ""
	})
	cluster.Nodes[1].Stop(t)
	defer cluster.Nodes[1].Continue(t)
	c.Within = time.Second
	examine(t, c).wants(map[string]doctor.State{"redis": problem})
}

func TestEveryServerThatSentinelsKnowIsLookedAt(t *testing.T) {
	t.Parallel()
	w := redistest.Sentinel(t)
	c := withRedis(t, w.Addrs()...)
	c.Settings.Redis.Mode, c.Settings.Redis.Master = config.RedisSentinel, redistest.MasterName
	var r report
	redistest.Until(t, "the replica to hear its master", func() bool { r = examine(t, c); return r.state("redis.role") == good })
	r.nothingWrong("data", "keys", "redis.persistence")
	r.wants(map[string]doctor.State{"redis.sentinel": good, "redis.sentinels": good, "redis.replicas": good})
	for _, s := range []*redistest.Server{w.Master, w.Replica} {
		if !strings.Contains(r.String(), fmt.Sprintf("Redis %s answers", s.Addr)) {
			t.Errorf("%s was not looked at: %s", s.Addr, r)
		}
	}
	stranger := c
	stranger.Settings.Redis.Master = "nobody"
	examine(t, stranger).wants(map[string]doctor.State{"redis.master": problem, "redis": ""})

	w.Replica.Kill()
	examine(t, c).wants(map[string]doctor.State{"redis": advice})
	w.Sentinels[2].Kill()
	examine(t, c).wants(map[string]doctor.State{"redis.sentinel": advice})
	w.Sentinels[1].Kill()
	w.Hasty(t)
	redistest.Until(t, "the last Sentinel to miss the others", func() bool { return examine(t, c).state("redis.quorum") == problem })
	host, port, _ := net.SplitHostPort(w.Master.Addr)
	w.Sentinels[0].Do(t, "SENTINEL", "REMOVE", redistest.MasterName)
	w.Sentinels[0].Do(t, "SENTINEL", "MONITOR", redistest.MasterName, host, port, 1)
	examine(t, c).wants(map[string]doctor.State{"redis.sentinels": advice})
	w.Sentinels[0].Kill()
	examine(t, c).wants(map[string]doctor.State{"redis.sentinel": problem, "redis.sentinels": ""})
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
