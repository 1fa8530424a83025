package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// Only a success of another account in the same session makes an attempt's own worthless.
func TestRivalsShareASession(t *testing.T) {
	t.Parallel()
	const session = "PHPSESSID=abc; consent=yes"
	for name, c := range map[string]struct {
		account string
		cookies []string
		other   func(r *rivals, one *rival)
		want    bool
	}{
		"a success":                {"mallory", []string{session}, func(r *rivals, one *rival) { r.judge(one, true) }, true},
		"another spelling":         {"mallory", []string{`x=1`, `PHPSESSID="a%62c"`}, func(r *rivals, one *rival) { r.judge(one, true) }, true},
		"beside another":           {"mallory", []string{"PHPSESSID=x, PHPSESSID=abc"}, func(r *rivals, one *rival) { r.judge(one, true) }, true},
		"a failure":                {"mallory", []string{session}, func(r *rivals, one *rival) { r.judge(one, false) }, false},
		"no answer":                {"mallory", []string{session}, func(r *rivals, one *rival) { r.leave(one, true) }, true},
		"it never reached the app": {"mallory", []string{session}, func(r *rivals, one *rival) { r.leave(one, false) }, false},
		"under way":                {"mallory", []string{session}, func(*rivals, *rival) {}, true},
		"the same account":         {"Alice", []string{session}, func(r *rivals, one *rival) { r.judge(one, true) }, false},
		"another session":          {"mallory", []string{"PHPSESSID=abd"}, func(r *rivals, one *rival) { r.judge(one, true) }, false},
		"a script's cookie":        {"mallory", []string{"consent=yes"}, func(r *rivals, one *rival) { r.judge(one, true) }, false},
	} {
		r := newRivals()
		r.sets([]string{"PHPSESSID=1; Path=/"})
		one, other := r.enter("alice", []string{session}), r.enter(c.account, c.cookies)
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
	r := newRivals()
	for i := range mostCookies + 1 {
		r.sets([]string{fmt.Sprintf("c%d=1", i)})
	}
	one := r.enter("alice", []string{strings.Repeat("a=b;", mostCookies+1)})
	if r.judge(one, true); !r.won(t.Context(), one) || len(one.sessions) > mostCookies || len(r.names) > mostCookies {
		t.Errorf("%d sessions, %d names", len(one.sessions), len(r.names))
	}
}
