// Package redisguard connects the processes of a Go site through Redis, on one or more machines. They share exact
// limits, known clients and CAPTCHA mode, and each challenge is solved once.
//
//	g, err := redisguard.Default(secret, redisguard.Config{
//		Server: redisguard.Server{Addresses: []string{"redis.internal:6379"}},
//	})
//
// Without Redis the site degrades (R22): within Config.Timeout each process continues alone with its part of the
// limits. When Redis is back they count together again. docs/how-to/several-nodes.md has the price of each loss, and the
// rights that a Redis user needs. A program that imports this package links go-redis; package guard alone does not.
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

// Server is how to reach Redis: Addresses, and the other fields for a Cluster, Sentinels, TLS or a password.
type Server = redisstore.Server

// Config configures Default. Only Server is required.
type Config struct {
	Server
	// Prefix begins the name of every key; default "ag:". Sites that share a Redis need different ones, without braces.
	Prefix string
	// Timeout is how long one trip to Redis may take before this process continues alone; default 250 ms.
	Timeout time.Duration
	// Nodes is how many processes there are, for a start without Redis; default 2. Otherwise they are counted.
	Nodes int
	// Log gets the loss and the return of Redis; default slog.Default().
	Log *slog.Logger
	// OnChange gets them, too. It must not block. May be nil.
	OnChange func(up bool, why error)
}

// ErrSecret means that other processes use this Redis and Prefix with another secret: their counts would be separate.
var ErrSecret = errors.New("redisguard: other processes use this Redis with another secret: use the same secret, or " +
	"another Prefix")

// Default is guard.Default for one of several processes with the same secret and policy. If Redis is down, the process
// starts alone, without an error. The machines' clocks must agree to a second or so. Close the guard to leave the
// others. Store and Folder must not be set: Redis has the counters. A change that sets Challenges has to use
// Defaults.Spent.
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

// join connects the parts of a guard with the other nodes.
func (c Config) join(d *guard.Defaults, client redis.UniversalClient) error {
	switch {
	case d.Store != nil || d.Folder != "":
		return errors.New("redisguard: Store and Folder: must not be set, because Redis has the counters")
	case len(d.Secret) < 16 || d.Policy.Validate() != nil:
		return nil // guard.Default returns the error
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
		group := new(background.Group)
		group.Add(background.Close(client.Close)) // nothing more is sent then
		for _, run := range []func(context.Context){
			counters.Run, store.Run, mode.Run, d.Mode.Run,
		} {
			group.Add(background.Run(run))
		}
		_ = group.Start(ctx)
		<-ctx.Done()
		_ = group.Stop()
	})
	return nil
}

// joinMode connects CAPTCHA mode with the other nodes'. seen returns the number of nodes.
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

// secretLives is how long the digest of a secret stays after the last start of a process.
const secretLives = 90 * 24 * time.Hour

// agree compares a digest of the secret with the other processes'. Without Redis it is no error.
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
