package redisguard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/guard/redisguard"
	"authguard/internal/testing/redistest"
	"authguard/internal/testing/world"
)

var secret = []byte("sixteen random bytes, or more")

// patient is longer than any suite runs.
const patient = time.Hour

func join(t *testing.T, at string, timeout time.Duration, change ...func(*guard.Defaults)) *guard.Guard {
	t.Helper()
	g, err := redisguard.Default(secret, redisguard.Config{
		Server: redisguard.Server{Addresses: []string{at}}, Timeout: timeout, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}, change...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func attempt(name, address string) guard.Attempt {
	return guard.Attempt{Account: name, Address: netip.MustParseAddr(address)}
}

func try(t *testing.T, g *guard.Guard, a guard.Attempt, right bool) guard.Decision {
	t.Helper()
	d, _, err := g.Login(t.Context(), a, func(context.Context, *guard.Decision) (bool, error) { return right, nil })
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestProcessesOnOneRedisAreOneGuard(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	all := []*guard.Guard{join(t, server.Addr, patient), join(t, server.Addr, patient), join(t, server.Addr, patient)}

	try(t, all[0], attempt("alice", "192.0.2.7"), true)
	var looked atomic.Int64
	var guesses sync.WaitGroup
	for i := range 60 {
		guesses.Go(func() {
			_, _, _ = all[i%3].Login(t.Context(), attempt("alice", fmt.Sprintf("198.51.%d.1", i)),
				func(context.Context, *guard.Decision) (bool, error) { looked.Add(1); return false, nil })
		})
	}
	guesses.Wait()
	if looked.Load() != 5 {
		t.Errorf("%d of 60 guesses over three processes were looked at, want 5", looked.Load())
	}
	if d := try(t, all[1], attempt("alice", "203.0.113.9"), true); d.Action != guard.Challenge {
		t.Errorf("a stranger at another process: %v", d.Action)
	}
	if d := try(t, all[2], attempt("alice", "192.0.2.7"), true); !d.Known {
		t.Errorf("at home, at another process: %v", d.Action)
	}
}

// Ensure that what one process has issued is solved once at all of them.
func TestR17OneSolveOneAttemptOverProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	var all []*guard.Guard
	for range 2 {
		all = append(all, join(t, server.Addr, patient, func(d *guard.Defaults) { d.Policy.PairDelay = guard.PairDelay{} }))
		all[len(all)-1].Illustrate(world.Riddle{})
	}
	for i := range 5 {
		try(t, all[0], attempt("alice", fmt.Sprintf("198.51.%d.1", i)), false)
	}
	a := attempt("alice", "203.0.113.9")
	issued, err := all[0].Issue(t.Context(), a, try(t, all[0], a, false))
	if err != nil {
		t.Fatal(err)
	}
	a.Solution = challenge.Solution{ID: issued.ID, Answer: world.Answer} // the picture alone
	var right atomic.Int64
	var both sync.WaitGroup
	for i := range 10 {
		both.Go(func() {
			if d, err := all[i%2].Begin(t.Context(), a); err == nil && d.Action == guard.Proceed {
				right.Add(1)
			}
		})
	}
	both.Wait()
	if right.Load() != 1 {
		t.Errorf("one solve let %d attempts through", right.Load())
	}
	b := attempt("alice", "203.0.113.10")
	if issued, err = all[0].Issue(t.Context(), b, try(t, all[0], b, false)); err != nil {
		t.Fatal(err)
	}
	b.Solution = challenge.Solution{ID: issued.ID, Answer: world.Answer}
	if d, err := all[1].Begin(t.Context(), b); err != nil || d.Action != guard.Proceed {
		t.Errorf("what one process has asked, solved at the other: %v %v (%v)", d.Action, d.Reasons, err)
	}
}

func TestR22AProcessGoesOnWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	g := join(t, server.Addr, 0)
	home := attempt("alice", "192.0.2.7")
	try(t, g, home, true)
	server.Kill()
	looked := 0
	for i := range 20 {
		if d := try(t, g, attempt("alice", fmt.Sprintf("198.51.%d.1", i)), false); d.Action == guard.Proceed {
			looked++
		}
	}
	if looked != 2 { // half of the limit
		t.Errorf("without Redis %d guesses were looked at, want 2", looked)
	}
	if d := try(t, g, home, true); !d.Known {
		t.Errorf("at home, without Redis: %v", d.Action)
	}
	late := join(t, server.Addr, 0) // one that starts now
	if d := try(t, late, home, true); d.Action != guard.Proceed {
		t.Errorf("a process that starts without Redis: %v", d.Action)
	}
	one, err := redisguard.Default(secret, redisguard.Config{
		Server: redisguard.Server{Addresses: []string{server.Addr}}, Nodes: 5, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.Close)
	looked = 0
	for i := range 20 {
		if d := try(t, one, attempt("bob", fmt.Sprintf("198.51.%d.1", i)), false); d.Action == guard.Proceed {
			looked++
		}
	}
	if looked != 1 { // a fifth
		t.Errorf("one of five processes that starts without Redis looks at %d guesses, want 1", looked)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	join(t, server.Addr, patient)
	at := redisguard.Config{Server: redisguard.Server{Addresses: []string{server.Addr}}, Timeout: patient}
	if _, err := redisguard.Default([]byte("another secret, as long"), at); !errors.Is(err, redisguard.ErrSecret) {
		t.Errorf("another secret: %v", err)
	}
	other := at
	other.Prefix = "shop:"
	g, err := redisguard.Default([]byte("another secret, as long"), other)
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
	for want, one := range map[string]func() error{
		"Addresses: must name a server": func() error { _, err := redisguard.Default(secret, redisguard.Config{}); return err },
		"at least 16 random bytes":      func() error { _, err := redisguard.Default(nil, at); return err },
		"Store and Folder": func() error {
			_, err := redisguard.Default(secret, at, func(d *guard.Defaults) { d.Folder = "made" })
			if _, made := os.Stat("made"); made == nil {
				t.Error("it was made all the same")
			}
			return err
		},
		"must not be set, because Redis has": func() error {
			_, err := redisguard.Default(secret, at, func(d *guard.Defaults) { d.Store = guard.NewLocal(nil, nil) })
			return err
		},
		"limits.account[0].failures": func() error {
			_, err := redisguard.Default(secret, at, func(d *guard.Defaults) { d.Policy.Account[0].Failures = 0 })
			return err
		},
	} {
		if err := one(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Ensure that the pressure on the site is what all processes see, and that all ask then:
// neither half of this attack would switch the mode on.
func TestProcessesHaveOneMode(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	var all []*guard.Guard
	for range 2 {
		all = append(all, join(t, server.Addr, patient))
	}
	for i := range 40 {
		try(t, all[i%2], attempt(fmt.Sprintf("person%d", i), fmt.Sprintf("198.51.%d.1", i)), false)
	}
	for i, g := range all {
		redistest.Until(t, fmt.Sprintf("CAPTCHA mode at process %d", i), func() bool { return g.NeedsChallenge(netip.MustParseAddr("203.0.113.9")) })
	}
	other := join(t, server.Addr, patient, func(d *guard.Defaults) { d.Realm = "shop" })
	if other.NeedsChallenge(netip.MustParseAddr("203.0.113.9")) {
		t.Error("the attack on one site switched the mode of another on")
	}
}

// Ensure that processes count together again when Redis is back, with nothing in it.
func TestR22ProcessesCountTogetherAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	var up atomic.Int64
	var all []*guard.Guard
	for range 2 {
		g, err := redisguard.Default(secret, redisguard.Config{
			Server: redisguard.Server{Addresses: []string{server.Addr}}, Timeout: patient, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			OnChange: func(now bool, _ error) {
				if now {
					up.Add(1)
				} else {
					up.Add(-1)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Close)
		all = append(all, g)
	}
	server.Kill()
	for i, g := range all {
		try(t, g, attempt("carol", fmt.Sprintf("198.51.%d.1", i)), false)
	}
	redistest.Until(t, "the loss to be said at both", func() bool { return up.Load() == -2 })
	server.Start(t)
	redistest.Until(t, "Redis to be back at both", func() bool { return up.Load() == 0 })
	looked := 0
	for i := range 20 {
		if d := try(t, all[i%2], attempt("alice", fmt.Sprintf("203.0.%d.1", i)), false); d.Action == guard.Proceed {
			looked++
		}
	}
	if looked != 5 {
		t.Errorf("%d guesses over both were looked at, want 5", looked)
	}
}
