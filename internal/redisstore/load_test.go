package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Load makes the scripts known to the server, or to every master of a Cluster.
// Without it the first run of each takes a second trip.
func (s *Store) Load(ctx context.Context) error {
	return load(ctx, s.client, chargeScript, takeBackScript, knownClientsScript, spendScript)
}

// load makes scripts known to the server, or to every master of a Cluster. It
// spares the first run of each its second trip.
func load(ctx context.Context, client redis.UniversalClient, scripts ...*script) error {
	one := func(ctx context.Context, server redis.Cmdable) error {
		_, err := server.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, s := range scripts {
				pipe.ScriptLoad(ctx, s.text)
			}
			return nil
		})
		return err
	}
	var err error
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return one(ctx, c) })
	} else {
		err = one(ctx, client)
	}
	if err != nil {
		return fmt.Errorf("redisstore: loading scripts: %w", err)
	}
	return nil
}

var TakeBackDigest = takeBackScript.digest
