//go:build apps

package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/internal/testing/redistest"
)

// A loss is something that happens under load.
type loss struct {
	name   string
	most   int // passwords of one account that may be checked then
	redis  func(t *testing.T, site *attacked) (config string)
	strike func(t *testing.T, site *attacked)
	mend   func(t *testing.T, site *attacked)
	// unnoticed: no node says that Redis is gone.
	unnoticed bool
}

// attacked is a site under constant attack, with people who go on logging in.
type attacked struct {
	nodes   []*server
	redis   *redistest.Server
	watched *redistest.Watched // by Sentinels, if it is

	down     atomic.Int32 // the node that is not there, from 1
	guesses  atomic.Int64
	refusing atomic.Int64 // the longest time to refuse, in nanoseconds
	entering atomic.Int64 // the longest time to let somebody in
	idle     time.Duration
	lost     atomic.Int64
	entered  atomic.Int64
	stop     chan struct{}
	running  sync.WaitGroup
}

const (
	victims      = 400 // accounts; each is guessed at for a while, ten at a time
	perVictim    = 20  // guesses
	regulars     = 6
	limit        = 5         // passwords of an unknown client that are checked in a day
	withoutRedis = limit + 3 // one more by each node
)

// scale is how many guesses come before a fault; twice as many come during and
// after it. `make faults` asks for more.
func scale() int64 {
	n, err := strconv.ParseInt(os.Getenv("FAULT_GUESSES"), 10, 64)
	if err != nil {
		return 40
	}
	return n
}

func patience() string {
	if measuring() {
		return ""
	}
	return ", timeout: 5s"
}

func withPassword(t *testing.T, a *attacked) string {
	a.redis = redistest.Standalone(t, "--requirepass", "secret")
	return fmt.Sprintf("addresses: ['%s'], password: secret%s", a.redis.Addr, patience())
}

func watchedBySentinels(t *testing.T, a *attacked) string {
	a.watched = redistest.Sentinel(t)
	a.redis = a.watched.Master
	return fmt.Sprintf("addresses: ['%s'], mode: sentinel, master: %s%s", strings.Join(a.watched.Addrs(), "', '"), redistest.MasterName, patience())
}

func losses() []loss {
	return []loss{
		{"none: the load alone", limit, withPassword, func(*testing.T, *attacked) {}, nil, true},
		{"Redis is killed, and starts empty", withoutRedis + limit, withPassword,
			func(_ *testing.T, a *attacked) { a.redis.Kill() }, func(t *testing.T, a *attacked) { a.redis.Start(t) }, false},
		{"Redis hangs (SIGSTOP)", withoutRedis, withPassword,
			func(t *testing.T, a *attacked) { a.redis.Stop(t) }, func(t *testing.T, a *attacked) { a.redis.Continue(t) }, false},
		{"Redis is full (OOM)", withoutRedis, withPassword,
			func(t *testing.T, a *attacked) {
				a.redis.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
				a.redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
			}, func(t *testing.T, a *attacked) { a.redis.Do(t, "CONFIG", "SET", "maxmemory", "0") }, false},
		{"Redis is flushed", 2 * limit, withPassword,
			func(t *testing.T, a *attacked) { a.redis.Do(t, "FLUSHALL") }, nil, true},
		{"Sentinels replace the master", withoutRedis, watchedBySentinels,
			func(t *testing.T, a *attacked) { a.watched.Hasty(t); a.watched.CatchUp(t); a.redis.Kill() }, nil, false},
		{"a node is killed (kill -9), and starts", withoutRedis, withPassword,
			func(_ *testing.T, a *attacked) { a.down.Store(1); a.nodes[0].kill() },
			func(_ *testing.T, a *attacked) { a.nodes[0].start(); a.down.Store(0) }, true},
	}
}

// TestAppsFaultsUnderLoad measures what docs/how-to/several-nodes.md promises. What it asserts
// are the counts; times are for `make faults`, which prints the table.
func TestAppsFaultsUnderLoad(t *testing.T) {
	table := []string{"| fault | checked of one account, at most | known people locked out | longest wait to be refused | longest added to a login | noticed after | back after |", "|---|---|---|---|---|---|---|"}
	for _, one := range losses() {
		t.Run(one.name, func(t *testing.T) { table = append(table, one.run(t)) })
	}
	t.Logf("under attack, with people logging in all the time:\n\n%s\n", strings.Join(table, "\n"))
}

func (l loss) run(t *testing.T) (row string) {
	a := &attacked{stop: make(chan struct{})}
	config := l.redis(t, a)
	users := make([]string, 0, victims+regulars)
	for i := range victims {
		users = append(users, fmt.Sprintf("victim%d", i))
	}
	for i := range regulars {
		users = append(users, fmt.Sprintf("person%d", i))
	}
	a.nodes = newNodes(t, 3, config, quiet+"limits: {pair_delay: off, check_timeout: 300ms}\n", users...)
	a.comeHome(t)
	a.begin(t)
	a.goOn(scale())
	struck := time.Now()
	l.strike(t, a)
	noticed, back := "–", "–"
	if !l.unnoticed {
		noticed = a.until(t, struck, "Redis cannot be used")
		if l.mend == nil { // it mends itself
			back = a.until(t, struck, "Redis is back")
		}
	}
	a.goOn(2 * scale())
	if l.mend != nil {
		mended := time.Now()
		l.mend(t, a)
		if !l.unnoticed {
			back = a.until(t, mended, "Redis is back")
		}
	}
	a.goOn(2 * scale())
	close(a.stop)
	a.running.Wait()
	most, checked := a.checked()
	if most > l.most {
		t.Errorf("%d passwords of one account were checked, of %d guesses at each; at most %d may be", most, perVictim, l.most)
	}
	if checked < limit*3 {
		t.Errorf("only %d passwords were checked: there was no attack", checked)
	}
	if a.lost.Load() > 0 || a.entered.Load() == 0 {
		t.Errorf("%d logins from known places failed, %d did not", a.lost.Load(), a.entered.Load())
	}
	added := time.Duration(a.entering.Load()) - a.idle
	return fmt.Sprintf("| %s | %d of %d | %d of %d | %d ms | %d ms | %s | %s |", l.name, most, limit, a.lost.Load(),
		a.lost.Load()+a.entered.Load(), time.Duration(a.refusing.Load()).Milliseconds(), max(0, added.Milliseconds()), noticed, back)
}

// comeHome has everybody log in once from where they will come again, at every
// node, and measures how long that takes.
func (a *attacked) comeHome(t *testing.T) {
	var took []time.Duration
	for i := range regulars {
		for _, s := range a.nodes {
			began := time.Now()
			if got := from(home(i)).login(t, s, fmt.Sprintf("person%d", i), rightPassword); got.status != http.StatusOK {
				t.Fatalf("person%d: %d %s", i, got.status, got.body)
			}
			took = append(took, time.Since(began))
		}
	}
	a.idle = median(took)
}

func home(i int) string { return fmt.Sprintf("127.250.%d.1", i) }

// begin sets the attack and the people going.
func (a *attacked) begin(t *testing.T) {
	var next atomic.Int64
	for range 24 {
		a.running.Go(func() {
			for i := int(next.Add(1)); a.goesOn(); i = int(next.Add(1)) {
				victim := (i/(10*perVictim)*10 + i%10) % victims
				s := a.node(i / 10)
				began := time.Now()
				guesser := from(loopback(20+i/7%100, i))
				guesser.daring = true
				got := guesser.login(t, s, fmt.Sprintf("victim%d", victim), "wrong")
				a.guesses.Add(1)
				if got.status != http.StatusUnauthorized {
					longest(&a.refusing, time.Since(began))
				}
			}
		})
	}
	for i := range regulars {
		a.running.Go(func() {
			for n := i; a.goesOn(); n++ {
				began, s := time.Now(), a.node(n)
				person := from(home(i))
				person.daring = true
				got := person.login(t, s, fmt.Sprintf("person%d", i), rightPassword)
				switch {
				case got.status == http.StatusOK:
					a.entered.Add(1)
					longest(&a.entering, time.Since(began))
				case got.status != 0: // the node was killed under it
					a.lost.Add(1)
					t.Errorf("person%d at home: %d %s", i, got.status, got.body)
				}
				<-time.After(300 * time.Millisecond)
			}
		})
	}
}

func (a *attacked) goesOn() bool {
	select {
	case <-a.stop:
		return false
	default:
		return true
	}
}

// node is the nth, or the one after it if that is not there.
func (a *attacked) node(n int) *server {
	if down := int(a.down.Load()); down > 0 && n%len(a.nodes) == down-1 {
		n++
	}
	return a.nodes[n%len(a.nodes)]
}

// goOn waits for so many more guesses.
func (a *attacked) goOn(guesses int64) {
	for end := a.guesses.Load() + guesses; a.guesses.Load() < end; {
		<-time.After(10 * time.Millisecond)
	}
}

// until waits for every node to have said something, and tells how long after.
func (a *attacked) until(t *testing.T, since time.Time, what string) string {
	redistest.Until(t, "every node to say: "+what, func() bool {
		return !slices.ContainsFunc(a.nodes, func(s *server) bool { return !s.log.has(what) })
	})
	return fmt.Sprintf("%d ms", time.Since(since).Milliseconds())
}

// checked is how many passwords of strangers were looked at: of the account
// with the most, and of all.
func (a *attacked) checked() (most, all int) {
	counts := map[string]int{}
	for _, s := range a.nodes {
		for line := range strings.Lines(s.log.String()) {
			if _, rest, ok := strings.Cut(line, `msg="attempt failed"`); ok {
				_, account, _ := strings.Cut(rest, "account=victim")
				account, _, _ = strings.Cut(account, " ")
				counts[account]++
				all++
			}
		}
	}
	for _, n := range counts {
		most = max(most, n)
	}
	return most, all
}

func longest(at *atomic.Int64, d time.Duration) {
	for {
		now := at.Load()
		if int64(d) <= now || at.CompareAndSwap(now, int64(d)) {
			return
		}
	}
}
