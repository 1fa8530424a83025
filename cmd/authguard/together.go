package main

import (
	"context"
	"errors"
	"fmt"

	"authguard/internal/config"
	"authguard/internal/database"
	"authguard/internal/redisstore"
)

// inRedis marks a database whose nodes count in Redis.
const inRedis = "redis"

// errNoRedis means that the nodes of a database count in Redis, and this one does not.
var errNoRedis = errors.New("redis: is not set, but the nodes of this database count in Redis")

// together checks that a node would count in the same store as the other nodes of its database. An unavailable Redis is
// no error: the node starts with its share of the limits.
func (s *stored) together(ctx context.Context) error {
	r := s.loaded.Redis
	if !r.On() {
		return s.withoutRedis(ctx)
	}
	client, err := connectRedis(r, nil)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	defer client.Close()
	fingerprint := ""
	if s.hasKeys {
		fingerprint = s.keys.Fingerprint()
	}
	signed, _, err := redisstore.Look(ctx, client, r.Prefix)
	if err != nil {
		return nil
	}
	if err := redisstore.Compare(signed, fingerprint, r.Prefix); err != nil || s.db == nil {
		return err
	}
	return elsewhere(s.loaded, database.Elsewhere(ctx, s.db, func(ctx context.Context) (string, error) {
		_, name, err := redisstore.Look(ctx, client, r.Prefix)
		return name, err
	}))
}

func (s *stored) withoutRedis(ctx context.Context) error {
	if s.db == nil {
		return nil
	}
	err := database.Elsewhere(ctx, s.db, func(context.Context) (string, error) { return database.FolderName(s.loaded.Data), nil })
	if err != nil || !s.current {
		return elsewhere(s.loaded, err)
	}
	if marked, err := database.Marked(ctx, s.db, inRedis); err != nil || !marked {
		return err
	}
	return fmt.Errorf("%w, so attackers would get each limit twice. Set redis: as on the other nodes, or, to use one "+
		"node without Redis from now on, stop the others and run: authguard serve --allow-data-loss", errNoRedis)
}

// elsewhere adds a remedy to database.ErrElsewhere and returns other errors unchanged.
func elsewhere(loaded *config.Loaded, err error) error {
	if !errors.Is(err, database.ErrElsewhere) {
		return err
	}
	how := "in another Redis, under another redis.prefix or without Redis"
	if !loaded.Redis.On() {
		how = "and this one has no redis: setting"
	}
	return fmt.Errorf("%w, %s, so attackers would get each limit twice. "+
		"Give all nodes the same redis: settings, or stop the other nodes first", err, how)
}
