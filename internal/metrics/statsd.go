package metrics

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/cactus/go-statsd-client/v5/statsd"

	"authguard/guard"
	"authguard/internal/events"
)

// StatsD sends counts per second and gauges to a StatsD server. It is a sink of the event bus and sends from its own
// goroutine. Unsent data is lost, as usual with UDP. The zero StatsD sends nothing.
type StatsD struct {
	// Address is host:port of the server; empty disables it.
	Address string
	// Prefix precedes every name, such as "authguard".
	Prefix string
	// Realms is read each second.
	Realms func() []RealmGauges
	Log    *slog.Logger

	mu     sync.Mutex
	counts map[string]int64
}

var _ events.Sink = (*StatsD)(nil)

// Handle counts events.
func (s *StatsD) Handle(batch []guard.Event) {
	if s.Address == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range batch {
		e := &batch[i]
		ending := events.EndingOf(e)
		if ending == events.Undecided {
			continue
		}
		s.add(e.Realm, "attempts."+ending.String())
		if cause := reasonOf(e).Cause; !e.Settled && cause != guard.NoCause {
			s.add(e.Realm, "stopped."+cause.String())
		}
	}
}

// HandleSwitch counts a switch.
func (s *StatsD) HandleSwitch(m events.ModeSwitch) {
	if s.Address == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(m.Realm, "captcha_mode_switches."+m.To)
}

// Tick does nothing: Run has its own clock.
func (s *StatsD) Tick(time.Time) {}

func (s *StatsD) add(realm, name string) {
	if s.counts == nil {
		s.counts = make(map[string]int64)
	}
	s.counts[of(realm)+name]++
}

// of returns the realm's part of a metric name, without dots, which would create folders.
func of(realm string) string {
	if realm = events.RealmName(cmp.Or(realm, guard.DefaultRealm)); realm == "" {
		return ""
	}
	return "realms." + strings.ReplaceAll(realm, ".", "_") + "."
}

// Run sends each second until ctx ends, and then once more.
func (s *StatsD) Run(ctx context.Context) {
	if s.Address == "" {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var to statsd.Statter
	var tried time.Time
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		if to == nil && time.Since(tried) > time.Minute {
			tried = time.Now()
			to = s.dial()
		}
		if to != nil {
			s.send(to)
		}
	}
	if to != nil {
		_ = to.Close()
	}
}

// dial returns nil if the server's name does not resolve; Run retries each minute.
func (s *StatsD) dial() statsd.Statter {
	to, err := statsd.NewClientWithConfig(&statsd.ClientConfig{
		Address: s.Address, Prefix: s.Prefix, ResInterval: time.Minute, UseBuffered: true,
	})
	if err != nil {
		s.Log.Warn("StatsD cannot be reached; metrics are lost until it can", "address", s.Address, "error", err)
		return nil
	}
	return to
}

// send sends the counts since the last call, and the gauges. It ignores errors, since the next datagram may arrive.
func (s *StatsD) send(to statsd.Statter) {
	s.mu.Lock()
	counts := maps.Clone(s.counts)
	clear(s.counts)
	s.mu.Unlock()
	for name, n := range counts {
		_ = to.Inc(name, n, 1)
	}
	for _, r := range s.Realms() {
		state, at := r.Mode.State(), of(r.Realm)
		for name, value := range map[string]float64{
			"captcha_mode": truth(r.Mode.On()), "failure_rate": float64(state.FailureRate.Total()), "threshold": state.Threshold,
			"delayed_attempts": float64(r.Held()), "checks_waiting": float64(r.Checks().Waiting()),
		} {
			_ = to.Gauge(at+name, int64(value), 1)
		}
	}
}
