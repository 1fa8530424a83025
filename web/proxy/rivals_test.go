package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
)

// Only a success of another account in the same session makes an attempt's own worthless.
func TestRivalsShareASession(t *testing.T) {
	t.Parallel()
	const session = "PHPSESSID=abc; consent=yes"
	success := func(r *Rivals, one *rival) { r.judge(one, true) }
	for name, c := range map[string]struct {
		account string
		cookies []string
		at      string
		other   func(r *Rivals, one *rival)
		want    bool
	}{
		"a success":                {"mallory", []string{session}, "", success, true},
		"another spelling":         {"mallory", []string{`x=1`, `PHPSESSID="a%62c"`}, "", success, true},
		"beside another":           {"mallory", []string{"PHPSESSID=x, PHPSESSID=abc"}, "", success, true},
		"a failure":                {"mallory", []string{session}, "", func(r *Rivals, one *rival) { r.judge(one, false) }, false},
		"no answer":                {"mallory", []string{session}, "", func(r *Rivals, one *rival) { r.leave(one, true) }, true},
		"it never reached the app": {"mallory", []string{session}, "", func(r *Rivals, one *rival) { r.leave(one, false) }, false},
		"under way":                {"mallory", []string{session}, "", func(*Rivals, *rival) {}, true},
		"the same account":         {"alice", []string{session}, "", success, false},
		"another case":             {"ALICE", []string{session}, "", success, true},
		"another worker":           {"mallory", []string{"JSESSIONID=node01x2y3z4a5b6c7d8e.x"}, "", success, true},
		"another worker's session": {"mallory", []string{"JSESSIONID=node01x2y3z4a5b6c7d8f.node0"}, "", success, false},
		"a parameter of the path":  {"mallory", nil, "/x/login;jsessionid=node01x2y3z4a5b6c7d8e", success, true},
		"a field of the query":     {"mallory", nil, "/login?PHPSESSID=abc", success, true},
		"another field":            {"mallory", nil, "/login?next=abc;x=1", success, false},
		"another session":          {"mallory", []string{"PHPSESSID=abd"}, "", success, false},
		"a script's cookie":        {"mallory", []string{"consent=yes"}, "", success, false},
	} {
		r := NewRivals()
		r.sets([]string{"PHPSESSID=1; Path=/", "JSESSIONID=1"})
		at, err := url.Parse(c.at)
		if err != nil {
			t.Fatal(err)
		}
		own := []string{session + "; JSESSIONID=node01x2y3z4a5b6c7d8e.node0"}
		one, other := r.enter("alice", own, &url.URL{Path: "/login", RawQuery: "next=abc"}), r.enter(c.account, c.cookies, at)
		c.other(r, other)
		r.judge(one, true)
		ctx, cancel := context.WithCancel(t.Context())
		if name == "under way" {
			cancel() // its time is over
		}
		if got := r.won(ctx, one); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		cancel()
		r.leave(one, true)
		if r.leave(other, true); len(r.session) > 0 {
			t.Errorf("%s: %d sessions are kept", name, len(r.session))
		}
	}
}

// An attempt with more cookies than are looked at proves nothing.
func TestRivalsAreBounded(t *testing.T) {
	t.Parallel()
	r := NewRivals()
	for i := range mostNames + 1 {
		r.sets([]string{fmt.Sprintf("c%d=1", i)})
	}
	one := r.enter("alice", []string{strings.Repeat("a=b;", mostCookies+1)}, new(url.URL))
	if r.judge(one, true); !r.won(t.Context(), one) || len(one.sessions) > mostCookies || len(r.names) > mostNames {
		t.Errorf("%d sessions, %d names", len(one.sessions), len(r.names))
	}
}

// Realms by path share one app and its sessions.
func TestRivalsAreSeenInEveryRealm(t *testing.T) {
	t.Parallel()
	shared := NewRivals()
	for name, c := range map[string]struct {
		of   [2]*Rivals
		want bool
	}{"one for both": {[2]*Rivals{shared, shared}, true}, "one each": {[2]*Rivals{}, false}} {
		var proxies [2]*Proxy
		for i, r := range c.of {
			var err error
			if proxies[i], err = New(Config{Rivals: r, Secret: make([]byte, 16), Log: slog.New(slog.DiscardHandler)}); err != nil {
				t.Fatal(err)
			}
		}
		session := []string{"PHPSESSID=abc"}
		victims := proxies[0].rivals.enter("victim", session, &url.URL{Path: "/login"})
		proxies[1].rivals.leave(proxies[1].rivals.enter("mallory", session, &url.URL{Path: "/partners/login"}), true)
		proxies[0].rivals.judge(victims, true)
		if got := proxies[0].rivals.won(t.Context(), victims); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
