package metrics

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Timings are latency histograms. Its methods take 0.1 µs, so the hot path may call them.
type Timings struct {
	// Traces also gets the timings as spans; nil: off. Set it before use.
	Traces *Traces

	decision, held, check, queued, redis prometheus.Histogram
	answers                              *prometheus.HistogramVec
}

// Decisions take microseconds or a round trip to Redis, password checks 0.1 s, delayed attempts seconds.
var (
	quick = []float64{1e-5, 2.5e-5, 1e-4, 2.5e-4, 1e-3, 2.5e-3, 0.01, 0.025, 0.1, 0.25, 1, 5}
	slow  = []float64{1e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20}
)

func newTimings(r prometheus.Registerer) *Timings {
	of := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		r.MustRegister(h)
		return h
	}
	t := &Timings{
		decision: of("authguard_decision_seconds", "Time to decide an attempt, including Redis and without delays.", quick),
		held:     of("authguard_delay_seconds", "Waiting time of delayed attempts.", slow),
		check:    of("authguard_check_seconds", "Time of a password check.", slow),
		queued:   of("authguard_check_queue_seconds", "Time in the queue for password checks.", slow),
		redis:    of("authguard_redis_trip_seconds", "Time of requests to Redis, including failed ones.", quick),
		answers: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "authguard_answer_seconds", Help: "Time to the first byte of the response.", Buckets: slow,
		}, []string{"listener", "route", "code"}),
	}
	r.MustRegister(t.answers)
	return t
}

// Decided is for guard.Config.Timed.
func (t *Timings) Decided(ctx context.Context, took, waited time.Duration) {
	if t.Traces != nil {
		step(ctx, "decide", took)
	}
	t.decision.Observe((took - waited).Seconds())
	if waited > 0 {
		t.held.Observe(waited.Seconds())
	}
}

// Checked is for passwords.QueueConfig.Timed.
func (t *Timings) Checked(ctx context.Context, waited, took time.Duration) {
	if t.Traces != nil {
		step(ctx, "check the password", took)
	}
	t.queued.Observe(waited.Seconds())
	t.check.Observe(took.Seconds())
}

// Redis is for redisstore.Server.Timed.
func (t *Timings) Redis(ctx context.Context, took time.Duration) {
	if t.Traces != nil {
		step(ctx, "Redis", took)
	}
	t.redis.Observe(took.Seconds())
}

// Answered returns the observer of a listener's responses. route is a pattern such as /login, never the requested path,
// so the labels are a closed set.
func (t *Timings) Answered(listener string) func(r *http.Request, route string, status int, took time.Duration) {
	return func(r *http.Request, route string, status int, took time.Duration) {
		if t.Traces != nil {
			answered(r.Context(), method(r.Method), route, status)
		}
		t.answers.WithLabelValues(listener, route, strconv.Itoa(status)).Observe(took.Seconds())
	}
}
