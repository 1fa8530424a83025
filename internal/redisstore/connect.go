package redisstore

import (
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
}

// connections to each server at most: every one of them waits for one answer,
// and Redis gives tens of thousands a second.
const connections = 64

// Connect makes a client that waits as long as patience for a connection and
// for an answer. It sends nothing yet, and is the caller's to close. No command
// is ever sent twice: a charge would count twice.
func Connect(s Server, patience time.Duration) redis.UniversalClient {
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: s.Addresses, IsClusterMode: s.Cluster, MasterName: s.Master, DB: s.Database,
		Username: s.Username, Password: s.Password,
		SentinelUsername: s.SentinelUsername, SentinelPassword: s.SentinelPassword, TLSConfig: s.TLS,
		MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: connections,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
		DialerRetries: 1, DisableIdentity: true,
	})
}
