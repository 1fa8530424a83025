package proxy_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/route"
	"authguard/internal/testing/world"
	"authguard/web/proxy"
)

// A twoSteps is an app that asks for a password, then for a code on another page. The account is in its session only.
type twoSteps struct {
	mu       sync.Mutex
	sessions map[string]string // the account whose password was right
	codes    map[string]int    // that it has checked, by account
	renews   bool              // it renews the session on the page for the code
	keeps    bool              // it keeps the identifier of a session at a login
	server   string            // the value of a load balancer's cookie
	served   proxy.App
	holds    func(*http.Request) // called before it answers
}

const rightCode = "271828"

var users = regexp.MustCompile(`^(alice|mallory\d?|user\d)$`)

func (a *twoSteps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.holds != nil {
		a.holds(r)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	session := ""
	r.Header.Set("Cookie", strings.Join(strings.Fields(r.Header.Get("Cookie")), ";"))
	for _, name := range [...]string{"sid", "api"} {
		if c, err := r.Cookie(name); err == nil && (session == "" || a.sessions[session] == "") {
			session = c.Value
		}
	}
	start := func(account string) {
		id := rand.Text()
		a.sessions[id] = account
		http.SetCookie(w, &http.Cookie{Name: "sid", Value: id})
	}
	to := func(path string) {
		w.Header().Set("Location", path)
		w.WriteHeader(http.StatusSeeOther)
	}
	if _, err := r.Cookie("SERVERID"); err != nil && a.server != "" {
		http.SetCookie(w, &http.Cookie{Name: "SERVERID", Value: a.server})
	}
	account := a.sessions[session]
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/login":
		if name := r.FormValue("username"); users.MatchString(name) && r.FormValue("password") == right {
			http.SetCookie(w, &http.Cookie{Name: "lang", Value: "en"})
			elsewhere := r.URL.Query().Get("next")
			if id := r.URL.Query().Get("fix"); id != "" { // as PHP with session.use_trans_sid
				a.sessions[id] = name
				http.SetCookie(w, &http.Cookie{Name: "sid", Value: id})
			} else if _, ok := a.sessions[session]; ok && a.keeps {
				a.sessions[session] = name
			} else {
				start(name)
			}
			to("/code" + elsewhere)
		} else {
			fmt.Fprint(w, "wrong")
		}
	case r.URL.Path == "/code" && account == "":
		to("/login")
	case r.Method == http.MethodPost && r.URL.Path == "/code":
		a.codes[account]++
		if r.FormValue("otp") == rightCode {
			http.SetCookie(w, &http.Cookie{Name: "logged_in_f3", Value: rand.Text()})
			to("/home")
		} else {
			fmt.Fprint(w, `<input name="otp">`)
		}
	case r.URL.Path == "/code" && a.renews:
		start(account)
		fmt.Fprint(w, `<input name="otp">`)
	case r.URL.Path == "/code":
		fmt.Fprint(w, `<input name="otp">`)
	default:
		fmt.Fprint(w, `<input name="username"><input type="password" name="password">`)
	}
}

func (a *twoSteps) checked(account string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.codes[account]
}

func newTwoSteps(t *testing.T) (*door, *twoSteps) {
	t.Helper()
	app := &twoSteps{sessions: map[string]string{}, codes: map[string]int{}}
	server := httptest.NewServer(app)
	t.Cleanup(server.Close)
	d := newDoor(t, wordpress, func(one *proxy.App) {
		one.Upstream, _ = url.Parse(server.URL)
		for _, s := range []route.Spec{
			{Name: "login", Path: "/login", Account: "form:username", Password: "form:password",
				Success: []string{"status 303", "location /home"}, SecondFactor: []string{"status 303", "location /code"}},
			{Name: "login", Kind: route.SecondFactor, Path: "/code", Password: "form:otp",
				Success: []string{"status 303", "location /home"}},
		} {
			r, err := route.Compile(s)
			if err != nil {
				t.Fatal(err)
			}
			one.Routes = append(one.Routes, r)
		}
		app.served = *one
	})
	return d, app
}

// signIn gives the right password, with a solved challenge if one is asked for, and returns the session's cookie.
func (d *door) signIn(t *testing.T, account, from, cookie string) string {
	t.Helper()
	r := d.solving(t, account, from, form("username="+account+"&password=correct+horse"), cookie)
	for _, c := range r.Cookies() {
		if c.Name == "sid" {
			return "sid=" + c.Value
		}
	}
	t.Fatalf("%s from %s: %d %s", account, from, r.StatusCode, text(t, r))
	return ""
}

// solving sends an attempt, and again with a solved challenge.
func (d *door) solving(t *testing.T, account, from string, o offer, cookie string) *http.Response {
	t.Helper()
	r := d.send(t, from, o, "Cookie", cookie)
	if r.StatusCode == http.StatusForbidden {
		a := world.From(account, from)
		a.Integration = "proxy/login"
		s := d.Solve(t, a)
		r = d.send(t, from, o, "Cookie", cookie, "Authguard-Captcha-Id", s.ID, "Authguard-Captcha-Answer", s.Answer)
	}
	return r
}

func code(text string) offer {
	return offer{"POST", "/code", "application/x-www-form-urlencoded", "otp=" + text}
}

// An attacker has the password. The codes that the app checks are bounded by the account's limit, from however many
// addresses and sessions they come; new sessions do not renew it.
func TestR1CodesAreBoundedByTheAccountOfTheirSession(t *testing.T) {
	t.Parallel()
	d, app := newTwoSteps(t)
	if err := d.Mode.Force(captchamode.Override{State: captchamode.ForcedOff, Who: "test", Why: "test",
		Until: d.Clock.Now().Add(captchamode.MaxOverride)}); err != nil {
		t.Fatal(err)
	}
	guess := func(from, session string, i int) {
		d.send(t, from, code(fmt.Sprintf("%06d", i)), "Cookie", "lang=en; "+session)
	}
	sessions := make([]string, 100)
	for i := range sessions {
		sessions[i] = d.signIn(t, "alice", world.Address(i), "")
	}
	if n := d.Used(t, "alice", world.Address(0), guard.OnAccount); n != 0 {
		t.Fatalf("the right password counts as %d failures", n)
	}
	world.Burst(100, 50, func(i int) { guess(world.Address(i), sessions[i%100], i) })
	if n := app.checked("alice"); n != 5 {
		t.Fatalf("the app checked %d codes, want 5", n)
	}
	for i := range 20 {
		from := world.Address(1000 + i)
		guess(from, d.signIn(t, "alice", from, ""), 1000+i)
	}
	// Each of them has solved one challenge, and it is good for one code.
	if n := app.checked("alice"); n != 25 {
		t.Errorf("with 20 solutions the app checked %d codes, want 25", n)
	}
	// The session of an account of their own does not hide whose code it is.
	mine := d.signIn(t, "mallory", world.Address(2000), "")
	for i, cookies := range []string{mine + "; " + sessions[50], sessions[50] + "; " + mine, "SID" + sessions[50][3:] + "; " + mine} {
		guess(world.Address(2001+i), cookies, 2000+i)
	}
	// Nor does a login of their own in the session, which the app keeps.
	d.signIn(t, "mallory", world.Address(2100), sessions[60])
	for i := range 5 {
		guess(world.Address(2101+i), sessions[60], 2100+i)
	}
	// Nor does a session that the proxy does not know.
	app.mu.Lock()
	app.sessions["made-up-session-1"] = "alice"
	app.mu.Unlock()
	for i := range 5 {
		if r := d.send(t, world.Address(3000+i), code("000000"), "Cookie", "sid=made-up-session-1"); r.StatusCode != http.StatusForbidden {
			t.Errorf("an unknown session: %d", r.StatusCode)
		}
	}
	if n, m := app.checked("alice"), app.checked("mallory"); n != 25 || m != 0 {
		t.Errorf("by other sessions the app checked %d codes of alice and %d of mallory", n-25, m)
	}
}

// The owner's right code passes, at the price of one challenge, and makes the client known. A wrong code counts.
func TestTheCodeCompletesTheLogin(t *testing.T) {
	t.Parallel()
	for _, renews := range []bool{false, true} {
		d, app := newTwoSteps(t)
		app.renews = renews
		for i := range 5 {
			d.send(t, world.Address(i), form(fmt.Sprintf("username=alice&password=guess-%d", i)))
		}
		d.Force(t)
		const home = "203.0.113.9"
		session := d.signIn(t, "alice", home, "")
		if s := d.Status(t, "alice", home); s != 0 {
			t.Errorf("after the password the client is %v", s)
		}
		page := d.send(t, home, offer{"GET", "/code", "", ""}, "Cookie", session)
		for _, c := range page.Cookies() {
			session = c.Name + "=" + c.Value
		}
		r := d.send(t, home, code(rightCode), "Cookie", session)
		if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/home" || app.checked("alice") != 1 {
			t.Fatalf("renewed %t: %d %s", renews, r.StatusCode, text(t, r))
		}
		if n := d.Used(t, "alice", world.Address(9), guard.OnAccount); n != 5 {
			t.Errorf("%d failures, want the attacker's 5", n)
		}
		again := d.signIn(t, "alice", home, "") // known now: no challenge
		if r := d.send(t, home, code("000000"), "Cookie", again); r.StatusCode != http.StatusOK || app.checked("alice") != 2 {
			t.Errorf("a wrong code of a known client: %d", r.StatusCode)
		}
	}
}

// The challenge of the password is good for one code, and none for a wrong password.
func TestR17AWrongPasswordCarriesNoChallengeToTheCode(t *testing.T) {
	t.Parallel()
	d, app := newTwoSteps(t)
	session := d.signIn(t, "alice", "203.0.113.9", "")
	d.Force(t)
	a := world.From("alice", "203.0.113.9")
	a.Integration = "proxy/login"
	s := d.Solve(t, a)
	d.send(t, "203.0.113.9", form("username=alice&password=guess"), "Authguard-Captcha-Id", s.ID, "Authguard-Captcha-Answer", s.Answer)
	r := d.send(t, "203.0.113.9", code("000000"), "Cookie", session)
	if r.StatusCode != http.StatusForbidden || app.checked("alice") != 0 || !strings.Contains(text(t, r), "captcha_id") {
		t.Errorf("%d, %d codes", r.StatusCode, app.checked("alice"))
	}
}

// An attacker sends a session of the victim that has no note any more, or is spelled otherwise, before one of their own.
func TestR1ACodeNeedsANoteOfEverySession(t *testing.T) {
	t.Parallel()
	d, app := newTwoSteps(t)
	app.renews = true
	mine := d.signIn(t, "mallory", "203.0.113.9", "")
	lost := rand.Text() // such as after a restart
	app.mu.Lock()
	app.sessions[lost] = "alice"
	app.mu.Unlock()
	for i, cookies := range []string{
		"sid=" + lost + "; " + mine, mine + "; sid=" + lost, "sid=" + lost + "; logged_in_f3" + mine[3:], "sid=" + lost + ",; " + mine,
	} {
		from := world.Address(i)
		want := http.StatusOK // for mallory
		if strings.Contains(cookies, "logged_in") {
			want = http.StatusForbidden
		}
		if r := d.send(t, from, code("000000"), "Cookie", cookies); r.StatusCode != want {
			t.Errorf("%s: %d", cookies, r.StatusCode)
		}
		// Nor do they give a note to the session that the app sets next.
		page := d.send(t, from, offer{"GET", "/code", "", ""}, "Cookie", cookies)
		for _, c := range page.Cookies() {
			d.send(t, from, code("000000"), "Cookie", c.Name+"="+c.Value)
		}
		d.signIn(t, "mallory", from, cookies)
		d.send(t, from, code("000000"), "Cookie", "sid="+lost)
	}
	if n := app.checked("alice"); n != 0 {
		t.Errorf("the app checked %d codes of alice", n)
	}
}

// A script has rewritten a cookie of the app, so that it has no note. The session's own is renewed with its note.
func TestACookieOfAScriptRefusesNoCode(t *testing.T) {
	t.Parallel()
	d, app := newTwoSteps(t)
	app.renews, app.server = true, "name-of-the-server-of-all"
	session := d.signIn(t, "alice", "203.0.113.9", "")
	page := d.send(t, "203.0.113.9", offer{"GET", "/code", "", ""}, "Cookie", session+"; SERVERID=rewritten-by-a-script-000")
	for _, c := range page.Cookies() {
		if c.Name == "sid" {
			session = "sid=" + c.Value
		}
	}
	if r := d.send(t, "203.0.113.9", code("000000"), "Cookie", session); r.StatusCode != http.StatusOK || app.checked("alice") != 1 {
		t.Errorf("%d, %d codes", r.StatusCode, app.checked("alice"))
	}
}

// A load balancer's cookie has one value for many users. It is the session of none.
func TestASharedCookieIsNoSession(t *testing.T) {
	t.Parallel()
	d, app := newTwoSteps(t)
	app.server = "app-server-01-prod"
	for i := range 2 {
		d.send(t, world.Address(i), offer{"GET", "/login", "", ""})
	}
	const server = "SERVERID=app-server-01-prod"
	for i := range 8 {
		account, from := fmt.Sprintf("user%d", i), world.Address(10+i)
		session := d.signIn(t, account, from, server)
		r := d.send(t, from, code(rightCode), "Cookie", session+"; "+server)
		if r.StatusCode != http.StatusSeeOther || !device(r) {
			t.Errorf("%s: %d, known: %t", account, r.StatusCode, device(r))
		}
		if r := d.send(t, from, code(rightCode), "Cookie", server); r.StatusCode != http.StatusForbidden {
			t.Errorf("%s, without a session: %d", account, r.StatusCode)
		}
	}
	// The session that an attacker shares with the victim is none of these.
	session := d.signIn(t, "alice", "203.0.113.9", server)
	for i := range 4 {
		d.signIn(t, fmt.Sprintf("mallory%d", i), world.Address(30+i), session+"; "+server)
	}
	for i := range 20 {
		d.send(t, world.Address(40+i), code("000000"), "Cookie", session+"; "+server)
	}
	if n := app.checked("alice"); n > 5 {
		t.Errorf("the app checked %d codes of alice", n)
	}
}

// An attacker sends a session of the victim from before a restart, under a name that the app has not set since.
func TestR1ACodeHasNoSessionOfAnotherName(t *testing.T) {
	t.Parallel()
	d, app := newTwoSteps(t)
	mine := d.signIn(t, "mallory", "203.0.113.9", "")
	app.mu.Lock()
	app.sessions["of-alice-before-a-restart"] = "alice"
	delete(app.sessions, mine[4:])
	app.mu.Unlock()
	d.send(t, "203.0.113.9", code("000000"), "Cookie", mine+"; api=of-alice-before-a-restart")
	d.send(t, "203.0.113.9", code("000000"), "Cookie", "api=of-alice-before-a-restart; "+mine)
	if n := app.checked("alice"); n != 0 {
		t.Errorf("the app checked %d codes of alice", n)
	}
}

// An attacker lets the app give the victim's session to others, too.
func TestR1AnAttackerSharesNoSession(t *testing.T) {
	t.Parallel()
	d, app := newTwoSteps(t)
	const fixed = "chosen-by-the-attacker-1"
	for i, account := range []string{"mallory1", "mallory2", "mallory1", "alice"} {
		o := form("username=" + account + "&password=correct+horse")
		o.path += "?fix=" + fixed
		d.send(t, world.Address(i), o)
	}
	mine := d.send(t, "203.0.113.9", code(rightCode), "Cookie", d.signIn(t, "mallory", "203.0.113.9", "")).Header["Set-Cookie"][0]
	for range 3 {
		d.send(t, "203.0.113.9", code("000000"), "Cookie", mine+"; sid="+fixed)
	}
	if n, counted := app.checked("alice"), d.Used(t, "alice", world.Address(9), guard.OnAccount); n > counted {
		t.Errorf("the app checked %d codes of alice, and %d count", n, counted)
	}
}

// A session has passed the password of one account, and the app then takes that of another, which the proxy judges as a
// failure. The codes count for both, and the client becomes known to neither.
func TestR1ASessionHasEveryAccountThatItHasTried(t *testing.T) {
	t.Parallel()
	for i, keeps := range []bool{false, true, true} {
		hidden := []string{"", "", "a=b; c "}[i] // the app splits at white space, as Python does
		for _, accounts := range [][2]string{{"mallory", "alice"}, {"alice", "mallory"}} {
			d, app := newTwoSteps(t)
			app.keeps = keeps
			const from = "203.0.113.9"
			session := d.signIn(t, accounts[0], from, "")
			other := form("username=" + accounts[1] + "&password=correct+horse")
			other.path += "?next=/elsewhere"
			r := d.send(t, from, other, "Cookie", hidden+session)
			for _, c := range r.Cookies() {
				if c.Name == "sid" {
					session = "sid=" + c.Value
				}
			}
			if r = d.send(t, from, code(rightCode), "Cookie", session); device(r) {
				t.Errorf("%s and %s, kept: %t: a device cookie", accounts[0], accounts[1], keeps)
			}
			for range 3 {
				d.send(t, from, code("000000"), "Cookie", session)
			}
			if n, counted := app.checked("alice"), d.Used(t, "alice", world.Address(9), guard.OnAccount); n > counted {
				t.Errorf("%s and %s, kept: %t: the app checked %d codes of alice, and %d count", accounts[0], accounts[1], keeps, n, counted)
			}
		}
	}
}

// An attacker is a known client of mallory, and sends both logins at once. The app answers mallory's, then alice's.
func TestR1ASessionHasAnAccountWhoseLoginIsUnderWay(t *testing.T) {
	t.Parallel()
	d, app := newTwoSteps(t)
	app.keeps = true
	const from, session = "203.0.113.9", "sid=given-to-a-visitor-0"
	app.sessions[session[4:]] = ""
	known := d.send(t, from, code(rightCode), "Cookie", d.signIn(t, "mallory", from, ""))
	reached, release := make(chan bool), make(chan bool)
	var once sync.Once
	app.holds = func(r *http.Request) {
		if r.FormValue("username")+r.FormValue("password") == "alice"+right {
			once.Do(func() {
				close(reached)
				<-release
			})
		}
	}
	var alice sync.WaitGroup
	alice.Go(func() { d.send(t, from, form("username=alice&password=correct+horse"), "Cookie", session) })
	<-reached
	cookies := session
	for _, c := range known.Cookies() {
		if strings.Contains(c.Name, "authguard_device") {
			cookies += "; " + c.Name + "=" + c.Value
		}
	}
	d.send(t, from, form("username=mallory&password=correct+horse"), "Cookie", cookies)
	close(release)
	alice.Wait()
	before := d.Used(t, "alice", world.Address(9), guard.OnAccount)
	for range 3 {
		d.send(t, from, code("000000"), "Cookie", cookies)
	}
	if n, counted := app.checked("alice"), d.Used(t, "alice", world.Address(9), guard.OnAccount)-before; n > counted {
		t.Errorf("the app checked %d codes of alice, and %d count", n, counted)
	}
}

// Two nodes serve the sessions of an app that keeps their identifiers. A note is of one node only, so no code counts in
// a session with attempts through both.
func TestR1ASessionOfTwoNodesPassesNoCode(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"mallory", "alice"} {
		d, app := newTwoSteps(t)
		app.keeps = true
		claims := challenge.NewMemorySpent(0, d.Clock.Now)
		d.proxy.Claims = claims
		other := d.anotherNode(t, app)
		other.proxy.Claims = claims
		second := map[string]string{"mallory": "alice", "alice": "mallory"}[first]
		const from = "203.0.113.9"
		app.mu.Lock()
		app.sessions["given-to-a-visitor-0"] = ""
		app.mu.Unlock()
		const session = "sid=given-to-a-visitor-0"
		login := func(account string) offer { return form("username=" + account + "&password=correct+horse") }
		d.send(t, from, login(first), "Cookie", session)
		if r := d.send(t, from, code("000000"), "Cookie", session); r.StatusCode != http.StatusOK {
			t.Errorf("a code through the node of the login: %d", r.StatusCode)
		}
		other.send(t, from, login(second), "Cookie", session)
		before := app.checked("alice")
		for _, node := range []*door{d, other, d} {
			if r := node.send(t, from, code(rightCode), "Cookie", session); r.StatusCode != http.StatusForbidden || device(r) {
				t.Errorf("%s, then %s: %d", first, second, r.StatusCode)
			}
		}
		if n := app.checked("alice") - before; n != 0 {
			t.Errorf("%s, then %s: the app checked %d codes of alice", first, second, n)
		}
	}
}

// anotherNode serves the same app with the same guard, and notes of its own.
func (d *door) anotherNode(t *testing.T, app *twoSteps) *door {
	t.Helper()
	c := d.proxy.Config
	c.Rivals = nil
	p, err := proxy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	p.Set(app.served)
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return &door{World: d.World, Server: server, proxy: p}
}

// An attacker hides a session among others until the claims are late. In part, they are refused; the next attempt claims
// again. Without Redis, a node believes itself. Codes claim no session without a note.
func TestR22ClaimsThatFailInPartAreRefused(t *testing.T) {
	t.Parallel()
	d, app := newTwoSteps(t)
	app.keeps = true
	shared := challenge.NewMemorySpent(0, d.Clock.Now)
	d.proxy.Claims = shared
	other := d.anotherNode(t, app)
	slow := &slowSpent{MemorySpent: shared, works: 3}
	var away time.Duration
	other.proxy.Claims, other.proxy.Away = slow, func() time.Duration { return away }
	session, from := d.signIn(t, "mallory", "203.0.113.9", ""), "203.0.113.9"
	d.send(t, from, code("000000"), "Cookie", session)
	many := session
	for i := range 20 {
		many += fmt.Sprintf("; c%d=%s", i, rand.Text())
	}
	alice := form("username=alice&password=correct+horse")
	if r := other.send(t, from, alice, "Cookie", many); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("late claims: %d", r.StatusCode)
	}
	slow.allow(1 << 20)
	other.send(t, from, alice, "Cookie", session)
	if r := d.send(t, from, code("000000"), "Cookie", session); r.StatusCode != http.StatusForbidden || app.checked("alice") != 0 {
		t.Errorf("%d, %d codes of alice", r.StatusCode, app.checked("alice"))
	}
	slow.allow(0)
	if r := other.send(t, world.Address(1), alice); r.StatusCode != http.StatusSeeOther {
		t.Errorf("a login without Redis: %d", r.StatusCode)
	}
	for _, one := range []struct {
		away   time.Duration
		status int
	}{{0, http.StatusServiceUnavailable}, {300 * time.Millisecond, http.StatusServiceUnavailable}, {10 * time.Second, http.StatusSeeOther}} {
		away = one.away // after a time-out, a pause, an outage
		if r := other.send(t, world.Address(1), alice, "Cookie", many); r.StatusCode != one.status {
			t.Errorf("a login with cookies, Redis away for %v: %d, want %d", away, r.StatusCode, one.status)
		}
	}
	before := slow.asked()
	if r := other.send(t, from, code("000000"), "Cookie", "a="+rand.Text()+"; b="+rand.Text()); r.StatusCode != http.StatusForbidden || slow.asked() != before {
		t.Errorf("a code in unknown sessions: %d, %d claims", r.StatusCode, slow.asked()-before)
	}
}

// A slowSpent answers some more calls.
type slowSpent struct {
	*challenge.MemorySpent
	mu    sync.Mutex
	works int
	calls int
}

func (s *slowSpent) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *slowSpent) allow(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.works = n
}

// Spend implements challenge.Spent.
func (s *slowSpent) Spend(ctx context.Context, id [16]byte, until time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.works--; s.works < 0 {
		return false, context.DeadlineExceeded
	}
	return s.MemorySpent.Spend(ctx, id, until)
}

// A magic link signs mallory in, in the session and at the time of his guess at alice. The app keeps its identifier.
func TestASignInOutsideTheRoutesProvesNoPassword(t *testing.T) {
	t.Parallel()
	for _, hidden := range []string{"", strings.Repeat("sid=x; ", 300)} {
		var d *door
		var signedIn atomic.Bool
		app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch cookies := r.Header.Get("Cookie"); {
			case r.URL.Path == "/magic":
				signedIn.Store(true)
				w.Header().Set("Location", "/home")
				w.WriteHeader(http.StatusFound)
			case r.FormValue("username")+r.FormValue("password") == "aliceguess":
				magic, _ := http.NewRequest(http.MethodGet, d.URL+"/magic", nil)
				magic.Header.Set("Cookie", hidden+cookies)
				if answer, err := http.DefaultTransport.RoundTrip(magic); err != nil || answer.StatusCode != http.StatusFound {
					t.Error(answer, err)
				}
				fallthrough
			case strings.Contains(cookies, "sid=") && signedIn.Load():
				w.Header().Set("Location", "/home")
				w.WriteHeader(http.StatusSeeOther)
			case !strings.Contains(cookies, "sid="):
				http.SetCookie(w, &http.Cookie{Name: "sid", Value: rand.Text()})
				fallthrough
			default:
				_, _ = io.WriteString(w, `<form method="post"><input name="username"><input type="password" name="password"></form>`)
			}
		}))
		t.Cleanup(app.Close)
		d = newDoor(t, wordpress, func(one *proxy.App) {
			one.Upstream, _ = url.Parse(app.URL)
			r, err := route.Compile(route.Spec{Name: "login", Path: "/login", Account: "form:username", Password: "form:password",
				Success: []string{"status 303", "location /home"}})
			if err != nil {
				t.Fatal(err)
			}
			one.Routes = route.Table{r}
		})
		visit, err := http.Get(d.URL + "/login")
		if err != nil {
			t.Fatal(err)
		}
		session := "sid=" + visit.Cookies()[0].Value
		if r := d.send(t, "203.0.113.9", form("username=alice&password=guess"), "Cookie", session); device(r) {
			t.Errorf("%d other cookies: a wrong password made the client known", len(hidden))
		}
	}
}

// A login that is refused for its cookies has not had the app check a made-up password before.
func TestR1ALoginWithTooManyCookiesChecksNoMadeUpPassword(t *testing.T) {
	t.Parallel()
	var checked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			checked.Add(1)
		}
		http.SetCookie(w, &http.Cookie{Name: "sid", Value: rand.Text()})
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"ok": false}`)
	}))
	t.Cleanup(server.Close)
	d := newDoor(t, wordpress, func(one *proxy.App) {
		one.Upstream, _ = url.Parse(server.URL)
		for _, s := range []route.Spec{
			{Name: "login", Path: "/api/login", Account: "json:/email", Password: "json:/pin", Success: []string{"json /ok true"}},
			{Name: "login", Kind: route.SecondFactor, Path: "/code", Password: "json:/otp", Success: []string{"json /ok true"}},
		} {
			r, err := route.Compile(s)
			if err != nil {
				t.Fatal(err)
			}
			one.Routes = append(one.Routes, r)
		}
	})
	d.send(t, "198.18.0.7", offer{"GET", "/", "", ""}) // sets a session cookie
	for many, want := range map[string]int64{"": 2, strings.Repeat("a=1;", 300): 0} {
		checked.Store(0)
		d.send(t, "198.18.0.7", offer{"POST", "/api/login", "application/json", `{"email": "alice", "pin": "0000"}`},
			"Cookie", many+"sid=given-to-a-visitor-0")
		if n := checked.Load(); n != want {
			t.Errorf("%d cookies: the app has checked %d PINs, want %d", strings.Count(many, ";")+1, n, want)
		}
	}
}
