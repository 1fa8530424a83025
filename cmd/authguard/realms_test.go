package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"authguard/internal/testing/redistest"
)

// token is an API token of 32 like letters.
func token(letter string) string { return strings.Repeat(letter, 32) }

// sites are a shop and a blog beside the default realm, where nothing but the limit
// of an account gets in the way.
var sites = quiet + noDelay + "challenge: {kind: pow, pow_cost: 100}\napi: {tokens: [" + token("d") + "]}\n" + `realms:
  - {name: shop, hosts: [shop.test, "*.shop.test"], tokens: [` + token("s") + `]}
  - {name: blog, hosts: [blog.test], tokens: [` + token("b") + `]}
`

var siteUsers = []string{"ann", "shop/ann", "blog/ann", "shop/bob", "blog/bob"}

func TestWhatIsCountedInOneRealmCountsInNoOther(t *testing.T) {
	t.Parallel()
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		countEachRealm(t, newServer(t, sites, siteUsers...))
	})
	t.Run("two nodes with Redis", func(t *testing.T) {
		t.Parallel()
		countEachRealm(t, newNodes(t, 2, standalone(t), strings.Replace(sites, noDelay, "limits: {pair_delay: off, check_timeout: 1s}\n", 1), siteUsers...)...)
	})
}

// countEachRealm has three realms attacked at once, from the same addresses, at an
// account that each of them has: by the login page, and by the decision API.
func countEachRealm(t *testing.T, nodes ...*server) {
	t.Helper()
	hosts := map[string]string{"d": "", "s": "SHOP.test:8080", "b": "blog.test."}
	var all sync.WaitGroup
	for letter, host := range hosts {
		all.Go(func() {
			counts := tally(60, 20, func(i int) int {
				return from(loopback(20, i)).at(host).login(t, nodes[i%len(nodes)], "ann", "wrong").status
			})
			if want := map[int]int{http.StatusUnauthorized: 5, http.StatusForbidden: 55}; !maps.Equal(counts, want) {
				t.Errorf("%s at %q: %v, want %v", letter, host, counts, want)
			}
		})
		all.Go(func() { // another account: what the API proceeds with is not settled, and so failed
			decisions := tally(40, 20, func(i int) int {
				var answer struct{ Decision string }
				question := map[string]string{"account": "carol", "address": "192.0.2." + fmt.Sprint(i)}
				if status := nodes[i%len(nodes)].ask(t, token(letter), "/v1/attempts", question, &answer); status != http.StatusOK {
					return status
				}
				return map[string]int{"proceed": 1, "challenge": 2}[answer.Decision]
			})
			if want := map[int]int{1: 5, 2: 35}; !maps.Equal(decisions, want) {
				t.Errorf("API %s: %v, want %v", letter, decisions, want)
			}
		})
	}
	all.Wait()
	for _, n := range nodes {
		if t.Failed() {
			t.Log(n.log) // which says if it was alone for a while
		}
	}
}

func TestWhatIsGoodInOneRealmIsVoidInAnother(t *testing.T) {
	t.Parallel()
	s := newServer(t, sites, siteUsers...)
	shop := func(address string) *person { return from(address).at("www.shop.test") }
	blog := func(address string) *person { return from(address).at("blog.test") }
	must := func(what string, got answer, want int) answer {
		t.Helper()
		if got.status != want {
			t.Errorf("%s: %d %s, want %d", what, got.status, got.body, want)
		}
		return got
	}
	ann := shop("127.30.0.1")
	must("ann logs in at the shop", ann.login(t, s, "ann", rightPassword), http.StatusOK)
	must("the session there", ann.get(t, s.base+"/auth/verify"), http.StatusOK)

	t.Run("sessions", func(t *testing.T) {
		stolen := ann.jar["authguard_login_shop"]
		if stolen == "" {
			t.Fatalf("cookies: %v", ann.jar)
		}
		for host, names := range map[string][]string{
			"blog.test": {"authguard_login_shop", "authguard_login_blog", "authguard_login"}, "": {"authguard_login_shop", "authguard_login"},
		} {
			thief := from("127.30.0.1").at(host)
			for _, name := range names {
				thief.jar[name] = stolen
			}
			must("a session of the shop at "+host, thief.get(t, s.base+"/auth/verify"), http.StatusUnauthorized)
			r, _ := http.NewRequest(http.MethodGet, s.base+"/auth/verify", nil)
			r.Header.Set("X-Forwarded-Host", "shop.test") // from nobody that is believed
			must("and with a forwarded host", thief.do(t, r), http.StatusUnauthorized)
		}
	})
	for _, realm := range []string{"shop", "blog"} {
		s.must("captcha", "enable", "--reason", "test", "--realm", realm)
	}
	t.Run("places and devices", func(t *testing.T) {
		device := shop("127.31.0.1")
		maps.Copy(device.jar, ann.jar)
		must("ann's place", shop("127.30.0.1").login(t, s, "ann", rightPassword), http.StatusOK)
		must("ann's device", device.login(t, s, "ann", rightPassword), http.StatusOK)
		other := blog("127.30.0.1")
		maps.Copy(other.jar, ann.jar)
		must("both at the blog", other.login(t, s, "ann", rightPassword), http.StatusForbidden)
	})
	t.Run("challenges", func(t *testing.T) {
		asked := must("a stranger", shop("127.32.0.1").login(t, s, "bob", rightPassword), http.StatusForbidden).problem.Challenge
		solved := []string{"captcha_id", asked.ID, "captcha_work", prove(t, *asked.PoW)}
		void := must("at the blog", blog("127.32.0.1").login(t, s, "bob", rightPassword, solved...), http.StatusForbidden)
		if void.problem.Challenge == nil {
			t.Error("no other challenge")
		}
		again := must("a stranger again", shop("127.32.0.1").login(t, s, "bob", rightPassword), http.StatusForbidden).problem.Challenge
		must("at the shop", shop("127.32.0.1").login(t, s, "bob", rightPassword, "captcha_id", again.ID, "captcha_work", prove(t, *again.PoW)), http.StatusOK)
	})
	t.Run("one-time codes", func(t *testing.T) {
		var code struct{ Code string }
		if err := json.Unmarshal([]byte(s.must("user", "create-code", "ann", "--realm", "shop", "--json")), &code); err != nil {
			t.Fatal(err)
		}
		must("at the blog", blog("127.33.0.1").login(t, s, "ann", rightPassword, "code", code.Code), http.StatusForbidden)
		must("at the shop", shop("127.33.0.1").login(t, s, "ann", rightPassword, "code", code.Code), http.StatusOK)
	})
	t.Run("tickets", func(t *testing.T) {
		var begun struct{ Decision, Ticket string }
		s.ask(t, token("d"), "/v1/attempts", map[string]string{"account": "dora", "address": "192.0.2.9"}, &begun)
		settle := map[string]string{"ticket": begun.Ticket, "outcome": "succeeded"}
		for _, one := range []struct {
			token string
			want  int
		}{{"s", http.StatusBadRequest}, {"b", http.StatusBadRequest}, {"x", http.StatusUnauthorized}, {"d", http.StatusNoContent}} {
			if got := s.ask(t, token(one.token), "/v1/attempts/settle", settle, nil); got != one.want {
				t.Errorf("settled with the token %s: %d, want %d", one.token, got, one.want)
			}
		}
	})
	t.Run("words and records", func(t *testing.T) {
		if on, off := s.must("status", "--realm", "shop"), s.must("status"); !strings.Contains(on, "decided by    \"cli:") || !strings.Contains(off, "the failure rate") {
			t.Errorf("%s\n%s", on, off)
		}
		if shop, ours := s.must("explain", "--account", "ann", "--address", "127.30.0.1", "--realm", "shop"), s.must("explain", "--account", "ann", "--address", "127.30.0.1"); shop == ours {
			t.Errorf("explained alike: %s", ours)
		}
		if said := say(t, s.command("explain", "--account", "ann", "--realm", "shoe"), ""); said.status != 1 || !strings.Contains(said.complaints, `unknown realm "shoe"; the realms are: default, shop, blog`) {
			t.Errorf("%+v", said)
		}
		if said := say(t, s.command("user", "create", "eve", "--admin", "--generate", "--realm", "shop"), ""); said.status != 1 || !strings.Contains(said.complaints, "without --realm") {
			t.Errorf("%+v", said)
		}
		s.must("user", "create", "eve", "--generate", "--realm", "shop")
		if all := s.must("user", "list", "--realm", "shop"); !strings.Contains(all, `"eve"`) || strings.Contains(s.must("user", "list"), `"eve"`) {
			t.Error(all)
		}
		if !s.log.has(`msg="attempt succeeded" address=127.30.0.1 integration=login realm=shop account=ann`) || s.log.has("realm=default") {
			t.Error("the log does not name the realm, or names the default one")
		}
	})
}

func TestAnAttackOnOneRealmIsNoPressureInAnother(t *testing.T) {
	long(t)
	t.Parallel()
	var users []string
	for i := range 60 {
		users = append(users, fmt.Sprint("shop/user", i))
	}
	s := newServer(t, noDelay+"alerts: {group_wait: 0s}\nrealms:\n  - {name: shop, hosts: [shop.test]}\n  - {name: blog, hosts: [blog.test]}\n", append(users, "ann", "blog/ann")...)
	attackOneRealm(t, users, s)
	if !s.log.has(`kind=captcha-mode-on title="CAPTCHA mode is on" body="realm shop: `) || !s.log.has("threshold=30 realm=shop") {
		t.Errorf("nobody was told of the realm:\n%s", lastLines(s.log.String(), 30))
	}
}

// TestAFullQueueOfOneRealmTurnsNobodyAwayInAnother: with one queue for all, whom the
// attack on the shop crowds out at the blog would be pressure there, and switch its
// CAPTCHA mode on.
func TestAFullQueueOfOneRealmTurnsNobodyAwayInAnother(t *testing.T) {
	t.Parallel()
	const crowded = quiet + noDelay + "passwords: {cost: 10, max_concurrent: 1, max_queued: 1, queue_timeout: 1m}\n"
	s := newServer(t, crowded+"realms:\n  - {name: shop, hosts: [shop.test]}\n  - {name: blog, hosts: [blog.test]}\n", "blog/ann")
	done := make(chan map[int]int)
	go func() {
		done <- tally(300, 40, func(i int) int {
			return from(loopback(80, i)).at("shop.test").login(t, s, fmt.Sprint("nobody", i), "wrong").status
		})
	}()
	redistest.Until(t, "the shop to turn people away", func() bool { return s.gaugeOf(t, "shop", "authguard_checks_shed_total") > 0 })
	for range 10 {
		if got := from("127.81.0.1").at("blog.test").login(t, s, "ann", rightPassword); got.status != http.StatusOK {
			t.Errorf("a login at the blog: %d %s", got.status, got.body)
		}
	}
	if counts := <-done; counts[http.StatusServiceUnavailable] == 0 || counts[http.StatusUnauthorized] == 0 {
		t.Errorf("the shop: %v", counts)
	}
	for _, name := range []string{"authguard_checks_shed_total", "authguard_failure_rate", "authguard_captcha_mode"} {
		if n := s.gaugeOf(t, "blog", name); n != 0 {
			t.Errorf("%s of the blog: %d, want 0", name, n)
		}
	}
}

func TestAnAttackOnOneRealmIsKnownToAllNodes(t *testing.T) {
	long(t)
	t.Parallel()
	var users []string
	for i := range 60 {
		users = append(users, fmt.Sprint("shop/user", i))
	}
	attackOneRealm(t, users, newNodes(t, 2, standalone(t), noDelay+"realms:\n  - {name: shop, hosts: [shop.test]}\n  - {name: blog, hosts: [blog.test]}\n", append(users, "ann", "blog/ann")...)...)
}

func attackOneRealm(t *testing.T, users []string, nodes ...*server) {
	t.Helper()
	for i, user := range users {
		from(loopback(40, i)).at("shop.test").login(t, nodes[i%len(nodes)], strings.TrimPrefix(user, "shop/"), "wrong")
	}
	redistest.Until(t, "the shop's CAPTCHA mode on every node", func() bool {
		for _, s := range nodes {
			if s.gaugeOf(t, "shop", "authguard_captcha_mode") != 1 {
				return false
			}
		}
		return true
	})
	for _, s := range nodes {
		for _, realm := range []string{"default", "blog"} {
			for _, name := range []string{"authguard_captcha_mode", "authguard_throttling", "authguard_failure_rate"} {
				if n := s.gaugeOf(t, realm, name); n != 0 {
					t.Errorf("%s of %s: %d, want 0", name, realm, n)
				}
			}
		}
		for host, want := range map[string]int{"": http.StatusOK, "blog.test": http.StatusOK, "shop.test": http.StatusForbidden} {
			if got := from("127.41.0.1").at(host).login(t, s, "ann", rightPassword).status; got != want {
				t.Errorf("a stranger at %q: %d, want %d", host, got, want)
			}
		}
	}
}

func TestOneRealmsLimitChangesUnderWayAndTheOthersCountStaysExact(t *testing.T) {
	t.Parallel()
	s := newServer(t, sites, siteUsers...)
	reload := s.reloader(t, sites)
	var sent atomic.Int64
	var said string
	counts := [2]map[int]int{{}, {}}
	var all sync.WaitGroup
	for i, host := range []string{"shop.test", "blog.test"} {
		all.Go(func() {
			counts[i] = tally(200, 50, func(n int) int {
				sent.Add(1)
				return from(loopback(50+i, n)).at(host).login(t, s, "ann", "wrong").status
			})
		})
	}
	all.Go(func() {
		redistest.Until(t, "half of them", func() bool { return sent.Load() > 100 })
		said = reload(strings.Replace(sites, "{name: shop,", "{name: shop, limits: {account: [8/24h challenge]},", 1))
	})
	all.Wait()
	for n := range 20 {
		counts[0][from(loopback(52, n)).at("shop.test").login(t, s, "ann", "wrong").status]++
	}
	if !strings.Contains(said, "changed=[realms.shop.limits.account] needs_restart=[]") {
		t.Error(said)
	}
	if counts[0][http.StatusUnauthorized] != 8 || counts[1][http.StatusUnauthorized] != 5 {
		t.Errorf("passwords checked: shop %v, want 8; blog %v, want 5", counts[0], counts[1])
	}
}

func TestRealmsComeAndGoWhileRunning(t *testing.T) {
	t.Parallel()
	s := newServer(t, sites, append(siteUsers, "wiki/ann")...)
	reload := s.reloader(t, sites)
	login := func(host string) int {
		return from("127.60.0.1").at(host).login(t, s, "ann", rightPassword).status
	}
	only := func(host, user string) int {
		return from("127.61.0.1").at(host).login(t, s, user, rightPassword).status
	}
	wiki := "  - {name: wiki, hosts: [wiki.test], tokens: [" + token("w") + "]}\n"
	if said := reload(sites + wiki); !strings.Contains(said, "changed=[realms.wiki] needs_restart=[]") || login("wiki.test") != http.StatusOK {
		t.Errorf("added: %s", said)
	}
	s.must("captcha", "enable", "--reason", "it is learned", "--realm", "wiki")
	if got := only("wiki.test", "ann"); got != http.StatusForbidden {
		t.Errorf("forced on: %d", got)
	}
	var begun struct{ Ticket string }
	s.ask(t, token("s"), "/v1/attempts", map[string]string{"account": "dora", "address": "192.0.2.9"}, &begun)
	if said := reload(strings.Replace(sites, "  - {name: shop", "#", 1)); !strings.Contains(said, `changed="[realms.shop realms.wiki]" needs_restart=[]`) {
		t.Errorf("removed: %s", said)
	}
	if got := only("shop.test", "bob"); got != http.StatusUnauthorized { // who is nobody in the default realm, which has the host now
		t.Errorf("bob of the shop that is gone: %d", got)
	}
	if got := s.ask(t, token("s"), "/v1/attempts", map[string]string{"account": "dora", "address": "192.0.2.9"}, nil); got != http.StatusUnauthorized {
		t.Errorf("its token begins an attempt: %d", got)
	}
	if got := s.ask(t, token("s"), "/v1/attempts/settle", map[string]string{"ticket": begun.Ticket, "outcome": "succeeded"}, nil); got != http.StatusNoContent {
		t.Errorf("an attempt that was under way is settled: %d", got)
	}
	if got := login("blog.test"); got != http.StatusOK {
		t.Errorf("the blog: %d", got)
	}
	if said := reload(sites + wiki); !strings.Contains(said, "needs_restart=[]") {
		t.Errorf("back: %s", said)
	}
	if got := only("wiki.test", "ann"); got != http.StatusForbidden {
		t.Errorf("the override of a realm that came back: %d", got)
	}
	if got := only("shop.test", "bob"); got != http.StatusOK {
		t.Errorf("the shop that came back: %d", got)
	}
	if said := reload(sites + strings.Replace(wiki, "{", "{accounts: {source: htpasswd, htpasswd: /nowhere}, ", 1)); !strings.Contains(said, `needs_restart="[realms.wiki.accounts.source realms.wiki.accounts.htpasswd]"`) {
		t.Errorf("other accounts: %s", said)
	}
	if said := reload(sites + strings.Replace(wiki, "{name: wiki", "{accounts: {source: htpasswd, htpasswd: /nowhere}, name: news", 1)); !strings.Contains(said, "realms.news") {
		t.Errorf("a realm that cannot be opened: %s", said)
	}
	if got := login("wiki.test"); got != http.StatusServiceUnavailable {
		t.Errorf("at a host whose realm could not be opened: %d", got)
	}
}

// Behind one listener: an app, a part of it that is a realm of its own, and another
// app. What each app saw is counted there.
func TestRealmsOfTheProxyAreChosenByHostAndPath(t *testing.T) {
	t.Parallel()
	app, other := newLegacy(t, "shop"), newLegacy(t, "blog")
	s := newServer(t, quiet+noDelay+proxied(app)+`realms:
  - name: parts
    paths: [/parts/*]
    proxy:
      routes: [{name: login, path: /parts/login, account: 'form:username', password: 'form:password', success: [status 302]}]
  - name: blog
    hosts: [blog.test]
    proxy: {upstream: `+other.URL+"}\n")
	for _, one := range []struct {
		base, host string
		seen       *atomic.Int64
	}{{s.base, "", &app.seen}, {s.base + "/parts", "", &app.seen}, {s.base, "blog.test", &other.seen}} {
		before := one.seen.Load()
		tally(60, 20, func(i int) int {
			return from(loopback(70, i)).at(one.host).guess(t, one.base, "ann", fmt.Sprint("guess", i)).status
		})
		if n := one.seen.Load() - before; n != 5 {
			t.Errorf("%s at %q: the app saw %d passwords, want 5", one.base, one.host, n)
		}
	}
	before := app.seen.Load()
	for _, odd := range []string{"//parts", "/x/../parts", "/parts%2f", "/%70arts;x", "/PARTS"} {
		if got := from("127.71.0.1").guess(t, s.base+odd, "ann", "guess").status; got != http.StatusBadRequest && got != http.StatusForbidden {
			t.Errorf("%s: %d", odd, got)
		}
	}
	if n := app.seen.Load() - before; n != 0 {
		t.Errorf("spelt otherwise, %d more passwords came to the app", n)
	}
	s.must("captcha", "enable", "--reason", "test", "--realm", "parts")
	p := from("127.72.0.1")
	if page := p.get(t, s.base+"/login"); page.body != "the page of shop at /login" {
		t.Errorf("the realm that is not attacked: %s", page.body)
	}
	r, _ := http.NewRequest(http.MethodPost, s.base+"/parts/login", strings.NewReader("username=bob&password=guess"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "text/html")
	page := p.do(t, r)
	picture := regexp.MustCompile(`/\.authguard/~parts/captcha/[^"]+\.png`).FindString(page.body)
	if got := p.get(t, s.base+picture); picture == "" || got.status != http.StatusOK || got.header.Get("Content-Type") != "image/png" {
		t.Errorf("the picture %q: %d\n%s", picture, got.status, page.body)
	}
	for _, own := range []string{"/.authguard/~parts/login/code", "/.authguard/~parts/static/login.js", "/.authguard/static/login.js"} {
		if got := p.get(t, s.base+own); got.status != http.StatusOK {
			t.Errorf("%s: %d", own, got.status)
		}
	}
}

// mallory signs in through another realm of the app, in the session and at the time of a guess for victim.
func TestASignInThroughAnotherRealmProvesNoPassword(t *testing.T) {
	t.Parallel()
	var (
		base    string
		mallory sync.WaitGroup
		once    sync.Once
	)
	signedIn := make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch account, password := r.FormValue("username"), r.FormValue("password"); {
		case account == "victim" && password == "guess":
			mallory.Go(func() {
				from("127.74.0.1").guess(t, base+"/parts", "mallory", "right", "Cookie", r.Header.Get("Cookie"))
			})
			<-signedIn
		case account == "mallory" && password == "right":
			once.Do(func() { close(signedIn) })
		case account != "victim" || password != "right":
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "sessionid", Value: "signed-in"})
		w.WriteHeader(http.StatusFound)
	}))
	t.Cleanup(app.Close)
	const login = "account: 'form:username', password: 'form:password', success: [status 302], signed_in: [never]}]"
	s := newServer(t, quiet+noDelay+"proxy: {upstream: '"+app.URL+"', routes: [{name: login, path: /login, "+login+"}\n"+
		"realms:\n  - name: parts\n    paths: [/parts/*]\n    proxy: {routes: [{name: login, path: /parts/login, "+login+"}\n")
	base = s.base
	for i, password := range []string{"guess", "right"} {
		got := from(loopback(73, i)).guess(t, base, "victim", password, "Cookie", "sessionid=of-mallory")
		known := strings.Contains(fmt.Sprint(got.header), "authguard_device")
		if got.status != http.StatusFound || known != (password == "right") {
			t.Errorf("%s: %d, a known client: %v", password, got.status, known)
		}
		mallory.Wait()
	}
}

func TestAnAdministratorChoosesARealmInABrowser(t *testing.T) {
	t.Parallel()
	s := newServer(t, sites, "adminann", "shop/ann")
	from("127.90.0.1").at("shop.test").login(t, s, "ann", "wrong")
	b := openTab(t)
	b.goTo(s.admin + "/")
	b.send("adminann", rightPassword)
	b.do("the shop", chromedp.WaitVisible("#live"), chromedp.Click(".realms summary"), chromedp.Click(`.realms a[href="/?realm=shop"]`))
	b.until("the shop's numbers", `document.querySelector('.realms a[aria-current]')?.textContent === "shop" && document.querySelector("#live")?.innerText.includes("ann")`)
	b.do("switching", chromedp.Click("#switch summary"), chromedp.Click("input[name=mode][value=on]"), chromedp.SendKeys("#reason", "a test"), chromedp.Click("#switch button[type=submit]"))
	b.until("the notice, at the shop", `location.search === "?realm=shop" && document.body.innerText.includes("CAPTCHA mode is forced on")`)
	b.picture("realms")
	b.do("looking up", chromedp.SetValue(".find input[type=search]", "ann"), chromedp.Click(".find button"))
	b.until("the answer about the shop's ann", `location.search.includes("realm=shop") && document.querySelector("#lookup")?.innerText.includes("ann")`)
	if shop, ours := s.gaugeOf(t, "shop", "authguard_captcha_mode"), s.gauge(t, "authguard_captcha_mode"); shop != 1 || ours != 0 {
		t.Errorf("CAPTCHA mode: shop %d, default %d", shop, ours)
	}
	b.goTo(s.admin + "/?realm=shoe")
	if !strings.Contains(b.text(), "unknown realm") {
		t.Errorf("a realm that is not there: %s", b.text())
	}
}
