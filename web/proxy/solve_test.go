package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/testing/world"
	"authguard/web"
)

func solveForm(fields ...string) offer {
	all := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		all.Set(fields[i], fields[i+1])
	}
	return offer{"POST", "/.authguard/solve", "application/x-www-form-urlencoded", all.Encode()}
}

func (d *door) json(t *testing.T, from, account, password string) *http.Response {
	t.Helper()
	body := fmt.Sprintf(`{"user":{"username":%q,"password":%q}}`, account, password)
	return d.send(t, from, offer{"POST", "/api/login", "application/json", body}, "Accept", "application/json")
}

// solveAhead solves what the page asks an account for, and returns the page's answer.
func (d *door) solveAhead(t *testing.T, from, account, route, answer string) string {
	t.Helper()
	page := text(t, d.send(t, from, solveForm("username", account, "route", route)))
	_, id := gate(t, page)
	if id == "" {
		t.Fatalf("no challenge: %s", page)
	}
	return text(t, d.send(t, from, solveForm("username", account, "route", route, "captcha_id", id, "captcha_answer", answer)))
}

// An app that cannot show a challenge: its owner solves one on our page, and signs in without a cookie.
func TestR17AnOwnerSolvesAheadForAnAppWithoutAPage(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "json")
	for i := range 5 {
		d.json(t, fmt.Sprintf("198.18.%d.1", i), "alice", fmt.Sprint(i))
	}
	r := d.json(t, "203.0.113.9", "alice", right)
	var p web.Problem
	if err := json.Unmarshal([]byte(text(t, r)), &p); err != nil || r.StatusCode != http.StatusForbidden {
		t.Fatalf("%d, %v", r.StatusCode, err)
	}
	if want := d.URL + "/.authguard/solve"; p.Solve != want || !strings.Contains(p.Detail, want) {
		t.Errorf("the way on: %q in %q", p.Solve, p.Detail)
	}
	if page := text(t, d.send(t, "203.0.113.9", offer{"GET", "/.authguard/solve", "", ""})); !strings.Contains(page, `name="username"`) {
		t.Fatalf("the page asks for no account: %s", page)
	}
	if page := d.solveAhead(t, "203.0.113.9", "alice", "login", "wrong"); !strings.Contains(page, "was not solved") {
		t.Errorf("a wrong answer: %s", page)
	}
	if r := d.json(t, "203.0.113.9", "alice", right); r.StatusCode != http.StatusForbidden {
		t.Errorf("after a wrong answer: %d", r.StatusCode)
	}
	if page := d.solveAhead(t, "203.0.113.9", "alice", "login", world.Answer); !strings.Contains(page, "You can sign in now") {
		t.Fatalf("solved: %s", page)
	}
	for name, r := range map[string]*http.Response{
		"another address": d.json(t, "203.0.113.10", "alice", right),
		"no retry before": d.json(t, "203.0.113.11", "alice", "guess"),
	} {
		if r.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", name, r.StatusCode)
		}
	}
	if r := d.json(t, "203.0.113.9", "alice", "wrong"); r.StatusCode != http.StatusOK {
		t.Errorf("the attempt: %d %s", r.StatusCode, text(t, r))
	}
	if r := d.json(t, "203.0.113.9", "alice", right); r.StatusCode != http.StatusForbidden {
		t.Errorf("a second attempt: %d", r.StatusCode)
	}
	d.solveAhead(t, "203.0.113.9", "alice", "login", world.Answer)
	if r := d.json(t, "203.0.113.9", "alice", right); r.StatusCode != http.StatusFound {
		t.Errorf("right at last: %d %s", r.StatusCode, text(t, r))
	}
}

// In CAPTCHA mode, too, and for one route only. A made-up account gets the same (R12).
func TestASolutionAheadIsOfOneRoute(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form", "code")
	d.Force(t)
	page := text(t, d.send(t, "203.0.113.9", offer{"GET", "/.authguard/solve?route=verification-code", "", ""}))
	if !strings.Contains(page, "<option selected>verification-code") {
		t.Fatalf("no choice of routes: %s", page)
	}
	for _, account := range []string{"alice", "made-up"} {
		a := d.solveAhead(t, "203.0.113.9", account, "verification-code", world.Answer)
		if !strings.Contains(a, "You can sign in now") {
			t.Fatalf("%s: %s", account, a)
		}
		if r := d.send(t, "203.0.113.9", form("username="+account+"&password=guess")); r.StatusCode != http.StatusForbidden {
			t.Errorf("%s: at another route: %d", account, r.StatusCode)
		}
		d.solveAhead(t, "203.0.113.9", account, "login", world.Answer)
		if r := d.send(t, "203.0.113.9", form("username="+account+"&password=guess")); r.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", account, r.StatusCode)
		}
	}
	for _, o := range []offer{solveForm("username", "alice", "route", "other"), solveForm("username", "", "route", "login"), solveForm("username", "a\x00b", "route", "login")} {
		if r := d.send(t, "203.0.113.9", o); r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", o.body, r.StatusCode)
		}
	}
	d.solveAhead(t, "203.0.113.9", "bob", "login", world.Answer)
	d.Clock.Advance(7 * time.Minute)
	if r := d.send(t, "203.0.113.9", form("username=bob&password=guess")); r.StatusCode != http.StatusForbidden {
		t.Errorf("after seven minutes: %d", r.StatusCode)
	}
}

// oneCode is alice's code, until an attempt with it succeeds.
type oneCode struct {
	shown, settled []string
}

func (c *oneCode) Show(_ context.Context, p guard.Code) (bool, error) {
	c.shown = append(c.shown, p.Text)
	return p.Account == "alice" && p.Text == "ABCD-EFGH" && !slices.Contains(c.settled, guard.Succeeded.String()), nil
}

func (c *oneCode) Settle(_ context.Context, _ guard.Code, o guard.Outcome) error {
	c.settled = append(c.settled, o.String())
	return nil
}

// An owner whose app shows no page enters a verification code on ours. The next attempt carries it, and no other.
func TestR29ACodeIsEnteredAheadForAnAppWithoutAPage(t *testing.T) {
	t.Parallel()
	const owner = "203.0.113.9"
	codes := new(oneCode)
	d := newDoorWith(t, codes, wordpress, nil, "json")
	for i := range 5 {
		d.json(t, fmt.Sprintf("198.18.%d.1", i), "alice", fmt.Sprint(i))
	}
	enter := func(from, account, code string) (int, string) {
		r := d.send(t, from, solveForm("username", account, "route", "login", "code", code))
		return r.StatusCode, text(t, r)
	}
	if page := text(t, d.send(t, owner, offer{"GET", "/.authguard/solve", "", ""})); !strings.Contains(page, `name="code"`) {
		t.Fatalf("the page asks for no code: %s", page)
	}
	if status, page := enter(owner, "alice", "WRONG"); status != http.StatusForbidden || !strings.Contains(page, "verification code is not valid") {
		t.Errorf("a wrong code: %d %s", status, page)
	}
	if r := d.json(t, owner, "alice", right); r.StatusCode != http.StatusForbidden {
		t.Errorf("after a wrong code: %d", r.StatusCode)
	}
	if status, page := enter(owner, " ALICE", " ABCD-EFGH"); status != http.StatusOK || !strings.Contains(page, "You can sign in now") {
		t.Fatalf("the code: %d %s", status, page)
	}
	for name, r := range map[string]*http.Response{
		"another address": d.json(t, "203.0.113.10", "alice", right), "a second wrong password": nil,
	} {
		if r == nil {
			d.json(t, owner, "alice", "guess")
			r = d.json(t, owner, "alice", right)
		}
		if r.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", name, r.StatusCode)
		}
	}
	enter(owner, "alice", "ABCD-EFGH")
	d.Clock.Advance(challenge.TTL + time.Second)
	if r := d.json(t, owner, "alice", right); r.StatusCode != http.StatusForbidden {
		t.Errorf("after its time: %d", r.StatusCode)
	}
	enter(owner, "alice", "ABCD-EFGH")
	if r := d.json(t, owner, "alice", right); r.StatusCode != http.StatusFound {
		t.Errorf("the right password: %d %s", r.StatusCode, text(t, r))
	}
	if !slices.Equal(codes.settled, []string{"withdrawn", "withdrawn", "withdrawn", "succeeded"}) {
		t.Errorf("the code was settled as %v", codes.settled)
	}
}
