package redismode_test

import (
	"sync"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/captchamode/redismode"
	"authguard/internal/redistest"
)

// A node that crosses the threshold does not wait for its next flush to say so.
func TestStartedNodesFollow(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	var modes []*captchamode.Mode
	for _, every := range []time.Duration{time.Hour, 5 * time.Millisecond} {
		m, err := captchamode.NewMode(captchamode.DefaultConfig(), nil, nil)
		must(t, err)
		s, err := redismode.New(on(server)(t), m, redismode.Options{Every: every})
		must(t, err)
		must(t, s.Flush(t.Context()))
		s.Start()
		t.Cleanup(s.Stop)
		modes = append(modes, m)
	}
	for range 31 {
		modes[0].Observe(captchamode.Failure, address())
	}
	redistest.Until(t, "the other node to follow", modes[1].On)
}

func TestStopMayComeTwiceAndWithoutAStart(t *testing.T) {
	t.Parallel()
	m, err := captchamode.NewMode(captchamode.DefaultConfig(), nil, nil)
	must(t, err)
	s, err := redismode.New(on(redistest.Standalone(t))(t), m, redismode.Options{})
	must(t, err)
	s.Stop()
	s.Stop()
	if s.Nodes() != 1 {
		t.Errorf("it sees %d nodes", s.Nodes())
	}
}

// Nothing is lost or counted twice between an Observe and a Flush at once.
func TestFlushWhileManyObserve(t *testing.T) {
	t.Parallel()
	s := &site{clock: &clock{now: start}, open: on(redistest.Standalone(t)), prefix: "x:", config: captchamode.DefaultConfig()}
	s.config.Floor, s.config.Ceiling = 100_000, 100_000
	for range 3 {
		s.add(t)
	}
	var all sync.WaitGroup
	for _, n := range s.nodes {
		for range 3 {
			all.Go(func() {
				for range 1000 {
					n.mode.Observe(captchamode.Failure, address())
				}
			})
		}
		all.Go(func() {
			for range 50 {
				if err := n.Flush(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s.round(t)
	s.round(t)
	for _, n := range s.nodes {
		n.wantPressure(t, 9000)
	}
}
