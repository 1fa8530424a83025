package redisscript_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/internal/redisscript"
	"authguard/internal/redistest"
)

// A gate is a hook that lets round trips of scripts through once it is open.
type gate struct {
	waiting, trips atomic.Int64
	open           chan struct{}
}

func (g *gate) pass(cmd redis.Cmder) {
	if name := cmd.Name(); name != "evalsha" && name != "eval" {
		return // a new connection says hello
	}
	g.trips.Add(1)
	g.waiting.Add(1)
	<-g.open
	g.waiting.Add(-1)
}

func (g *gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		g.pass(cmd)
		return next(ctx, cmd)
	}
}

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		g.pass(cmds[0])
		return next(ctx, cmds)
	}
}

// add adds its argument to a key and answers with the argument.
var add = redisscript.New("redis.call('INCRBY',KEYS[1],ARGV[1]) return ARGV[1]")

// A bench is a bundler with a gate before a Redis that knows the script.
type bench struct {
	*redisscript.Bundler
	*gate
	client *redis.Client
}

func newBench(t *testing.T) bench {
	t.Helper()
	client := redistest.Standalone(t).Client(t)
	if err := redisscript.Load(t.Context(), client, add); err != nil {
		t.Fatal(err)
	}
	g := &gate{open: make(chan struct{})}
	client.AddHook(g)
	return bench{redisscript.NewBundler(client), g, client}
}

func (b bench) sum(t *testing.T) string {
	t.Helper()
	sum, err := b.client.Get(t.Context(), "sum").Result()
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func (b bench) add(ctx context.Context, n int) error {
	calls := []redisscript.Call{{Script: add, Keys: []any{"sum"}, Args: []any{n}}}
	if err := b.Run(ctx, calls); err != nil {
		return err
	}
	if calls[0].Reply != fmt.Sprint(n) {
		return fmt.Errorf("%d was answered with %v", n, calls[0].Reply)
	}
	return nil
}

// adds adds first to last, each for itself, and hands back how each ended.
func (b bench) adds(ctx context.Context, first, last int) (ended func() []error) {
	var all sync.WaitGroup
	errs := make([]error, last-first+1)
	for i := range errs {
		all.Go(func() { errs[i] = b.add(ctx, first+i) })
	}
	return func() []error { all.Wait(); return errs }
}

// fill sends as many calls as may be under way at once, and waits until they are.
func (b bench) fill(t *testing.T) (ended func() []error) {
	t.Helper()
	var each [redisscript.Flights]func() []error
	for i := range each {
		each[i] = b.adds(t.Context(), i+1, i+1)
		redistest.Until(t, "it to be under way", func() bool { return b.waiting.Load() == int64(i+1) })
	}
	return func() (errs []error) {
		for _, end := range each {
			errs = append(errs, end()...)
		}
		return errs
	}
}

func none(t *testing.T, errs []error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestThoseWhoComeMeanwhileShareARoundTrip(t *testing.T) {
	b := newBench(t)
	first := b.fill(t)
	rest := b.adds(t.Context(), redisscript.Flights+1, 100)
	redistest.Until(t, "the others to wait", func() bool { return b.Waiting() == 100-redisscript.Flights })
	close(b.open)
	none(t, append(first(), rest()...))
	want(t, "round trips", b.trips.Load(), int64(redisscript.Flights+1))
	want(t, "sum of 1 to 100", b.sum(t), "5050")
}

func TestWhoLeavesTheQueueIsNotRun(t *testing.T) {
	b := newBench(t)
	first := b.fill(t)
	ctx, leave := context.WithCancel(t.Context())
	gone := b.adds(ctx, 1000, 1009)
	redistest.Until(t, "ten to wait", func() bool { return b.Waiting() == 10 })
	leave()
	for _, err := range gone() {
		want(t, "error of who left", err, context.Canceled)
	}
	close(b.open)
	none(t, first())
	want(t, "round trips", b.trips.Load(), int64(redisscript.Flights))
	want(t, "sum of 1 to 4", b.sum(t), "10")
}

// Who was charged has to know it, to take it back.
func TestWhoHangsUpUnderWayIsToldWhatCameOfIt(t *testing.T) {
	b := newBench(t)
	ctx, hangUp := context.WithCancel(t.Context())
	ended := b.adds(ctx, 7, 7)
	redistest.Until(t, "it to be under way", func() bool { return b.waiting.Load() == 1 })
	hangUp()
	close(b.open)
	none(t, ended())
	want(t, "sum", b.sum(t), "7")
}

func TestTimeUnderWayRunsOut(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	want(t, "error", b.add(ctx, 7), context.DeadlineExceeded)
	want(t, "round trips under way", b.waiting.Load(), int64(1))
	close(b.open)
	redistest.Until(t, "the round trip to end by itself", func() bool { return b.waiting.Load() == 0 })
	none(t, []error{b.add(t.Context(), 5)})
	want(t, "sum", b.sum(t), "12")
}

func TestAScriptThatIsNotKnownIsSentWhole(t *testing.T) {
	b := newBench(t)
	close(b.open)
	if err := b.client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	b.trips.Store(0)
	none(t, []error{b.add(t.Context(), 3), b.add(t.Context(), 4)})
	want(t, "round trips", b.trips.Load(), int64(3))
	want(t, "sum", b.sum(t), "7")
}

// A caller's time is for his own round trip when each takes a good part of it.
func TestNobodyWaitsForSlowRoundTrips(t *testing.T) {
	b := newBench(t)
	var clock atomic.Int64
	b.SetClock(func() time.Time { return time.Unix(0, clock.Load()) })
	ended := b.adds(t.Context(), 1, 1)
	redistest.Until(t, "it to be under way", func() bool { return b.waiting.Load() == 1 })
	clock.Add(int64(30 * time.Millisecond))
	b.open <- struct{}{}
	none(t, ended())
	redistest.Until(t, "it to be over", func() bool { return b.waiting.Load() == 0 })
	var each []func() []error
	for i := range 2 * redisscript.Flights {
		each = append(each, b.adds(t.Context(), 1, 1))
		redistest.Until(t, "it to be under way, too", func() bool { return b.waiting.Load() == int64(i+1) })
	}
	close(b.open)
	for _, end := range each {
		none(t, end())
	}
	want(t, "sum", b.sum(t), fmt.Sprint(1+2*redisscript.Flights))
}

func TestAPanicIsTheCallersError(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	client.AddHook(panics{})
	b := bench{Bundler: redisscript.NewBundler(client)}
	for range 2 * redisscript.Flights {
		if err := b.add(t.Context(), 1); err == nil {
			t.Error("no error")
		}
	}
}

type panics struct{ *gate }

func (panics) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { panic("on purpose") }
}

func (panics) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// In a Cluster a command that has to be tried again makes the client send all of
// the others again that went to the same node.
func TestNobodysScriptRunsTwiceForAnothersSake(t *testing.T) {
	cluster := redistest.Cluster(t)
	client := cluster.Client(t)
	both := redisscript.New("redis.call('GET',KEYS[1]) redis.call('GET',KEYS[2]) return '1'")
	if err := redisscript.Load(t.Context(), client, add, both); err != nil {
		t.Fatal(err)
	}
	half, other := cluster.HalfMoved(t)
	g := &gate{open: make(chan struct{})}
	client.AddHook(g)
	b := bench{redisscript.NewBundler(client), g, nil}
	run := func(script *redisscript.Script, keys ...any) func() error {
		ended := make(chan error, 1)
		go func() { ended <- b.Run(t.Context(), []redisscript.Call{{Script: script, Keys: keys, Args: []any{1}}}) }()
		return func() error { return <-ended }
	}
	var ended []func() error
	for i := range redisscript.Flights {
		ended = append(ended, run(add, other+"filler"))
		redistest.Until(t, "it to be under way", func() bool { return b.waiting.Load() == int64(i+1) })
	}
	moving := run(both, half+"here", half+"nowhere")
	redistest.Until(t, "the one between two nodes to wait", func() bool { return b.Waiting() == 1 })
	for range 20 {
		ended = append(ended, run(add, other+"sum"))
	}
	redistest.Until(t, "all to wait", func() bool { return b.Waiting() == 21 })
	close(b.open)
	for _, end := range ended {
		none(t, []error{end()})
	}
	if err := moving(); err == nil {
		t.Error("a script whose keys are between two nodes was run")
	}
	want(t, "sum of twenty ones", client.Get(t.Context(), other+"sum").Val(), "20")
}

// One caller's mistake is not another's.
func TestEveryCallHasItsOwnError(t *testing.T) {
	b := newBench(t)
	first := b.fill(t)
	wrong := make(chan error, 1)
	go func() {
		wrong <- b.Run(t.Context(), []redisscript.Call{{Script: add, Keys: []any{"sum"}, Args: []any{"no number"}}})
	}()
	rest := b.adds(t.Context(), redisscript.Flights+1, 20)
	redistest.Until(t, "the others to wait", func() bool { return b.Waiting() == 21-redisscript.Flights })
	close(b.open)
	none(t, append(first(), rest()...))
	if err := <-wrong; err == nil {
		t.Error("adding what is no number: no error")
	}
	want(t, "sum of 1 to 20", b.sum(t), "210")
}
