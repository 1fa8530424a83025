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
