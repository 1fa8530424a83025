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

// Connect makes a client whose commands may take as long as the budget (0:
// DefaultBudget). It sends nothing yet, and is the caller's to close. No command
// is ever sent twice: a charge would count twice.
func Connect(s Server, budget time.Duration) redis.UniversalClient {
	if budget <= 0 {
		budget = DefaultBudget
	}
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: s.Addresses, IsClusterMode: s.Cluster, MasterName: s.Master, DB: s.Database,
		Username: s.Username, Password: s.Password,
		SentinelUsername: s.SentinelUsername, SentinelPassword: s.SentinelPassword, TLSConfig: s.TLS,
		MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: connections,
		DialTimeout: budget, ReadTimeout: budget, WriteTimeout: budget, PoolTimeout: budget,
		DialerRetries:   1,
		DisableIdentity: true,
	})
}
