package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/metrics"
	"authguard/internal/nodes"
	"authguard/internal/redisstore"
	"authguard/internal/times"
)

type shared struct {
	clock   *nodes.Clock
	client  redis.UniversalClient
	prefix  string
	store   *nodes.Store
	used    *nodes.Spent     // challenges
	settled *nodes.Spent     // tickets of the decision API
	mode    *redisstore.Mode // the default realm's, once opened
	alerts  *alerts.Alerter
	node    string // this node's name in alerts
	log     *slog.Logger

	losses      atomic.Int64 // how often Redis has lost its data
	lastEmptied atomic.Int64 // time of the last alert about that, in milliseconds

	met    atomic.Bool  // Redis has answered
	before atomic.Int64 // number of nodes in the file
	file   string
}

// connectRedis creates a client from the settings. It sends nothing yet.
func connectRedis(r config.Redis, timed func(context.Context, time.Duration)) (redis.UniversalClient, error) {
	encryption, err := redisTLS(r)
	if err != nil {
		return nil, err
	}
	return redisstore.Connect(redisstore.Server{
		Addresses: r.Addresses, Cluster: r.Mode == config.RedisCluster, Master: r.Master,
		Username: r.Username, Password: r.Password.Reveal(),
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword.Reveal(),
		TLS: encryption, Timed: timed,
	}, r.Timeout), nil
}

func (s *shared) join(realm string, mode *captchamode.Mode) (joined *redisstore.Mode, err error) {
	if realm != guard.DefaultRealm {
		return redisstore.NewMode(s.client, mode, redisstore.ModeOptions{Prefix: s.prefix + "realm:" + realm + ":"})
	}
	s.mode, err = redisstore.NewMode(s.client, mode, redisstore.ModeOptions{Prefix: s.prefix, OnError: func(err error) {
		if err == nil {
			s.met.Store(true)
		}
	}})
	return s.mode, err
}

// share reads the mode's state on the other nodes, so that an ongoing attack continues here.
func (s *shared) share(ctx context.Context, joined *redisstore.Mode) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	answered := joined.Flush(ctx) == nil
	if joined == s.mode {
		s.met.Store(answered)
	}
}

// nodes returns the last known number of nodes: from the file until Redis answers.
func (s *shared) nodes() int {
	if s.mode == nil || !s.met.Load() {
		return int(s.before.Load())
	}
	return s.mode.Nodes()
}

// nodeName is this node's name in alerts: host name and listen address, because a machine may run several nodes. It is
// safe in an alert.
func nodeName(listen string) string {
	host, _ := os.Hostname()
	return alerts.Name(host + " (" + listen + ")")
}

// nodesFile stores the number of nodes: a node that starts while Redis is unavailable must not assume that it is alone.
const nodesFile = "nodes"

func readNodes(path string) int64 {
	text, _ := os.ReadFile(path)
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 1 || n > 10_000 {
		return 1
	}
	return n
}

func (s *shared) saveNodes() error {
	n := int64(s.nodes())
	if n == s.before.Load() {
		return nil
	}
	written := s.file + ".new" // a full disk must not truncate the number
	if err := os.WriteFile(written, []byte(strconv.FormatInt(n, 10)+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.Rename(written, s.file); err != nil {
		return err
	}
	s.before.Store(n)
	return nil
}

// agree checks that this node can count together with the other nodes of this Redis: one with another version or other
// keys would count separately. An unavailable Redis is no error; the store compares when it is back.
func (s *shared) agree(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := s.store.Redis().Probe(ctx)
	if errors.Is(err, redisstore.ErrApart) {
		s.alerts.Raise(redisLost, "", fmt.Sprintf("node %s does not start.\n%v", s.node, err))
		return err
	}
	if err == nil {
		_ = s.store.Redis().Sign(ctx) // the breaker reports Redis's errors
	}
	return nil
}

// Kinds of alerts about Redis.
const (
	redisLost    alerts.Kind = "redis-lost"
	redisBack    alerts.Kind = "redis-recovered"
	redisEmptied alerts.Kind = "redis-emptied"
)

// emptiedAgain is the minimum time between two alerts about an emptied Redis.
const emptiedAgain = 10 * time.Minute

func (s *shared) emptied() {
	times, now := s.losses.Add(1), s.clock.Now()
	s.log.Error("Redis has lost its data: every limit counts from zero again", "times", times)
	if last := s.lastEmptied.Load(); last != 0 && now.Sub(time.UnixMilli(last)) < emptiedAgain {
		return
	}
	s.lastEmptied.Store(now.UnixMilli())
	s.alerts.Raise(redisEmptied, "", fmt.Sprintf(
		"node %s: Redis was flushed, or restarted without its file (%d times since this node started). Every limit counts "+
			"from zero again, "+
			"so attackers get more attempts. Known clients are kept. Enable appendonly, and restrict FLUSHALL", s.node, times))
}

func (s *shared) changed(up bool, why error) {
	if up {
		s.alerts.Raise(redisBack, "", "node "+s.node+" shares its counters with the other nodes again")
		return
	}
	s.alerts.Raise(redisLost, "", fmt.Sprintf(
		"node %s counts locally with its share of the limits; known clients still get in.\nRedis: %s",
		s.node, alerts.Name(why.Error())))
}

func (s *shared) warn() []control.Warning {
	if s == nil || s.store.Up() {
		return nil
	}
	since, why := s.store.State()
	return []control.Warning{{
		Code: "redis-lost", Title: "This node counts locally, without Redis",
		Text: fmt.Sprintf("Redis has been unavailable since %s: %v. Known clients still get in, and this node enforces its "+
			"share of each limit. "+
			"Run authguard doctor to find the cause.", times.Text(since.UTC()), why),
	}}
}

// gauges returns nil with a single node.
func (s *shared) gauges() *metrics.RedisGauges {
	if s == nil {
		return nil
	}
	return &metrics.RedisGauges{
		Up: s.store.Up, Failures: s.store.Failures, Unsent: s.store.Unsent, Nodes: s.nodes, Closed: s.store.Redis().Closed,
	}
}

// redisTLS returns the TLS configuration of the settings; nil for none.
func redisTLS(c config.Redis) (*tls.Config, error) {
	if !c.TLS {
		return nil, nil
	}
	made := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLSCA != "" {
		pem, err := os.ReadFile(c.TLSCA)
		if err != nil {
			return nil, fmt.Errorf("tls_ca: %w", err)
		}
		made.RootCAs = x509.NewCertPool()
		if !made.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls_ca: %s contains no PEM certificate", c.TLSCA)
		}
	}
	if c.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSCert)
		if err != nil {
			return nil, fmt.Errorf("tls_cert: %w", err)
		}
		made.Certificates = []tls.Certificate{pair}
	}
	return made, nil
}
