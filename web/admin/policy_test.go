package admin_test

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

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

func TestOtherNumbersAreTriedAndThenOverrideTheLimits(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	_, _, body := c.get(t, "/policy")
	for _, want := range []string{`href="/policy/try?limit=account"`, `href="/policy/try?limit=known-client"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Contains(body, "/policy/try?limit=spray") {
		t.Error("numbers of a subject without a list of limits can be tried")
	}
	if _, _, body = c.get(t, "/policy/try?limit=account"); !strings.Contains(body, `value="5/24h challenge, 100/24h block"`) {
		t.Errorf("the limits in force are not filled in:\n%s", body)
	}
	if status, _, _ := c.get(t, "/policy/try?limit=%3Cb%3E"); status != http.StatusBadRequest {
		t.Errorf("an unknown limit: %d", status)
	}
	try := url.Values{"csrf": {c.csrf(t, "/")}, "limit": {"account"}, "limits": {"8/1d, 100/24h block"}}
	status, _, body := c.post(t, "/policy/try", try)
	for _, want := range []string{"No difference to the limits in force", "8/24h challenge, 100/24h block", "limits:\n  account:\n    - 8/24h challenge", "Override limits"} {
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d, no %q in\n%s", status, want, body)
		}
	}
	for limits, want := range map[string]string{"8": "like 10/1m challenge, not &#34;8&#34;", "80/24h, 100/24h block": "challenges at 50 or fewer"} {
		try.Set("limits", limits)
		if _, _, body := c.post(t, "/policy/try", try); !strings.Contains(body, want) || strings.Contains(body, "Override limits") {
			t.Errorf("%s: no %q in\n%s", limits, want, body)
		}
	}
	try.Set("csrf", "x")
	if status, _, _ = c.post(t, "/policy/try", try); status != http.StatusForbidden {
		t.Errorf("another site started a replay: %d", status)
	}
	if got := c.Guard.Policy().Account[0].Failures; got != 5 {
		t.Errorf("trying changed the limit to %d", got)
	}

	set := url.Values{"csrf": {c.csrf(t, "/")}, "back": {"/policy"}, "limit": {"account"}, "limits": {"8/1d, 100/24h block"}, "for": {"1h"}, "reason": {"<b>exams"}}
	if status, to, _ := c.post(t, "/policy/limits", set); status != http.StatusSeeOther || to != "/policy" {
		t.Fatalf("%d to %q", status, to)
	}
	_, _, body = c.get(t, "/policy")
	for _, want := range []string{"In force on all nodes within a second", "Account limits: 8/24h challenge, 100/24h block", "&lt;b&gt;exams", "override", "Configured: <code>5/24h challenge, 100/24h block</code>", ">Undo"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if got := c.Guard.Policy().Account[0].Failures; got != 8 {
		t.Errorf("the limit is %d", got)
	}
	if alerted := strings.Join(c.told.take(), ""); !strings.Contains(alerted, "limits-overridden") || !strings.Contains(alerted, "configured: 5/24h challenge, 100/24h block") {
		t.Errorf("alerts: %q", alerted)
	}
	undo := url.Values{"csrf": {c.csrf(t, "/")}, "back": {"/policy"}, "limit": {"account"}, "to": {"reset"}, "reason": {"undone"}}
	if status, _, _ := c.post(t, "/policy", undo); status != http.StatusSeeOther || c.Guard.Policy().Account[0].Failures != 5 {
		t.Errorf("%d, the limit is %d", status, c.Guard.Policy().Account[0].Failures)
	}

	c.Clock.Advance(11 * time.Minute)
	for path, form := range map[string]url.Values{"/policy/limits": set, "/policy": {"back": {"/policy"}, "limit": {"account"}, "to": {"monitor"}, "reason": {"x"}}} {
		form.Set("csrf", c.csrf(t, "/"))
		c.post(t, path, form)
		if _, _, body = c.get(t, "/policy"); !strings.Contains(body, "more than ten minutes ago") || c.Guard.Policy().Account[0].Failures != 5 || c.Guard.Policy().Account[0].Monitor {
			t.Errorf("%s with an old sign-in:\n%s", path, body)
		}
	}
	if _, _, body = c.get(t, "/policy?switch=account&to=monitor"); !strings.Contains(body, "Sign in again") || strings.Contains(body, "policy_reason") {
		t.Errorf("the confirmation does not ask for a sign-in:\n%s", body)
	}
}
