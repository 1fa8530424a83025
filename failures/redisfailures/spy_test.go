package redisfailures_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/failures/redisfailures"
)

// A spy sees what a client sends.
type spy struct {
	trips atomic.Int64
	mu    sync.Mutex
	sent  []redis.Cmder
}

func (s *spy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *spy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.note(cmd)
		return next(ctx, cmd)
	}
}

func (s *spy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.note(cmds...)
		return next(ctx, cmds)
	}
}

func (s *spy) note(cmds ...redis.Cmder) {
	s.trips.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, cmds...)
}

// scripts are the scripts that were run, by their keys.
func (s *spy) scripts() (all [][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cmd := range s.sent {
		args := cmd.Args()
		if name := strings.ToLower(fmt.Sprint(args[0])); name != "evalsha" && name != "eval" {
			continue
		}
		keys := make([]string, args[2].(int))
		for i := range keys {
			keys[i] = args[3+i].(string)
		}
		all = append(all, keys)
	}
	return all
}

// spied is a store whose client is watched from now on.
func (on redisOf) spied(t testing.TB) (*redisfailures.Store, *spy) {
	client, s := on.open(t), new(spy)
	client.AddHook(s)
	return newStore(t, client, on.options()), s
}

// hangingUp cancels a context once the first command is answered.
type hangingUp struct {
	spy
	after atomic.Pointer[context.CancelFunc]
}

func (h *hangingUp) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer h.hangUp()
		return next(ctx, cmd)
	}
}

func (h *hangingUp) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer h.hangUp()
		return next(ctx, cmds)
	}
}

func (h *hangingUp) hangUp() {
	if cancel := h.after.Swap(nil); cancel != nil {
		(*cancel)()
	}
}

func chargeIsOneTrip(t *testing.T, on redisOf) {
	store, seen := on.spied(t)
	fail(t, store, attemptOn(digest('a', 1), 1)...) // loads the scripts
	before := seen.trips.Load()
	fail(t, store, attemptOn(digest('a', 1), 2)...)
	want(t, "trips of a failed attempt", seen.trips.Load()-before, 1)
}

func scriptsStayInOneSlot(t *testing.T, on redisOf) {
	if !on.split {
		t.Log("one server has no slots: all keys are in one script")
		return
	}
	store, seen := on.spied(t)
	subjects := attemptOn(digest('a', 1), 1)
	at, _ := charge(t, store, subjects...)
	must(t, store.TakeBack(t.Context(), at, subjects))
	must(t, store.Read(t.Context(), subjects, make([]failures.Usage, 4)))
	must(t, store.Clear(t.Context(), subjects))
	scripts := seen.scripts()
	if len(scripts) < 8 {
		t.Fatalf("only %d scripts were run", len(scripts))
	}
	for _, keys := range scripts {
		for _, key := range keys {
			if tagOf(key) == "" || tagOf(key) != tagOf(keys[0]) {
				t.Errorf("one script has keys of several slots: %q", keys)
			}
		}
	}
}

func tagOf(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}
