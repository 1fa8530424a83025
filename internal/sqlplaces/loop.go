package sqlplaces

import (
	"context"
	"sync"
	"time"
)

const (
	refreshEvery = time.Second
	purgeEvery   = time.Hour
)

// A loop is the one goroutine of a store. The zero loop is stopped.
type loop struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

// Start begins to Refresh every second and to Purge every hour. A second Start
// does nothing.
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
// before Start. The store itself goes on working.
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
	refresh, purge := time.NewTicker(refreshEvery), time.NewTicker(purgeEvery)
	defer refresh.Stop()
	defer purge.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-refresh.C:
			err = s.Refresh(ctx)
		case <-purge.C:
			_, err = s.Purge(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.config.Log.Error("privileged places: cannot keep up with the database", "err", err)
		}
	}
}
