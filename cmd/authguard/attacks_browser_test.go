package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"authguard/internal/testing/redistest"
)

// Two accounts are lost in an attack. An administrator follows it to them and resets first
// one, then all, without JavaScript.
func TestAnAttackIsFollowedToTheAccountsThatWereLost(t *testing.T) {
	long(t)
	t.Parallel()
	began := time.Now() // all is in one minute: logins without a reason in the minutes before are no part of an attack
	clock := func() time.Time { return began.Truncate(time.Minute).Add(time.Since(began) / 20) }
	s := startHere(t, clock, "captcha_mode: {threshold: 60}\n", "alice", "bob", "carl", "admin")
	b := openTab(t)
	b.goTo(s.admin + "/")
	b.send("admin", rightPassword)
	b.do("signing in", chromedp.WaitVisible("#live"))
	thieves, names := map[string]*person{}, []string{"alice", "bob"}
	for i, name := range names { // before anybody knows that it is an attack
		for range 2 {
			from(loopback(90, i)).login(t, s, name, "wrong")
		}
		thieves[name] = from(loopback(91, i))
		if got := thieves[name].login(t, s, name, rightPassword).status; got != http.StatusOK {
			t.Fatalf("the thief of %s gets %d", name, got)
		}
	}
	honest := from("127.92.0.1")
	honest.login(t, s, "carl", "wrong") // mistyped
	if got := honest.login(t, s, "carl", rightPassword).status; got != http.StatusOK {
		t.Fatal(got)
	}
	counts := tally(200, 10, func(i int) int {
		return from(loopback(93, i)).login(t, s, fmt.Sprint("someone", i), "wrong").status
	})
	if counts[http.StatusForbidden] == 0 {
		t.Fatalf("the attack met no challenge: %v", counts)
	}
	signedIn := func(p *person) bool { return p.get(t, s.base+"/auth/verify").status == http.StatusOK }
	knows := func(name, address string) bool {
		return strings.Contains(s.must("explain", "--account", name, "--address", address), "is a known client of this account")
	}
	for i, name := range names {
		if !signedIn(thieves[name]) || !knows(name, loopback(91, i)) {
			t.Fatalf("the thief of %s has lost it already: %s", name, s.must("explain", "--account", name, "--address", loopback(91, i)))
		}
	}

	redistest.Until(t, "the attack to be written down", func() bool {
		list := s.must("attack", "list")
		return strings.Contains(list, "running") && strings.Contains(list, " 205 ")
	})
	b.goTo(s.admin + "/")
	b.picture("now-attack-link")
	b.withoutScripts()
	b.goTo(s.admin + "/attacks")
	b.picture("attacks")
	b.do("following the attack", chromedp.Click(".attacks a"), chromedp.WaitVisible("#selection"))
	for _, words := range []string{"205 attempts failed, from ", "2 accounts had sign-ins from unknown clients after failures. 2 are not secured yet.", "alice", "bob", "2 accounts. Most are users with a new device or a corrected typo."} {
		if page := b.text(); !strings.Contains(page, words) {
			t.Errorf("the page does not say %q:\n%s", words, page)
		}
	}
	b.picture("attack")
	b.do("leaving out bob", chromedp.Click("input[name=account][value=bob]"), chromedp.Click("#selection button[value=secure]"))
	b.until("the panel", `document.querySelector("#confirm button")`)
	if page := b.text(); !strings.Contains(page, "known clients of 1 account, and forces password changes") {
		t.Errorf("the panel says:\n%s", page)
	}
	b.do("securing one", chromedp.Click("#confirm button"))
	b.until("one secured", `!document.querySelector("#confirm") && document.querySelector(".victims .done")`)
	if page := b.text(); !strings.Contains(page, "Secured: alice") || !strings.Contains(page, "1 is not secured yet") {
		t.Errorf("the page says:\n%s", page)
	}
	if signedIn(thieves["alice"]) || knows("alice", loopback(91, 0)) || !signedIn(thieves["bob"]) || !knows("bob", loopback(91, 1)) {
		t.Error("not that one was reset, or not that one alone")
	}
	b.do("selecting the rest", chromedp.Click("#selection button[value=secure]"))
	b.until("the panel", `document.querySelector("#confirm button")`)
	b.do("securing the rest", chromedp.Click("#confirm button"))
	b.until("all secured", `!document.querySelector("#confirm") && document.body.innerText.includes("All are secured")`)
	if page := b.text(); !strings.Contains(page, "All are secured") {
		t.Errorf("the page says:\n%s", page)
	}
	b.picture("attack-reset")
	if signedIn(thieves["bob"]) || knows("bob", loopback(91, 1)) || !signedIn(honest) {
		t.Error("all are reset, and the thief goes on, or somebody honest does not")
	}
	for _, name := range names {
		if got := thieves[name].login(t, s, name, rightPassword); got.status == http.StatusOK {
			t.Errorf("the thief of %s is let in with the password: %s", name, got.body)
		}
	}
	id := strings.Fields(strings.Split(s.must("attack", "list"), "\n")[1])[0]
	if text := s.must("attack", "show", id); !strings.Contains(text, "2 accounts possibly, 0 of them not reset; 2 more had a login from an unknown client") || !strings.Contains(text, `password reset at`) {
		t.Errorf("show says %s", text)
	}
	if text := s.must("attack", "export", id); strings.Count(text, "\n") != 5 || !strings.Contains(text, "alice,true,127.91.0.1,") {
		t.Errorf("export writes %s", text)
	}
	if text := s.must("attack", "remediate", id, "--account", "carl", "--what", "sessions", "--reason", "they asked"); !strings.Contains(text, `"carl": sessions`) || signedIn(honest) {
		t.Errorf("reset says %s", text)
	}
	s.fails("missing --reason", "attack", "remediate", id)
}
