package web_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/testing/apitest"
	"authguard/internal/testing/world"
	"authguard/web"
)

func newEvents(t *testing.T) *backEnd {
	t.Helper()
	p := guard.DefaultPolicy()
	p.Events = map[string][]guard.EventLimit{"password-reset": {
		{Count: 2, Window: time.Hour, Action: guard.Block, By: guard.OnAccount},
		{Count: 3, Window: time.Hour, Action: guard.Challenge, By: guard.OnAddress},
	}}
	return newBackEndOf(t, world.Options{Policy: &p})
}

type eventAnswer struct {
	Decision       string
	Reasons, Words []string
	RetryAfter     int `json:"retry_after"`
	Challenge      *struct{ ID, Image string }
}

func TestAnEventIsAnsweredWithItsDecision(t *testing.T) {
	t.Parallel()
	b := newEvents(t)
	post := func(account string, more map[string]string) (out eventAnswer) {
		t.Helper()
		in := map[string]any{"account": account, "address": "192.0.2.1"}
		if more != nil {
			in["challenge"] = more
		}
		if status := b.post(t, "/v1/events/password-reset", in, &out); status != http.StatusOK {
			t.Fatalf("%d", status)
		}
		return out
	}
	for range 2 {
		if out := post("alice", nil); out.Decision != "proceed" || len(out.Reasons) != 0 || out.Reasons == nil || out.RetryAfter != 0 {
			t.Errorf("%+v", out)
		}
	}
	b.Clock.Advance(10 * time.Minute)
	out := post("Alice", nil)
	if out.Decision != "block" || out.RetryAfter != 3001 || !slices.Equal(out.Reasons, []string{"limit:account"}) ||
		!strings.Contains(out.Words[0], "the account had 2 of password-reset within 1 hour") {
		t.Errorf("%+v", out)
	}
	post("bob", nil)
	out = post("bob", nil)
	if out.Decision != "challenge" || out.Challenge == nil || out.Challenge.Image == "" {
		t.Fatalf("%+v", out)
	}
	if out = post("bob", map[string]string{"id": out.Challenge.ID, "answer": world.Answer}); out.Decision != "proceed" {
		t.Errorf("solved: %+v", out)
	}
}

func TestAnEventThatCannotBeCountedSaysWhatToDo(t *testing.T) {
	t.Parallel()
	b := newEvents(t)
	for name, c := range map[string]struct {
		path, token, body string
		status            int
		says              string
	}{
		"no token":         {"password-reset", "", `{}`, 401, "Bearer token required"},
		"unknown":          {"pasword-reset", "token", `{}`, 404, "Limited events: password-reset."},
		"no account":       {"password-reset", "token", `{"address":"192.0.2.1"}`, 400, "password-reset counts by account. Send it"},
		"no address":       {"password-reset", "token", `{"account":"alice"}`, 400, "counts by address"},
		"a bad address":    {"password-reset", "token", `{"account":"alice","address":"localhost"}`, 400, "address: send the client's IP address"},
		"a bad name":       {"password-reset", "token", `{"account":"a\u0000b","address":"192.0.2.1"}`, 400, "account: send 1 to"},
		"a misspelt field": {"password-reset", "token", `{"acount":"alice"}`, 400, "Unknown field"},
		"no object":        {"password-reset", "token", `[]`, 400, "Send one JSON object"},
		"too large":        {"password-reset", "token", `{"subject":"` + strings.Repeat("x", web.MaxBody) + `"}`, 413, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/v1/events/"+c.path, strings.NewReader(c.body))
			r.Header.Set("Content-Type", "application/json")
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			w := apitest.Do(t, b.doors, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%d %s %s", w.Code, w.Header(), w.Body)
			}
		})
	}
}
