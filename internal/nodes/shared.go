package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/redisstore"
)

// SharedConfig configures a Shared. Open sets Nodes and Redis.OnEmptied.
type SharedConfig struct {
	Config
	Clock *Clock
	// File keeps the number of nodes, because a node that starts while Redis is unavailable must not assume that it is
	// alone, and Store.Seen, because Redis may lose its data while no node runs.
	File string
	// OnEmptied is called when Redis has lost its data, with how often since the start; at most once in 10 minutes.
	OnEmptied func(times int64)
}

// Shared is everything that the nodes of a site share over Redis. It is safe for concurrent use.
type Shared struct {
	*Store
	Used     *Spent            // challenges
	Settled  *Spent            // tickets of the decision API
	Sessions *redisstore.Spent // claims of apps' sessions behind the proxy

	config SharedConfig
	mode   *redisstore.Mode // the default realm's, once joined

	losses      atomic.Int64 // how often Redis has lost its data
	lastEmptied atomic.Int64 // time of the last OnEmptied, in milliseconds

	met    atomic.Bool  // Redis has answered
	before atomic.Int64 // number of nodes in the file
	saved  string       // the file, as last written
	peak   peak         // of the number of nodes
}

// Open connects the node to the others. An unavailable Redis is no error: the node starts with its local store.
func Open(ctx context.Context, c SharedConfig) (s *Shared, err error) {
	s = &Shared{config: c}
	text, _ := os.ReadFile(c.File)
	n, seen, _ := strings.Cut(string(text), "\n")
	s.before.Store(parseNodes(n))
	c.Redis.Seen, s.saved = seen, string(text)
	c.Clock.Sources = append([]TimeSource{{Name: "Redis", Ask: func(ctx context.Context) (time.Time, error) {
		return c.Client.Time(ctx).Result()
	}}}, c.Clock.Sources...)
	c.Clock.Look(ctx) // Redis's time comes first: tickets carry it
	c.Nodes, c.Redis.OnEmptied = s.shares, s.emptied
	if s.Store, err = New(c.Config); err != nil {
		return nil, err
	}
	spent := func(of string) *Spent {
		return NewSpent(redisstore.NewSpent(c.Client, c.Redis.Prefix+of), c.Clock.Now)
	}
	s.Used, s.Settled = spent("c:"), spent("s:")
	s.Sessions = redisstore.NewSpent(c.Client, c.Redis.Prefix+"p:")
	s.Settled.Strict = true // an unsettled ticket raises the failure rate (R20)
	return s, nil
}

// Join shares the mode of a realm. The Part first reads its state on the other nodes, so that an ongoing attack
// continues here.
func (s *Shared) Join(realm string, mode *captchamode.Mode) (background.Part, error) {
	own, options := realm == guard.DefaultRealm, redisstore.ModeOptions{Prefix: s.config.Redis.Prefix}
	if own {
		options.OnError = func(err error) {
			if err == nil {
				s.met.Store(true)
			}
		}
	} else {
		options.Prefix += "realm:" + realm + ":"
	}
	joined, err := redisstore.NewMode(s.config.Client, mode, options)
	if err != nil {
		return nil, err
	}
	if own {
		s.mode = joined
	}
	part := new(background.Group)
	part.Add(background.Ready(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if answered := joined.Flush(ctx) == nil; own {
			s.met.Store(answered)
		}
		return nil
	}), background.Run(joined.Run))
	return part, nil
}

// Agree checks that this node can count together with the other nodes of this Redis: one with another version or other
// keys would count separately. The error is redisstore.ErrApart. An unavailable Redis is no error; the store compares
// when it is back.
func (s *Shared) Agree(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := s.redis.Probe(ctx)
	if errors.Is(err, redisstore.ErrApart) {
		return err
	}
	if err == nil {
		_ = s.redis.Sign(ctx) // the breaker reports Redis's errors
	}
	return nil
}

// emptiedAgain is the minimum time between two calls of OnEmptied.
const emptiedAgain = 10 * time.Minute

func (s *Shared) emptied() {
	times, now := s.losses.Add(1), s.config.Clock.Now()
	s.config.Log.Error("Redis has lost its data: every limit counts from zero again", "times", times)
	if last := s.lastEmptied.Load(); last != 0 && now.Sub(time.UnixMilli(last)) < emptiedAgain {
		return
	}
	s.lastEmptied.Store(now.UnixMilli())
	s.config.OnEmptied(times)
}

// Nodes returns the last known number of nodes: from the file until Redis answers.
func (s *Shared) Nodes() int {
	if s.mode == nil || !s.met.Load() {
		return int(s.before.Load())
	}
	return s.mode.Nodes()
}

// shares is the number by which each node divides the limits without Redis.
func (s *Shared) shares() int { return s.peak.of(s.Nodes(), s.config.Clock.Now()) }

// A peak is the largest number of the last 10 to 20 minutes. Nodes that lose Redis one after the other disappear from
// each other's view, but continue to count.
type peak struct {
	mu           sync.Mutex
	since        time.Time
	now, earlier int
}

func (p *peak) of(n int, at time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.Sub(p.since) > 10*time.Minute {
		p.since, p.now, p.earlier = at, 0, p.now
	}
	p.now = max(p.now, n)
	return max(p.now, p.earlier)
}

func parseNodes(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 1 || n > 10_000 {
		return 1
	}
	return n
}

// Save writes the file if it has changed. It is not safe for concurrent use.
func (s *Shared) Save(context.Context) error {
	n := int64(s.shares())
	text := fmt.Sprintf("%d\n%s\n", n, s.Redis().Seen())
	if text == s.saved {
		return nil
	}
	written := s.config.File + ".new" // a full disk must not truncate the number
	if err := os.WriteFile(written, []byte(text), 0o600); err != nil {
		return err
	}
	if err := os.Rename(written, s.config.File); err != nil {
		return err
	}
	s.saved = text
	s.before.Store(n)
	return nil
}
