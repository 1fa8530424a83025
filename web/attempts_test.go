package web_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/internal/world"
	"authguard/web"
)

// A back end is what calls the decision API, with the API's timers in its hand.
type backEnd struct {
	*world.World
	doors *echo.Echo
	later []func()
}

func newBackEnd(t *testing.T) *backEnd {
	t.Helper()
	b := &backEnd{World: world.New(t, world.Options{}), doors: echo.New()}
	api := &web.API{
		Guard: b.Guard, Settled: challenge.NewMemorySpent(0, b.Clock.Now),
		Later: func(_ time.Duration, f func()) { b.later = append(b.later, f) },
	}
	api.SetTokens([]string{"token"})
	api.Routes(b.doors)
	return b
}

func (b *backEnd) post(t *testing.T, path string, in any, out any) (status int) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Authorization", "Bearer token")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	b.doors.ServeHTTP(w, r)
	if out != nil {
		if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
	}
	return w.Code
}

func (b *backEnd) begin(t *testing.T) (ticket string) {
	t.Helper()
	var out struct{ Decision, Ticket string }
	b.post(t, "/v1/attempts", map[string]string{"account": "alice", "address": "192.0.2.1"}, &out)
	if out.Decision != "proceed" {
		t.Fatalf("the attempt was answered %q", out.Decision)
	}
	return out.Ticket
}

func (b *backEnd) settle(t *testing.T, ticket, outcome string) {
	t.Helper()
	if status := b.post(t, "/v1/attempts/settle", map[string]string{"ticket": ticket, "outcome": outcome}, nil); status != http.StatusNoContent {
		t.Fatalf("settling was answered %d", status)
	}
}

// pass lets the longest password check go by.
func (b *backEnd) pass() {
	b.Clock.Advance(b.Policy().PendingFor + time.Second)
	for _, f := range b.later {
		f()
	}
	b.later = nil
}

func TestR20ATicketThatNobodySettlesIsPressure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after string // outcomes, before and after the longest check has gone by
		pressure      int
	}{
		"never":              {"", "", 1},
		"failed":             {"failed", "", 1},
		"succeeded":          {"succeeded", "", 0},
		"failed too late":    {"", "failed", 1},
		"succeeded too late": {"", "succeeded", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackEnd(t)
			ticket := b.begin(t)
			if c.before != "" {
				b.settle(t, ticket, c.before)
			}
			b.pass()
			if c.after != "" {
				b.settle(t, ticket, c.after)
			}
			if got := b.Mode.State().Pressure[captchamode.Failure]; got != c.pressure {
				t.Errorf("the pressure is %d, not %d", got, c.pressure)
			}
		})
	}
}

func TestR11AmbiguousJSONIsRefused(t *testing.T) {
	t.Parallel()
	b := newBackEnd(t)
	for _, body := range []string{
		`{"account":"alice","account":"bob","address":"192.0.2.1"}`,
		`{"account":"alice","ACCOUNT":"bob","address":"192.0.2.1"}`,
		`{"Account":"alice","address":"192.0.2.1"}`,
		`{"account":"alice","address":"192.0.2.1","challenge":{"id":"a","id":"b","answer":"c"}}`,
		`{"account":["alice"],"address":"192.0.2.1"}`,
		`["alice"]`, `"alice"`, `{"account":"alice","address":"192.0.2.1"} {}`,
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/attempts", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer token")
		w := httptest.NewRecorder()
		b.doors.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || strings.Contains(w.Body.String(), "web.") {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}
