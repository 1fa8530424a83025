package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/captchamode/redisspent"
	"authguard/failures"
	"authguard/failures/redisfailures"
	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/nodes"
	"authguard/internal/redisstore"
	"authguard/internal/secrets"
	"authguard/trusted"
	"authguard/trusted/redisplaces"
)

// shared is what the nodes of a site have together in Redis.
type shared struct {
	client   redis.UniversalClient
	line     *nodes.Line
	failures *redisfailures.Store
	places   *redisplaces.Store
	counters *nodes.Counters
	known    *nodes.Places
	used     *nodes.Spent     // challenges
	settled  *nodes.Spent     // tickets of the decision API
	mode     *redisstore.Mode // once the mode is there
	flushing background.Group
	met      atomic.Bool  // Redis has answered
	before   atomic.Int64 // nodes, as in nodesFile
}

// openShared connects the node to the others, if Redis is configured. A Redis
// that is away is no error: the node begins alone.
func (s *site) openShared(context.Context) error {
	if !s.loaded.Redis.On() {
		return nil
	}
	made, err := newShared(s, s.loaded.Redis)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	s.shared = made
	return nil
}

func newShared(s *site, c config.Redis) (*shared, error) {
	encryption, err := redisTLS(c)
	if err != nil {
		return nil, err
	}
	policy := s.loaded.Policy()
	made := new(shared)
	made.before.Store(readNodes(s.path(nodesFile)))
	made.client = nodes.Connect(nodes.Server{
		Addresses: c.Addresses, Cluster: c.Mode == config.RedisCluster, Master: c.Master,
		Username: c.Username, Password: c.Password.Reveal(),
		SentinelUsername: c.SentinelUsername, SentinelPassword: c.SentinelPassword.Reveal(),
		TLS: encryption, Database: c.Database,
	}, c.Timeout)
	made.line = nodes.NewLine(made.client, c.Timeout, s.log, s.redisChanged)
	made.places, err = redisplaces.New(made.client, redisplaces.Options{Prefix: c.Prefix, Limits: policy.Places})
	if err != nil {
		return nil, err
	}
	made.known = nodes.NewPlaces(made.line, made.places, s.places)
	made.failures, err = redisfailures.New(made.client, redisfailures.Options{
		Prefix: c.Prefix, Retain: policy.Retain(), PendingFor: policy.PendingFor, Places: made.places,
	})
	if err != nil {
		return nil, err
	}
	made.counters = nodes.NewCounters(nodes.CountersConfig{
		Line: made.line, Redis: made.failures, Places: made.known, Own: s.counters,
		Generations: nodes.NewGenerations(made.client, c.Prefix, c.Mode == config.RedisCluster),
		Nodes:       made.nodes,
		Lost:        func(ctx context.Context) { _ = made.agree(ctx, s.keys.Fingerprint(), c.Prefix+"keys") },
	})
	made.used = nodes.NewSpent(redisspent.New(made.client, c.Prefix+"c:"))
	made.settled = nodes.NewSpent(redisspent.New(made.client, c.Prefix+"s:"))
	made.settled.Strict = true // a ticket that nobody settled is pressure (R20)
	return made, nil
}

// join makes the mode that of all nodes.
func (r *shared) join(mode *captchamode.Mode, prefix string) (err error) {
	r.mode, err = redisstore.NewMode(r.client, mode, redisstore.ModeOptions{Prefix: prefix, OnError: func(err error) {
		if err == nil {
			r.met.Store(true)
		}
	}})
	return err
}

// nodes is how many were last seen: before this process began, if Redis has not
// answered it yet.
func (r *shared) nodes() int {
	if r.mode == nil || !r.met.Load() {
		return int(r.before.Load())
	}
	return r.mode.Nodes()
}

// nodesFile is where a node writes down how many there were: one that starts
// while Redis is away must not take itself for the only one.
const nodesFile = "nodes"

func readNodes(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 1 || n > 10_000 {
		return 1
	}
	return n
}

func (r *shared) saveNodes(path string) error {
	n := int64(r.nodes())
	if n == r.before.Swap(n) {
		return nil
	}
	return os.WriteFile(path, []byte(strconv.FormatInt(n, 10)+"\n"), 0o600)
}

func (r *shared) gauges() *control.RedisGauges {
	return &control.RedisGauges{
		Up: r.line.Up, Failures: r.line.Failures, Unheard: r.counters.Unheard, Nodes: r.nodes,
		Closed: func() uint64 { return r.failures.Counts().Closed },
	}
}

// redisTLS is the encryption that the configuration asks for; nil for none.
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
			return nil, fmt.Errorf("tls_ca: %s holds no PEM certificate", c.TLSCA)
		}
	}
	if c.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("tls_cert: %w", err)
		}
		made.Certificates = []tls.Certificate{pair}
	}
	return made, nil
}

// Kinds of alerts about Redis.
const (
	redisLost alerts.Kind = "redis-lost"
	redisBack alerts.Kind = "redis-back"
)

// redisChanged tells administrators that this node counts alone, or no longer.
func (s *site) redisChanged(up bool, why error) {
	name, _ := os.Hostname()
	if up {
		go s.shared.reload() // another server may have taken over
		s.alerts.Raise(redisBack, "Redis is back", "node "+alerts.Name(name)+" counts together with the others again")
		return
	}
	s.alerts.Raise(redisLost, "Redis cannot be used", fmt.Sprintf(
		"node %s counts alone, with what is left of the limits divided by the nodes; known places still pass.\nRedis: %s",
		alerts.Name(name), alerts.Name(why.Error())))
}

// warn is for the overview.
func (s *site) warn() []control.Warning {
	if s.shared == nil || s.shared.line.Up() {
		return nil
	}
	since, why := s.shared.line.State()
	return []control.Warning{{
		Code: "redis-lost", Title: "This node counts alone",
		Text: fmt.Sprintf("Redis cannot be used since %s: %v. Known places still pass, and of each limit this node has its part. "+
			"authguard doctor says what may be wrong.", since.UTC().Format(time.RFC3339), why),
	}}
}

// loadWithin bounds the loading of scripts at the start.
const loadWithin = 2 * time.Second

// start begins to look after the connection. The scripts are loaded where
// Redis is there; where it is not, they are sent when it comes.
func (r *shared) start(ctx context.Context, guard *guard.Guard, keys secrets.Keys, prefix string) error {
	r.line.Start()
	ctx, cancel := context.WithTimeout(ctx, loadWithin)
	defer cancel()
	if err := r.agree(ctx, keys.Fingerprint(), prefix+"keys"); err != nil {
		r.line.Stop()
		return err
	}
	guard.Foresee(r.failures.Prepare)
	r.reload()
	r.met.Store(r.mode.Flush(ctx) == nil) // an attack that goes on does so here too
	r.failures.Start()
	r.places.Start()
	r.flushing.Start(r.mode.Run)
	return nil
}

// reload makes the scripts known to whoever is master now.
func (r *shared) reload() {
	ctx, cancel := context.WithTimeout(context.Background(), loadWithin)
	defer cancel()
	_ = errors.Join(r.failures.Load(ctx), r.places.Load(ctx)) // spares the first calls a trip, and nothing else
}

// agree compares this node's keys with those of whoever uses this Redis: with
// others it would count by itself. A Redis that is away says nothing.
func (r *shared) agree(ctx context.Context, own, key string) error {
	if err := r.client.SetNX(ctx, key, own, keysLive).Err(); err != nil {
		return nil
	}
	theirs, err := r.client.Get(ctx, key).Result()
	switch {
	case err != nil:
		return nil
	case theirs == own:
		_ = r.client.Expire(ctx, key, keysLive) // a Line says what is wrong with Redis
		return nil
	case !secrets.Agrees(own, theirs):
		return fmt.Errorf("redis: the keys files of the nodes differ: this node's has the fingerprint %s, others use this Redis with %s. "+
			"Copy the keys file of a node that serves; or set redis.prefix to something else if this is another site; "+
			"or, if no node has the other keys any more, delete the key %s in Redis", own, theirs, key)
	}
	return r.client.Set(ctx, key, own, keysLive).Err() // it has only got newer cookie keys
}

// keysLive is how long the fingerprint stays after the last node has started.
const keysLive = 90 * 24 * time.Hour

func (r *shared) stop() error {
	r.flushing.Stop()
	r.places.Stop()
	r.failures.Stop()
	r.line.Stop()
	return r.client.Close()
}

// The stores of the guard: this node's, or those of all.

func (s *site) failureStore() failures.Store {
	if s.shared != nil {
		return s.shared.counters
	}
	return s.counters
}

func (s *site) placeStore() trusted.Store {
	if s.shared != nil {
		return s.shared.known
	}
	return s.places
}

func (s *site) spentStore() challenge.Spent {
	if s.shared != nil {
		return s.shared.used
	}
	return challenge.NewMemorySpent(0, nil)
}

func (s *site) settledStore() challenge.Spent {
	if s.shared != nil {
		return s.shared.settled
	}
	return challenge.NewMemorySpent(0, nil)
}
