package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"authguard/internal/testing/redistest"
)

// A rule that matches each login is found by one made-up login, and reported wherever an administrator looks.
func TestARouteThatMatchesEveryLoginIsReported(t *testing.T) {
	t.Parallel()
	var logins atomic.Int64
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			logins.Add(1)
		}
		fmt.Fprint(w, `<form method=post><input name=u><input name=p type=password></form>`)
	}))
	t.Cleanup(app.Close)
	route := func(success string) string {
		return "proxy:\n  probe: true\n  upstream: " + app.URL + "\n  routes:\n" +
			"    - {name: login, path: /login, account: 'form:u', password: 'form:p', success: [" + success + "]}\n"
	}
	s := newServer(t, route("status 200"), "alice", "admin")
	redistest.Until(t, "the alert", func() bool { return s.log.has("kind=route-matches-every-login") })
	if n := logins.Load(); n != 1 {
		t.Errorf("%d logins", n)
	}
	out, _ := s.command("status", "--json").CombinedOutput()
	if !strings.Contains(string(out), "route-matches-every-login") {
		t.Errorf("the status: %s", out)
	}
	for _, args := range [][]string{{"doctor"}, {"config", "validate", "--probe"}} {
		out, err := s.command(args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "a login with a made-up account and password") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	if out, err := s.command("config", "validate").CombinedOutput(); err != nil {
		t.Errorf("without --probe: %v\n%s", err, out)
	}
	for name, settings := range map[string]string{"never": route("never"), "off": strings.Replace(route("status 200"),
		"probe: true", "probe: false", 1), "right": route("status 302")} {
		before := logins.Load()
		other := newServer(t, settings, "alice")
		if name == "right" {
			redistest.Until(t, "the probe", func() bool { return logins.Load() == before+1 })
		}
		if out, err := other.command("config", "validate", "--probe").CombinedOutput(); err != nil && name != "off" {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if other.log.has("route-matches") {
			t.Errorf("%s: reported", name)
		}
	}
}
