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
	"authguard/internal/policy"
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
	c.effects.Handle(c.Events())
	_, _, body := c.get(t, "/policy?switch=account&to=monitor")
	for _, want := range []string{
		"All limits are enforced", "Account limits: switch to monitoring mode?", "stopped 2 attempts: 1 account from 2 IP addresses", "IP address limits", "CAPTCHA mode", `href="/audit?what=limit%3Aaccount%3A5%2F24h"`,
		"Use configured value",
	} {
		if has := strings.Contains(body, want); has != (want != "Use configured value") {
			t.Errorf("%q: %v in\n%s", want, has, body)
		}
	}
	f := url.Values{"csrf": {c.csrf(t, "/")}, "back": {"/policy"}, "limit": {"account"}, "to": {"monitor"}, "for": {"7d"}, "reason": {"<b>to see"}}
	if status, to, _ := c.post(t, "/policy", f); status != http.StatusSeeOther || to != "/policy" {
		t.Fatalf("%d to %q", status, to)
	}
	_, _, body = c.get(t, "/policy")
	for _, want := range []string{"Some limits are in monitoring mode", "admin:ann", "&lt;b&gt;to see", "In monitoring mode on all nodes", "Use configured value"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if what, who, _ := c.recorded(t); what != "policy-monitor" || who != "admin:ann" {
		t.Errorf("%s by %s", what, who)
	}
	if _, _, body = c.get(t, "/"); !strings.Contains(body, "Some limits are in monitoring mode") {
		t.Error("the page Now says nothing of it")
	}
	if a, _, err := c.Login(t.Context(), guard.Attempt{Account: "<img src=x onerror=alert(1)>", Address: netip.AddrFrom4([4]byte{192, 0, 9, 1})}, no); err != nil || a.Action != guard.Proceed {
		t.Errorf("%v %v", a.Action, err)
	}
	var p struct {
		policy.View
		Mode any `json:"mode"`
	}
	c.mustAsk(t, "GET", "/api/policy", "", &p)
	if len(p.Overrides) != 1 || p.Overrides[0].LimitSet != "account" || p.Overrides[0].Until.IsZero() {
		t.Errorf("%+v", p.Overrides)
	}
	c.mustAsk(t, "PUT", "/api/policy", `{"limit":"all","to":"reset","reason":"enough"}`, &p)
	if len(p.Overrides) != 0 || !p.Enforce || len(p.Monitored) != 0 {
		t.Errorf("%+v", p)
	}
	for question, want := range map[string]string{
		`{"to":"monitor","reason":"x"}`: "limit: missing", `{"limit":"all","to":"monitor"}`: "missing reason", `{"limit":"all","to":"monitor","reason":"x","for":"soon"}`: "duration",
	} {
		if status, body := c.ask(t, "PUT", "/api/policy", question, nil); status != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", question, status, body)
		}
	}
}
