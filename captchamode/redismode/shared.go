package redismode

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/captchamode"
	"authguard/internal/redisscript"
)

const (
	// DefaultPrefix begins every key's name.
	DefaultPrefix = "ag:"
	// DefaultEvery is how often a node flushes.
	DefaultEvery = 250 * time.Millisecond
	// flushWithin bounds a flush that Start makes, if the client does not.
	flushWithin = time.Second
	// atMost is how many trips one flush may begin, if others write all the
	// time or Redis was emptied. The next flush goes on.
	atMost = 5
)

// Options are what New needs beyond a client and a mode. The zero Options are
// valid.
type Options struct {
	// Prefix begins every key's name: one for each realm. Default
	// DefaultPrefix; braces are not allowed in it.
	Prefix string
	// Node names this process and no other, also after a restart. Default: a
	// random name.
	Node string
	// Every is how often Start flushes. Default DefaultEvery.
	Every time.Duration
	// OnError is told when a flush fails and the one before did not, and with
	// nil when one succeeds again. It must not block. It may be nil.
	OnError func(error)
}

// Shared keeps one captchamode.Mode and those of the other nodes together. Its
// methods are safe for concurrent use.
type Shared struct {
	client  redis.UniversalClient
	mode    *captchamode.Mode
	options Options
	keys    keys
	nodes   atomic.Int32
	told    func() time.Time // Redis's time, in tests

	mu     sync.Mutex // one flush at a time
	number int64      // of the last flush
	unsaid *said      // a flush of which it is not known whether Redis took it in
	known  known
	failed bool

	hurry   chan struct{}
	stop    chan struct{}
	stopped sync.WaitGroup
	once    sync.Once
}

// said is what one flush says.
type said struct {
	number int64
	news   captchamode.News
}

// New makes the mode one of the nodes of a site. It does not connect; until the
// first flush has succeeded the mode goes by itself. A node that flushes once
// before it serves anybody begins with what the others know.
//
// The mode must be new: not yet joined, nothing observed. It may have been
// restored. Limits on how long a command may take are the client's.
func New(client redis.UniversalClient, mode *captchamode.Mode, o Options) (*Shared, error) {
	o.Prefix, o.Node, o.Every = cmp.Or(o.Prefix, DefaultPrefix), cmp.Or(o.Node, rand.Text()), cmp.Or(o.Every, DefaultEvery)
	var errs []error
	if client == nil || mode == nil {
		errs = append(errs, errors.New("redismode: a client and a mode are needed"))
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		errs = append(errs, errors.New("redismode: Prefix must not hold a brace"))
	}
	if o.Every < 0 {
		errs = append(errs, errors.New("redismode: Every must be positive"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s := &Shared{
		client: client, mode: mode, options: o, keys: keysOf(o.Prefix),
		hurry: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	s.nodes.Store(1)
	mode.Join(o.Node, s.soon)
	return s, nil
}

// soon has the next flush come now.
func (s *Shared) soon() {
	select {
	case s.hurry <- struct{}{}:
	default:
	}
}

// Start flushes until Stop. Call it at most once.
func (s *Shared) Start() {
	s.stopped.Go(func() {
		tick := time.NewTicker(s.options.Every)
		defer tick.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-tick.C:
			case <-s.hurry:
			}
			ctx, cancel := context.WithTimeout(context.Background(), flushWithin)
			_ = s.Flush(ctx) // OnError is told
			cancel()
		}
	})
}

// Stop ends what Start started; the mode goes on alone. It may be called twice,
// or without a Start.
func (s *Shared) Stop() {
	s.once.Do(func() { close(s.stop) })
	s.stopped.Wait()
	s.mode.GoAlone()
}

// Nodes is how many nodes flushed in the last three seconds, this one among
// them, when Redis last answered: at least 1.
func (s *Shared) Nodes() int { return int(s.nodes.Load()) }

// Flush tells Redis what this node has observed, and makes the site's level its
// own. An error means that Redis did not answer: the mode is alone then, and
// what was not told is kept for the next flush, as far as it is of the last
// minute.
func (s *Shared) Flush(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.flush(ctx)
	if err != nil {
		err = fmt.Errorf("redismode: flushing what was observed: %w", err)
		s.mode.GoAlone()
	}
	if failed := err != nil; failed != s.failed {
		s.failed = failed
		if s.options.OnError != nil {
			s.options.OnError(err)
		}
	}
	return err
}

func (s *Shared) flush(ctx context.Context) error {
	for range atMost {
		again := s.unsaid != nil
		if !again {
			s.number++
			s.unsaid = &said{number: s.number, news: s.mode.News()}
		}
		a, err := s.say(ctx)
		if err != nil {
			return err
		}
		s.nodes.Store(int32(max(1, a.nodes)))
		s.unsaid = nil
		if a.forgotten {
			s.mode.TellAgain()
			continue
		}
		s.mode.Confirm(a.refused)
		if again {
			continue
		}
		if done, err := s.settle(ctx, a); done || err != nil {
			return err
		}
	}
	return nil
}

// say sends what is unsaid.
func (s *Shared) say(ctx context.Context) (*answer, error) {
	calls := []redisscript.Call{{Script: flush, Keys: s.keys.all(), Args: s.arguments()}}
	if err := redisscript.Run(ctx, s.client, calls); err != nil {
		return nil, err
	}
	return s.known.read(calls[0].Reply)
}

// settle has the mode take in what the site says, and writes what follows from
// it. It is not done if another node has written meanwhile.
func (s *Shared) settle(ctx context.Context, a *answer) (done bool, err error) {
	next := s.mode.Hear(a.heard)
	if next == nil {
		return true, nil
	}
	args, version, err := s.known.replacedBy(next, s.mode.State().CoolDown)
	if err != nil {
		return false, err
	}
	calls := []redisscript.Call{{Script: agree, Keys: []any{s.keys.agreed}, Args: args}}
	if err := redisscript.Run(ctx, s.client, calls); err != nil {
		return false, err
	}
	if calls[0].Reply != version {
		return false, nil
	}
	s.mode.Agree(*next)
	s.known.note(next)
	return true, nil
}
