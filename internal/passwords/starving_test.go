package passwords

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// asker is somebody by account and place.
func asker(known bool, account, place string) Request {
	of := func(text string) (d [16]byte) {
		sum := sha256.Sum256([]byte(text))
		return [16]byte(sum[:16])
	}
	return Request{Known: known, Pair: of(account + " at " + place), Address: of(place), Account: account}
}

// wantEmpty wants nothing left behind.
func (g *Queue) wantEmpty(t *testing.T) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running+g.queued()+len(g.present) != 0 {
		t.Errorf("left behind: %d run, %d wait, %d are present", g.running, g.queued(), len(g.present))
	}
}

// A site checks passwords on two processors, a quarter of a second each. Nothing
// else takes time: the clock is synctest's.
type site struct {
	gate   *Queue
	checks atomic.Int64
}

const oneCheck = 250 * time.Millisecond

// login is one login from its beginning to its end, and how long it took.
func (s *site) login(ctx context.Context, a Request) (took time.Duration, ok bool) {
	began := time.Now()
	leave, err := s.gate.Enter(ctx, a)
	if err != nil {
		return time.Since(began), false
	}
	defer leave()
	s.checks.Add(1)
	time.Sleep(oneCheck)
	return time.Since(began), true
}

// everybodyElse are 20 logins of strangers, of people who are known where they are
// and of administrators, over 20 s. It returns how many of each took no more than
// 3 s.
func (s *site) everybodyElse() (within [classes]int) {
	var all sync.WaitGroup
	var quick [classes]atomic.Int64
	for i := range 20 {
		for class := range quick {
			a := asker(class == known, fmt.Sprint(class, "person", i), fmt.Sprint(class, "home", i))
			a.Admin = class == administrators
			all.Go(func() {
				if took, ok := s.login(context.Background(), a); ok && took <= 3*time.Second {
					quick[class].Add(1)
				}
			})
			time.Sleep(time.Second / classes)
		}
	}
	all.Wait()
	for class := range within {
		within[class] = int(quick[class].Load())
	}
	return within
}

// TestR26NobodyStarvesTheOthers: whoever asks all the time, everybody else's
// login takes no more than 3 s.
func TestR26NobodyStarvesTheOthers(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]struct {
		parallel int
		of       func(i, round int) Request
	}{
		"30 right logins of one account from its known place": {30, func(int, int) Request { return asker(true, "mallory", "den") }},
		"two accounts, 60 in parallel":                        {60, func(i, _ int) Request { return asker(true, fmt.Sprint("mallory", i%2), "den") }},
		"30 of a stranger's address, each time another account": {30, func(i, round int) Request {
			return asker(false, fmt.Sprint("victim", i, "-", round), "den")
		}},
		"200 strangers' addresses, one account": {200, func(i, _ int) Request { return asker(false, "victim", fmt.Sprint("bot", i)) }},
		"200 strangers' addresses, each time another account": {200, func(i, round int) Request {
			return asker(false, fmt.Sprint("victim", i, "-", round), fmt.Sprint("bot", i))
		}},
		"200 addresses, each with an account of its own that is known there": {200, func(i, _ int) Request {
			return asker(true, fmt.Sprint("sock", i), fmt.Sprint("bot", i))
		}},
		"1,500 connections of one address and account": {1500, func(int, int) Request { return asker(false, "victim", "den") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &site{}
				s.gate, _ = NewQueue(QueueConfig{AtOnce: 2, Queue: 256, MaxWait: 3 * time.Second})
				ctx, stop := context.WithCancel(t.Context())
				var attackers sync.WaitGroup
				for i := range attack.parallel {
					attackers.Go(func() {
						for round := 0; ctx.Err() == nil; round++ {
							if _, ok := s.login(ctx, attack.of(i, round)); !ok {
								time.Sleep(time.Second / 2) // it does not wait as it is told
							}
						}
					})
				}
				synctest.Wait()
				if within := s.everybodyElse(); slices.Min(within[:]) < 19 {
					t.Errorf("of 20 strangers, known people and administrators: %v within 3 s", within)
				}
				if n := s.checks.Load(); n < 150 {
					t.Errorf("%d passwords were checked in 20 s: turns were wasted", n)
				}
				stop()
				attackers.Wait()
				s.gate.wantEmpty(t)
			})
		})
	}
}
