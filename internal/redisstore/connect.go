package redisstore

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Server says where Redis is. The zero values of all but Addresses are one
// server without a password.
type Server struct {
	// Addresses are host:port: of the server, of any of a Cluster's nodes, or
	// of the Sentinels.
	Addresses []string
	// Cluster is for a Redis Cluster.
	Cluster bool
	// Master is how the Sentinels call the master; empty without Sentinels.
	Master string

	Username, Password string
	// SentinelUsername and SentinelPassword are for the Sentinels themselves.
	SentinelUsername, SentinelPassword string
	// TLS encrypts the connections; nil: plain.
	TLS *tls.Config
	// Database is a number; a Cluster has only 0.
	Database int
	// Timed is told of each trip, when it ends, how long it took. It must not block. Nil:
	// nobody is told.
	Timed func(ctx context.Context, took time.Duration)
}

// connections to each server at most: every one of them waits for one answer,
// and Redis gives tens of thousands a second.
const connections = 64

// Connect makes a client that waits as long as patience for a connection and
// for an answer. It sends nothing yet, and is the caller's to close. No command
// is ever sent twice: a charge would count twice.
func Connect(s Server, patience time.Duration) redis.UniversalClient {
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: s.Addresses, IsClusterMode: s.Cluster, MasterName: s.Master, DB: s.Database,
		Username: s.Username, Password: s.Password,
		SentinelUsername: s.SentinelUsername, SentinelPassword: s.SentinelPassword, TLSConfig: s.TLS,
		MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: connections,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
		DialerRetries: 1, DisableIdentity: true,
	})
	if s.Timed != nil {
		client.AddHook(timed(s.Timed))
	}
	return client
}

// timed is a hook around every command and pipeline.
type timed func(ctx context.Context, took time.Duration)

// DialHook leaves dialling alone: it is part of the trip that needs it.
func (timed) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (t timed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer t.since(ctx, time.Now())
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (t timed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer t.since(ctx, time.Now())
		return next(ctx, cmds)
	}
}

func (t timed) since(ctx context.Context, began time.Time) { t(ctx, time.Since(began)) }
