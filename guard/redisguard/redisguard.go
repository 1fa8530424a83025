// Package redisguard has the processes of a Go site, on however many machines, act as
// one in a Redis: the same limits to the last guess, the same known places and CAPTCHA
// mode, each challenge solved once.
//
//	g, err := redisguard.Default(secret, redisguard.Config{Server: redisguard.Server{Addresses:
//
// []string{"redis.internal:6379"}}})
//
// Losing Redis is a degradation (R22): within Config.Timeout each process goes on by
// itself with its part of the limits, and they count together again when Redis is
// back. docs/operations.md says what each loss costs, and which rights a user in Redis
// needs. A program that imports this links go-redis; package guard alone does not.
package redisguard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/captchamode"
	"authguard/failures"
	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/nodes"
	"authguard/internal/redisstore"
	"authguard/trusted"
)

// A Server says where Redis is: Addresses, and for a Cluster, Sentinels, TLS or a
// password the other fields.
type Server = redisstore.Server

// Config is what Default needs. All but Server may be left out.
type Config struct {
	Server
	// Prefix begins the name of every key; default "ag:". Sites that share a Redis
	// have one each. It must not hold a brace.
	Prefix string
	// Timeout is how long one trip to Redis may take before this process goes on
	// alone; default 250 ms.
	Timeout time.Duration
	// Nodes is how many processes there are, for one that starts while Redis is away;
	// default 2. Otherwise they are counted.
	Nodes int
	// Log is told when Redis is lost and back; default slog.Default().
	Log *slog.Logger
	// OnChange is told, too, and must not block. Nil: nobody is.
	OnChange func(up bool, why error)
}

// ErrSecret means that other processes use this Redis, with this prefix, with another
// secret: each would count by itself.
var ErrSecret = errors.New("redisguard: other processes use this Redis with another secret: use the same secret, or " +
	"another Prefix")

// Default is guard.Default for one of several processes that have the same secret and
// the same policy. A Redis that is away is no error: the process begins alone. The
// clocks of the machines must be right to a second or so. Close the guard to leave the
// others; Folder is not for it, since Redis keeps what is counted. A change that makes
// challenges of its own finds Defaults.Spent set: it is to be theirs.
func Default(secret []byte, c Config, change ...func(*guard.Defaults)) (*guard.Guard, error) {
	if len(c.Addresses) == 0 {
		return nil, errors.New(`redisguard: Addresses: must name a server, such as "127.0.0.1:6379"`)
	}
	c.Prefix, c.Timeout, c.Nodes = cmp.Or(c.Prefix, redisstore.DefaultPrefix), cmp.Or(c.Timeout, nodes.DefaultBudget),
		cmp.Or(c.Nodes, 2)
	client := redisstore.Connect(c.Server, c.Timeout)
	spent := func(d *guard.Defaults) { d.Spent = nodes.NewSpent(redisstore.NewSpent(client, c.Prefix+"c:"), nil) }
	join := func(d *guard.Defaults) { d.Fail(c.join(d, client)) }
	g, err := guard.Default(secret, slices.Concat([]func(*guard.Defaults){spent}, change,
		[]func(*guard.Defaults){join})...)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return g, nil
}

// join has the parts of a guard share what they know with the other nodes'.
func (c Config) join(d *guard.Defaults, client redis.UniversalClient) error {
	switch {
	case d.Store != nil || d.Folder != "":
		return errors.New("redisguard: Store and Folder: must not be set, because Redis has the counters")
	case len(d.Secret) < 16 || d.Policy.Validate() != nil:
		return nil // which guard.Default says
	}
	return c.share(d, client)
}

func (c Config) share(d *guard.Defaults, client redis.UniversalClient) (err error) {
	if err := c.agree(client, d.Secret); err != nil {
		return err
	}
	counters, err := failures.NewMemory(failures.Config{Retain: d.Policy.Retain(), PendingFor: d.Policy.CheckTimeout})
	if err != nil {
		return err
	}
	places, err := trusted.NewMemory(trusted.MemoryConfig{Limits: d.Policy.KnownClients})
	if err != nil {
		return err
	}
	if d.Mode == nil {
		if d.Mode, err = captchamode.NewMode(captchamode.DefaultConfig(), d.Now, nil); err != nil {
			return err
		}
	}
	mode, seen, err := c.joinMode(client, d)
	if err != nil {
		return err
	}
	store, err := nodes.New(nodes.Config{
		Client: client, Counters: counters, KnownClients: places, Nodes: seen, Budget: c.Timeout,
		Log: c.Log, OnChange: c.OnChange,
		Redis: redisstore.Options{Prefix: c.Prefix, PendingFor: d.Policy.CheckTimeout, KnownClients: d.Policy.KnownClients},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := store.Redis().Probe(ctx); errors.Is(err, redisstore.ErrApart) {
		return err
	}
	d.Store = store
	addresses := redisstore.Addresses{Store: store.Redis()}
	if d.SharedAddresses, err = trusted.NewSharedAddresses(d.Policy.KnownClients, addresses); err != nil {
		return err
	}
	d.Background = append(d.Background, func(ctx context.Context) {
		var group background.Group
		for _, run := range []func(context.Context){
			counters.Run, store.Run, mode.Run, d.Mode.Run,
		} {
			group.Start(run)
		}
		<-ctx.Done()
		group.Stop()
		_ = client.Close() // nothing more is sent
	})
	return nil
}

// joinMode makes the mode one of the site's, with what the other nodes know. seen is
// how many nodes there are.
func (c Config) joinMode(client redis.UniversalClient,
	d *guard.Defaults) (mode *redisstore.Mode, seen func() int, err error) {
	prefix := c.Prefix
	if d.Realm != "" {
		prefix += "realm:" + d.Realm + ":"
	}
	met := new(atomic.Bool) // Redis has answered
	mode, err = redisstore.NewMode(client, d.Mode, redisstore.ModeOptions{Prefix: prefix, OnError: func(err error) {
		if err == nil {
			met.Store(true)
		}
	}})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	met.Store(mode.Flush(ctx) == nil)
	return mode, func() int {
		if !met.Load() {
			return c.Nodes
		}
		return mode.Nodes()
	}, nil
}

// secretLives is how long the mark of a secret stays after the last process has begun.
const secretLives = 90 * 24 * time.Hour

// agree compares the secret with that of the other processes, by a digest of it. A
// Redis that is away says nothing.
func (c Config) agree(client redis.UniversalClient, secret []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	sum := sha256.Sum256(append([]byte("authguard library secret "), secret...))
	own, key := hex.EncodeToString(sum[:8]), c.Prefix+"secret"
	if err := client.SetNX(ctx, key, own, secretLives).Err(); err != nil {
		return nil
	}
	if theirs, err := client.Get(ctx, key).Result(); err == nil && theirs != own {
		return ErrSecret
	}
	_ = client.Expire(ctx, key, secretLives).Err()
	return nil
}
