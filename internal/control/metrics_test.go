package control_test

import (
	"database/sql"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/database/databasetest"
	"authguard/internal/events"
	"authguard/internal/metrics"
	"authguard/internal/passwords"
)

func scrape(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetricsCountEndingsAndCausesAndNothingThatWasTyped(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		m := metrics.New()
		checks := func() passwords.QueueState {
			return passwords.QueueState{Running: 2, Unknown: 3, Known: 4, Administrators: 5, Shed: 6, Hogged: true}
		}
		realms := []metrics.RealmGauges{{Realm: "default", Mode: d.w.Mode, Held: d.w.Held, HungUp: d.w.HungUp, Checks: checks, Events: d.w.Tallied, Enforced: func() bool { return true }, Unusable: func() uint64 { return 3 }}}
		m.Watch(metrics.Gauges{
			Realms: func() []metrics.RealmGauges { return realms },
			Size:   d.w.Counts.Size, Dropped: func() uint64 { return 7 }, Channels: func() []alerts.Channel {
				return []alerts.Channel{{Name: "smtp mail.example.org", Waiting: 3, Delivered: 4, Tries: 1}, {Name: "ntfy ntfy.sh"}}
			},
			Refused: func() uint64 { return 9 }, Unintroduced: func() uint64 { return 10 },
			Database: db, DatabaseUp: func() bool { return true }, Build: metrics.Build{Version: "v1.2.3", Commit: "abc", Go: "go1"},
			Redis: &metrics.RedisGauges{
				Up: func() bool { return true }, Failures: func() int64 { return 0 }, Unsent: func() int { return 0 },
				Closed: func() uint64 { return 0 }, Nodes: func() int { return 3 },
			},
		})
		m.Decided(t.Context(), 3*time.Second+40*time.Microsecond, 3*time.Second)
		m.Decided(t.Context(), 20*time.Microsecond, 0)
		m.Checked(t.Context(), 30*time.Millisecond, 70*time.Millisecond)
		m.Redis(t.Context(), 2*time.Millisecond)
		m.Answered("public")(httptest.NewRequest(http.MethodPost, "/login", nil), "/login", http.StatusForbidden, 80*time.Millisecond)
		d.w.HangUp()
		for range 6 {
			d.w.Wrong(t, "mallory-typed-this", "192.0.2.66")
			d.w.Clock.Advance(1e10)
		}
		d.w.Right(t, "ann", "198.51.100.1")
		d.w.Right(t, "ann", "198.51.100.1")
		d.w.Force(t)
		m.Handle(append(d.w.Events(), guard.Event{Action: guard.Proceed}, guard.Event{Settled: true, Outcome: guard.Failed, Reasons: guard.Reasons{{Cause: guard.LimitReached, Monitored: true}}}))
		m.HandleSwitch(events.ModeSwitch{To: events.ModeOn})
		got := scrape(t, m)
		for _, line := range []string{
			`authguard_attempts_total{cause="none",ending="failed",monitored="false",realm="default"} 5`,
			`authguard_attempts_total{cause="limit",ending="challenged",monitored="false",realm="default"} 1`,
			`authguard_attempts_total{cause="none",ending="succeeded",monitored="false",realm="default"} 1`,
			`authguard_attempts_total{cause="known-client",ending="succeeded",monitored="false",realm="default"} 1`,
			`authguard_attempts_total{cause="none",ending="failed",monitored="true",realm="default"} 1`,
			`authguard_captcha_mode_switches_total{realm="default",to="on"} 1`,
			`authguard_captcha_mode{realm="default"} 1`, `authguard_throttling{realm="default"} 0`, `authguard_threshold{realm="default"} 30`,
			`authguard_delayed_attempts{realm="default"} 0`, "authguard_events_dropped_total 7", "authguard_requests_rejected_total 9", "authguard_proxy_headers_missing_total 10", `authguard_hung_up_total{realm="default"} 1`,
			`authguard_checks_running{realm="default"} 2`, `authguard_checks_waiting_unknown_clients{realm="default"} 3`,
			`authguard_checks_waiting_known_clients{realm="default"} 4`, `authguard_checks_waiting_administrators{realm="default"} 5`,
			`authguard_checks_shed_total{realm="default"} 6`, `authguard_hashes_unusable_total{realm="default"} 3`, `authguard_check_queue_crowded{realm="default"} 1`,
			`authguard_decision_seconds_bucket{le="2.5e-05"} 1`, `authguard_decision_seconds_bucket{le="0.0001"} 2`, `authguard_decision_seconds_count 2`,
			`authguard_delay_seconds_bucket{le="2.5"} 0`, `authguard_delay_seconds_bucket{le="5"} 1`, `authguard_delay_seconds_count 1`,
			`authguard_check_seconds_bucket{le="0.05"} 0`, `authguard_check_seconds_bucket{le="0.1"} 1`, `authguard_check_queue_seconds_bucket{le="0.05"} 1`,
			`authguard_redis_trip_seconds_bucket{le="0.001"} 0`, `authguard_redis_trip_seconds_bucket{le="0.0025"} 1`,
			`authguard_answer_seconds_bucket{code="403",listener="public",route="/login",le="0.1"} 1`,
			`authguard_build_info{commit="abc",go="go1",version="v1.2.3"} 1`, "authguard_database_up 1", "authguard_redis_up 1", "authguard_nodes 3",
			`go_sql_open_connections{db_name="authguard"} `,
			"authguard_alert_channels_dead 1", `authguard_alerts_waiting{channel="smtp mail.example.org"} 3`, `authguard_alerts_delivered_total{channel="smtp mail.example.org"} 4`,
			"authguard_tracked_keys ", "authguard_tracked_bytes ", `authguard_failure_rate{realm="default"} `,
		} {
			if !strings.Contains(got, "\n"+line) {
				t.Errorf("%q is missing", line)
			}
		}
		complaints, err := promlint.New(strings.NewReader(got)).Lint() // what promtool check metrics says
		if err != nil || len(complaints) > 0 {
			t.Errorf("%v %v", complaints, err)
		}
		realms = append(realms, metrics.RealmGauges{Realm: "shop", Mode: d.w.Mode, Held: d.w.Held, HungUp: d.w.HungUp, Checks: checks, Events: d.w.Tallied, Enforced: func() bool { return false }, Unusable: func() uint64 { return 3 }})
		m.HandleSwitch(events.ModeSwitch{Realm: "shop", To: events.ModeOn})
		const both = `authguard_captcha_mode{realm="shop"} 1`
		const switched = `authguard_captcha_mode_switches_total{realm="shop",to="on"} 1`
		if now := scrape(t, m); !strings.Contains(now, both) || !strings.Contains(now, switched) {
			t.Error("a realm that was added is missing")
		}
		realms = realms[:1]
		m.Forget("shop")
		if now := scrape(t, m); strings.Contains(now, "shop") {
			t.Error("a realm that was removed is there")
		}
		if strings.Contains(got, "mallory") || strings.Contains(got, "192.0.2") {
			t.Error("somebody's words are in the metrics")
		}
	})
}
