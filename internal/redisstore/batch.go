package redisstore

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"
)

// flushes is how many pipelines a batcher has under way at once: enough that
// Redis has work while answers to other work are being read.
const flushes = 4

// together is how many callers' commands one pipeline carries at most: a flood
// must not make one so long that it looks as if Redis hung.
const together = 64

// A batcher sends the commands of concurrent callers in shared pipelines, which saves system
// calls on both sides. A caller that finds few pipelines under way sends one at once; later
// callers wait, and one of them sends all their commands when a pipeline ends. With a pipeline
// for each of 50 concurrent attempts, a node made less than half as many attempts
// (BenchmarkAttempt). It is safe for concurrent use.
//
// go-redis's AutoPipeline (experimental in 9.23) is as fast, but splits the scripts of one
// attempt over pipelines.
type batcher struct {
	send sender

	mu      sync.Mutex
	waiting []*request
	running int
}

// newBatcher returns a batcher of a client, which bounds how long a pipeline may
// take. Waiting for a turn is not Redis's slowness.
func newBatcher(client redis.UniversalClient) *batcher { return &batcher{send: direct(client)} }

// A request is the commands of one caller.
type request struct {
	cmds []*redis.Cmd
	// others are sent along, if it is for the caller to send.
	others []*request
	// turn is true if it is for the caller to send them, false once they were.
	turn chan bool
}

// enqueue sends commands and returns when each has its answer or error. It fails
// only if ctx has ended before. Whoever gives up later still hears what came of
// the commands: half a charge must be taken back.
func (b *batcher) enqueue(ctx context.Context, cmds []*redis.Cmd) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &request{cmds: cmds}
	if !b.start(r) && !<-r.turn {
		return nil
	}
	b.flush(r)
	return nil
}

// start lets a request begin a pipeline, or makes it wait.
func (b *batcher) start(r *request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running < flushes {
		b.running++
		return true
	}
	r.turn = make(chan bool, 1)
	b.waiting = append(b.waiting, r)
	return false
}

// flush sends a request and those that go along.
func (b *batcher) flush(own *request) {
	cmds := own.cmds
	for _, r := range own.others {
		cmds = append(cmds, r.cmds...)
	}
	sent := false
	defer func() {
		if !sent { // the client panics
			for _, cmd := range cmds {
				cmd.SetErr(errUnsent)
			}
		}
		for _, r := range own.others {
			r.turn <- false
		}
		b.next()
	}()
	_ = b.send(context.Background(), cmds) // each command has its own error
	sent = true
}

var errUnsent = errors.New("redisstore: not sent")

// next hands the pipeline to the first that waits, with those next in line.
func (b *batcher) next() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.running--
		return
	}
	first, n := b.waiting[0], min(len(b.waiting), together)
	first.others, b.waiting = b.waiting[1:n:n], b.waiting[n:]
	first.turn <- true
}
