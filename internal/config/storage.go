package config

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/internal/redisstore"
)

// DSN returns the database: PostgreSQL's DSN, or the SQLite file in the data folder.
func (c Config) DSN() string {
	return cmp.Or(c.Database.Reveal(), filepath.Join(c.Data, "authguard.db"))
}

// KeysPath returns the path of the keys file.
func (c Config) KeysPath() string { return cmp.Or(c.KeysFile, filepath.Join(c.Data, "keys")) }

// Encryption returns the TLS configuration of the settings; nil for none.
func (r Redis) Encryption() (*tls.Config, error) {
	if !r.TLS {
		return nil, nil
	}
	made := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.TLSCA != "" {
		pem, err := os.ReadFile(r.TLSCA)
		if err != nil {
			return nil, fmt.Errorf("tls_ca: %w", err)
		}
		made.RootCAs = x509.NewCertPool()
		if !made.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls_ca: %s contains no PEM certificate", r.TLSCA)
		}
	}
	if r.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(r.TLSCert, r.TLSCert)
		if err != nil {
			return nil, fmt.Errorf("tls_cert: %w", err)
		}
		made.Certificates = []tls.Certificate{pair}
	}
	return made, nil
}

// Connect returns a client of the settings. It sends nothing yet. timed, unless nil, gets the duration of each round
// trip.
func (r Redis) Connect(timed func(context.Context, time.Duration)) (redis.UniversalClient, error) {
	encryption, err := r.Encryption()
	if err != nil {
		return nil, err
	}
	return redisstore.Connect(redisstore.Server{
		Addresses: r.Addresses, Cluster: r.Mode == RedisCluster, Master: r.Master,
		Username: r.Username, Password: r.Password.Reveal(),
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword.Reveal(),
		TLS: encryption, Timed: timed,
	}, r.Timeout), nil
}
