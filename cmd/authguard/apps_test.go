//go:build apps

package main

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"authguard/internal/learn"
	"authguard/internal/testing/appstest"
	"authguard/internal/testing/doctest"
	"authguard/internal/testing/redistest"
)

// A realApp is an application, and how a person and a script log in to it.
type realApp struct {
	preset                 string
	start                  func(testing.TB) *appstest.App
	page                   string // with the login form
	user, password, button string // selectors
	failed, inside         string // what the browser is shown
	open                   string // a page and a file that are not guarded
	file                   string
	variants               []variant
	learned                int // of the variants that proxy detect's route counts, beside the first
	counts                 int // of the three passwords of a right login: itself, and two that confirm it
}

// A variant is one way to offer a password. It names the account with {user} and the
// password with {password}, and is sent as it stands.
type variant struct{ method, path, kind, body string }

func (v variant) String() string {
	return fmt.Sprintf("%s %s %s %.70s", v.method, v.path, v.kind, v.body)
}

const formType = "application/x-www-form-urlencoded"

// parts is a form of type multipart/form-data.
func parts(fields ...string) (body string) {
	for i := 0; i < len(fields); i += 2 {
		body += "--XyZ\r\nContent-Disposition: form-data; name=\"" + fields[i] + "\"\r\n\r\n" + fields[i+1] + "\r\n"
	}
	return body + "--XyZ--\r\n"
}

const partsType = "multipart/form-data; boundary=XyZ"

// forms are the same fields at many paths and in many ways.
func forms(user, password, rest string, paths ...string) (all []variant) {
	fields := user + "={user}&" + password + "={password}" + rest
	for _, path := range paths {
		all = append(all, variant{"POST", path, formType, fields})
	}
	path := paths[0]
	query := path + "?" + fields
	if strings.Contains(path, "?") {
		query = path + "&" + fields
	}
	inParts := []string{user, "{user}", password, "{password}"}
	for pair := range strings.SplitSeq(strings.TrimPrefix(rest, "&"), "&") {
		name, value, _ := strings.Cut(pair, "=")
		inParts = append(inParts, name, value)
	}
	for _, v := range []variant{
		{"POST", path, partsType, parts(inParts...)},
		{"POST", path, strings.ToUpper(formType), fields},
		{"POST", path, formType + "; charset=utf-7", fields},
		{"POST", path, formType + ";x", fields},
		{"POST", path, formType + " x", fields},
		{"POST", path, formType + ", text/plain", fields},
		{"POST", path, "text/plain", fields},
		{"POST", path, "", fields},
		{"POST", path, formType, user + "=nobody&" + fields},
		{"POST", path, formType, fields + "&" + user + "=nobody"},
		{"POST", path, formType, "+" + fields},
		{"POST", path, formType, user + "%00x={user}&" + password + "={password}" + rest},
		{"POST", path, formType, strings.Replace(fields, "{user}", "{user}%00", 1)},
		{"POST", path, formType, "a=b;" + fields},
		{"POST", path, formType, strings.ReplaceAll(fields, "_", ".")},
		{"POST", path, formType, strings.ReplaceAll(fields, "_", "%5B")},
		{"POST", path, "application/json", `{"` + user + `":"{user}","` + password + `":"{password}"}`},
		{"POST", query, formType, "x=y"},
		{"GET", query, "", ""},
		{"HEAD", query, "", ""},
		{"PUT", path, formType, fields},
		{"FOO", query, formType, fields},
		{"post", path, formType, fields},
	} {
		all = append(all, v)
	}
	return all
}

var realApps = map[string]realApp{
	"Django": {
		preset: "django", start: appstest.Django, counts: 3, page: "/admin/login/?next=/admin/",
		user: "#id_username", password: "#id_password", button: "input[type=submit]", failed: "Please enter the correct", inside: "Site administration",
		open: "/hello/", file: "/accounts/login/",
		variants: forms("username", "password", "&csrfmiddlewaretoken="+csrf, "/admin/login/", "/accounts/login/", "/%61dmin/login/", "/admin%2flogin/", "/admin/login%2f",
			"/admin/login/?next=/admin/", "//admin/login/", "/admin//login/", "/admin/./login/", "/x/../admin/login/", "/admin/login", "/admin/login/;x", "/ADMIN/login/", "/admin/login/x"),
	},
	"WordPress": {
		preset: "wordpress", start: appstest.WordPress, counts: 3, page: "/wp-login.php",
		user: "#user_login", password: "#user_pass", button: "#wp-submit", failed: "is incorrect", inside: "Dashboard",
		open: "/?feed=rss2", file: "/wp-includes/css/buttons.css",
		variants: append(forms("log", "pwd", "", "/wp-login.php", "//wp-login.php", "/./wp-login.php", "/wp-admin/../wp-login.php", "/wp-login.php/", "/wp-login.php/x", "/wp-login.php/x.css",
			"/%77p-login.php", "/%2e/wp-login.php", "/wp-includes/%2e%2e/wp-login.php", "/wp-login.php?action=lostpassword&action=login", "/wp-login.php?x", "/wp-login.php;x", "/WP-LOGIN.php", "/wp-login.php%2fx",
			"/wp-login", "/wp-login/x", "/wp-login/x/y.css", "/xmlrpc.php"),
			variant{"POST", "/xmlrpc", "text/xml", xmlCall("wp.getUsersBlogs", "{user}", "{password}")},
			variant{"POST", "/xmlrpc/x", "text/xml", xmlCall("wp.getUsersBlogs", "{user}", "{password}")},
			variant{"POST", "/wp-login.php?action=lostpassword", formType, "log={user}&pwd={password}&action=login"},
			variant{"POST", "/wp-login.php", formType, "user_login=nobody&log={user}&pwd={password}"},
			variant{"POST", "/wp-login.php", formType, "log=<b>{user}</b>&pwd={password}"},
			variant{"POST", "/wp-login.php", formType, "log=%2541{user}&pwd={password}"},
			variant{"POST", "/wp-login.php", formType, "log=%26amp;{user}&pwd={password}"},
			variant{"POST", "/xmlrpc.php", "text/xml", xmlCall("wp.getUsersBlogs", "{user}", "{password}")},
			variant{"POST", "/xmlrpc.php/x", "text/xml", xmlCall("wp.getUsersBlogs", "{user}", "{password}")},
			variant{"POST", "/xmlrpc.php", "", xmlCall("wp.getUsersBlogs", "{user}", "{password}")},
			variant{"POST", "/xmlrpc.php", formType, xmlCall("wp.getUsersBlogs", "{user}", "{password}")},
			variant{"POST", "/xmlrpc.php", "application/json", xmlCall("wp.getUsersBlogs", "{user}", "{password}")},
			variant{"POST", "//xmlrpc.php", "text/xml", xmlCall("wp.getPosts", "1", "{user}", "{password}")},
			variant{"POST", "/xmlrpc.php", "text/xml", xmlCall("blogger.getUsersBlogs", "key", "{user}", "{password}")},
			variant{"POST", "/xmlrpc.php", "text/xml", xmlCall("metaWeblog.deletePost", "key", "1", "{user}", "{password}")},
			variant{"POST", "/xmlrpc.php", "text/xml", xmlCall("wp.getUsersBlogs", "{user}<!-- x -->", "{password}")},
			variant{"POST", "/xmlrpc.php", "text/xml", xmlCall("wp.getUsersBlogs", "<![CDATA[{user}]]>", "{password}")},
			variant{"POST", "/xmlrpc.php", "text/xml", "<?xml version='1.0'?><!DOCTYPE methodCall>" + xmlCall("wp.getUsersBlogs", "{user}", "{password}")},
			variant{"POST", "/xmlrpc.php", "text/xml", "<?xml version='1.0' encoding='ISO-8859-1'?>" + xmlCall("wp.getUsersBlogs", "{user}", "{password}")},
			variant{"POST", "/xmlrpc.php", "text/xml", strings.Replace(xmlCall("wp.getUsersBlogs", "{user}", "{password}"), "<params>", "<x><params>", 1)},
			variant{"POST", "/xmlrpc.php", "text/xml", "<methodCall><methodName>wp.getUsersBlogs</methodName><params><param><value><array><data><value>{user}</value><value>{password}</value></data></array></value></param></params></methodCall>"},
			variant{"POST", "/xmlrpc.php", "text/xml", strings.Replace(xmlCall("demo.sayHello", "{user}", "{password}"), "</params>", "<param><value><methodName>wp.getUsersBlogs</methodName></value></param></params>", 1)},
			variant{"POST", "/xmlrpc.php", "text/xml", strings.Replace(xmlCall("wp.getPosts", "decoy", "{user}", "{password}"), "<params>", "<params><param><value></value></param>", 1)},
			variant{"POST", "/xmlrpc.php", "text/xml", strings.Replace(xmlCall("wp.getPage", "{user}", "{password}", "other"), "<params>", "<params><param><value><string>1</string>&#160;</value></param>", 1)},
			variant{"POST", "/xmlrpc.php", "text/xml", strings.Replace(xmlCall("wp.getPosts", "decoy", "{user}", "{password}"), "<params>", "<params><param><value><nil/></value></param>", 1)},
			variant{"POST", "/xmlrpc.php", "text/xml", multicall(1)},
			variant{"POST", "/xmlrpc.php", "text/xml", multicall(4)},
			variant{"POST", "/xmlrpc.php", "text/xml", multicall(20)},
		),
	},
	"phpMyAdmin": {
		preset: "phpmyadmin", start: appstest.PHPMyAdmin, page: "/",
		user: "#input_username", password: "#input_password", button: "#input_go", failed: "Access denied", inside: "Database server",
		open: "/url.php", file: "/js/dist/ajax.js",
		variants: append(forms("pma_username", "pma_password", "&server=1&set_session="+session+"&token="+csrf, "/index.php?route=/", "/", "/index.php", "/index.php/x", "//index.php", "/./index.php", "/%69ndex.php",
			"/?route=/sql", "/index.php?route=/import", "/index.php?route=/ajax", "/INDEX.php", "/url.php"),
			variant{"POST", "/index.php?route=/", formType, "pma_username=%27{user}%27&pma_password={password}&server=1&set_session=" + session + "&token=" + csrf}),
	},
	"DokuWiki": {
		preset: "dokuwiki", start: appstest.DokuWiki, counts: 3, page: "/doku.php?id=start&do=login",
		user: "#dw__login input[name=u]", password: "#dw__login input[name=p]", button: "#dw__login button[type=submit]", failed: "username or password was wrong", inside: "Logged in as",
		open: "/doku.php?id=start", file: "/lib/images/license/button/cc-by-sa.png",
		variants: append(forms("u", "p", "", "/doku.php?id=start", "/", "/doku.php", "/doku.php/x", "//doku.php", "/./doku.php", "/%64oku.php", "/index.php", "/feed.php", "/lib/exe/ajax.php", "/lib/exe/fetch.php", "/lib/exe/fetch.php/x.png",
			"/lib/exe/detail.php", "/lib/exe/mediamanager.php", "/lib/exe/taskrunner.php", "/lib/exe/xmlrpc.php", "/DOKU.php", "/lib/exe/css.php"),
			variant{"POST", "/doku.php?u={user}", formType, "p={password}"},
			variant{"POST", "/doku.php?p={password}", partsType, parts("u", "{user}")},
			variant{"POST", "/doku.php?u={user}&p={password}", "application/octet-stream", "x"},
			variant{"POST", "/doku.php", formType, "u=.{user}&p={password}"},
			variant{"POST", "/doku.php", formType, "u={user}_&p={password}"},
			variant{"GET", "/doku.php", "basic", ""},
			variant{"GET", "/feed.php", "BASIC", ""},
			variant{"GET", "/lib/exe/fetch.php?media=x", "basic ", ""},
			variant{"GET", "/lib/exe/xmlrpc.php", "basic", ""},
			variant{"GET", "/doku.php?u=nobody&p=x", "basic", ""},
			variant{"POST", "/lib/exe/xmlrpc.php", "text/xml", xmlCall("dokuwiki.login", "{user}", "{password}")},
			variant{"POST", "/dokuwiki/lib/exe/xmlrpc.php", "text/xml", xmlCall("dokuwiki.login", "{user}", "{password}")},
			variant{"POST", "/dokuwiki/doku.php?id=start", formType, "u={user}&p={password}"},
			variant{"POST", "/lib/exe/xmlrpc.php/x", "text/xml", xmlCall("dokuwiki.login", "{user}", "{password}")},
			variant{"POST", "/lib/exe/xmlrpc.php", "application/xml", strings.Replace(xmlCall("dokuwiki.login", "{user}", "{password}"), "dokuwiki.login", " dokuwiki.login\n", 1)},
		),
	},
	"MediaWiki": {
		preset: "mediawiki", start: appstest.MediaWiki, page: "/index.php?title=Special:UserLogin", learned: 3, counts: 1, // each login has a token of its own
		user: "#wpName1", password: "#wpPassword1", button: "#wpLoginAttempt", failed: "Incorrect username or password", inside: "Log out",
		open: "/opensearch_desc.php", file: "/resources/assets/wiki.png",
		variants: append(forms("wpName", "wpPassword", "&authAction=login&title=Special:UserLogin&wpLoginToken="+csrf, "/index.php?title=Special:UserLogin", "/", "/index.php", "/index.php/Special:UserLogin",
			"/index.php/special:userlogin", "/index.php/X?title=Special:UserLogin", "/index.php/Special:UserLogin/signin", "//index.php", "/./index.php", "/%69ndex.php/Special:UserLogin", "/INDEX.php",
			"/index.php?title=Special:Userlogin", "/index.php?title=Special:Login", "/index.php?title=Special%3AUserLogin/x", "/load.php", "/wiki/Special:UserLogin", "/index.php?title=Special:CreateAccount"),
			variant{"POST", "/index.php?title=Special:UserLogin&wpName={user}", formType, "wpPassword={password}&authAction=login&wpLoginToken=" + csrf},
			variant{"POST", "/index.php?title=Special:UserLogin&wpPassword={password}", partsType, parts("wpName", "{user}", "authAction", "login", "wpLoginToken", csrf)},
			variant{"POST", "/index.php?title=Special:UserLogin", formType, "wpName={user}_&wpPassword={password}&authAction=login&wpLoginToken=" + csrf},
			variant{"POST", "/index.php?title=Special:UserLogin", formType, "wpName=%C3%A0{user}&wpPassword={password}&authAction=login&wpLoginToken=" + csrf},
			variant{"POST", "/api.php", formType, "action=clientlogin&format=json&loginreturnurl=http://127.0.0.1/&username={user}&password={password}&logintoken=" + csrf},
			variant{"POST", "/api.php?action=clientlogin&format=xml&loginreturnurl=http://127.0.0.1/&username={user}", formType, "password={password}&logintoken=" + csrf},
			variant{"POST", "/api.php/x", formType, "action=login&format=json&lgname={user}&lgpassword={password}&lgtoken=" + csrf},
			variant{"POST", "/api.php", formType, "action=login&lgname={user}&lgpassword={password}&lgtoken=" + csrf},
		),
	},
	"Roundcube": {
		preset: "roundcube", start: appstest.Roundcube, page: "/",
		user: "#rcmloginuser", password: "#rcmloginpwd", button: "#rcmloginsubmit", failed: "Login failed", inside: "Compose",
		open: "/program/resources/blank.gif", file: "/skins/elastic/images/logo.svg",
		variants: append(forms("_user", "_pass", "&_task=login&_action=login&_token="+csrf, "/?_task=login", "/", "/index.php", "/index.php/x", "//index.php", "/./index.php", "/%69ndex.php",
			"/?_task=mail", "/INDEX.php", "/program/resources/"),
			variant{"POST", "/?_task=login&_action=login&_user={user}", formType, "_pass={password}&_token=" + csrf},
			variant{"POST", "/?_task=login&_action=login&_pass={password}&_token=" + csrf, formType, "_user={user}"},
			variant{"POST", "/", formType, "_user=+{user}+&_pass={password}&_task=login&_action=login&_token=" + csrf},
			variant{"POST", "/", formType, "_user={user}&_pass={password}&_host=127.0.0.1&_task=login&_action=login&_token=" + csrf},
		),
	},
}

func xmlCall(method string, params ...string) string {
	var list strings.Builder
	for _, p := range params {
		list.WriteString("<param><value><string>" + p + "</string></value></param>")
	}
	return "<methodCall><methodName>" + method + "</methodName><params>" + list.String() + "</params></methodCall>"
}

// multicall offers several passwords in one request.
func multicall(n int) string {
	var calls strings.Builder
	for i := range n {
		fmt.Fprintf(&calls, "<value><struct><member><name>methodName</name><value>wp.getUsersBlogs</value></member><member><name>params</name><value><array><data>"+
			"<value>{user}</value><value>{password}%d</value></data></array></value></member></struct></value>", i)
	}
	return "<methodCall><methodName>system.multicall</methodName><params><param><value><array><data>" + calls.String() + "</data></array></value></param></params></methodCall>"
}

// csrf and session stand for what the application's form has hidden in it.
const (
	csrf    = "{csrf}"
	session = "{session}"
)

// eachApp runs a test against every application.
func eachApp(t *testing.T, test func(*testing.T, realApp, *appstest.App)) {
	for _, name := range slices.Sorted(maps.Keys(realApps)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := realApps[name]
			test(t, a, a.start(t))
		})
	}
}

// before is the configuration of a proxy before an application, as its page in
// docs/how-to says it.
func (a realApp) before(t *testing.T, app *appstest.App) string {
	t.Helper()
	page := "docs/how-to/" + a.preset + ".md"
	for _, b := range doctest.Read(t, page).Blocks {
		if b.Language == "yaml" && strings.Count(b.Text, "http://127.0.0.1:8000") == 1 {
			return strings.ReplaceAll(b.Text, "http://127.0.0.1:8000", app.URL)
		}
	}
	t.Fatalf("%s has no configuration", page)
	return ""
}

// In a browser: five wrong passwords reach the application, then there is a challenge
// of ours, and the right password with its solution logs in.
func TestAppsLoginsInABrowser(t *testing.T) {
	eachApp(t, func(t *testing.T, a realApp, app *appstest.App) {
		s, known := pictured(t, a.before(t, app)+noDelay+quiet)
		b := openTab(t)
		for i := range 5 {
			a.logIn(b, s.base, fmt.Sprint("wrong ", i))
			b.until("the application to say that it was wrong", `document.body.innerText.includes("`+a.failed+`")`)
		}
		a.logIn(b, s.base, appstest.Password)
		b.do("the challenge", chromedp.WaitVisible("#captcha_answer"))
		b.until("the picture", `document.querySelector(".captcha-image").complete`)
		b.picture("gate-" + a.preset)
		if n := app.Guesses(t); n != 5 {
			t.Fatalf("the application saw %d passwords, want 5", n)
		}
		b.until("the picture", `document.querySelector(".captcha-image").complete`)
		b.do("the digits", chromedp.SendKeys("#captcha_answer", *known.last.Load()), chromedp.Click("main form button[type=submit]"))
		b.until("being logged in", `document.body.innerText.includes("`+a.inside+`")`)
		if n := app.Guesses(t); n != 5+a.counts {
			t.Errorf("the application saw %d passwords, want 5 and %d", n, a.counts)
		}
		// Once known here, nothing stands between.
		other := openTab(t)
		a.logIn(other, s.base, appstest.Password)
		other.until("being logged in", `document.body.innerText.includes("`+a.inside+`")`)
	})
}

// logIn fills in the application's own form.
func (a realApp) logIn(b *tab, base, password string) {
	b.t.Helper()
	b.goTo(base + a.page)
	if a.preset == "wordpress" { // which puts the cursor into the form after a while, wherever it is then
		b.until("the cursor to be in the form", `[...document.querySelectorAll("`+a.user+`,`+a.password+`")].includes(document.activeElement)`)
	}
	b.do("logging in", chromedp.WaitVisible(a.user), chromedp.SetValue(a.user, appstest.User), chromedp.SendKeys(a.password, password), chromedp.Click(a.button))
}

// While the site is under attack a stranger solves one challenge after the application's own form, and is logged in.
func TestAppsChallengeComesAfterTheForm(t *testing.T) {
	for _, name := range []string{"Django", "WordPress", "MediaWiki", "Roundcube"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := realApps[name]
			app := a.start(t)
			s, known := pictured(t, a.before(t, app)+"limits: {check_timeout: 1m}\ncaptcha_mode: {threshold: 1, address_share: 1, throttle_delay: 0s}\n")
			for i := range 3 {
				a.send(t, s.base, loopback(72, i), a.variants[0], fmt.Sprint("nobody", i), "wrong")
			}
			seen := app.Guesses(t)
			b := openTab(t)
			a.logIn(b, s.base, appstest.Password)
			b.do("the challenge", chromedp.WaitVisible("#captcha_answer"))
			b.until("the picture", `document.querySelector(".captcha-image").complete`)
			b.do("the digits", chromedp.SendKeys("#captcha_answer", *known.last.Load()), chromedp.Click("main form button[type=submit]"))
			b.until("being logged in", `document.body.innerText.includes("`+a.inside+`")`)
			if n := app.Guesses(t) - seen; n != a.counts {
				t.Errorf("the application saw %d passwords, want %d", n, a.counts)
			}
		})
	}
}

// However a password is offered, the application sees no more of them than the limit.
// What it does not take without us either, it need not see.
func TestAppsSeeNoMorePasswordsThanTheLimit(t *testing.T) {
	eachApp(t, func(t *testing.T, a realApp, app *appstest.App) {
		s := newServer(t, a.before(t, app)+noDelay+quiet)
		var all sync.WaitGroup
		turn := make(chan struct{}, 4)
		for i, v := range a.variants {
			turn <- struct{}{}
			all.Go(func() {
				defer func() { <-turn }()
				alone, behind := fmt.Sprintf("alone%dx", i), fmt.Sprintf("behind%dx", i)
				a.send(t, app.URL, "127.0.0.1", v, alone, "wrong")
				for j := range 8 {
					a.send(t, s.base, loopback(80+i%100, j), v, behind, fmt.Sprintf("wrong %d %d", i, j)) // else it is sprayed
				}
				direct, seen := len(app.GuessesOf(t, alone)), len(app.GuessesOf(t, behind))
				t.Logf("%d of 8 reach the application, %d of 1 without us: %s", seen, direct, v)
				if seen > 5 || direct == 0 && seen > 0 {
					t.Errorf("the application saw %d passwords: %s", seen, v)
				}
			})
		}
		all.Wait()
		// The usual way is guarded and not closed; 100 at a time change nothing.
		tally(100, 100, func(i int) int {
			a.send(t, s.base, loopback(79, i), a.variants[0], "usualx", fmt.Sprint("wrong", i))
			return 0
		})
		for i, v := range a.variants { // no spelling of the name has limits of its own
			a.send(t, s.base, loopback(78, i), v, "usualx", fmt.Sprint("another ", i))
		}
		if seen := len(app.GuessesOf(t, "usualx")); seen != 5 {
			t.Errorf("the usual form, then every other one: the application saw %d passwords, want 5", seen)
		}
	})
}

// send offers a password in one way, with what the form of this client has hidden.
func (a realApp) send(t *testing.T, base, address string, v variant, user, password string) {
	t.Helper()
	a.sendBy(t, from(address), base, v, user, password)
}

func (a realApp) sendBy(t *testing.T, p *person, base string, v variant, user, password string) answer {
	t.Helper()
	hidden := map[string]string{}
	if strings.Contains(v.body+v.path, "{csrf}") {
		page := p.get(t, base+a.page)
		hidden[csrf] = matched(page.body, `name="(?:csrfmiddlewaretoken|_?token|wpLoginToken)"(?: type="hidden")? value="([^"]*)`)
		hidden[session] = matched(page.body, `name="set_session" value="([^"]*)`)
	}
	fill := func(text string, escape func(string) string) string {
		return strings.NewReplacer("{user}", escape(user), "{password}", escape(password), csrf, escape(hidden[csrf]), session, escape(hidden[session])).Replace(text)
	}
	plain := func(s string) string { return s }
	body := fill(v.body, plain)
	if strings.HasPrefix(strings.ToLower(v.kind), formType) {
		body = fill(v.body, url.QueryEscape)
	}
	r, err := http.NewRequestWithContext(t.Context(), v.method, base, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	path, query, _ := strings.Cut(v.path, "?")
	r.URL.RawQuery = fill(query, url.QueryEscape)
	if r.URL.Opaque = path; strings.HasPrefix(path, "//") {
		r.URL.Opaque = base + path // absolute, so that it is no host
	}
	switch kind := strings.ToLower(v.kind); {
	case strings.HasPrefix(kind, "basic"):
		r.SetBasicAuth(user, password)
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "Basic", v.kind, 1))
	case kind != "":
		r.Header.Set("Content-Type", v.kind)
	}
	r.Header.Set("Accept", "text/html")
	return p.do(t, r)
}

// The presets that say signed_in: never are right: the application checks the password of a
// visitor who is signed in, too.
func TestAppsCheckThePasswordOfWhoIsSignedIn(t *testing.T) {
	for _, name := range []string{"WordPress", "phpMyAdmin", "DokuWiki"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := realApps[name]
			app := a.start(t)
			s := newServer(t, a.before(t, app)+noDelay+quiet)
			p := from("127.0.0.1")
			a.sendBy(t, p, s.base, a.variants[0], appstest.User, appstest.Password)
			redistest.Until(t, "a success", func() bool { return successes(s, appstest.User) == 1 })
			before := app.Guesses(t)
			for i := range 3 {
				a.sendBy(t, p, s.base, a.variants[0], appstest.User, fmt.Sprint("guess ", i))
				a.sendBy(t, p, s.base, a.variants[0], "bob", fmt.Sprint("guess ", i))
			}
			if n := app.Guesses(t) - before; n != 6 {
				t.Errorf("the application has checked %d of 6 passwords", n)
			}
			redistest.Until(t, "the failures", func() bool { return strings.Count(s.log.String(), `msg="attempt failed"`) == 6 })
			if n, bobs := successes(s, appstest.User), successes(s, "bob"); n != 1 || bobs > 0 {
				t.Errorf("%d and %d successes are recorded:\n%s", n, bobs, s.log)
			}
		})
	}
}

// An unguarded page and a file are the same, byte for byte, as without us.
func TestAppsPagesPassUntouched(t *testing.T) {
	eachApp(t, func(t *testing.T, a realApp, app *appstest.App) {
		s := newServer(t, a.before(t, app)+quiet)
		host := strings.TrimPrefix(s.base, "http://")
		for _, path := range []string{a.open, a.file} {
			look := func(base string) (status int, header http.Header, body string) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Host = host
				r.Header.Set("Accept-Encoding", "gzip")
				r.Header.Set("User-Agent", "a browser")
				answer, err := (&http.Transport{DisableCompression: true}).RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				all, err := io.ReadAll(answer.Body)
				if err != nil {
					t.Fatal(err)
				}
				for _, changes := range []string{"Date", "Expires", "Last-Modified", "Set-Cookie", "Connection", "Keep-Alive", "X-Request-Id"} {
					answer.Header.Del(changes)
				}
				return answer.StatusCode, answer.Header, string(all)
			}
			status, header, body := look(app.URL)
			status2, header2, body2 := look(s.base)
			for name, pattern := range map[string]string{
				"csrf": `name="csrfmiddlewaretoken" value="([^"]*)`,
				"now":  `taskrunner\.php\?id=start&amp;(\d+)`, // DokuWiki writes the second into each page
			} {
				if one := matched(body, pattern); one != "" { // another one in each answer
					body, body2 = strings.ReplaceAll(body, one, name), strings.ReplaceAll(body2, matched(body2, pattern), name)
				}
			}
			if status != status2 || body != body2 || !maps.EqualFunc(header, header2, slices.Equal) {
				at := 0
				for at < min(len(body), len(body2)) && body[at] == body2[at] {
					at++
				}
				t.Errorf("%s: %d with %d bytes and %d with %d, not the same from byte %d: %.80q and %.80q\n%v\n%v",
					path, status, len(body), status2, len(body2), at, body[at:], body2[at:], header, header2)
			}
			if len(body) == 0 && status != http.StatusFound {
				t.Errorf("%s: is empty", path)
			}
		}
	})
}

// XML-RPC's passwords are where we look for them, in every method that WordPress has.
func TestAppsWordPressMethodsOfXMLRPC(t *testing.T) {
	app := appstest.WordPress(t)
	s := newServer(t, realApps["WordPress"].before(t, app)+noDelay+quiet)
	_, list, _ := strings.Cut(from("127.0.0.1").call(t, s.base, xmlCall("system.listMethods")), "<params>")
	methods := slices.DeleteFunc(strings.FieldsFunc(list, func(r rune) bool { return r == '<' || r == '>' }), func(word string) bool {
		return !strings.Contains(word, ".")
	})
	if len(methods) < 70 {
		t.Fatalf("WordPress has %d methods: %s", len(methods), list)
	}
	tally(len(methods), 4, func(i int) int {
		params := make([]string, 8)
		name := func(at int) string { return fmt.Sprintf("user%dat%dx", i, at) }
		for at := range params {
			params[at] = name(at)
		}
		from("127.0.0.1").call(t, app.URL, xmlCall(methods[i], params...))
		account := slices.IndexFunc(params, func(name string) bool { return len(app.GuessesOf(t, name)) > 0 })
		if account < 0 {
			return 0 // it takes no password
		}
		for try := range 8 {
			for at := range params {
				params[at] = name(at) + fmt.Sprint(try)
			}
			params[account] = fmt.Sprintf("behind%dx", i)
			from(loopback(90+i, try)).call(t, s.base, xmlCall(methods[i], params...))
		}
		want := 5
		if slices.Contains([]string{"blogger.getUsersBlogs", "metaWeblog.getUsersBlogs"}, methods[i]) {
			want = 0 // refused: a network reads the account elsewhere
		}
		if seen := len(app.GuessesOf(t, params[account])); seen != want {
			t.Errorf("%s: WordPress saw %d passwords, want %d", methods[i], seen, want)
		}
		return account
	})
}

// call is the answer to a call of XML-RPC.
func (p *person) call(t *testing.T, base, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/xmlrpc.php", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/xml")
	return p.do(t, r).body
}

// matched is what a pattern's group matches in a text.
func matched(text, pattern string) string {
	if m := regexp.MustCompile(pattern).FindStringSubmatch(text); m != nil {
		return html.UnescapeString(m[1])
	}
	return ""
}

// What learn proposes for an application that it does not know guards its login.
func TestAppsAreLearned(t *testing.T) {
	eachApp(t, func(t *testing.T, a realApp, app *appstest.App) {
		base, said, specs := learning(t, app.URL)
		b := openTab(t)
		a.logIn(b, base, "wrong in the browser")
		b.until("the application to say that it was wrong", `document.body.innerText.includes("`+a.failed+`")`)
		a.logIn(b, base, appstest.Password)
		yaml := learn.YAML(<-specs)
		t.Logf("%s", yaml)
		if text := yaml + said.String(); strings.Contains(text, appstest.User) || strings.Contains(text, appstest.Password) || strings.Contains(text, "in the browser") {
			t.Errorf("what was typed is repeated:\n%s", text)
		}
		s, _ := pictured(t, "proxy:\n  upstream: "+app.URL+"\n  routes:\n"+yaml+noDelay+quiet)
		for at, v := range a.variants[:1+a.learned] {
			before := app.Guesses(t)
			for i := range 8 {
				a.send(t, s.base, loopback(95+at, i), v, fmt.Sprintf("learned%dx", at), fmt.Sprint("wrong", i))
			}
			if seen := app.Guesses(t) - before; seen != 5 {
				t.Logf("%s", s.log)
				t.Errorf("the application saw %d passwords, want 5: %s", seen, v)
			}
		}
		// The right one is known to be right: six of them are not too many.
		for range 6 {
			a.send(t, s.base, "127.0.0.1", a.variants[0], appstest.User, appstest.Password)
		}
		b = openTab(t)
		a.logIn(b, s.base, appstest.Password)
		b.until("being logged in", `document.body.innerText.includes("`+a.inside+`")`)
	})
}

// What is looked through on its way, because the app takes logins there too, is kept
// nowhere either.
func TestAppsAnImportOfAGibibyteTakesNoMemory(t *testing.T) {
	t.Parallel()
	app := newSink(t)
	s := newServer(t, quiet+"proxy: {preset: phpmyadmin, upstream: "+app.URL+"}\n")
	from("127.0.0.1").get(t, s.base+"/")
	before := s.memory(t, "VmHWM")
	head, tail, _ := strings.Cut(parts("token", "x", "import_file", "{file}"), "{file}")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/index.php?route=/import",
		io.MultiReader(strings.NewReader(head), io.LimitReader(zeros{}, 1<<30), strings.NewReader(tail)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", partsType)
	want := fmt.Sprintln(1<<30+len(head)+len(tail), nil)
	if got := from("127.0.0.1").do(t, r); got.body != want {
		t.Errorf("an import: %d %q, want %q", got.status, got.body, want)
	}
	if rise := s.memory(t, "VmHWM") - before; rise > 16<<20 {
		t.Errorf("memory rose by %d KiB for an import", rise>>10)
	}
}

// A browser's WebSocket: what it sends comes back.
func TestAppsAWebSocketPassesInABrowser(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/socket" {
			fmt.Fprint(w, `<!doctype html><title>…</title><script>
				const s = new WebSocket("ws://" + location.host + "/socket");
				s.onopen = () => s.send("hello"); s.onmessage = e => document.title = "got " + e.data;</script>`)
			return
		}
		accept := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Sec-WebSocket-Accept", base64.StdEncoding.EncodeToString(accept[:]))
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		frame := make([]byte, 2+4+len("hello")) // a browser's frames are masked
		if _, err := io.ReadFull(rw, frame); err == nil {
			for i := range frame[6:] {
				frame[6+i] ^= frame[2+i%4]
			}
			_, _ = c.Write(append([]byte{0x81, 5}, frame[6:]...))
			_, _ = io.Copy(io.Discard, rw)
		}
	}))
	t.Cleanup(app.Close)
	s := newServer(t, quiet+"proxy: {preset: django, upstream: "+app.URL+"}\n")
	b := openTab(t)
	b.goTo(s.base + "/")
	b.until("the answer", `document.title === "got hello"`)
	b.goTo("about:blank")
}

// Edits, uploads of two megabytes and new passwords pass on paths that take logins, too.
func TestAppsOtherFormsPass(t *testing.T) {
	content := strings.Repeat(rand.Text(), 2<<20/26)
	upload := func(t *testing.T, p *person, to, field string, fields ...string) string {
		t.Helper()
		file := "--XyZ\r\nContent-Disposition: form-data; name=\"" + field + "\"; filename=\"big.txt\"\r\nContent-Type: text/plain\r\n\r\n" + content + "\r\n"
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader(file+parts(fields...)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", partsType)
		return p.do(t, r).body
	}
	for name, uses := range map[string]func(t *testing.T, a realApp, base string, p *person){
		"MediaWiki": func(t *testing.T, a realApp, base string, p *person) {
			token := strings.ReplaceAll(matched(p.get(t, base+"/api.php?action=query&meta=tokens&format=json").body, `"csrftoken":"([^"]*)"`), `\\`, `\`)
			if said := upload(t, p, base+"/api.php", "file", "action", "upload", "format", "json", "filename", "Big.txt", "ignorewarnings", "1", "token", token); !strings.Contains(said, `"result":"Success"`) {
				t.Errorf("the upload: %.300s", said)
			}
			if said := upload(t, p, base+"/index.php?title=Big", "ignored", "action", "submit", "wpTextbox1", "the text", "wpSave", "1", "wpEditToken", token, "wpUltimateParam", "1",
				"wpStarttime", "20260101000000", "wpEdittime", "20260101000000", "editRevId", "0", "oldid", "0", "wpUnicodeCheck", "ℳ𝒲♥𝓊𝓃𝒾𝒸ℴ𝒹ℯ"); !strings.Contains(p.get(t, base+"/index.php?title=Big&action=raw").body, "the text") {
				t.Errorf("the edit: %.300s", said)
			}
			const change = "/index.php?title=Special:ChangeCredentials/MediaWiki%5CAuth%5CPasswordAuthenticationRequest"
			token = matched(p.get(t, base+change).body, `name="wpAuthToken" type="hidden" value="([^"]*)`)
			if said := a.sendBy(t, p, base, variant{"POST", change, formType, "password={password}&retype={password}&wpusername={user}&authAction=change&wpAuthToken=" + url.QueryEscape(token)}, appstest.User, "Another-Horse-8").body; !strings.Contains(said, "credentials have been changed") {
				t.Errorf("the password: %.9000s", said)
			}
		},
		"Roundcube": func(t *testing.T, _ realApp, base string, p *person) {
			page := p.get(t, base+p.get(t, base+"/?_task=mail&_action=compose").header.Get("Location")).body
			id, token := matched(page, `"compose_id":"([^"]*)"`), matched(page, `"request_token":"([^"]*)"`)
			if said := upload(t, p, base+"/?_task=mail&_action=upload&_remote=1&_id="+id, "_attachments[]", "_token", token); !strings.Contains(said, "add2attachment_list") {
				t.Errorf("the attachment of %q: %.500s", id, said)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := realApps[name]
			app := a.start(t)
			s := newServer(t, a.before(t, app)+quiet)
			p := from("127.0.0.1")
			a.sendBy(t, p, s.base, a.variants[0], appstest.User, appstest.Password)
			uses(t, a, s.base, p)
		})
	}
}
