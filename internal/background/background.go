// Package background runs work beside requests. Such work has a method Run(ctx), which returns after ctx ends and its
// last work (a final save, a flush) is done. A [Group] runs any number of them and stops them in reverse order, so
// senders stop before their receivers. No other code starts goroutines that outlive their caller.
package background

import (
	"context"
	"sync"
	"time"
)

// Group is the work started by one owner. The zero Group is empty. It is safe for concurrent use.
type Group struct {
	mu    sync.Mutex
	tasks []task
}

type task struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Start calls run in a new goroutine, with a context that ends when the group stops.
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

// Stop ends the tasks one by one, the last started first, and returns when all have returned. It may be called twice,
// and before Start.
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
