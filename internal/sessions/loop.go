package sessions

import (
	"context"
	"sync"
	"time"
)

const sweepEvery = 10 * time.Minute

// A loop is the one goroutine of a store. The zero loop is stopped.
type loop struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

// Start begins to sweep every ten minutes. A second Start does nothing.
func (s *Store) Start() {
	s.loop.mu.Lock()
	defer s.loop.mu.Unlock()
	if s.loop.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.loop.cancel, s.loop.done = cancel, make(chan struct{})
	go func() {
		defer close(s.loop.done)
		s.run(ctx)
	}()
}

// Stop ends what Start began and waits for it. It may be called twice, and
// before Start.
func (s *Store) Stop() {
	s.loop.mu.Lock()
	defer s.loop.mu.Unlock()
	if s.loop.cancel == nil {
		return
	}
	s.loop.cancel()
	<-s.loop.done
	s.loop.cancel = nil
}

func (s *Store) run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.config.Log.Error("sessions: cannot delete expired ones", "err", err)
		}
	}
}
