package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authguard/captchamode/challenge"
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
		"another case":             {"ALICE", []string{session}, "", answer, true}, // accounts.case_sensitive
		"a short session":          {"mallory", []string{"short=k3j9x0a2b1"}, "", answer, true},
		"another worker":           {"mallory", []string{"JSESSIONID=node01x2y3z4a5b6c7d8e.x"}, "", answer, true},
		"another worker's session": {"mallory", []string{"JSESSIONID=node01x2y3z4a5b6c7d8f.node0"}, "", answer, false},
		"a parameter of the path":  {"mallory", nil, "/x/login;jsessionid=node01x2y3z4a5b6c7d8e", answer, true},
		"a byte that Node trims":   {"mallory", []string{"\xa0PHPSESSID=abc"}, "", answer, true},
		"a bracket in the name":    {"mallory", []string{"my[app=abcdefgh"}, "", answer, true},
		"JSON as Express reads it": {"mallory", []string{`JSESSIONID=j:"\u006eode01x2y3z4a5b6c7d8e"`}, "", answer, true},
		"behind a space":           {"mallory", []string{"a=b PHPSESSID=abc"}, "", answer, true},
		"behind a tab":             {"mallory", []string{"a=b\v;x\tPHPSESSID=abc c=d"}, "", answer, true},
		"a tab":                    {"mallory", []string{"PHPSESSID=\tabc"}, "", answer, true},
		"spaces around =":          {"mallory", []string{"a=b PHPSESSID = abc"}, "", answer, true},
		"a line feed before =":     {"mallory", []string{"a=b PHPSESSID\n\v= abc"}, "", answer, true},
		"as MySQL compares it":     {"mallory", []string{"PHPSESSID=\u00c1BC"}, "", answer, true},
		"a code in the session":    {"", []string{session}, "", answer, true},
		"another signature":        {"mallory", []string{"flask=89abcdef-0123-4567-89ab-cdef01234567.c2lnbmF0dXJl!IQ"}, "", answer, true},
		"of the same base64":       {"mallory", []string{"data=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJtIn0.bWFsbG9yeXM"}, "", answer, false},
		"a name as the app has it": {"alice ", []string{session}, "", answer, true},
		"a field of the query":     {"mallory", nil, "/login?PHPSESSID=abc", answer, true},
		"another field":            {"mallory", nil, "/login?next=abc;x=1", answer, false},
		"a language":               {"mallory", []string{"lang=en"}, "", answer, false},
		"a server":                 {"mallory", []string{"JSESSIONID=name-of-a-server-of-all"}, "", answer, false},
		"another session":          {"mallory", []string{"PHPSESSID=abd"}, "", answer, false},
		"a script's cookie":        {"mallory", []string{"consent=yes"}, "", answer, false},
	} {
		r := NewRivals()
		r.sets([]string{"PHPSESSID=0123456789abcdefghij; Path=/", "JSESSIONID=1", "my_app=0123456789abcdefghij", "flask=1", "data=1", "lang=en", "short=0123456789"})
		for range 2 {
			servers, _ := r.sessions([]string{"JSESSIONID=name-of-a-server-of-all"}, new(url.URL), true)
			r.gives(servers)
		}
		at, err := url.Parse(c.at)
		if err != nil {
			t.Fatal(err)
		}
		own := []string{session + "; JSESSIONID=node01x2y3z4a5b6c7d8e.node0; my_app=abcdefgh; " +
			"flask=89abcdef-0123-4567-89ab-cdef01234567.c2lnbmF0dXJlIQ; data=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.YWxpY2Vz; lang=en; short=k3j9x0a2b1; JSESSIONID=name-of-a-server-of-all"}
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

// Users who share a theme, a time zone, a consent or a size of the screen share no session, whatever sets the cookie.
func TestUsersWithEqualPreferencesShareNoSession(t *testing.T) {
	t.Parallel()
	for _, own := range []string{"sid=k3j9x0a2b1", "sid=123456789012", "sid=Zr8qLw2mXc5vBn7kPt3y", ""} {
		r := NewRivals()
		if own == "" { // the app gives out tokens, as another process has seen
			before := NewRivals()
			before.signsIn(new(http.Request), new(http.Response))
			r.Learn(before.Learn(nil))
		} else {
			r.sets([]string{own, "theme=darkmode", "wordpress_test_cookie=WP%20Cookie%20check"})
		}
		const same = "; theme=darkmode; consent=yes; timezone=America/New_York; screen=1920x1080; wordpress_test_cookie=WP%20Cookie%20check"
		for _, everyName := range []bool{false, true} {
			if shared, err := r.sessions([]string{same}, new(url.URL), everyName); len(shared) > 0 || err != nil {
				t.Errorf("%v, %v", shared, err)
			}
		}
		alice, _ := r.enter("alice", []string{own + same}, new(url.URL))
		bob, _ := r.enter("bob", []string{"sid=another0session1" + same}, new(url.URL))
		mallory, _ := r.enter("mallory", []string{own + same}, new(url.URL))
		if rivals := r.others(alice); slices.Contains(rivals, bob) || slices.Contains(rivals, mallory) != (own != "") {
			t.Errorf("%s: alice has %d rivals, bob among them: %v", own, len(rivals), slices.Contains(rivals, bob))
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

// Two routes may have users of the same name, and a session's code belongs to all accounts of the session.
func TestR1OnlyAttemptsAtOneAccountAreNoRivals(t *testing.T) {
	t.Parallel()
	routes := map[string]route.Spec{
		"staff":     {Path: "/staff/login", Account: "form:name", Password: "form:password", Success: []string{"status 303"}},
		"customers": {Path: "/login", Account: "form:name", Password: "form:password", Success: []string{"status 303"}},
		"code":      {Path: "/code", Kind: route.SecondFactor, Password: "form:otp", Success: []string{"status 303"}},
	}
	rivals := NewRivals()
	enter := func(base, name, account string) *rival {
		spec := routes[name]
		spec.Name = name
		compiled, err := route.Compile(spec)
		if err != nil {
			t.Fatal(err)
		}
		v := visit{proxy: &Proxy{Config: Config{Base: base}}, route: compiled}
		one, err := rivals.enter(v.whose(route.Offer{Credentials: []route.Credential{{Account: account}}}), []string{"sid=given"}, new(url.URL))
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	alice := enter("", "staff", "alice")
	others := []*rival{enter("", "customers", "alice"), enter("/partners", "staff", "alice"), enter("", "code", "alice"), enter("", "staff", "bob")}
	enter("", "staff", "Alice")
	if got := rivals.others(others[2]); len(got) != 5 {
		t.Errorf("a code has %d rivals, want 5", len(got))
	}
	if got := rivals.others(enter("", "code", "alice")); len(got) != 6 {
		t.Errorf("another code has %d rivals, want 6", len(got))
	}
	others = append(others, rivals.others(alice)[4:]...)
	if got := rivals.others(alice); !slices.Equal(got, others) {
		t.Errorf("%d rivals, want %d", len(got), len(others))
	}
}

func loginOf(account string) *rival {
	return &rival{account: strings.ToLower(account), accounts: []string{account}, judged: make(chan struct{})}
}

// Notes are bounded for each account, and a value that the app gives to several clients is no session.
func TestNotesOfSessions(t *testing.T) {
	t.Parallel()
	r, now := NewRivals(), time.Now()
	alices, servers := session{name: "sid", key: 1}, session{name: "server", key: 2}
	accounts := func(one session) string {
		note, known := r.noteOf(one, now)
		return fmt.Sprint(note.accounts, known)
	}
	r.pass(loginOf("alice"), []session{alices, servers}, now)
	for i := range uint64(1000) {
		r.pass(loginOf("mallory"), []session{{name: "sid", key: 10 + i}}, now)
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
			for _, account := range []string{"alice", fmt.Sprint("ALICE", i)} {
				login := loginOf(account)
				r.tries(login, login.accounts, []session{alices, {name: "new", key: 6}})
				r.leave(login, true)
			}
		}
		if got := accounts(alices); got != want {
			t.Errorf("after %d other accounts: %s", i+1, got)
		}
	}
	other := session{name: "sid", key: 3} // accounts.case_sensitive: ALICE is not alice
	r.pass(loginOf("alice"), []session{other}, now)
	code := &rival{}
	if login := loginOf("ALICE"); r.checks(code, []session{other}, []route.Credential{{Account: "ALICE"}}, now) {
		t.Error("a code that counts for ALICE passes in a session of alice")
	} else if r.tries(login, login.accounts, []session{other}); accounts(other) != "[alice ALICE] true" {
		t.Errorf("ALICE beside alice: %s", accounts(other))
	}
	r.gives([]session{servers, servers}) // twice in one response
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

// A session keeps the accounts of all its logins, also of those that are under way when the first one ends.
func TestR1ANoteHasTheAccountsOfAllLogins(t *testing.T) {
	t.Parallel()
	r, now, in := NewRivals(), time.Now(), []session{{name: "sid", key: 1}}
	first, second := loginOf("mallory"), loginOf("alice")
	r.tries(first, first.accounts, in)
	r.tries(second, second.accounts, in)
	r.pass(first, in, now)
	r.pass(loginOf("bob"), in, now)
	for i := range uint64(2 * mostOwned) { // they replace none of bob's
		r.pass(loginOf("mallory"), []session{{name: "sid", key: 10 + i}}, now)
	}
	if note, known := r.noteOf(in[0], now); fmt.Sprint(note.accounts, known) != "[mallory alice bob] true" {
		t.Errorf("%v, known: %t", note.accounts, known)
	}
}

// Laravel encrypts the identifier of one session anew for each answer. A login with an older value is in that session.
func TestR1ValuesThatReplaceEachOtherAreOneSession(t *testing.T) {
	t.Parallel()
	r, now := NewRivals(), time.Now()
	r.sets([]string{"sid=0123456789abcdefghij"})
	of := func(value string) []session {
		all, err := r.sessions([]string{"sid=" + value + "-of-a-session-of-laravel"}, new(url.URL), true)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for _, step := range [][3]string{{"mallory", "zero", "one"}, {"alice", "zero", "two"}, {"bob", "other", "another"}} {
		login := loginOf(step[0])
		r.tries(login, login.accounts, of(step[1]))
		r.replaces(of(step[1]), of(step[2]))
		r.pass(login, of(step[2]), now)
		r.leave(login, true)
	}
	for value, want := range map[string]string{"zero": "[] false", "one": "[mallory alice] true", "two": "[alice mallory] true", "another": "[bob] true"} {
		var accounts []string
		all := true
		for _, one := range of(value) {
			note, known := r.noteOf(one, now)
			if all = all && known; known {
				accounts = union(accounts, note.accounts...)
			}
		}
		if !all {
			accounts = nil
		}
		if got := fmt.Sprint(accounts, all); got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}

// The names of cookies that may be sessions are exchanged, and bounded.
func TestNamesOfSessionsAreLearned(t *testing.T) {
	t.Parallel()
	r := NewRivals()
	r.sets([]string{"lang=en", "SID=0123456789abcdefghij"})
	if own := r.Learn([]string{"other=", "theme"}); !slices.Equal(slices.Sorted(slices.Values(own)), []string{"lang", "sid="}) {
		t.Errorf("%q", own)
	}
	if !r.shortAreSet("theme=1; lang=de; other=x") || r.shortAreSet("made=up") {
		t.Error("short cookies of the app are not known")
	}
	if keys, err := r.keys([]string{"other=abc; consent=yes"}, new(url.URL), 10); len(keys) != 1 || err != nil {
		t.Errorf("%d sessions, %v", len(keys), err)
	}
	for i := range mostLearned + 10 {
		r.sets([]string{fmt.Sprintf("c%d=0123456789abcdefghij", i)})
	}
	if own := r.Learn([]string{"sid="}); len(own) != mostLearned-1 {
		t.Errorf("%d names are stored", len(own)+1)
	}
}

// A value that the client may have chosen stays a session, however often the app sets it.
func TestR1OnlyValuesOfTheAppAreShared(t *testing.T) {
	t.Parallel()
	code, err := route.Compile(route.Spec{Name: "login", Kind: route.SecondFactor, Path: "/code", Password: "form:otp", Success: []string{"status 303"}})
	if err != nil {
		t.Fatal(err)
	}
	answer := &http.Response{Header: http.Header{"Set-Cookie": {"sid=given-to-a-visitor-0"}}}
	for _, c := range []struct {
		method, target, cookie string
		shared                 bool
	}{
		{"GET", "/", "", true}, {"POST", "/", "", false}, {"GET", "/?id=given-to-a-visitor-0", "", false},
		{"GET", "/a;id=given-to-a-visitor-0", "", false}, {"GET", "/", "id=given-to-a-visitor-0", false},
	} {
		r := NewRivals()
		v := &visit{proxy: &Proxy{Config: Config{Now: time.Now}, rivals: r}, app: &app{App: App{Routes: route.Table{code}}}}
		v.in = httptest.NewRequest(c.method, c.target, nil)
		if c.cookie != "" {
			v.in.Header.Set("Cookie", c.cookie)
		}
		v.renews(answer)
		v.renews(answer)
		set, _ := r.sessions(pairs(answer), new(url.URL), true)
		if _, shared := r.noteOf(set[0], time.Now()); shared != c.shared {
			t.Errorf("%+v: shared: %t", c, shared)
		}
	}
}

// A login in another spelling of a session that some app reads is in that session.
func TestR1EverySpellingOfASessionHasItsNote(t *testing.T) {
	t.Parallel()
	const id = "Abcdef-0123456789-wxyz"
	r := NewRivals()
	r.sets([]string{"sid=" + id + "; Path=/", "lang=en"})
	key := func(cookies string, every bool) (keys []uint64) {
		all, err := r.sessions([]string{cookies}, new(url.URL), every)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			keys = append(keys, one.key)
		}
		return keys
	}
	plain := key("sid="+id, true)
	for _, spelled := range []string{
		`sid="` + id + `"`, "sid=%41bcdef-0123456789-wxyz", `sid="\101bcdef-0123456789-wxyz"`, "a=b sid = " + id, "a=b sid= " + id,
		"a=b sid =" + id, "a=b, sid=" + id, "sid=" + id + ",x", "sid=" + id + ".node1", "sid=" + id + "!1!2",
		"sid=" + id + ":clone", "SID=" + strings.ToUpper(id), "s[id=; sid=" + id + " ", "sid=\u00c1bcdef-0123456789-wxyz",
		"sid=A%CC%81bcdef-01\u200b23456789-wxyz", "sid=\uff21bcdef-0123456789-wxyz",
	} {
		for _, every := range []bool{false, true} {
			if !slices.Contains(key(spelled, every), plain[0]) {
				t.Errorf("%s, every name: %t", spelled, every)
			}
		}
	}
	// Tornado's begin with the time, and some apps' all alike.
	for _, two := range [][2]string{
		{"sid=2|1:0|10:1795894410|3:sid|44:YWxpY2VzIHNlc3Npb24=|c2lnbmF0dXJl", "sid=2|1:0|10:1795894410|3:sid|44:bWFsbG9yeXMgc2Vzc2lv|b3RoZXI="},
		{"sid=prefix12:Abcdef-0123456789", "sid=prefix12:Bcdefg-0123456789"},
	} {
		if a, b := key(two[0], true), key(two[1], true); slices.ContainsFunc(a, func(one uint64) bool { return slices.Contains(b, one) }) {
			t.Errorf("%q are one session", two)
		}
	}
	for _, short := range []string{"sid=0123456789ab", "sid=ab,cd", "sid=a", "sid="} { // PHP takes what the client makes up
		if len(key(short, false)) == 0 {
			t.Errorf("%s is no session", short)
		}
	}
	for _, other := range []string{"sid=Abcdef-0123456789-wxyq", "lang=en", "consent=yes"} {
		if slices.Contains(key(other, true), plain[0]) || strings.Contains(other, "=en") && len(key(other, true)) > 0 {
			t.Errorf("%s is the session", other)
		}
	}
	for _, part := range []string{"sid=\u00f8bcdef-0123456789-wxyz", "sid=%C3%B8bcdef", "a=b sid=\u00df", `sid="\370"`} { // o to a database
		if _, err := r.enter("alice", nil, &url.URL{RawQuery: part[strings.Index(part, "sid"):]}); r.onlyASCII([]string{part}, new(url.URL)) || err == nil {
			t.Errorf("%s is compared", part)
		}
	}
	if !r.onlyASCII([]string{"sid=" + id, "name=J\u00f8rg"}, &url.URL{RawQuery: "next=\u00f8"}) {
		t.Error("cookies of users are removed")
	}
	for part, want := range map[string]bool{"lang=en": true, "made=up": false, "a=b lang=en": false, "lang=en,de": true, "__Host-authguard_device=1": true} {
		if r.shortAreSet(part) != want {
			t.Errorf("%s: %t", part, !want)
		}
	}
}

// Another node has an attempt in the same session only: another value is another session, and a shared one is none.
func TestR1NodesClaimEachSession(t *testing.T) {
	t.Parallel()
	spent := challenge.NewMemorySpent(0, time.Now)
	var nodes [2]*Proxy
	for i := range nodes {
		nodes[i] = &Proxy{Config: Config{Now: time.Now, Claims: spent, Secret: make([]byte, 16)}, rivals: NewRivals()}
	}
	claimed := func(node int, cookie string) bool {
		all, err := nodes[node].rivals.sessions([]string{cookie}, new(url.URL), true)
		others, failed := nodes[node].claim(all)
		if err != nil || failed != nil || len(all) == 0 {
			t.Fatal(err, failed)
		}
		return others[all[0].key]
	}
	for range 2 {
		for _, node := range nodes {
			set, _ := node.rivals.sessions([]string{"server=name-of-a-server"}, new(url.URL), true)
			node.rivals.gives(set)
		}
	}
	for node := range nodes {
		for _, cookie := range []string{fmt.Sprint("sid=given-to-a-visitor-", node), "server=name-of-a-server"} {
			if claimed(node, cookie) {
				t.Errorf("%s, node %d", cookie, node)
			}
		}
	}
	if !claimed(1, "sid= given-to-a-visitor-0") || !claimed(0, "sid=given-to-a-visitor-0") {
		t.Error("a session of two nodes counts at one")
	}
	if _, err := nodes[0].claim(make([]session, mostClaimed+1)); err == nil {
		t.Errorf("%d sessions are claimed", mostClaimed+1)
	}
}

// Pages poll while a visitor signs in. Only redirects can change the account.
func TestOnlyRedirectsAreRivals(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{200: false, 304: false, 303: true, 302: true} {
		r, in := NewRivals(), httptest.NewRequest(http.MethodGet, "/poll?sid=%C3%B8", nil) // nor does the URL hide it
		r.sets([]string{"sid=0123456789abcdefghij"})
		in.Header.Set("Cookie", "sid=given-to-a-visitor-0")
		login, err := r.enter("alice", in.Header["Cookie"], new(url.URL))
		if err != nil {
			t.Fatal(err)
		}
		if r.redirects(in, &http.Response{StatusCode: status}); r.polled(login) != want || r.won(t.Context(), login) {
			t.Errorf("%d: %t", status, login.polled)
		}
	}
}

// The accounts of a session do not change while the app checks a code.
func TestR1ASessionChangesNoAccountDuringItsCode(t *testing.T) {
	t.Parallel()
	r, now, mallorys := NewRivals(), time.Now(), []session{{name: "sid", key: 1}}
	r.pass(loginOf("mallory"), mallorys, now)
	own := []route.Credential{{Account: "mallory"}}
	code, _ := r.enter("mallory", nil, new(url.URL))
	another := func() []*rival {
		login := loginOf("alice")
		defer r.leave(login, true)
		return r.tries(login, login.accounts, mallorys)
	}
	if !r.checks(code, mallorys, own, now) {
		t.Error("a code at the only account of its session is refused")
	}
	if waits := another(); len(waits) != 1 || waits[0] != code {
		t.Errorf("another login waits for %v", waits)
	}
	if r.checks(code, mallorys, own, now) {
		t.Error("a code passes that counts for one of the accounts only")
	}
	if !r.checks(code, mallorys, append(own, route.Credential{Account: "alice"}), now) {
		t.Error("a code that counts for both is refused")
	}
	r.leave(code, true)
	if waits := another(); len(waits) != 0 || len(r.underWay) != 0 {
		t.Errorf("after the answer, another login waits for %v", waits)
	}
}

// The app gets a login after the answers to all codes of its session, and then no code that counts for others only.
func TestR1ALoginWaitsForTheCodesOfItsSession(t *testing.T) {
	t.Parallel()
	g, err := guard.Default([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	synctest.Test(t, func(t *testing.T) {
		p := &Proxy{Config: Config{Now: time.Now}, rivals: NewRivals()}
		var routes route.Table
		for _, s := range []route.Spec{
			{Name: "login", Path: "/login", Account: "form:username", Password: "form:password", Success: []string{"status 303"}},
			{Name: "login", Kind: route.SecondFactor, Path: "/code", Password: "form:otp", Success: []string{"status 303"}},
		} {
			one, err := route.Compile(s)
			if err != nil {
				t.Fatal(err)
			}
			routes = append(routes, one)
		}
		ctx, hangsUp := context.WithCancel(t.Context())
		sends := func(to *route.Route, accounts ...string) (*rival, error) {
			v := &visit{proxy: p, app: &app{App: App{Routes: routes}}, route: to, guard: g}
			v.in = httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
			v.in.Header.Set("Cookie", "sid=given-to-a-visitor-0")
			v.proof.rival = loginOf(accounts[0])
			var offer route.Offer
			for _, account := range accounts {
				offer.Credentials = append(offer.Credentials, route.Credential{Account: account})
			}
			if to.SecondFactor() {
				v.proof.rival.accounts = nil
			}
			return v.proof.rival, v.tries(offer)
		}
		all, _ := p.rivals.sessions([]string{"sid=given-to-a-visitor-0"}, new(url.URL), true)
		p.rivals.pass(loginOf("mallory"), all, p.Now())
		first, err := sends(routes[1], "mallory")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := sends(routes[0], "BOB", "Alice") // one name for each spelling, as the guard counts them
			done <- err
		}()
		if synctest.Wait(); len(done) > 0 {
			t.Error("the app gets a login while it checks a code of its session")
		}
		p.rivals.judge(first, true)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := sends(routes[1], "mallory", "bob"); err == nil {
			t.Error("a code that does not count for alice passes")
		}
		if _, err := sends(routes[1], "mallory", "bob", "alice"); err != nil {
			t.Error(err)
		}
		hangsUp()
		if _, err := sends(routes[0], "carol"); err == nil {
			t.Error("a login passes whose client does not wait for the code")
		}
	})
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

// PHP reads app.auth as app_auth: in either spelling, a cookie that the response renews may be the session.
func TestOnlyReplacedCookiesAreSentAgain(t *testing.T) {
	t.Parallel()
	answer := &http.Response{Header: http.Header{"Set-Cookie": {"app_auth=new"}}}
	for sent, want := range map[string]string{
		"app_auth=old; other=1": "app_auth=old", "app.auth=old; other=1": "app.auth=old", "app_auth=new": "", "other=1": "",
	} {
		h := http.Header{"Cookie": {sent}}
		if onlyReplaced(h, answer); h.Get("Cookie") != want {
			t.Errorf("%s: %q, want %q", sent, h.Get("Cookie"), want)
		}
	}
}
