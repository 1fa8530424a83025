package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/internal/seal"
)

// Layout is the number of the layout of keys and values. Raise it with every change that nodes of
// two versions would read differently.
const Layout = 1

// ErrApart means that this node must not count in this Redis: nodes with another layout or other
// keys use it, so each limit would count twice.
var ErrApart = errors.New("redis: this node cannot share counters with the others")

// signLives is how long the signature is kept after the last node has started.
const signLives = 90 * 24 * time.Hour

// SignKey is the key of the nodes' signature: "LAYOUT FINGERPRINT". Versions without layouts expect
// the fingerprint alone and refuse this text.
func SignKey(prefix string) string { return prefix + "keys" }

func signature(fingerprint string) string { return strconv.Itoa(Layout) + " " + fingerprint }

// Compare returns nil if a node with these keys can share a Redis with this signature, otherwise
// ErrApart with what to do. Without a signature every node can; without a fingerprint it compares
// the layout alone.
func Compare(signed, fingerprint, prefix string) error {
	if signed == "" {
		return nil
	}
	layout, theirs, found := strings.Cut(signed, " ")
	if !found {
		layout, theirs = "without a number", signed
	}
	switch {
	case layout != strconv.Itoa(Layout):
		return fmt.Errorf("%w: another version of authguard uses prefix %q (key layout %s; this version's: %d). "+
			"Run one version on all nodes, or set another redis.prefix", ErrApart, prefix, layout, Layout)
	case fingerprint != "" && theirs != "" && theirs != fingerprint && !seal.Agrees(fingerprint, theirs):
		return fmt.Errorf("%w: the keys files of the nodes differ: this node's has the fingerprint %s, others use this "+
			"Redis with %s. "+
			"Copy the keys file of a running node; set another redis.prefix if this is another site; "+
			"or, if no node uses the other keys any more, delete the key %s in Redis", ErrApart, fingerprint, theirs,
			SignKey(prefix))
	}
	return nil
}

// lifeKey is the key of a text that is lost with all other data of a master.
func lifeKey(prefix string, i int) string { return prefix + "life" + strconv.Itoa(i) }

// Look reads the nodes' signature, for Compare, and the store's name, which changes when Redis
// loses its data. Both are empty if no node has used it. It writes nothing.
func Look(ctx context.Context, client redis.UniversalClient, prefix string) (signed, store string, err error) {
	pipe := client.Pipeline()
	signature, life := pipe.Get(ctx, SignKey(prefix)), pipe.Get(ctx, lifeKey(prefix, 0))
	_, _ = pipe.Exec(ctx)
	for _, cmd := range []*redis.StringCmd{signature, life} {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return "", "", fmt.Errorf("redisstore: looking for other nodes: %w", err)
		}
	}
	return signature.Val(), life.Val(), nil
}

// Name is the store's name as of the last Probe; see Look. It is empty before.
func (s *Store) Name() string {
	name, _ := s.name.Load().(string)
	return name
}

// probes is the number of keys that a probe writes in a Cluster: enough for some on every master.
const probes = 64

// Probe checks that Redis, and every master of a Cluster, takes writes; that this node may count
// there (ErrApart); and whether data was lost since the last Probe (Options.OnEmptied). It is not
// safe for concurrent use.
func (s *Store) Probe(ctx context.Context) error {
	cluster, many := s.client.(*redis.ClusterClient)
	life := rand.Text()
	pipe := s.client.Pipeline()
	pipe.Do(ctx, "set", SignKey(s.prefix), signature(s.options.Keys), "nx", "px", signLives.Milliseconds())
	signed := pipe.Get(ctx, SignKey(s.prefix))
	var lives []*redis.StringCmd
	for i := range probes {
		if i == 0 || many {
			key := lifeKey(s.prefix, i)
			pipe.Do(ctx, "set", key, life, "nx")
			lives = append(lives, pipe.Get(ctx, key))
		}
	}
	cmds, _ := pipe.Exec(ctx)
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			if many {
				cluster.ReloadState(ctx) // another master may have taken over
			}
			return fmt.Errorf("redisstore: probing: %w", err)
		}
	}
	s.emptied(lives)
	if s.options.Refused != nil {
		if refused := s.options.Refused(); refused != nil {
			return fmt.Errorf("%w: %w", ErrApart, refused)
		}
	}
	return Compare(signed.Val(), s.options.Keys, s.prefix)
}

// emptied compares the masters' texts with those of the last probe.
func (s *Store) emptied(lives []*redis.StringCmd) {
	lost := false
	for i, life := range lives {
		lost = lost || s.lives[i] != "" && s.lives[i] != life.Val()
		s.lives[i] = life.Val()
	}
	s.name.Store(s.lives[0])
	s.seen.Store(strings.TrimSpace(strings.Join(s.lives[:], " ")))
	if lost && s.options.OnEmptied != nil {
		s.options.OnEmptied()
	}
}

// Seen identifies the data that the last Probe found. Before the first Probe, it returns Options.Seen.
func (s *Store) Seen() string { return s.seen.Load().(string) }

// Sign writes this node's signature, because its cookie keys may be newer. Probe first.
func (s *Store) Sign(ctx context.Context) error {
	return s.client.Set(ctx, SignKey(s.prefix), signature(s.options.Keys), signLives).Err()
}
