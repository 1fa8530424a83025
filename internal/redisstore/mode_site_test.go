package redisstore_test

import (
	"crypto/rand"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/captchamode"
	"authguard/internal/redisstore"
	"authguard/internal/testing/clocktest"
	"authguard/internal/testing/redistest"
)

// A site is some nodes over one Redis.
type site struct {
	*clocktest.Clock // Redis's
	open             func(testing.TB) redis.UniversalClient
	prefix           string
	config           captchamode.Config
	nodes            []*node
}

// A node is one process of a site.
type node struct {
	*redisstore.Mode
	mode     *captchamode.Mode
	fault    *fault
	switches []captchamode.Switch
	errors   []error
}

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// twoHours is a configuration in which every attack has the same cool-down.
func twoHours() captchamode.Config {
	c := captchamode.DefaultConfig()
	c.CoolDownMin = c.CoolDown
	return c
}

func newSite(t testing.TB, open func(testing.TB) redis.UniversalClient, nodes int) *site {
	t.Helper()
	s := &site{Clock: clocktest.At(start), open: open, prefix: rand.Text() + ":", config: twoHours()}
	for range nodes {
		s.add(t)
	}
	s.round(t)
	s.round(t) // each knows of all others
	return s
}

// add starts one more node, which has not flushed yet.
func (s *site) add(t testing.TB) *node { return s.addWith(t, s.Now, nil) }

func (s *site) addWith(t testing.TB, now func() time.Time, before func(*captchamode.Mode)) *node {
	t.Helper()
	n := &node{fault: &fault{}}
	var err error
	n.mode, err = captchamode.NewMode(s.config, now, func(one captchamode.Switch) { n.switches = append(n.switches, one) })
	must(t, err)
	if before != nil {
		before(n.mode)
	}
	client := s.open(t)
	client.AddHook(n.fault)
	n.Mode, err = redisstore.NewMode(client, n.mode, redisstore.ModeOptions{
		Prefix: s.prefix, OnError: func(err error) { n.errors = append(n.errors, err) },
	})
	must(t, err)
	n.Tell(s.Now)
	s.nodes = append(s.nodes, n)
	return n
}

func (n *node) flush(t testing.TB) {
	t.Helper()
	must(t, n.Flush(t.Context()))
}

// round has every node flush once.
func (s *site) round(t testing.TB) {
	t.Helper()
	for _, n := range s.nodes {
		n.flush(t)
	}
}

// pass lets time pass in steps, with a round after each.
func (s *site) pass(t testing.TB, d, step time.Duration) {
	t.Helper()
	for ; d > 0; d -= step {
		s.Advance(min(d, step))
		s.round(t)
	}
}

var serial atomic.Uint64

// address is one that shares its share with no other of the last 16,384.
func address() (a [16]byte) {
	n := serial.Add(1)
	a[0], a[1] = byte(n), byte(n>>8)
	return a
}

// fail has n addresses fail once each.
func (n *node) fail(times int) {
	for range times {
		n.mode.Observe(captchamode.Failure, address())
	}
}

// recorded counts how often CAPTCHA mode went on and off in the history of the
// site, and how often any node's did.
func (s *site) recorded() (on, off, all int) {
	for _, n := range s.nodes {
		for _, one := range n.switches {
			if one.On == one.WasOn {
				continue
			}
			all++
			switch {
			case one.Adopted:
			case one.On:
				on++
			default:
				off++
			}
		}
	}
	return on, off, all
}

func (s *site) wantRecorded(t testing.TB, on, off, all int) {
	t.Helper()
	gotOn, gotOff, gotAll := s.recorded()
	if gotOn != on || gotOff != off || gotAll != all {
		t.Errorf("recorded %d on and %d off, %d switches of nodes; want %d, %d, %d", gotOn, gotOff, gotAll, on, off, all)
	}
}

func (s *site) want(t testing.TB, on bool) {
	t.Helper()
	for i, n := range s.nodes {
		if got := n.mode.On(); got != on {
			t.Errorf("node %d: CAPTCHA mode is %v, want %v (%+v)", i, got, on, n.mode.State())
		}
	}
}

func (n *node) wantPressure(t testing.TB, want int) {
	t.Helper()
	if got := n.mode.State().FailureRate.Total(); got != want {
		t.Errorf("the pressure is %d, want %d", got, want)
	}
}

func on(server *redistest.Server) func(testing.TB) redis.UniversalClient {
	return func(t testing.TB) redis.UniversalClient {
		c := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, DialerRetries: 1})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}
