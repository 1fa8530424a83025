package main

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/lists"
	"authguard/internal/policy"
	"authguard/internal/testing/redistest"
)

// An operator works in the admin console with the keyboard only, and counts clicks: links, buttons and forms sent with
// Enter. Typing is free.
type operator struct {
	*tab
	*stage
	clicks int
}

// press tabs to a link or button, and presses Enter.
func (o *operator) press(what, selector string) {
	o.tab.t.Helper()
	o.clicks++
	o.focus(what, selector)
	o.do(what, chromedp.KeyEvent(kb.Enter))
}

// typed tabs to a field, and types into it. enter sends its form.
func (o *operator) typed(selector, text string, enter bool) {
	o.tab.t.Helper()
	o.focus("typing", selector)
	o.eval(`document.activeElement.select(), ""`)
	if enter {
		o.clicks++
		text += kb.Enter
	}
	o.do("typing", chromedp.KeyEvent(text))
}

// seen is what is wrong with the focus: it must be visible, in view and in the order of the page.
const seen = `(() => {
	const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect()
	if (e === document.body) return ""
	const x = r.left + Math.min(r.width / 2, 8), y = r.top + r.height / 2, top = document.elementFromPoint(x, y)
	const wrong = []
	if (document.querySelector("[tabindex]:not([tabindex='0']):not([tabindex='-1'])")) wrong.push("an order of its own")
	if (!e.matches(":focus-visible") || s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 1)
		wrong.push("no outline")
	if (!top || !e.contains(top) && !top.contains(e) && ![...e.labels ?? []].some(l => l.contains(top)))
		wrong.push("covered")
	return wrong.length ? wrong.join(", ") + ": " + e.outerHTML.slice(0, 200) : ""
})()`

// focus presses the tab key until the focus is on an element.
func (o *operator) focus(what, selector string) {
	o.tab.t.Helper()
	o.until(what+" to be there", fmt.Sprintf("document.querySelector(%q)", selector))
	for range 100 {
		if o.eval(fmt.Sprintf("String(document.activeElement === document.querySelector(%q))", selector)) == "true" {
			if wrong := o.eval(seen); wrong != "" {
				o.tab.t.Errorf("%s: %s", what, wrong)
			}
			return
		}
		o.do("tab", chromedp.KeyEvent(kb.Tab))
	}
	o.tab.t.Fatalf("the keyboard does not get to %s:\n%s", what, o.text())
}

// becomes waits for the state of the product, not for the page's text.
func (o *operator) becomes(what, path string, answer any, ready func() bool) {
	o.tab.t.Helper()
	redistest.Until(o.tab.t, what, func() bool {
		reflect.ValueOf(answer).Elem().SetZero() // an answer leaves out what is empty
		o.ask(path, answer)
		return ready()
	})
}

// login returns the status of a login attempt with a verification code, if there is one.
func (s *stage) login(t *testing.T, address, account, password, code string) int {
	t.Helper()
	at := &server{base: strings.TrimSuffix(loginPage.FindString(s.out.String()), "/login")}
	return from(address).login(t, at, account, password, "code", code).status
}

// task is one of the seven; it is done with at most so many clicks from the overview.
type task struct {
	name   string
	clicks int
	do     func(o *operator)
}

func tasks(began time.Time) []task {
	const network = "127.77.0.0/24"
	return []task{{"is it an attack, was it stopped, who got in, what next", 1, func(o *operator) {
		for _, words := range []string{"Still going on?", "challenged, 0 solved",
			"7 accounts may be compromised, 7 not secured", "What next?"} {
			o.says(words)
		}
		o.press("who", ".answers a.button")
		o.until("the accounts", `document.querySelectorAll(".victims input[name=account]").length`)
		for _, name := range enteredAccounts() {
			o.says(name)
		}
	}}, {"let Alice in", 2, func(o *operator) {
		o.typed(".find input[name=q]", "alice", true)
		o.press("a code", "form[action='/pass'] button")
		o.do("the code", chromedp.WaitVisible("code.secret"))
		code := o.eval(`document.querySelector(".one-time-code code").textContent`)
		if status := o.login(o.tab.t, "127.201.0.1", "alice", "correct horse alice", code); status != http.StatusOK {
			o.tab.t.Errorf("Alice with the code: %d", status)
		}
	}}, {"block a /24 for a day, undo", 3, func(o *operator) {
		blocked := func() (found time.Time) {
			var all lists.Listed
			o.ask("/api/lists", &all)
			for _, e := range all.Entries {
				if e.Prefix == netip.MustParsePrefix(network) && e.Verdict == lists.Block {
					found = e.ExpiresAt
				}
			}
			return found
		}
		o.press("the network", "#live-network .act a[href*='"+url.QueryEscape(network)+"']")
		o.typed("#act_why", "sprays passwords", false)
		o.press("block", ".buttons button[type=submit]")
		o.says("Blocked until")
		redistest.Until(o.tab.t, "the block for a day", func() bool {
			return blocked().Equal(o.clock.Now().Add(24 * time.Hour))
		})
		status := o.login(o.tab.t, "127.77.0.9", "carol", "correct horse carol", "")
		if status != http.StatusTooManyRequests {
			o.tab.t.Errorf("from the blocked network: %d", status)
		}
		o.press("undo", ".message.good button")
		o.says("Removed from the list")
		redistest.Until(o.tab.t, "the end of the block", func() bool { return blocked().IsZero() })
	}}, {"CAPTCHA mode on for two hours, with a reason", 3, func(o *operator) {
		o.press("keep on", ".answers a[href*='switch=on']")
		o.typed("#reason", "a botnet", false)
		o.press("switch", "#switch form:first-of-type button[type=submit]")
		var now control.Overview
		o.becomes("CAPTCHA mode on", "/api/overview", &now, func() bool {
			f := now.State.Override
			return now.State.On && f.Why == "a botnet" && f.Until.Equal(o.clock.Now().Add(2*time.Hour))
		})
		o.press("undo", ".message.good button")
		o.becomes("no override", "/api/overview", &now, func() bool { return now.State.Override.Until.IsZero() })
	}}, {"what did bob do on that day", 3, func(o *operator) {
		o.press("the log", "nav.pages a[href='/audit']")
		o.do("the log", chromedp.WaitVisible("#since"))
		day := began.UTC().Format("2 Jan 2006")
		o.typed("#account", "bob", false)
		o.typed("#since", day, false)
		o.typed("#until", day, true)
		o.until("only bob's events", `[...document.querySelectorAll("table.audit tbody tr")].length > 0 &&
			[...document.querySelectorAll("table.audit tbody tr")].every(r => r.innerText.includes("bob"))`)
		o.says("127.66.0.66")
	}}, {"secure the compromised accounts", 3, func(o *operator) {
		open := fmt.Sprintf("Secure %d accounts?", len(enteredAccounts())) // Alice had a verification code
		o.press("review", ".answers a.button")
		o.press("secure", "#selection button[value=secure]")
		o.says(open)
		o.says("It cannot be undone: ")
		o.press("confirm", "#confirm button.danger")
		var now control.Overview
		o.becomes("all secured", "/api/overview", &now, func() bool { return now.Situation.Entered.OpenInAll == 0 })
		for _, name := range enteredAccounts() {
			if status := o.login(o.tab.t, "127.201.0.6", name, passwordOf(name), ""); status == http.StatusOK {
				o.tab.t.Errorf("the password of %s still admits", name)
			}
		}
	}}, {"change a limit safely", 5, func(o *operator) {
		const tried = "6/24h challenge, 90/24h block"
		o.press("the limits", "nav.pages a[href='/policy']")
		o.press("other numbers", "#on-account .switches a[href*='/policy/try']")
		o.do("the field", chromedp.WaitVisible("#limits"))
		o.typed("#limits", tried, true)
		o.says("Effect")
		o.typed("#set_reason", "exam week", false)
		o.press("override", "form[action='/policy/limits'] button")
		var now policy.View
		o.becomes("the override", "/api/policy", &now, func() bool {
			return slices.ContainsFunc(now.Overrides, func(p policy.Override) bool {
				return p.LimitSet == "account" && p.Limits == tried && p.Until.Equal(o.clock.Now().Add(24*time.Hour))
			})
		})
		o.press("undo", ".message.good button")
		o.becomes("the configured limits", "/api/policy", &now, func() bool { return len(now.Overrides) == 0 })
	}}}
}

func passwordOf(name string) string {
	all := storyAccounts()
	return all[slices.IndexFunc(all, func(a accounts.Addition) bool { return a.Username == name })].Password
}

// home is the overview, with live numbers: the operator is still signed in.
func (o *operator) home() {
	o.tab.t.Helper()
	o.goTo(o.console + "/")
	o.until("the overview to be live", `document.querySelector("[data-freshness]").innerText.startsWith("Live, as of")`)
}

// An administrator does the seven tasks of an attack with few clicks and the keyboard only. Each can be undone, or the
// page says why not. None signs the administrator out.
func TestTheSevenTasksTakeFewClicksInABrowser(t *testing.T) {
	long(t)
	t.Parallel()
	s := play(t, "", nil)
	redistest.Until(t, "the end of the story", func() bool { return t.Failed() || s.out.has("Ctrl-C stops the server") })
	s.open()
	o := &operator{tab: openTab(t), stage: s}
	var seen control.Overview
	o.becomes("the record of the attack", "/api/overview", &seen, func() bool {
		return seen.Situation.Entered.Open == len(enteredAccounts())
	})
	o.goTo(demoLink.FindString(s.out.String())) // signed in
	for i, one := range tasks(s.began) {
		o.home()
		o.clicks = 0
		one.do(o)
		if o.clicks > one.clicks {
			t.Errorf("task %d, %s: %d clicks, at most %d", i+1, one.name, o.clicks, one.clicks)
		}
		t.Logf("task %d, %s: %d clicks", i+1, one.name, o.clicks)
	}
	o.home()
}
