package redisstore

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A script is the text of a .lua file.
type script struct {
	text   string
	digest string
}

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) // the name that Redis gives it, no secret
	return &script{text: text, digest: hex.EncodeToString(sum[:])}
}

// A call is one run of a script; or a plain command, all of it in args, if
// there is no script. Keys and args are strings or numbers; all keys of a call
// lie in one slot.
type call struct {
	script *script
	keys   []any
	args   []any
	// reply and err are what came of it.
	reply any
	err   error
}

const (
	// movedWithin is how long a call is repeated while its keys move between two
	// servers of a Cluster: neither runs it then, and says so.
	movedWithin = 250 * time.Millisecond
	movedAgain  = 2 * time.Millisecond
)

// A sender sends commands in one round trip, or fails before it sent any. Each
// command keeps its own error.
type sender func(context.Context, []*redis.Cmd) error

// direct sends commands in a pipeline of their own.
func direct(client redis.UniversalClient) sender {
	return func(ctx context.Context, cmds []*redis.Cmd) error {
		pipe := client.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, once{cmd})
		}
		_, _ = pipe.Exec(ctx)
		return nil
	}
}

// once is a command that the client never repeats by itself: a charge would
// count twice. In a Cluster one TRYAGAIN made go-redis run a whole pipeline four
// times. MOVED and ASK, after which nothing was done, it does follow.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// run makes all calls in one round trip. Only those that were surely not run,
// because their script was not known (any more) or their slot is being moved,
// are sent again. It returns the first error of any; the other calls may have
// been run all the same.
func run(ctx context.Context, send sender, calls ...*call) error {
	var until time.Time
	for left := calls; len(left) > 0; left = notRun(ctx, left, &until) {
		cmds := make([]*redis.Cmd, len(left))
		for i, c := range left {
			cmds[i] = c.command(ctx)
		}
		err := send(ctx, cmds)
		for i, c := range left {
			if c.err = err; err == nil {
				c.reply, c.err = cmds[i].Result()
			}
		}
	}
	for _, c := range calls {
		if c.err != nil && !errors.Is(c.err, redis.Nil) {
			return c.err
		}
	}
	return nil
}

// notRun returns the calls to send again, after a little while if that is for
// keys on their way.
func notRun(ctx context.Context, calls []*call, until *time.Time) (again []*call) {
	moving := false
	for _, c := range calls {
		if c.unknown() || c.moving() {
			again = append(again, c)
		}
		moving = moving || c.moving()
	}
	if !moving {
		return again
	}
	if until.IsZero() {
		*until = time.Now().Add(movedWithin)
	}
	timer := time.NewTimer(movedAgain)
	defer timer.Stop()
	select {
	case <-timer.C:
		if time.Now().Before(*until) {
			return again
		}
	case <-ctx.Done():
	}
	return nil
}

// command is by the script's digest or, if the server does not know that, with
// its text.
func (c *call) command(ctx context.Context) *redis.Cmd {
	if c.script == nil {
		return redis.NewCmd(ctx, c.args...)
	}
	verb, text := "evalsha", c.script.digest
	if c.unknown() {
		verb, text = "eval", c.script.text
	}
	args := make([]any, 0, 3+len(c.keys)+len(c.args))
	args = append(append(args, verb, text, len(c.keys)), c.keys...)
	return redis.NewCmd(ctx, append(args, c.args...)...)
}

func (c *call) unknown() bool { return c.err != nil && redis.HasErrorPrefix(c.err, "NOSCRIPT") }

func (c *call) moving() bool {
	return c.err != nil && (redis.HasErrorPrefix(c.err, "TRYAGAIN") ||
		redis.HasErrorPrefix(c.err, "MOVED") || redis.HasErrorPrefix(c.err, "ASK"))
}

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
