package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"authguard/internal/testing/browsertest"
	"authguard/internal/testing/redistest"
	"authguard/web/pages"
)

// typed is what strangers type as names at the public door.
var typed = []string{
	`<img src=x onerror=alert(1)>`, `"><script>alert(1)</script>`, `=cmd()`, "two\nlines", "\u202eexe.gpj", "javascript:alert(1)", strings.Repeat("wide ", 40),
	`{{.}}`, `' OR 1=1 --`,
}

// everyPage are those of the navigation, whatever there is, and those that are reached
// otherwise.
func everyPage() []string {
	all := []string{"/lookup", "/security", "/password"}
	for _, page := range (pages.Admin{}).Pages() {
		all = append(all, page.Path)
	}
	for _, name := range typed[:7] {
		all = append(all, "/lookup?account="+url.QueryEscape(name))
	}
	return append(all, "/lookup?address="+loopback(92, 0), "/administrators", "/audit?kind=failed", "/lists?find="+url.QueryEscape(typed[0]), "/?span=day")
}

// Every page of a busy server shows what strangers typed as text, fits a phone, and is no
// higher than three of its screens without a way to jump. A page that joins the navigation
// is walked too.
func TestEveryPageShowsStrangersTextAsTextAndFitsAPhoneInABrowser(t *testing.T) {
	long(t)
	t.Parallel()
	s := newServer(t, quiet, "alice", "admin")
	for i, name := range typed {
		for j := range 3 {
			from(loopback(92, 10*i+j)).login(t, s, name, "wrong")
		}
	}
	for range 3 { // a megabyte is refused while it is being sent, so this may fail
		if answer, err := http.PostForm(s.base+"/login", url.Values{"username": {strings.Repeat("x", 1<<20)}, "password": {"wrong"}}); err == nil {
			_ = answer.Body.Close()
		}
	}
	for i := range 40 {
		from(loopback(93, i)).login(t, s, fmt.Sprintf("someone%d", i), "wrong")
	}
	for i, name := range typed[:7] {
		if strings.ContainsAny(name, "\n\u202e") {
			continue
		}
		s.must("ip", "block", fmt.Sprintf("127.94.%d.0/24", i), "--reason", name)
		s.must("unlock", "--account", name)
	}
	b := openTab(t)
	b.goTo(s.admin + "/audit")
	b.send("admin", rightPassword)
	b.do("signing in", chromedp.WaitVisible("header.bar"))
	redistest.Until(t, "what was typed to be on record", func() bool {
		return strings.Contains(s.adminAPI(t, "/api/audit?kind=failed&account=someone39"), "someone39")
	})
	s.must("captcha", "enable", "--for", "1h", "--reason", typed[0]) // it would ask the administrator too
	b.do("a phone", browsertest.LoadAxe(), chromedp.EmulateViewport(360, browsertest.PhoneHeight))
	for _, path := range everyPage() {
		b.goTo(s.admin + path)
		b.asText(path)
		b.fitsAPhone(path)
	}
	b.goTo(s.admin + "/audit")
	for _, says := range []string{`<img src=x onerror=alert(1)>`, "blocked", "failure counters reset", "CAPTCHA mode forced on"} {
		if page := b.text(); !strings.Contains(page, says) {
			t.Errorf("the audit log does not say %q:\n%s", says, page)
		}
	}
	for _, path := range everyPage() {
		b.goTo(s.admin + path)
		b.picture("page" + strings.Map(func(r rune) rune {
			if strings.ContainsRune("/?=&%+:.", r) {
				return '-'
			}
			return r
		}, path[:min(len(path), 40)]))
	}
}

// asText fails if the page has elements or attributes that only a name could have brought,
// loads anything from elsewhere, or draws a character that turns the text round.
func (b *tab) asText(path string) {
	b.t.Helper()
	found := b.eval(`[
		...[...document.querySelectorAll("*")].filter(e => [...e.attributes].some(a => a.name.startsWith("on") || a.name == "style")).map(e => e.outerHTML.slice(0, 200)),
		...[...document.querySelectorAll("img:not([src^='data:image/']):not([src^='/'])")].map(e => e.outerHTML),
		...[...document.scripts].filter(e => e.textContent.trim() || !e.src.startsWith(location.origin + "/static/")).map(e => e.outerHTML),
		...[...document.querySelectorAll("a[href^='javascript'], iframe, object, base")].map(e => e.outerHTML),
		...performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith(location.origin + "/") && !n.startsWith("data:")),
		...(/[\u202e\u200b]/.test(document.body.innerText) ? ["a character that turns the text round"] : []),
	].join("\n")`)
	if found != "" {
		b.t.Errorf("%s:\n%s", path, found)
	}
}

// fitsAPhone fails if the page is wider than a phone, or higher than three of its screens
// without links to its parts that stay in view, or if axe-core finds anything.
func (b *tab) fitsAPhone(path string) {
	b.t.Helper()
	found, err := chromedp.Run(b.ctx, browsertest.FitsAPhone())
	if err != nil || found != "" {
		b.t.Errorf("%s on a phone: %s %v", path, found, err)
	}
	if found, err := browsertest.Axe(b.ctx); err != nil || found != "" {
		b.t.Errorf("%s on a phone: axe-core finds %s %v", path, found, err)
	}
}
