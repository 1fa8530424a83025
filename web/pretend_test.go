package web_test

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/passwords"
	"authguard/internal/testing/world"
	"authguard/web"
)

// hole pretends to strangers from the second wrong password of an account on.
func hole() world.Options {
	p := guard.DefaultPolicy()
	p.Account = []guard.Limit{{Failures: 1, Window: 24 * time.Hour, Action: guard.FakeFailure}}
	return world.Options{Policy: &p}
}

// The right password of somebody who is pretended to is answered as a wrong one is:
// status, headers, body and delay, try for try, at both doors and in both forms.
func TestR12PretendingLooksLikeAWrongPassword(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"login", page}, {"login", "application/json"}, {"admin", page}, {"admin", "application/json"}} {
		door, accept := c[0], c[1]
		t.Run(door+" "+accept, func(t *testing.T) {
			t.Parallel()
			account := map[string]string{"login": "alice", "admin": "root"}[door]
			came := func(o world.Options) (h *house, b *browser) {
				h = newHouseWith(t, o)
				h.people.all["root"] = accounts.Login{Account: "root", Role: accounts.Admin, Password: h.people.all["alice"].Password}
				b = h.browser(accept)
				if door == "admin" {
					login := h.login("admin", h.gate, h.checker)
					login.Admin = true
					b.to = (&web.Public{Login: login, API: h.api, Log: quiet}).Handler()
				}
				other := h.browser(accept)
				other.to, other.from = b.to, "198.51.100.1"
				other.login(account, "wrong")
				return h, b
			}
			hers, she := came(hole())
			_, stranger := came(world.Options{})
			for i := range 4 {
				got, want := she.login(account, []string{right, "one", "two", right}[i]), stranger.login(account, []string{"not " + right, "one", "two", "not " + right}[i])
				if says(got, account) != says(want, account) || !reflect.DeepEqual(got.Header(), want.Header()) || len(got.Result().Cookies()) > 0 {
					t.Errorf("try %d: %s %v\nnot %s %v", i, says(got, account), got.Header(), says(want, account), want.Header())
				}
				if wantCode := []int{401, 401, 401, 429}[i]; got.Code != wantCode {
					t.Errorf("try %d: %d, want %d", i, got.Code, wantCode)
				}
			}
			if n := hers.charged(t, account); n != 1+3 {
				t.Errorf("%d charges, want the account's one before (R5) and three of the pair's delay", n)
			}
		})
	}
}

// Its check takes a turn like any other: without one it is 503, and it starves nobody
// who has asked for less (R26).
func TestR19APretendedAttemptTakesATurn(t *testing.T) {
	t.Parallel()
	h := newHouseWith(t, hole())
	b := h.browser("application/json")
	b.login("alice", "wrong")
	leave, err := h.gate.Enter(t.Context(), passwords.Request{Account: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan int, 2)
	for _, from := range []string{"198.51.100.1", "198.51.100.2"} {
		one := h.browser("application/json")
		one.from = from
		go func() { answer <- one.login("alice", right).Code }()
	}
	if code := <-answer; code != http.StatusServiceUnavailable { // one place in the queue
		t.Errorf("without a turn: %d", code)
	}
	leave()
	if code := <-answer; code != http.StatusUnauthorized {
		t.Errorf("with one: %d", code)
	}
}

// The decision API says so, so that the caller answers like its own wrong passwords,
// and a success is none.
func TestTheDecisionAPISaysPretend(t *testing.T) {
	t.Parallel()
	b := newBackEndOf(t, hole())
	var out struct {
		Decision, Ticket string
		Suffices         *bool `json:"password_suffices"`
		RetryAfter       int   `json:"retry_after"`
	}
	in := map[string]string{"account": "alice", "address": "192.0.2.1"}
	b.settle(t, b.begin(t), "failed")
	if b.post(t, "/v1/attempts", in, &out); out.Decision != "fake-failure" || out.Ticket == "" || out.Suffices == nil || *out.Suffices || out.RetryAfter != 0 {
		t.Errorf("%+v", out)
	}
	if status := b.post(t, "/v1/attempts/settle", map[string]string{"ticket": out.Ticket, "outcome": "succeeded"}, nil); status != http.StatusForbidden {
		t.Errorf("settled as a success: %d", status)
	}
}
