package admin_test

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/control"
)

func TestThePolicyIsSwitchedOnThePageAndByTheAPI(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	c.ForgetEvents()
	no := func(context.Context) (bool, error) { return false, nil }
	for i := range 7 {
		a := guard.Attempt{Account: "<img src=x onerror=alert(1)>", Address: netip.AddrFrom4([4]byte{192, 0, byte(i), 1}), Integration: "login"}
		if _, _, err := c.Login(t.Context(), a, no); err != nil {
			t.Fatal(err)
		}
	}
	c.ledger.Handle(c.Events())
	_, _, body := c.get(t, "/policy?switch=account&to=watch")
	for _, want := range []string{
		"Everything is enforced", "Limits of an account: watch only?", "stopped 2 attempts: 1 account from 2 addresses", "Limits of an address", "CAPTCHA mode", `href="/audit?what=limit%3Aaccount%3A5%2F24h"`,
		"Back to the configuration",
	} {
		if has := strings.Contains(body, want); has != (want != "Back to the configuration") {
			t.Errorf("%q: %v in\n%s", want, has, body)
		}
	}
	f := url.Values{"csrf": {c.csrf(t, "/")}, "back": {"/policy"}, "ladder": {"account"}, "to": {"watch"}, "for": {"7d"}, "reason": {"<b>to see"}}
	if status, to, _ := c.post(t, "/policy", f); status != http.StatusSeeOther || to != "/policy" {
		t.Fatalf("%d to %q", status, to)
	}
	_, _, body = c.get(t, "/policy")
	for _, want := range []string{"A part is only watched", "admin:ann", "&lt;b&gt;to see", "Only watched from now on", "Back to the configuration"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if what, who, _ := c.recorded(t); what != "policy-monitor" || who != "admin:ann" {
		t.Errorf("%s by %s", what, who)
	}
	if _, _, body = c.get(t, "/"); !strings.Contains(body, "A part of the policy is not enforced") {
		t.Error("the page Now says nothing of it")
	}
	if a, _, err := c.Login(t.Context(), guard.Attempt{Account: "<img src=x onerror=alert(1)>", Address: netip.AddrFrom4([4]byte{192, 0, 9, 1})}, no); err != nil || a.Action != guard.Proceed {
		t.Errorf("%v %v", a.Action, err)
	}
	var p struct {
		control.Policy
		Mode any `json:"mode"`
	}
	c.mustAsk(t, "GET", "/api/policy", "", &p)
	if len(p.Words) != 1 || p.Words[0].Ladder != "account" || p.Words[0].Until.IsZero() {
		t.Errorf("%+v", p.Words)
	}
	c.mustAsk(t, "PUT", "/api/policy", `{"ladder":"all","to":"file","reason":"enough"}`, &p)
	if len(p.Words) != 0 || !p.Enforce || len(p.Watched) != 0 {
		t.Errorf("%+v", p)
	}
	for question, want := range map[string]string{
		`{"to":"watch","reason":"x"}`: "say which ladder", `{"ladder":"all","to":"watch"}`: "say why", `{"ladder":"all","to":"watch","reason":"x","for":"soon"}`: "duration",
	} {
		if status, body := c.ask(t, "PUT", "/api/policy", question, nil); status != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", question, status, body)
		}
	}
}
