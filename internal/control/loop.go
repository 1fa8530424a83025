package control

import (
	"context"
	"sync"
	"time"

	"authguard/guard"
	"authguard/internal/lists"
)

// reloadEvery is how often the lists and the account names of the database are
// read again if nobody tells what has changed.
const reloadEvery = time.Second

// A loop is the one goroutine of a Control. The zero loop is stopped.
type loop struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

// Start reads the lists and goes on doing so: whenever Config.Changes says so, or
// every second. A second Start does nothing. The error is that of the first
// reading; nothing runs then, since a server without its block list lets
// everybody in.
func (c *Control) Start(ctx context.Context) error {
	c.loop.mu.Lock()
	defer c.loop.mu.Unlock()
	if c.loop.cancel != nil {
		return nil
	}
	if err := c.Reload(ctx); err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.loop.cancel, c.loop.done = cancel, make(chan struct{})
	run := c.run
	if c.config.Changes != nil {
		run = c.config.Changes.Run
	}
	go func() {
		defer close(c.loop.done)
		run(running)
	}()
	return nil
}

// Stop ends what Start began and waits for it. It may be called twice, and
// before Start.
func (c *Control) Stop() {
	c.loop.mu.Lock()
	defer c.loop.mu.Unlock()
	if c.loop.cancel == nil {
		return
	}
	c.loop.cancel()
	<-c.loop.done
	c.loop.cancel = nil
}

// run reads again and again. Of failures that follow one another only the
// first is logged; the overview warns as long as they last.
func (c *Control) run(ctx context.Context) {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := c.Reload(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			c.config.Log.Error("lists and accounts cannot be read: what was read last stays in force", "error", err)
		}
		failing = err != nil
	}
}

// Reload reads what the database says of lists and account names into memory,
// and whatever else Config.Changes keeps up to date.
func (c *Control) Reload(ctx context.Context) error {
	if c.config.Changes != nil {
		return c.config.Changes.Poll(ctx)
	}
	if err := c.reloadLists(ctx); err != nil {
		return err
	}
	return c.config.Accounts.Refresh(ctx)
}

func (c *Control) reloadLists(ctx context.Context) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	now := c.config.Now()
	entries, err := c.config.Listings.All(ctx, now)
	if err != nil {
		return err
	}
	c.config.Lists.Set(listings(entries))
	c.listed.Store(&now)
	return nil
}

func listings(entries []lists.Entry) []guard.Listing {
	out := make([]guard.Listing, 0, len(entries))
	for _, e := range entries {
		verdict := guard.Blocked
		if e.Verdict == lists.Allow {
			verdict = guard.Allowed
		}
		out = append(out, guard.Listing{Prefix: e.Prefix, Verdict: verdict, Until: e.ExpiresAt})
	}
	return out
}
