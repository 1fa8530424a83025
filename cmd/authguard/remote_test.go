package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"authguard/internal/testing/redistest"
)

// TestR18TheProvidersWidgetAndItsOutage has hCaptcha's contract on this machine.
func TestR18TheProvidersWidgetAndItsOutage(t *testing.T) {
	long(t)
	t.Parallel()
	var down atomic.Bool
	verify := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		good := strings.HasPrefix(r.PostFormValue("response"), "a-good-token") && r.PostFormValue("secret") == "the-secret-of-the-test"
		_ = json.NewEncoder(w).Encode(map[string]any{
			"success": good, "hostname": "login.example.org", "challenge_ts": time.Now().UTC().Format(time.RFC3339),
		})
	}))
	t.Cleanup(verify.Close)
	s := newServer(t, "origin: https://login.example.org\nsecure_cookies: never\ncaptcha_mode: {threshold: 1, address_share: 1}\n"+
		"challenge: {kind: hcaptcha, site_key: 10000000-ffff-ffff, secret_key: the-secret-of-the-test, verify_url: '"+verify.URL+"'}\n", "alice", "bob", "admin")
	for i := range 3 {
		from(loopback(95, i)).login(t, s, "nobody", "wrong")
	}
	policy := func(url string) string { return from("127.96.0.9").get(t, url).header.Get("Content-Security-Policy") }
	page := from("127.96.0.9").get(t, s.base+"/login")
	if p := policy(s.base + "/login"); !strings.Contains(p, "script-src 'self' https://hcaptcha.com https://*.hcaptcha.com;") || !strings.Contains(p, "frame-src https://hcaptcha.com") ||
		strings.Contains(p, "google") || strings.Contains(p, "cloudflare") {
		t.Errorf("the page with the widget: %s", p)
	}
	if !strings.Contains(page.body, `class="h-captcha" data-sitekey="10000000-ffff-ffff"`) || !strings.Contains(page.body, "captcha-image") || strings.Contains(page.body, "the-secret") {
		t.Errorf("the page: %s", page.body)
	}
	for _, url := range []string{s.base + "/login/code", s.base + "/nothing", s.admin + "/login"} {
		if p := policy(url); p == "" || strings.Contains(p, "hcaptcha") {
			t.Errorf("%s: %s", url, p)
		}
	}
	stranger := from("127.96.0.1")
	asked := stranger.login(t, s, "alice", rightPassword)
	if asked.status != http.StatusForbidden || asked.problem.Challenge.Kind != "remote" {
		t.Fatalf("asked: %d %s", asked.status, asked.body)
	}
	if a := stranger.login(t, s, "alice", rightPassword, "captcha_id", asked.problem.Challenge.ID, "h-captcha-response", "a-good-token-of-the-test"); a.status != http.StatusOK {
		t.Errorf("with a good token: %d %s", a.status, a.body)
	}
	other := from("127.96.0.2")
	solve := func(token string) answer {
		asked := other.login(t, s, "bob", rightPassword)
		if asked.problem.Challenge == nil {
			t.Fatalf("no challenge: %d %s", asked.status, asked.body)
		}
		return other.login(t, s, "bob", rightPassword, "captcha_id", asked.problem.Challenge.ID, "captcha_answer", token)
	}
	if a := solve("a-good-token-of-the-test"); a.status != http.StatusForbidden {
		t.Errorf("a token used twice: %d", a.status)
	}
	down.Store(true)
	if a := solve("a-good-token-number-two"); a.status == http.StatusOK {
		t.Errorf("while the provider is down: %d", a.status)
	}
	if a := other.login(t, s, "bob", rightPassword); a.problem.Challenge == nil || a.problem.Challenge.Kind != "image" {
		t.Errorf("after that: %s", a.body)
	}
	if p := policy(s.base + "/login"); strings.Contains(p, "hcaptcha") {
		t.Errorf("the page with the picture: %s", p)
	}
	down.Store(false)
	redistest.Until(t, "the widget to come back", func() bool {
		a := other.login(t, s, "bob", rightPassword)
		return a.problem.Challenge != nil && a.problem.Challenge.Kind == "remote"
	})
	for _, kind := range []string{"captcha-provider-failed", "captcha-provider-recovered"} {
		if !s.log.has("kind=" + kind) {
			t.Errorf("no alert %s", kind)
		}
	}
	if text := s.log.String() + fmt.Sprint(s.run("config", "show")); strings.Contains(text, "the-secret") {
		t.Errorf("the secret is told:\n%s", text)
	}
}

// TestR18ABrowserThatCannotLoadTheWidgetGetsThePicture: nothing on the internet can
// be reached from this test.
func TestR18ABrowserThatCannotLoadTheWidgetGetsThePicture(t *testing.T) {
	t.Parallel()
	verify := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"success":false}`) }))
	t.Cleanup(verify.Close)
	s := newServer(t, "origin: https://login.example.org\nsecure_cookies: never\ncaptcha_mode: {threshold: 1, address_share: 1}\n"+
		"challenge: {kind: turnstile, site_key: 0x4AAAAAAAexample, secret_key: a-secret, verify_url: '"+verify.URL+"'}\n")
	for i := range 3 {
		from(loopback(97, i)).login(t, s, "nobody", "wrong")
	}
	b := openTab(t)
	b.goTo(s.base + "/login")
	b.until("the picture in the widget's place", `!document.querySelector("[data-image-part]").hidden && !document.querySelector("#captcha_answer").disabled &&
		document.querySelector(".remote [role=status]").textContent.includes("could not be loaded")`)
	b.picture("login-widget-gone")
}
