// Package background starts and stops work that goes on beside requests.
//
// Whatever works in the background has a method Run(ctx) that returns when ctx
// ends, after its last work (a final save, a flush). A [Group] runs any number
// of them and stops them in reverse, so that what feeds another one is stopped
// before it. Nothing else in this program starts a goroutine that outlives its
// caller.
package background

import (
	"context"
	"sync"
	"time"
)

// A Group is the work that one owner has started. The zero Group is empty. It is
// safe for concurrent use.
type Group struct {
	mu    sync.Mutex
	tasks []task
}

type task struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Start calls run in a goroutine of its own, with a context that ends when the
// group is stopped.
func (g *Group) Start(run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	t := task{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		run(ctx)
	}()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tasks = append(g.tasks, t)
}

// Stop ends the tasks one after the other, the last started first, and returns
// when all have returned. It may be called twice, and before Start.
func (g *Group) Stop() {
	g.mu.Lock()
	tasks := g.tasks
	g.tasks = nil
	g.mu.Unlock()
	for i := len(tasks) - 1; i >= 0; i-- {
		tasks[i].cancel()
		<-tasks[i].done
	}
}

// Every calls do once in every interval until ctx ends, never twice at once: an
// interval that passes while do runs is skipped.
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

// Save calls save once in every interval until ctx ends, and once more then: what it
// works on must not be lost. Its context does not end with ctx. failed is told of the first
// of several failures in a row.
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
