package redisstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/internal/background"
	"authguard/internal/redisstore"
	"authguard/internal/testing/clocktest"
	"authguard/internal/testing/redistest"
)

// A node that crosses the threshold does not wait for its next flush to say so.
func TestStartedNodesFollow(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	var modes []*captchamode.Mode
	for _, every := range []time.Duration{time.Hour, 5 * time.Millisecond} {
		m, err := captchamode.NewMode(captchamode.DefaultConfig(), nil, nil)
		must(t, err)
		s, err := redisstore.NewMode(on(server)(t), m, redisstore.ModeOptions{Every: every})
		must(t, err)
		must(t, s.Flush(t.Context()))
		t.Cleanup(background.Go(s.Run))
		modes = append(modes, m)
	}
	for range 31 {
		modes[0].Observe(captchamode.Failure, address())
	}
	redistest.Until(t, "the other node to follow", modes[1].On)
}

func TestRunReportsOnceMoreAndGoesAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, on(redistest.Standalone(t)), 2)
	s.nodes[0].fail(3)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.nodes[0].Run(ended)
	s.nodes[1].flush(t)
	s.nodes[1].wantPressure(t, 3)
	if got := s.nodes[0].mode.State().Threshold; got != 15 {
		t.Errorf("its threshold is %v, want its half of 30", got)
	}
}

// Nothing is lost or counted twice between an Observe and a Flush at once.
func TestFlushWhileManyObserve(t *testing.T) {
	t.Parallel()
	s := &site{Clock: clocktest.At(start), open: on(redistest.Standalone(t)), prefix: "x:",
		config: captchamode.DefaultConfig()}
	s.config.ThresholdMin, s.config.ThresholdMax = 100_000, 100_000
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
