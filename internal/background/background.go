// Package background starts and stops the parts of a server. No other code starts goroutines that outlive their caller.
package background

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// A Part works beside requests, or has to be closed.
type Part interface {
	// Start returns when the part works, or why it cannot. ctx limits Start alone.
	Start(ctx context.Context) error
	// Stop returns when the part's last work (a final save, a flush) is done. Parts that were not started are stopped, too:
	// they may be open.
	Stop() error
}

// task is a Part that consists of functions.
type task struct {
	ready  func(context.Context) error
	run    func(context.Context)
	close  func() error
	cancel context.CancelFunc
	done   chan struct{} // nil until Start
}

// Ready returns a Part that only starts.
func Ready(ready func(context.Context) error) Part { return &task{ready: ready} }

// Run returns a Part that calls run in a new goroutine. Stop ends run's context and waits until run returns.
func Run(run func(context.Context)) Part { return &task{run: run} }

// Close returns a Part that only stops.
func Close(close func() error) Part { return &task{close: close} }

// Undo returns a Part whose Stop calls undo.
func Undo(undo func()) Part {
	return Close(func() error {
		undo()
		return nil
	})
}

func (t *task) Start(ctx context.Context) error {
	if t.ready != nil {
		return t.ready(ctx)
	}
	if t.run != nil {
		ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
		t.done = make(chan struct{})
		go func() {
			defer close(t.done)
			t.run(ctx)
		}()
	}
	return nil
}

func (t *task) Stop() error {
	if t.done != nil {
		t.cancel()
		<-t.done
	}
	if t.close != nil {
		return t.close()
	}
	return nil
}

// Go calls run in a new goroutine. stop ends its context and waits until run returns.
func Go(run func(context.Context)) (stop func()) {
	t := Run(run)
	_ = t.Start(context.Background())
	return func() { _ = t.Stop() }
}

// Group is a Part that consists of others. Add parts that receive before those that send: the Group stops them in
// reverse order. The zero Group is empty. It is safe for concurrent use.
type Group struct {
	mu    sync.Mutex
	parts []Part
}

// Add adds parts that Start will start. To Stop, they count as open from now on.
func (g *Group) Add(parts ...Part) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parts = append(g.parts, parts...)
}

// Start starts the parts one by one, up to the first error. The caller must then call Stop.
func (g *Group) Start(ctx context.Context) error {
	g.mu.Lock()
	parts := slices.Clone(g.parts)
	g.mu.Unlock()
	for _, p := range parts {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop stops the parts one by one, the last added first, and returns their errors. A second Stop does nothing.
func (g *Group) Stop() (err error) {
	g.mu.Lock()
	parts := g.parts
	g.parts = nil
	g.mu.Unlock()
	for _, p := range slices.Backward(parts) {
		err = errors.Join(err, p.Stop())
	}
	return err
}

// Every calls do once per interval until ctx ends, never concurrently: it skips intervals that pass while do runs.
func Every(ctx context.Context, interval time.Duration, do func(context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do(ctx)
		}
	}
}

// Repeat returns a Part that calls do once per interval.
func Repeat(interval time.Duration, do func(context.Context)) Part {
	return Run(func(ctx context.Context) { Every(ctx, interval, do) })
}

// Save calls save once per interval until ctx ends, and once afterwards, so that nothing is lost. save's context does
// not end with ctx. failed gets the first of consecutive failures.
func Save(ctx context.Context, interval time.Duration, save func(context.Context) error, failed func(error)) {
	failing := false
	once := func(ctx context.Context) {
		err := save(context.WithoutCancel(ctx))
		if err != nil && !failing {
			failed(err)
		}
		failing = err != nil
	}
	Every(ctx, interval, once)
	once(ctx)
}
