//go:build apps

package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"authguard/internal/testing/redistest"
)

// noLimits leaves nothing between an attacker and the password checks.
const noLimits = "limits: {pair_delay: off, address: [], network: [], account: [], known_client: []}\n"

// TestR26EverybodyElseGetsIn attacks the real product with logins that nothing
// stops, while people who are known where they are and strangers log in: all get in.
// `make faults` takes the product's own cost and patience, adds the attack of 200
// addresses, and times 20 logins of each: at least 19 within 3 s. (How long a machine
// that is busy with other tests takes says nothing; internal/passwords counts by a
// clock of its own.)
func TestR26EverybodyElseGetsIn(t *testing.T) {
	users := []string{"mallory0", "mallory1"}
	for i := range 200 {
		users = append(users, fmt.Sprint("sock", i))
	}
	for i := range 60 {
		users = append(users, fmt.Sprint("person", i), fmt.Sprint("newcomer", i))
	}
	slow := "passwords: {cost: 12, queue_timeout: 1m}\n" // at 10, the checks of 30 logins end within a second on a fast machine
	if measuring() {
		slow = "passwords: {cost: 12}\n"
	}
	s := newServer(t, quiet+noLimits+slow, users...)
	tally(60, 8, func(i int) int {
		return from(loopback(70, i)).login(t, s, fmt.Sprint("person", i), rightPassword).status
	})
	for i := range 2 {
		from("127.71.0.1").login(t, s, fmt.Sprint("mallory", i), rightPassword)
	}
	for k, attack := range []struct {
		name     string
		parallel int
		login    func(i, round int) int
	}{
		{"30 right logins of one account, from its known place", 30, func(int, int) int {
			return from("127.71.0.1").login(t, s, "mallory0", rightPassword).status
		}},
		{"two accounts, 60 in parallel", 60, func(i, _ int) int {
			return from("127.71.0.1").login(t, s, fmt.Sprint("mallory", i%2), rightPassword).status
		}},
		{"200 strangers' addresses, half of the passwords right", 200, func(i, round int) int {
			if i%2 == 0 {
				return from(loopback(72, i)).login(t, s, fmt.Sprint("sock", i), rightPassword).status
			}
			return from(loopback(72, i)).login(t, s, fmt.Sprintf("sock%d", (i+round)%200), "wrong").status
		}},
	} {
		if attack.parallel == 200 && !measuring() {
			continue
		}
		t.Run(attack.name, func(t *testing.T) {
			var attackers sync.WaitGroup
			over := make(chan struct{})
			for i := range attack.parallel {
				attackers.Go(func() {
					for round := 0; ; round++ {
						select {
						case <-over:
							return
						default:
						}
						if attack.login(i, round) == http.StatusServiceUnavailable {
							<-time.After(time.Second / 4) // less than it was told
						}
					}
				})
			}
			<-time.After(time.Second)
			people, most := 10, 0
			if measuring() {
				people, most = 20, 1
			}
			known, strangers := everybodyElse(t, s, 20*k, people)
			redistest.Until(t, "the alert", func() bool { return s.log.has("kind=password-queue-crowded") })
			close(over)
			attackers.Wait()
			for who, took := range map[string][]time.Duration{"known people": known, "strangers": strangers} {
				quick := took
				if measuring() {
					quick = slices.DeleteFunc(slices.Clone(took), func(d time.Duration) bool { return d > 3*time.Second })
				}
				if len(quick) < people-most {
					t.Errorf("%s: %d of %d logins", who, len(quick), people)
				}
				if len(took) > 0 {
					t.Logf("%s: %d of %d got in, median %v, longest %v", who, len(took), people, median(took), slices.Max(took))
				}
			}
		})
	}
	if n := strings.Count(s.log.String(), "kind=password-queue-crowded"); n != 1 {
		t.Errorf("%d alerts, want one", n)
	}
}

// everybodyElse returns how long those took who got in.
func everybodyElse(t *testing.T, s *server, first, people int) (known, strangers []time.Duration) {
	pause := time.Second / 10
	if measuring() {
		pause = time.Second
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	login := func(into *[]time.Duration, address, name string) {
		all.Go(func() {
			began := time.Now()
			if got := from(address).login(t, s, name, rightPassword); got.status == http.StatusOK {
				mu.Lock()
				defer mu.Unlock()
				*into = append(*into, time.Since(began))
			}
		})
	}
	for i := first; i < first+people; i++ {
		login(&known, loopback(70, i), fmt.Sprint("person", i))
		login(&strangers, loopback(73, i), fmt.Sprint("newcomer", i))
		<-time.After(pause)
	}
	all.Wait()
	return known, strangers
}

func TestBurstOverThreeNodesGetsExactlyTheLimitEveryTime(t *testing.T) {
	for name, redis := range map[string]func(*testing.T) string{"one server": standalone, "a Cluster": cluster} {
		t.Run(name, func(t *testing.T) {
			var users []string
			for run := range bursts() {
				users = append(users, fmt.Sprintf("victim%d", run))
			}
			// A node waits this long for those that another one checks.
			nodes := newNodes(t, 3, redis(t), quiet+"limits: {pair_delay: off, check_timeout: 1s}\n", users...)
			for run, victim := range users {
				counts := tally(500, 200, func(i int) int {
					return from(loopback(40+run, i%100)).login(t, nodes[i%3], victim, "wrong").status
				})
				if counts[http.StatusUnauthorized] != 5 || counts[http.StatusForbidden] != 495 {
					t.Errorf("run %d: %v; want 5 × 401 and 495 × 403", run, counts)
				}
			}
			// And here nobody may be taken for failed because the machine is busy.
			nodes = newNodes(t, 3, redis(t), quiet+"limits: {pair_delay: off, check_timeout: 1m}\n", "alice")
			right := tally(20, 20, func(i int) int { return from(loopback(2, i)).login(t, nodes[i%3], "alice", rightPassword).status })
			if right[http.StatusOK] != 20 {
				t.Errorf("20 right logins at once: %v, want 20 × 200", right)
			}
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
