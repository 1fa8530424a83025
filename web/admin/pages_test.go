package admin_test

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/trusted"
)

func TestWithoutALoginThereIsNothingButTheLoginPage(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	for path, want := range map[string]string{
		"/": "/login?next=%2F", "/lookup?account=ann": "/login?next=%2Flookup%3Faccount%3Dann", "/security": "/login?next=%2Fsecurity", "/password": "/login?next=%2Fpassword",
	} {
		if status, to, body := c.get(t, path); status != http.StatusSeeOther || to != want || body != "" {
			t.Errorf("GET %s: %d to %q", path, status, to)
		}
	}
	for _, path := range []string{"/mode", "/unlock", "/forget", "/password"} {
		if status, to, _ := c.post(t, path, url.Values{"mode": {"on"}}); status != http.StatusSeeOther || to != "/login" {
			t.Errorf("POST %s: %d to %q", path, status, to)
		}
	}
	if c.Mode.On() {
		t.Error("a stranger switched the mode")
	}
}

func TestWhoIsNoAdministratorSeesNothing(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "eve", accounts.Admin, false)
	if _, err := c.db.ExecContext(t.Context(), `UPDATE accounts SET role = 'user'`); err != nil { // not even the session ends
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/lookup", "/password", "/api/status"} {
		if status, _, _ := c.get(t, path); status != http.StatusForbidden {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestOnlyAdministratorsLogInToTheAdministration(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	if _, err := c.accounts.Add(t.Context(), accounts.Addition{Username: "eve", Password: rightPassword}); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := c.post(t, "/login", url.Values{"username": {"eve"}, "password": {rightPassword}}); status != http.StatusUnauthorized {
		t.Errorf("a user with the right password: %d, want what a wrong one gets", status)
	}
}

func TestHealthAndMetricsAskForNoLogin(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	for path, part := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/metrics": `authguard_captcha_mode{realm="default"} 0`} {
		if status, _, body := c.get(t, path); status != http.StatusOK || !strings.Contains(body, part) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	c.notReady = errors.New("the disk is full")
	if status, _, body := c.get(t, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "disk is full") {
		t.Errorf("%d %s", status, body)
	}
}

func TestTheModeIsSwitchedByAFormAndSaidOnce(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	page := c.submit(t, "/mode", url.Values{"mode": {"on"}, "for": {"10m"}, "reason": {"<drill>"}})
	state := c.Mode.State()
	if !c.Mode.On() || state.Override.Who != "admin:ann" || !state.Override.Until.Equal(c.Clock.Now().Add(10*time.Minute)) {
		t.Errorf("%+v", state.Override)
	}
	for _, part := range []string{"CAPTCHA mode is forced on for 10 minutes.", "&lt;drill&gt;", "admin:ann"} {
		if !strings.Contains(page, part) {
			t.Errorf("%q is not in the page", part)
		}
	}
	if _, _, again := c.get(t, "/"); strings.Contains(again, "is switched on for") {
		t.Error("the notice is shown twice")
	}
	if page = c.submit(t, "/mode", url.Values{"mode": {"auto"}}); !strings.Contains(page, "automatic again") || c.Mode.On() {
		t.Error("not automatic")
	}
	if page = c.submit(t, "/mode", url.Values{"mode": {"on"}, "for": {"999h"}}); !strings.Contains(page, "Nothing was changed") || c.Mode.On() {
		t.Error("forced for 999 hours")
	}
	if what, who, _ := c.recorded(t); what != "captcha-auto" || who != "admin:ann" {
		t.Errorf("%s by %s is on record", what, who)
	}
}

func TestR25ThePressureIsClearedByAForm(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	for i := range 31 {
		c.Mode.Observe(captchamode.Failure, [16]byte{byte(i)})
	}
	if !c.Mode.On() {
		t.Fatal("no attack")
	}
	if status, _, _ := c.post(t, "/mode", url.Values{"mode": {"clear"}}); status != http.StatusForbidden || !c.Mode.On() {
		t.Errorf("without the session's token: %d", status)
	}
	page := c.submit(t, "/mode", url.Values{"mode": {"clear"}})
	if s := c.Mode.State(); s.On || s.FailureRate.Total() != 0 {
		t.Errorf("after clearing: %+v", s)
	}
	for _, part := range []string{"CAPTCHA mode was reset.", "<b>CAPTCHA mode reset</b> by", "admin:ann"} {
		if !strings.Contains(page, part) {
			t.Errorf("%q is not in the page", part)
		}
	}
	if what, who, _ := c.recorded(t); what != "captcha-clear" || who != "admin:ann" {
		t.Errorf("%s by %s is on record", what, who)
	}
}

func TestAFormWithoutTheSessionsTokenChangesNothing(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	good := c.csrf(t, "/")
	for name, f := range map[string]url.Values{
		"none":  {"mode": {"on"}, "for": {"10m"}},
		"wrong": {"mode": {"on"}, "for": {"10m"}, "csrf": {"x"}},
	} {
		if status, _, _ := c.post(t, "/mode", f); status != http.StatusForbidden || c.Mode.On() {
			t.Errorf("%s: %d", name, status)
		}
	}
	inQuery := "/mode?csrf=" + url.QueryEscape(good)
	if status, _, _ := c.post(t, inQuery, url.Values{"mode": {"on"}}); status != http.StatusForbidden {
		t.Errorf("token in the address: %d", status)
	}
	twice := url.Values{"mode": {"on", "off"}, "csrf": {good}}
	if status, _, _ := c.post(t, "/mode", twice); status != http.StatusBadRequest {
		t.Errorf("a field twice: %d", status)
	}
	r := c.request(t, http.MethodPost, "/mode", url.Values{"mode": {"on"}, "csrf": {good}}.Encode(), "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-site")
	if status, _, _ := c.send(t, r); status != http.StatusForbidden || c.Mode.On() {
		t.Errorf("from another port: %d", status)
	}
}

func TestNowShowsWhoFailsAndUnlocks(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	for range 7 {
		c.Wrong(t, `vic"><b>`, "192.0.2.66")
		c.Clock.Advance(time.Minute)
	}
	c.tops.Handle(c.Events())
	_, _, page := c.get(t, "/")
	for _, part := range []string{
		`<td class="num" data-label="Failed">5</td>
<td class="num" data-label="Stopped">2</td>`, "192.0.2.66", ">CAPTCHA<", "vic&#34;&gt;&lt;b&gt;", "192.0.2.0/24", "Limit reached: account",
	} {
		if !strings.Contains(page, part) && !strings.Contains(page, strings.ToLower(part)) {
			t.Errorf("%q is missing", part)
		}
	}
	if page := c.submit(t, "/unlock", url.Values{"account": {`vic"><b>`}}); !strings.Contains(page, "Failure counters reset (authguard&#39;s own account table has no account of this name):") {
		t.Error("no word of it")
	}
	if e, err := c.control.Explain(t.Context(), `vic"><b>`, netip.Addr{}); err != nil || !e.Open() {
		t.Errorf("still locked: %v", err)
	}
	if page := c.submit(t, "/unlock", url.Values{"address": {"nowhere"}}); !strings.Contains(page, "Nothing was changed. &#34;nowhere&#34; is not an IP address") {
		t.Errorf("an address that is none:\n%s", page)
	}
}

func TestAnAttackerIsBlockedFromThePage(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	for range 5 {
		c.Wrong(t, "vic", "192.0.2.66")
		c.Clock.Advance(time.Minute)
	}
	c.tops.Handle(c.Events())
	if _, _, page := c.get(t, "/"); !strings.Contains(page, `/act?back=%2F&amp;cidr=192.0.2.66%2F32&amp;what=block`) || !strings.Contains(page, `cidr=192.0.2.0%2F24&amp;what=block`) {
		t.Error("the page does not offer to block address and network")
	}
	page := c.submit(t, "/list", url.Values{"verdict": {"block"}, "cidr": {"192.0.2.66/32"}, "note": {"<guesses>"}})
	entries, err := c.control.Lists.Entries(t.Context())
	if err != nil || len(entries) != 1 || entries[0].Note != "<guesses>" || entries[0].CreatedBy != "admin:ann" ||
		!entries[0].ExpiresAt.Equal(entries[0].CreatedAt.Add(7*24*time.Hour)) {
		t.Errorf("%+v, %v", entries, err)
	}
	if !strings.Contains(page, "Blocked until ") || !strings.Contains(page, `<span class="state closed">blocked</span>`) || strings.Contains(page, "cidr=192.0.2.66%2F32&amp;what=block") {
		t.Error("the page does not say so")
	}
	for _, one := range []struct{ cidr, long, says string }{
		{"127.0.0.0/8", "", "contains your own IP address, 127.0.0.1"}, {"here", "", "Nothing was changed."}, {"0.0.0.0/0", "", "Nothing was changed."}, {"192.0.2.1", "-1h", "Nothing was changed."},
	} {
		if page := c.submit(t, "/list", url.Values{"verdict": {"block"}, "cidr": {one.cidr}, "for": {one.long}}); !strings.Contains(page, one.says) {
			t.Errorf("%s for %q: %q is missing", one.cidr, one.long, one.says)
		}
	}
	if status, _, _ := c.post(t, "/list", url.Values{"verdict": {"block"}, "cidr": {"192.0.2.1"}}); status != http.StatusForbidden {
		t.Errorf("without the session's token: %d", status)
	}
	if entries, _ := c.control.Lists.Entries(t.Context()); len(entries) != 1 {
		t.Errorf("%d entries", len(entries))
	}
}

func TestALookUpSaysWhyAndChangesNothing(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	for range 5 {
		c.Wrong(t, "vic", "192.0.2.66")
		c.Clock.Advance(time.Minute)
	}
	for query, parts := range map[string][]string{
		"account=Vic":                     {"solve a CAPTCHA", "5 of 5 failures per 24 hours", "5 of 100 failures per 24 hours", "Reached. Next attempt: CAPTCHA."},
		"address=192.0.2.66":              {"proceed to the password check", "5 of 50 failures per 24 hours", "network", "192.0.2.0/24"},
		"account=vic&address=192.0.2.66":  {"the address is an unknown client", "5 of 5"},
		"account=%3Cb%3E&address=nowhere": {"is not an IP address", "&lt;b&gt;"},
		"account=%00":                     {"invalid account name"},
		"q=Vic":                           {"solve a CAPTCHA", `value="Vic"`},
		"q=192.0.2.66":                    {"proceed to the password check", `name="address" type="text" value="192.0.2.66"`},
	} {
		status, _, page := c.get(t, "/lookup?"+query)
		for _, part := range parts {
			if status != http.StatusOK || !strings.Contains(strings.ToLower(page), strings.ToLower(part)) {
				t.Errorf("%s: %d, %q is missing", query, status, part)
			}
		}
	}
	if _, _, page := c.get(t, "/lookup?address=192.0.2.66"); strings.Contains(page, "5 of 10 failures") {
		t.Error("a day's failures are shown as a minute's")
	}
}

func TestForgettingPlacesByForm(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	c.Right(t, "vic", "192.0.2.1")
	c.Right(t, "vic", "192.0.2.2")
	if _, _, page := c.get(t, "/lookup?account=vic&address=192.0.2.1"); !strings.Contains(page, "Remove known IP address") || !strings.Contains(page, "is a known client of this account") {
		t.Error("the place is not offered to be forgotten")
	}
	if _, _, page := c.get(t, "/lookup?account=vic&address=192.0.2.3"); !strings.Contains(page, "is not a known client of this account") {
		t.Error("a strange place is not said to be one")
	}
	if _, _, page := c.get(t, "/lookup?account=vic"); !strings.Contains(page, "Remove known clients") || !strings.Contains(page, "removes 2 known clients") {
		t.Error("the places are not offered to be forgotten")
	}
	c.submit(t, "/forget", url.Values{"account": {"vic"}, "address": {"192.0.2.1"}})
	if a, b := c.Status(t, "vic", "192.0.2.1"), c.Status(t, "vic", "192.0.2.2"); a != trusted.Unknown || b != trusted.Known {
		t.Errorf("one: %v and %v", a, b)
	}
	c.submit(t, "/forget", url.Values{"account": {"vic"}})
	if got := c.Status(t, "vic", "192.0.2.2"); got != trusted.Unknown {
		t.Errorf("all: %v", got)
	}
}

func TestAFormGoesBackToThePageItCameFromAndNowhereElse(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	if _, _, page := c.get(t, "/lookup?account=ann&address=192.0.2.66"); !strings.Contains(page, `name="back" value="/lookup?account=ann&amp;address=192.0.2.66"`) {
		t.Error("the page does not say where its forms come back to")
	}
	unlock := url.Values{"account": {"vic"}, "csrf": {c.csrf(t, "/")}}
	for from, want := range map[string]string{
		"/lookup?account=vic": "/lookup?account=vic", "": "/", "/": "/",
		"//evil.test/": "/", "https://evil.test/": "/", `/\evil.test`: "/", "/\t/evil.test": "/", "lookup": "/", "/lookup\r\nX: y": "/", "javascript:alert(1)": "/",
	} {
		unlock.Set("back", from)
		if status, to, _ := c.post(t, "/unlock", unlock); status != http.StatusSeeOther || to != want {
			t.Errorf("from %q: %d to %q, want %q", from, status, to, want)
		}
	}
	if _, _, page := c.get(t, "/lookup?account=vic"); !strings.Contains(page, "Failure counters reset") {
		t.Error("the page that it came from does not say what was done")
	}
	if _, _, page := c.get(t, "/"); strings.Contains(page, "Failure counters reset") {
		t.Error("it is said twice")
	}
}

func TestAProgramNeedsASessionAndItsTokenOrOwnJSON(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	if status, _, body := c.get(t, "/api/status"); status != http.StatusUnauthorized || !strings.Contains(body, `"unauthorized"`) {
		t.Errorf("without a login: %d %s", status, body)
	}
	c.admit(t, "ann", accounts.Admin, false)
	token := c.csrf(t, "/")
	block := `{"cidr":"192.0.2.66","verdict":"block"}`
	for _, one := range []struct {
		name, kind, token, site string
		status                  int
	}{
		{"JSON of this site", "application/json", "", "same-origin", 200},
		{"JSON of a program", "application/json", "", "", 200},
		{"JSON of another port", "application/json", "", "same-site", 403},
		{"JSON of another site", "application/json", token, "cross-site", 403},
		{"text", "text/plain", "", "same-origin", 403},
		{"text with a wrong token", "text/plain", "x", "same-origin", 403},
		{"text with the token", "text/plain", token, "same-origin", 415},
	} {
		r := c.request(t, http.MethodPost, "/api/lists", block, one.kind)
		if one.token != "" {
			r.Header.Set("X-CSRF-Token", one.token)
		}
		if one.site != "" {
			r.Header.Set("Sec-Fetch-Site", one.site)
		}
		if status, _, body := c.send(t, r); status != one.status {
			t.Errorf("%s: %d %s, want %d", one.name, status, body, one.status)
		}
	}
	if c.Lists.Look(netip.MustParseAddr("192.0.2.66"), c.Clock.Now()) != guard.Blocked {
		t.Error("not blocked")
	}
	if _, who, _ := c.recorded(t); who != "admin:ann" {
		t.Errorf("on record as %s", who)
	}
	if status, _, body := c.send(t, c.request(t, http.MethodPut, "/api/explain", "{}", "application/json")); status != http.StatusMethodNotAllowed || !strings.HasPrefix(body, "{") {
		t.Errorf("a method that the API has not: %d %s", status, body)
	}
	if status, _, body := c.get(t, "/api/nothing"); status != http.StatusNotFound || !strings.HasPrefix(body, "{") {
		t.Errorf("no path of the API: %d %s", status, body)
	}
}
