// Package redisepoch lets nodes that share a Redis remember what they read
// there, and drop it within a second when another node makes it untrue.
//
// Whoever changes what others may remember writes a new random token to one
// key, after the change. Every node reads that key several times a second; a
// token that it has not seen starts a new epoch, and whatever was read before
// is forgotten. A node that cannot read the key remembers nothing.
package redisepoch

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// TrustFor is how long after a look at the token its answer is believed.
	TrustFor = time.Second
	// lookEvery leaves room for one look that fails.
	lookEvery = 400 * time.Millisecond
	// keepFor is how long a token stays; when it goes, that is a new epoch.
	keepFor = 24 * time.Hour
)

// An Epoch is one token that nodes share. It is safe for concurrent use.
// Without Start nothing is ever fresh.
type Epoch struct {
	client redis.UniversalClient
	key    string
	base   time.Time

	number atomic.Uint64 // of the epoch, from 1; 0: the token was never read
	looked atomic.Int64  // when the last good look began, since base; 0: never
	owed   atomic.Bool   // a new epoch that could not be told yet
	token  string        // of the last look; only run touches it

	running sync.Mutex // over cancel and done
	cancel  context.CancelFunc
	done    chan struct{}
}

// New returns the epoch of a key, and starts nothing.
func New(client redis.UniversalClient, key string) *Epoch {
	return &Epoch{client: client, key: key, base: time.Now()}
}

// Now is the number of the epoch, and whether what was read in it may be
// believed. Take the number before reading what is to be remembered.
func (e *Epoch) Now() (number uint64, fresh bool) {
	looked := e.looked.Load()
	fresh = looked != 0 && time.Since(e.base) < time.Duration(looked)+TrustFor
	return e.number.Load(), fresh
}

// End tells every node that what it remembers may be untrue: this one at once,
// the others within TrustFor. Call it after the change. If Redis does not
// answer, it is told as soon as it does, by what Start started.
func (e *Epoch) End(ctx context.Context) {
	e.number.Add(1)
	e.owed.Store(true)
	e.tell(ctx)
}

// tell writes a token that nobody has seen, if one is owed.
func (e *Epoch) tell(ctx context.Context) {
	if !e.owed.CompareAndSwap(true, false) {
		return
	}
	if e.client.Set(ctx, e.key, rand.Text(), keepFor).Err() != nil {
		e.owed.Store(true)
	}
}

// Start looks at the token now and then several times a second, until Stop.
// Started already, it does nothing.
func (e *Epoch) Start() {
	e.running.Lock()
	defer e.running.Unlock()
	if e.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel, e.done = cancel, make(chan struct{})
	go e.run(ctx, e.done)
}

// Stop ends what Start started. A second later nothing is fresh.
func (e *Epoch) Stop() {
	e.running.Lock()
	defer e.running.Unlock()
	if e.cancel == nil {
		return
	}
	e.cancel()
	<-e.done
	e.cancel = nil
}

func (e *Epoch) run(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		e.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look reads the token. If that fails nothing changes, and what is remembered
// goes stale by itself.
func (e *Epoch) look(ctx context.Context) {
	began := time.Since(e.base)
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	e.tell(ctx)
	token, err := e.client.Get(ctx, e.key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return
	}
	if token != e.token || e.number.Load() == 0 {
		e.token = token
		e.number.Add(1)
	}
	e.looked.Store(max(int64(began), 1))
}
