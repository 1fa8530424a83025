package nodes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/trusted"
	"authguard/trusted/redisplaces"
)

const (
	slots = 16384
	// groups are as many parts as a Cluster is watched in: a part is 256
	// neighbouring slots, which live on one master or at most move together.
	groups = 64
	// generationLives is how long a generation that nobody looks at is kept.
	generationLives = 7 * 24 * time.Hour
)

// Generations tell whether Redis has lost its memory. A generation is a random
// name that the first node to find none gives to what Redis remembers. Another
// name, or none, means that what came before it is gone. A single server has
// one; a Cluster has one for every 256 slots. Safe for concurrent use.
type Generations struct {
	client redis.UniversalClient
	keys   []string

	mu    sync.Mutex
	last  []string    // by group; empty: never seen
	since []time.Time // when that took the place of another one
}

// youngFor is how long it may take all nodes to notice a new generation and to
// tell Redis again what they know.
const youngFor = 3 * time.Second

// NewGenerations makes them for a realm's prefix. Nothing is sent yet.
func NewGenerations(client redis.UniversalClient, prefix string, cluster bool) *Generations {
	g := &Generations{client: client, keys: []string{prefix + "generation"}}
	if cluster {
		g.keys = keysOfGroups(prefix)
	}
	g.last, g.since = make([]string, len(g.keys)), make([]time.Time, len(g.keys))
	return g
}

// keysOfGroups are names with a tag in every group of slots.
func keysOfGroups(prefix string) []string {
	keys := make([]string, groups)
	for i, left := 0, groups; left > 0; i++ {
		tag := strconv.Itoa(i)
		if at := groupOfTag(tag); keys[at] == "" {
			keys[at] = prefix + "generation{" + tag + "}"
			left--
		}
	}
	return keys
}

// Of is the group that an account's or a network's keys are in.
func (g *Generations) Of(place [16]byte) int {
	if len(g.keys) == 1 {
		return 0
	}
	tag := redisplaces.Tag(trusted.Key(place))
	return groupOfTag(tag[1 : len(tag)-1])
}

// A generation that is not the one that was seen last.
type newer struct {
	group int
	name  string
}

// Look names and refreshes every generation, which takes a write on every
// master, and tells which are new to this node. One that it had never seen is
// not: there was nothing to lose.
func (g *Generations) Look(ctx context.Context) ([]newer, error) {
	pipe := g.client.Pipeline()
	told := make([]*redis.StringCmd, len(g.keys))
	name := rand.Text()
	for i, key := range g.keys {
		pipe.SetNX(ctx, key, name, generationLives)
		pipe.Expire(ctx, key, generationLives)
		told[i] = pipe.Get(ctx, key)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		if cluster, ok := g.client.(*redis.ClusterClient); ok {
			cluster.ReloadState(ctx) // another master may have taken over
		}
		return nil, fmt.Errorf("nodes: looking at Redis: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var changed []newer
	for i, one := range told {
		switch now := one.Val(); {
		case now == "":
			return nil, errors.New("nodes: looking at Redis: a key that was just written is gone")
		case g.last[i] == "":
			g.last[i] = now
		case g.last[i] != now:
			changed = append(changed, newer{i, now})
		}
	}
	return changed, nil
}

// Changed reports whether what Redis knows of a place is of a generation that
// this node has not seen, or of none. If Redis does not say, it is not.
func (g *Generations) Changed(ctx context.Context, place [16]byte) bool {
	group := g.Of(place)
	now, err := g.client.Get(ctx, g.keys[group]).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last[group] != "" && g.last[group] != now
}

// Adopt makes generations the ones that were seen last: this node has told
// Redis again what it knew.
func (g *Generations) Adopt(changed []newer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range changed {
		g.last[one.group], g.since[one.group] = one.name, time.Now()
	}
}

// Young reports whether what Redis knows of a place is of a generation so new
// that other nodes may not have told it everything yet.
func (g *Generations) Young(place [16]byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Since(g.since[g.Of(place)]) < youngFor
}

func groupOfTag(tag string) int { return int(crc16(tag)) % slots / (slots / groups) }

// crc16 is the CRC-16/XMODEM by which a Cluster finds a key's slot (Redis
// Cluster specification, appendix A).
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}
