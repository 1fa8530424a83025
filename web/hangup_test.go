package web_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/internal/passwords"
	"authguard/internal/testing/apitest"
	"authguard/web"
)

// hangUp sends a login and goes away as soon as it waits.
func (h *house) hangUp(t *testing.T, address, name string, waits func() bool) {
	t.Helper()
	ctx, goAway := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, "POST", "/login", strings.NewReader("username="+name+"&password=wrong"))
	r.RemoteAddr = address + ":1"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answered := make(chan struct{})
	go func() { h.ServeHTTP(httptest.NewRecorder(), r); close(answered) }()
	for !waits() {
		runtime.Gosched()
	}
	goAway()
	<-answered
}

// TestR26HangingUpIsPressureAndNoError: 476 clients that hung up in the queue
// wrote 476 lines of level ERROR.
func TestR26HangingUpIsPressureAndNoError(t *testing.T) {
	t.Parallel()
	for door, admin := range map[string]bool{"login": false, "admin": true} {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			var out strings.Builder
			log := slog.New(slog.NewTextHandler(&out, nil))
			checker, _ := passwords.NewChecker(bcrypt.MinCost, nil)
			login := h.login(door, h.gate, checker)
			login.Log, login.Admin = log, admin
			login.Hold.Store(int64(time.Minute))
			h.Handler = (&web.Public{Login: login, API: new(web.API), Log: log}).Handler()

			leave, err := h.gate.Enter(t.Context(), passwords.Request{})
			if err != nil {
				t.Fatal(err)
			}
			for _, address := range []string{"203.0.113.1", "203.0.113.2", "203.0.113.3"} {
				h.hangUp(t, address, "alice", func() bool { s := h.gate.State(); return s.Unknown+s.Administrators == 1 })
			}
			leave()
			for range 3 {
				h.browser(page).login("bob", "wrong")
			}
			h.hangUp(t, "192.0.2.1", "bob", func() bool { return h.Held() == 1 })
			if strings.Contains(out.String(), "level=ERROR") {
				t.Errorf("errors: %s", &out)
			}
			// Bob's address has had its share of the pressure with its failures.
			if got := h.Mode.State().FailureRate[captchamode.Overload]; got != 3 {
				t.Errorf("pressure of %d, want 3", got)
			}
			if got := h.HungUp(); got != 4 {
				t.Errorf("%d are counted, want 4", got)
			}
		})
	}
}

// TestR26ABackEndThatHangsUpIsPressureAndNoError: five undecided attempts fill the
// account's room, and the sixth waits for its turn (R3).
func TestR26ABackEndThatHangsUpIsPressureAndNoError(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	checker, _ := passwords.NewChecker(bcrypt.MinCost, nil)
	api := &web.API{Guard: h.Guard, Settled: challenge.NewMemorySpent(0, h.Clock.Now), Tokens: oneToken(), Later: func(time.Duration, func()) {}}
	h.Handler = apitest.Handler(t, (&web.Public{Login: h.login("login", h.gate, checker), API: api, Log: log}).Handler())
	ask := func(ctx context.Context, i int) string {
		r := httptest.NewRequestWithContext(ctx, "POST", "/v1/attempts", strings.NewReader(fmt.Sprintf(`{"account":"alice","address":"203.0.113.%d"}`, i)))
		r.Header.Set("Authorization", "Bearer token")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Body.String()
	}
	for i := range 5 {
		if got := ask(t.Context(), i); !strings.Contains(got, `"proceed"`) {
			t.Fatal(got)
		}
	}
	ctx, goAway := context.WithCancel(t.Context())
	answered := make(chan struct{})
	go func() { ask(ctx, 6); close(answered) }()
	for h.Held() == 0 {
		runtime.Gosched()
	}
	goAway()
	<-answered
	if got := h.Mode.State().FailureRate[captchamode.Overload]; got != 1 || h.HungUp() != 1 || strings.Contains(out.String(), "level=ERROR") {
		t.Errorf("pressure of %d, %d counted, log: %s", got, h.HungUp(), &out)
	}
}
