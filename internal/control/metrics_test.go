package control_test

import (
	"database/sql"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"authguard/guard"
	"authguard/internal/control"
	"authguard/internal/database/databasetest"
	"authguard/internal/events"
	"authguard/internal/passwords"
)

func scrape(t *testing.T, m *control.Metrics) string {
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
		m := control.NewMetrics()
		m.Watch(control.Gauges{
			Mode: d.w.Mode, Held: d.w.Held, HungUp: d.w.HungUp, Size: d.w.Counts.Size, Dropped: func() uint64 { return 7 }, DeadChannels: func() int { return 8 }, Refused: func() uint64 { return 9 }, Unintroduced: func() uint64 { return 10 },
			Checks: func() passwords.GateState {
				return passwords.GateState{Running: 2, Strangers: 3, Known: 4, Administrators: 5, Shed: 6, Hogged: true}
			},
		})
		d.w.HangUp()
		for range 6 {
			d.w.Wrong(t, "mallory-typed-this", "192.0.2.66")
			d.w.Clock.Advance(1e10)
		}
		d.w.Right(t, "ann", "198.51.100.1")
		d.w.Right(t, "ann", "198.51.100.1")
		d.w.Force(t)
		m.Handle(append(d.w.Events(), guard.Event{Action: guard.Proceed}))
		m.HandleSwitch(events.ModeSwitch{To: events.ModeOn})
		got := scrape(t, m)
		for _, line := range []string{
			`authguard_attempts_total{cause="none",ending="failed"} 5`,
			`authguard_attempts_total{cause="limit",ending="challenged"} 1`,
			`authguard_attempts_total{cause="none",ending="succeeded"} 1`,
			`authguard_attempts_total{cause="privileged-place",ending="succeeded"} 1`,
			`authguard_captcha_mode_switches_total{to="on"} 1`,
			"authguard_captcha_mode 1", "authguard_slowing 0", "authguard_threshold 30", "authguard_held_attempts 0",
			"authguard_events_dropped_total 7", "authguard_requests_refused_total 9", "authguard_proxy_headers_missing_total 10", "authguard_hung_up_total 1", "authguard_checks_running 2",
			"authguard_checks_waiting_strangers 3", "authguard_checks_waiting_known 4", "authguard_checks_waiting_administrators 5",
			"authguard_checks_shed_total 6", "authguard_checks_crowded 1", "authguard_counter_keys ", "authguard_counter_bytes ", "authguard_pressure ",
		} {
			if !strings.Contains(got, "\n"+line) {
				t.Errorf("%q is missing", line)
			}
		}
		if strings.Contains(got, "mallory") || strings.Contains(got, "192.0.2") {
			t.Error("somebody's words are in the metrics")
		}
	})
}
