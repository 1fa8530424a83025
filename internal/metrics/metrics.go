// Package metrics counts for Prometheus, StatsD and the overview, and sends traces. Everything is in bounded memory of
// one node; Prometheus keeps the long term.
package metrics

import (
	"cmp"
	"database/sql"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/events"
	"authguard/internal/passwords"
)

// Metrics are the Prometheus metrics, a sink of the event bus with gauges. No label contains user input.
type Metrics struct {
	*Timings
	registry *prometheus.Registry
	attempts *prometheus.CounterVec
	switches *prometheus.CounterVec
}

var _ events.Sink = (*Metrics)(nil)

// Gauges are the sources of the gauges. All but Redis are required.
type Gauges struct {
	Realms func() []RealmGauges
	Size   func() (keys int, bytes int64) // failures.Memory.Size
	// Dropped is events.Bus.Dropped: events that no sink has seen.
	Dropped func() uint64
	// Channels returns the alert channels.
	Channels func() []alerts.Channel
	// Refused is wire.Listener.Refused: requests that were not parsed.
	Refused func() uint64
	// Unintroduced is wire.Listener.Unintroduced: closed load balancer connections without a PROXY header.
	Unintroduced func() uint64
	// DatabaseUp reports whether the last write of sessions succeeded.
	DatabaseUp func() bool
	Database   *sql.DB
	Build      Build
	// Redis is the nodes' shared store; nil with one node.
	Redis *RedisGauges
}

// A Build identifies the running program.
type Build struct{ Version, Commit, Go string }

// RealmGauges are the gauges of one realm. All are required.
type RealmGauges struct {
	Realm  string
	Mode   *captchamode.Mode
	Held   func() int                  // guard.Guard.Held
	HungUp func() uint64               // guard.Guard.HungUp
	Checks func() passwords.QueueState // passwords.Queue.State
	// Events is guard.Guard.Tallied: limited events by name and decision.
	Events func() map[string]map[string]uint64
	// Enforced is policy.Limits.Enforced: whether the policy as a whole is enforced.
	Enforced func() bool
	// Unusable counts logins whose password hash could not be checked.
	Unusable func() uint64
}

// RedisGauges are the gauges of the connection to Redis. All are required.
type RedisGauges struct {
	Up       func() bool
	Failures func() int64 // requests, since the start
	Unsent   func() int   // local changes not yet in Redis
	Closed   func() uint64
	Nodes    func() int
}

// New returns metrics without gauges, because the bus needs its sinks before their sources exist.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "authguard_attempts_total",
			Help: "Login attempts by ending, strongest reason, and whether a monitored limit would have challenged or blocked " +
				"them.",
		}, []string{"realm", "ending", "cause", "monitored"}),
		switches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "authguard_captcha_mode_switches_total",
			Help: "Changes of CAPTCHA mode, by the new state: off, throttling or on.",
		}, []string{"realm", "to"}),
	}
	m.Timings = newTimings(m.registry)
	m.registry.MustRegister(m.attempts, m.switches, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Watch adds the gauges. Call it once.
func (m *Metrics) Watch(g Gauges) {
	gauge := func(name, help string, read func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	}
	counter := func(name, help string, read func() float64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read))
	}
	m.registry.MustRegister(realmsCollector{g.Realms}, channelsCollector(g.Channels))
	gauge("authguard_tracked_keys", "Accounts, IP addresses, networks and pairs with counters.",
		func() float64 { keys, _ := g.Size(); return float64(keys) })
	gauge("authguard_tracked_bytes", "Memory of the counters.",
		func() float64 { _, bytes := g.Size(); return float64(bytes) })
	counter("authguard_events_dropped_total", "Events missing from the log, the audit log and the metrics.",
		func() float64 { return float64(g.Dropped()) })
	counter("authguard_requests_rejected_total", "Requests rejected because parsers could interpret them differently.",
		func() float64 { return float64(g.Refused()) })
	counter("authguard_proxy_headers_missing_total",
		"Connections of peers in proxy_protocol_from that were closed because they had no valid PROXY header.",
		func() float64 { return float64(g.Unintroduced()) })
	gauge("authguard_database_up", "0 while the database cannot be written.",
		func() float64 { return truth(g.DatabaseUp()) })
	m.registry.MustRegister(collectors.NewDBStatsCollector(g.Database, "authguard"),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "authguard_build_info", Help: "Always 1. The labels are the running version.",
			ConstLabels: prometheus.Labels{"version": g.Build.Version, "commit": g.Build.Commit, "go": g.Build.Go},
		}, func() float64 { return 1 }))
	if r := g.Redis; r != nil {
		gauge("authguard_redis_up", "0 while Redis is unavailable and this node counts locally.",
			func() float64 { return truth(r.Up()) })
		gauge("authguard_nodes", "Number of nodes last seen, including this one.",
			func() float64 { return float64(r.Nodes()) })
		gauge("authguard_redis_pending_updates", "Local changes not yet written to Redis.",
			func() float64 { return float64(r.Unsent()) })
		counter("authguard_redis_failures_total", "Failed requests to Redis.",
			func() float64 { return float64(r.Failures()) })
		counter("authguard_redis_trips_avoided_total",
			"Decisions made without Redis, because the limit was known to be full.",
			func() float64 { return float64(r.Closed()) })
	}
}

func truth(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// A realmsCollector reads the realms at each scrape, because realms are added and removed.
type realmsCollector struct{ realms func() []RealmGauges }

// Describe describes nothing, so the registry checks what Collect sends.
func (realmsCollector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the numbers of each realm.
func (c realmsCollector) Collect(to chan<- prometheus.Metric) {
	limited := prometheus.NewDesc("authguard_events_total", "Events with limits, by decision.", []string{"realm", "event",
		"decision"}, nil)
	for _, r := range c.realms() {
		for name, counts := range r.Events() {
			for decision, n := range counts {
				to <- prometheus.MustNewConstMetric(limited, prometheus.CounterValue, float64(n), r.Realm, name, decision)
			}
		}
		send := func(kind prometheus.ValueType, name, help string, value float64) {
			to <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, []string{"realm"}, nil), kind, value, r.Realm)
		}
		const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
		state, checks := r.Mode.State(), r.Checks()
		send(gauge, "authguard_captcha_mode", "1 while CAPTCHA mode is on.", truth(r.Mode.On()))
		send(gauge, "authguard_enforced", "0 while all limits are monitored only.", truth(r.Enforced()))
		send(gauge, "authguard_throttling", "1 while unknown clients are throttled or CAPTCHA mode is due.",
			truth(r.Mode.Throttling()))
		send(gauge, "authguard_failure_rate",
			"Failure rate: failed logins, unsolved challenges and attempts rejected for overload in the last minute.",
			float64(state.FailureRate.Total()))
		send(gauge, "authguard_threshold", "The failure rate above which CAPTCHA mode turns on.", state.Threshold)
		send(gauge, "authguard_delayed_attempts", "Delayed attempts waiting on this node.", float64(r.Held()))
		send(counter, "authguard_hung_up_total", "Clients that disconnected before the password check.", float64(r.HungUp()))
		send(gauge, "authguard_checks_running", "Running password checks.", float64(checks.Running))
		send(gauge, "authguard_checks_waiting_unknown_clients", "Unknown clients in the password check queue.",
			float64(checks.Unknown))
		send(gauge, "authguard_checks_waiting_known_clients", "Known clients in the password check queue.",
			float64(checks.Known))
		send(gauge, "authguard_checks_waiting_administrators", "Administrators' logins in the password check queue.",
			float64(checks.Administrators))
		send(gauge, "authguard_check_queue_crowded",
			"1 while one account or IP address crowds the queue for password checks.", truth(checks.Hogged))
		send(counter, "authguard_checks_shed_total", "Logins rejected because the password check queue was full or too slow.",
			float64(checks.Shed))
		send(counter, "authguard_hashes_unusable_total", "Logins to accounts whose password hash cannot be checked.",
			float64(r.Unusable()))
	}
}

// A channelsCollector reads the alert channels, which change with the configuration.
type channelsCollector func() []alerts.Channel

// Describe describes nothing, as in realmsCollector.
func (channelsCollector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the numbers of each channel.
func (c channelsCollector) Collect(to chan<- prometheus.Metric) {
	dead := 0.0
	for _, one := range c() {
		dead += truth(one.Tries > 0)
		for _, of := range []struct {
			kind       prometheus.ValueType
			name, help string
			n          int
		}{
			{prometheus.GaugeValue, "authguard_alerts_waiting", "Alerts in the outbox, not delivered yet.", one.Waiting},
			{prometheus.CounterValue, "authguard_alerts_delivered_total", "Alerts delivered by this node.", one.Delivered},
		} {
			to <- prometheus.MustNewConstMetric(prometheus.NewDesc(of.name, of.help, []string{"channel"}, nil), of.kind,
				float64(of.n), one.Name)
		}
	}
	to <- prometheus.MustNewConstMetric(prometheus.NewDesc("authguard_alert_channels_dead",
		"Alert channels whose last message could not be sent.", nil, nil),
		prometheus.GaugeValue, dead)
}

// Forget deletes the counters of a removed realm.
func (m *Metrics) Forget(realm string) {
	m.attempts.DeletePartialMatch(prometheus.Labels{"realm": realm})
	m.switches.DeletePartialMatch(prometheus.Labels{"realm": realm})
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Handle counts events.
func (m *Metrics) Handle(batch []guard.Event) {
	for i := range batch {
		if ending := events.EndingOf(&batch[i]); ending != events.Undecided {
			m.attempts.WithLabelValues(cmp.Or(batch[i].Realm, guard.DefaultRealm), ending.String(),
				reasonOf(&batch[i]).Cause.String(), strconv.FormatBool(monitored(&batch[i]))).Inc()
		}
	}
}

func monitored(e *guard.Event) bool {
	return slices.ContainsFunc(e.Reasons, func(r guard.Reason) bool { return r.Monitored })
}

// HandleSwitch counts a switch.
func (m *Metrics) HandleSwitch(s events.ModeSwitch) {
	m.switches.WithLabelValues(cmp.Or(s.Realm, guard.DefaultRealm), s.To).Inc()
}

// Tick does nothing.
func (m *Metrics) Tick(time.Time) {}
