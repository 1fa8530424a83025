package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/route"
)

// A request of another account in the same session makes a success worthless, whatever the app answers it.
func TestRivalsShareASession(t *testing.T) {
	t.Parallel()
	const session = "PHPSESSID=abc; consent=yes"
	answer := func(r *Rivals, one *rival) { r.judge(one, true) }
	for name, c := range map[string]struct {
		account string
		cookies []string
		at      string
		other   func(r *Rivals, one *rival)
		want    bool
	}{
		"an answer":        {"mallory", []string{session}, "", answer, true},
		"another spelling": {"mallory", []string{`x=1`, `PHPSESSID="a%62c"`}, "", answer, true},
		"beside another":   {"mallory", []string{"PHPSESSID=x, PHPSESSID=abc"}, "", answer, true},
		"it has left": {"mallory", []string{session}, "", func(r *Rivals, one *rival) {
			r.judge(one, true)
			r.leave(one, true)
		}, true},
		"another form":             {"", []string{session}, "", answer, true},
		"as Python reads it":       {"mallory", []string{`PHPSESSID="\141b\c"`}, "", answer, true},
		"a comma":                  {"mallory", []string{`PHPSESSID="abc\054d"`}, "", answer, true},
		"no answer":                {"mallory", []string{session}, "", func(r *Rivals, one *rival) { r.leave(one, true) }, true},
		"it never reached the app": {"mallory", []string{session}, "", func(r *Rivals, one *rival) { r.leave(one, false) }, false},
		"under way":                {"mallory", []string{session}, "", func(*Rivals, *rival) {}, true},
		"the same account":         {"alice", []string{session}, "", answer, false},
		"another case":             {"ALICE", []string{session}, "", answer, false},
		"another worker":           {"mallory", []string{"JSESSIONID=node01x2y3z4a5b6c7d8e.x"}, "", answer, true},
		"another worker's session": {"mallory", []string{"JSESSIONID=node01x2y3z4a5b6c7d8f.node0"}, "", answer, false},
		"a parameter of the path":  {"mallory", nil, "/x/login;jsessionid=node01x2y3z4a5b6c7d8e", answer, true},
		"a byte that Node trims":   {"mallory", []string{"\xa0PHPSESSID=abc"}, "", answer, true},
		"a bracket in the name":    {"mallory", []string{"my[app=abcdefgh"}, "", answer, true},
		"JSON as Express reads it": {"mallory", []string{`JSESSIONID=j:"\u006eode01x2y3z4a5b6c7d8e"`}, "", answer, true},
		"behind a space":           {"mallory", []string{"a=b PHPSESSID=abc"}, "", answer, true},
		"behind a tab":             {"mallory", []string{"a=b\v;x\tPHPSESSID=abc c=d"}, "", answer, true},
		"a tab":                    {"mallory", []string{"PHPSESSID=\tabc"}, "", answer, true},
		"another signature":        {"mallory", []string{"flask=89abcdef-0123-4567-89ab-cdef01234567.c2lnbmF0dXJl!IQ"}, "", answer, true},
		"of the same base64":       {"mallory", []string{"data=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJtIn0.bWFsbG9yeXM"}, "", answer, false},
		"a name as the app has it": {"alice ", []string{session}, "", answer, true},
		"a field of the query":     {"mallory", nil, "/login?PHPSESSID=abc", answer, true},
		"another field":            {"mallory", nil, "/login?next=abc;x=1", answer, false},
		"another session":          {"mallory", []string{"PHPSESSID=abd"}, "", answer, false},
		"a script's cookie":        {"mallory", []string{"consent=yes"}, "", answer, false},
	} {
		r := NewRivals()
		r.sets([]string{"PHPSESSID=0123456789abcdefghij; Path=/", "JSESSIONID=1", "my_app=1", "flask=1", "data=1"})
		at, err := url.Parse(c.at)
		if err != nil {
			t.Fatal(err)
		}
		own := []string{session + "; JSESSIONID=node01x2y3z4a5b6c7d8e.node0; my_app=abcdefgh; " +
			"flask=89abcdef-0123-4567-89ab-cdef01234567.c2lnbmF0dXJlIQ; data=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.YWxpY2Vz"}
		one, _ := r.enter("alice", own, &url.URL{Path: "/login", RawQuery: "next=abc"})
		other, _ := r.enter(c.account, c.cookies, at)
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

// A request with too many cookies to compare is rejected. Cookies of other names do not count.
func TestRivalsAreBounded(t *testing.T) {
	t.Parallel()
	r := NewRivals()
	r.sets([]string{"session=0123456789abcdefghij"})
	for before, want := range map[string]int{
		strings.Repeat("a=b;", 1000):                1,
		strings.Repeat("session=b;", mostCookies-1): 2,
	} {
		one, err := r.enter("alice", []string{before + "session=planted"}, new(url.URL))
		if err != nil || len(one.sessions) != want {
			t.Errorf("%.20s: %v", before, err)
		}
	}
	for i := range mostNames + 1 {
		r.sets([]string{fmt.Sprintf("c%d=1", i)})
	}
	for _, name := range []string{"session", "a"} { // the name of any cookie may be one too many
		_, err := r.enter("alice", []string{strings.Repeat(name+"=b;", mostCookies+1)}, new(url.URL))
		if err == nil || len(r.names) > mostNames {
			t.Errorf("%s: accepted; %d names", name, len(r.names))
		}
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
		victims, _ := proxies[0].rivals.enter("victim", session, &url.URL{Path: "/login"})
		mallorys, _ := proxies[1].rivals.enter("mallory", session, &url.URL{Path: "/partners/login"})
		proxies[1].rivals.leave(mallorys, true)
		proxies[0].rivals.judge(victims, true)
		if got := proxies[0].rivals.won(t.Context(), victims); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Notes are bounded for each account, and a value that the app gives to several clients is no session.
func TestNotesOfSessions(t *testing.T) {
	t.Parallel()
	r, now := NewRivals(), time.Now()
	alices, servers := session{name: "sid", key: 1}, session{name: "server", key: 2}
	accounts := func(one session) string {
		all, known := r.accountsOf(one, now)
		return fmt.Sprint(all, known)
	}
	r.pass("alice", []session{alices, servers}, now)
	for i := range uint64(1000) {
		r.pass("mallory", []session{{name: "sid", key: 10 + i}}, now)
	}
	if n := r.passes.Len(); n != 2+mostOwned || accounts(alices) != "[alice] true" {
		t.Errorf("%d notes, alice's: %s", n, accounts(alices))
	}
	if got := accounts(session{name: "other", key: 5}); got != "[] false" {
		t.Errorf("no note: %s", got)
	}
	for i, want := range []string{"[alice ALICE0] true", "[alice ALICE0 ALICE1] true", "[alice ALICE0 ALICE1 ALICE2] true",
		"[alice ALICE0 ALICE1 ALICE2 ALICE3] false", "[alice ALICE0 ALICE1 ALICE2 ALICE3] false"} {
		for range 2 {
			r.tries("Alice", []session{alices, {name: "new", key: 6}})
			r.tries(fmt.Sprint("ALICE", i), []session{alices, {name: "new", key: 6}})
		}
		if got := accounts(alices); got != want {
			t.Errorf("after %d other accounts: %s", i+1, got)
		}
	}
	r.gives([]session{servers})
	if got := accounts(servers); got != "[alice] true" {
		t.Errorf("given once: %s", got)
	}
	r.gives([]session{servers})
	if got := accounts(servers); got != "[] true" {
		t.Errorf("shared: %s", got)
	}
	if now = now.Add(passLife + time.Second); accounts(session{name: "sid", key: 1009}) != "[mallory] false" {
		t.Error("a note does not end")
	}
}

// The accounts of a session do not change while the app checks a code.
func TestR1ASessionChangesNoAccountDuringItsCode(t *testing.T) {
	t.Parallel()
	r, now, mallorys := NewRivals(), time.Now(), []session{{name: "sid", key: 1}}
	r.pass("mallory", mallorys, now)
	own := []route.Credential{{Account: "mallory"}}
	code, _ := r.enter("mallory", nil, new(url.URL))
	if !r.checks(code, mallorys, own, now) {
		t.Error("a code at the only account of its session is refused")
	}
	if waits := r.tries("alice", mallorys); len(waits) != 1 || waits[0] != code {
		t.Errorf("another login waits for %v", waits)
	}
	if r.checks(code, mallorys, own, now) {
		t.Error("a code passes that counts for one of the accounts only")
	}
	if !r.checks(code, mallorys, append(own, route.Credential{Account: "alice"}), now) {
		t.Error("a code that counts for both is refused")
	}
	r.leave(code, true)
	if waits := r.tries("alice", mallorys); len(waits) != 0 || len(r.codes) != 0 {
		t.Errorf("after the answer, another login waits for %v", waits)
	}
}

// A flood of made-up names renews the free attempts of no account.
func TestR6MadeUpNamesRenewNoFreeAttempts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p, err := New(Config{Secret: make([]byte, 16), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	free := func(name string) bool {
		return (&visit{proxy: p, attempts: []guard.Decision{{Account: name}}}).staysFree()
	}
	for range mostFree {
		free("alice")
	}
	for i := range mostOutages + 50 {
		free(fmt.Sprint("made-up ", i))
	}
	if free("alice") || free("another") || p.outages.Len() > mostOutages {
		t.Errorf("free after a flood; %d accounts", p.outages.Len())
	}
	if now = now.Add(time.Hour + time.Second); !free("another") {
		t.Error("an hour later no attempt is free")
	}
}
