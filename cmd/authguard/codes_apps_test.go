//go:build apps

package main

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/pquerna/otp/totp"

	"authguard/internal/testing/appstest"
	"authguard/internal/testing/redistest"
)

// A codeApp asks for a TOTP code after the password.
type codeApp struct {
	app    string // of realApps
	start  func(testing.TB) *appstest.App
	field  string // selector of the code's field
	wrong  variant
	hidden string // pattern of the CSRF token in the answer to the password; empty: a page has it
	later  bool   // the challenge comes after the code, since the answer to the password does not show that one is needed
}

var codeApps = []codeApp{{
	app: "MediaWiki", start: appstest.MediaWikiWithTOTP, field: "#wpOATHToken",
	wrong:  variant{"POST", "/index.php?title=Special:UserLogin", formType, "OATHToken={password}&authAction=login-continue&wpLoginToken=" + csrf},
	hidden: `name="wpLoginToken" type="hidden" value="([^"]*)`,
}, {
	app: "phpMyAdmin", start: appstest.PHPMyAdminWithTOTP, field: `input[name="2fa_code"]`, later: true,
	wrong: variant{"POST", "/index.php?route=/", formType, "2fa_code={password}&token=" + csrf},
}}

// Attackers have the password. The app checks five of their codes, and its owner signs in through one challenge.
func TestAppsCheckNoMoreCodesThanTheLimit(t *testing.T) {
	for _, c := range codeApps {
		t.Run(c.app, func(t *testing.T) {
			t.Parallel()
			a, app := realApps[c.app], c.start(t)
			s, known := pictured(t, a.before(t, app)+noDelay+quiet)
			attackers := make([]*person, 30)
			pages := make([]answer, len(attackers))
			tally(len(attackers), 8, func(i int) int {
				attackers[i] = from(loopback(60, i))
				pages[i] = a.sendBy(t, attackers[i], s.base, a.variants[0], appstest.User, appstest.Password)
				return 0
			})
			tally(len(attackers), 8, func(i int) int {
				v := c.wrong
				if c.hidden != "" {
					v.body = strings.Replace(v.body, csrf, url.QueryEscape(matched(pages[i].body, c.hidden)), 1)
				}
				a.sendBy(t, attackers[i], s.base, v, "", fmt.Sprintf("%06d", i))
				return 0
			})
			if n := app.Codes(t); n != 5 {
				t.Errorf("the app has checked %d codes, want 5", n)
			}
			b := openTab(t)
			a.logIn(b, s.base, appstest.Password)
			solve := func() {
				b.do("the challenge", chromedp.WaitVisible("#captcha_answer"))
				b.until("the image", `document.querySelector(".captcha-image").complete`)
				b.do("the digits", chromedp.SendKeys("#captcha_answer", *known.last.Load()), chromedp.Click("main form button[type=submit]"))
			}
			if !c.later {
				solve()
			}
			b.do("the page for the code", chromedp.WaitVisible(c.field))
			code, err := totp.GenerateCode(appstest.TOTPSecret, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			b.do("the code", chromedp.SendKeys(c.field, code+kb.Enter))
			if c.later {
				solve()
			}
			b.until("being logged in", `document.body.innerText.includes("`+a.inside+`")`) // a second challenge has no answer here
			other := openTab(t)
			a.logIn(other, s.base, appstest.Password)
			other.do("the page for the code of a known client", chromedp.WaitVisible(c.field))
		})
	}
}

// A session in the second step of its own login may name another account, which MediaWiki ignores. The API takes the
// code, too.
func TestAppsMediaWikiContinuesALoginOfItsOwnAccount(t *testing.T) {
	t.Parallel()
	a, app := realApps["MediaWiki"], appstest.MediaWikiWithTOTP(t)
	s := newServer(t, a.before(t, app)+noDelay+quiet)
	begin := func(p *person) (post func(path string, fields ...string) answer) {
		text := p.get(t, s.base+"/api.php?action=query&meta=tokens&type=login&format=json").body
		token := strings.ReplaceAll(matched(text, `"logintoken":"([^"]*)"`), `\\`, `\`)
		post = func(path string, fields ...string) answer {
			form := url.Values{"logintoken": {token}, "wpLoginToken": {token}, "format": {"json"}}
			for i := 0; i < len(fields); i += 2 {
				form.Set(fields[i], fields[i+1])
			}
			return p.send(t, s, "POST", path, form.Encode(), "Content-Type", formType)
		}
		got := post("/api.php", "action", "clientlogin", "username", appstest.User, "password", appstest.Password, "loginreturnurl", s.base)
		if !strings.Contains(got.body, `"status":"UI"`) {
			t.Fatalf("the first step: %d %s", got.status, got.body)
		}
		return post
	}
	code := func(ahead time.Duration) string {
		c, err := totp.GenerateCode(appstest.TOTPSecret, time.Now().Add(ahead))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const page = "/index.php?title=Special:UserLogin"
	post := begin(from(loopback(62, 1)))
	if got := post(page, "wpName", "bob", "wpPassword", "whatever", "authAction", "login-continue"); !strings.Contains(got.body, "OATHToken") {
		t.Fatalf("the page for the code: %d %s", got.status, got.body)
	}
	if got := post(page, "OATHToken", code(0), "authAction", "login-continue"); got.status != 302 {
		t.Errorf("the code: %d %s", got.status, got.body)
	}
	post = begin(from(loopback(62, 2)))
	if got := post("/api.php", "action", "clientlogin", "logincontinue", "1", "OATHToken", code(time.Minute)); !strings.Contains(got.body, `"status":"PASS"`) {
		t.Errorf("the code by the API: %d %s", got.status, got.body)
	}
	redistest.Until(t, "the success by the API", func() bool { return successes(s, appstest.User) > 0 })
	if n := successes(s, "bob"); n > 0 {
		t.Errorf("bob has signed in:\n%s", s.log)
	}
}
