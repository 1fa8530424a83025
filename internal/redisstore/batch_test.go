package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"authguard/internal/testing/redistest"
)

// A gate is a hook that lets pipelines of scripts through once it is open.
type gate struct {
	waiting, trips atomic.Int64
	longest        atomic.Int64 // pipeline, in commands
	open           chan struct{}
}

func (g *gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if name := cmds[0].Name(); name != "evalsha" && name != "eval" {
			return next(ctx, cmds) // a new connection says hello
		}
		g.trips.Add(1)
		for n := g.longest.Load(); int64(len(cmds)) > n && !g.longest.CompareAndSwap(n,
			int64(len(cmds))); n = g.longest.Load() {
		}
		g.waiting.Add(1)
		<-g.open
		g.waiting.Add(-1)
		return next(ctx, cmds)
	}
}

// add adds its argument to a key and answers with the argument.
func add() *script {
	return newScript("redis.call('INCRBY',KEYS[1],ARGV[1]) return ARGV[1]")
}

// A gated batcher is one with a gate before a Redis that knows the script.
type gated struct {
	*batcher
	*gate
	client redis.UniversalClient
}

func newGated(t *testing.T, client redis.UniversalClient, scripts ...*script) gated {
	t.Helper()
	if err := load(t.Context(), client, append(scripts, add())...); err != nil {
		t.Fatal(err)
	}
	g := &gate{open: make(chan struct{})}
	client.AddHook(g)
	return gated{newBatcher(client), g, client}
}

// adds adds each number, and hands back how each ended.
func (b gated) adds(ctx context.Context, key string, numbers ...any) (ended func() error) {
	var all sync.WaitGroup
	errs := make([]error, len(numbers))
	for i, n := range numbers {
		all.Go(func() {
			one := &call{script: add(), keys: []any{key}, args: []any{n}}
			if errs[i] = run(ctx, b.enqueue, one); errs[i] == nil && one.reply != fmt.Sprint(n) {
				errs[i] = fmt.Errorf("%d was answered with %v", n, one.reply)
			}
		})
	}
	return func() error { all.Wait(); return errors.Join(errs...) }
}

// fill sends as many pipelines as may be under way at once, and waits until
// they are.
func (b gated) fill(t *testing.T, key string) (ended []func() error) {
	t.Helper()
	for i := range pipelines {
		ended = append(ended, b.adds(t.Context(), key, 1))
		redistest.Until(t, "it to be under way", func() bool { return b.gate.waiting.Load() == int64(i+1) })
	}
	return ended
}

// queued waits until so many are waiting for their turn.
func (b gated) queued(t *testing.T, n int) {
	t.Helper()
	redistest.Until(t, "the others to wait", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.batcher.waiting) == n
	})
}

func (b gated) sum(t *testing.T, key, want string) {
	t.Helper()
	if got := b.client.Get(context.Background(), key).Val(); got != want {
		t.Errorf("sum %s, want %s", got, want)
	}
}

func none(t *testing.T, ended ...func() error) {
	t.Helper()
	for _, end := range ended {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

func TestThoseWhoComeMeanwhileShareAPipeline(t *testing.T) {
	t.Parallel()
	b := newGated(t, redistest.Standalone(t).Client(t))
	ended := b.fill(t, "sum")
	rest := b.adds(t.Context(), "sum", 2, 3, 4, 5, 6, 7, 8, 9, 10)
	b.queued(t, 9)
	close(b.open)
	none(t, append(ended, rest)...)
	if got := b.trips.Load(); got != pipelines+1 {
		t.Errorf("%d pipelines, want %d", got, pipelines+1)
	}
	b.sum(t, "sum", fmt.Sprint(pipelines+54))
}

// A pipeline of thousands takes longer than a trip may, which looks like a lost
// Redis.
func TestAFloodIsNotOnePipeline(t *testing.T) {
	t.Parallel()
	b := newGated(t, redistest.Standalone(t).Client(t))
	ended := b.fill(t, "sum")
	const flood = 10 * callersPerPipeline
	numbers := make([]any, flood)
	for i := range numbers {
		numbers[i] = 1
	}
	rest := b.adds(t.Context(), "sum", numbers...)
	b.queued(t, flood)
	close(b.open)
	none(t, append(ended, rest)...)
	if got := b.longest.Load(); got != callersPerPipeline {
		t.Errorf("%d in one pipeline, want %d at most", got, callersPerPipeline)
	}
	b.sum(t, "sum", fmt.Sprint(pipelines+flood))
}

// An error of the connection is not taken for a pipeline that was never sent.
func TestTheClientsErrorIsReturned(t *testing.T) {
	t.Parallel()
	away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer away.Close()
	one := &call{script: add(), keys: []any{"sum"}, args: []any{1}}
	if err := run(t.Context(), newBatcher(away).enqueue, one); err == nil || errors.Is(err, errUnsent) {
		t.Errorf("%v", err)
	}
}

// A charged caller has to know it, to take it back; one that came too late was
// not.
func TestACanceledCallerGetsTheResult(t *testing.T) {
	t.Parallel()
	b := newGated(t, redistest.Standalone(t).Client(t))
	ctx, hangUp := context.WithCancel(t.Context())
	ended := b.adds(ctx, "sum", 7)
	redistest.Until(t, "it to be under way", func() bool { return b.gate.waiting.Load() == 1 })
	hangUp()
	if err := b.adds(ctx, "sum", 8)(); !errors.Is(err, context.Canceled) {
		t.Errorf("of one that came after: %v", err)
	}
	close(b.open)
	none(t, ended)
	b.sum(t, "sum", "7")
}

func TestAScriptThatIsNotKnownIsSentWhole(t *testing.T) {
	t.Parallel()
	b := newGated(t, redistest.Standalone(t).Client(t))
	close(b.open)
	if err := b.client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	none(t, b.adds(t.Context(), "sum", 3))
	none(t, b.adds(t.Context(), "sum", 4))
	if got := b.trips.Load(); got != 3 {
		t.Errorf("%d pipelines, want 3", got)
	}
	b.sum(t, "sum", "7")
}

// One caller's mistake is not another's.
func TestEveryCallHasItsOwnError(t *testing.T) {
	t.Parallel()
	b := newGated(t, redistest.Standalone(t).Client(t))
	ended := b.fill(t, "sum")
	wrong := b.adds(t.Context(), "sum", "no number")
	rest := b.adds(t.Context(), "sum", 2, 3)
	b.queued(t, 3)
	close(b.open)
	none(t, append(ended, rest)...)
	if wrong() == nil {
		t.Error("adding what is no number: no error")
	}
	b.sum(t, "sum", fmt.Sprint(pipelines+5))
}

// In a Cluster a command that has to be tried again makes the client send all of
// the others again that went to the same node.
func TestNoScriptRunsTwiceForAnothersSake(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	both := newScript("redis.call('GET',KEYS[1]) redis.call('GET',KEYS[2]) return '1'")
	b := newGated(t, cluster.Client(t), both)
	half, other := cluster.HalfMoved(t)
	ended := b.fill(t, other+"filler")
	moving := make(chan error, 1)
	go func() {
		moving <- run(t.Context(), b.enqueue, &call{script: both, keys: []any{half + "here", half + "nowhere"}})
	}()
	b.queued(t, 1)
	for range 20 {
		ended = append(ended, b.adds(t.Context(), other+"sum", 1))
	}
	b.queued(t, 21)
	close(b.open)
	none(t, ended...)
	if <-moving == nil {
		t.Error("a script whose keys are between two nodes was run")
	}
	b.sum(t, other+"sum", "20")
}

func TestAPanicReleasesTheOthers(t *testing.T) {
	t.Parallel()
	b := newBatcher(redistest.Standalone(t).Client(t))
	b.send = func(context.Context, []*redis.Cmd) error { panic("on purpose") }
	for range 2 * pipelines {
		func() {
			defer func() { _ = recover() }()
			_ = b.enqueue(t.Context(), []*redis.Cmd{redis.NewCmd(t.Context(), "ping")})
			t.Error("no panic")
		}()
	}
}
