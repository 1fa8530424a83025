package admin_test

import (
	"html"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/accounts"
)

var (
	undoForm    = regexp.MustCompile(`(?s)<form method="post" action="([^"]+)">((?:<input type="hidden"[^>]*>)+)<button class="small" type="submit">Undo</button></form>`)
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)
)

// undo presses Undo in a notice and returns the page that follows.
func (c *counter) undo(t *testing.T, page string) string {
	t.Helper()
	found := undoForm.FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the notice has no Undo")
	}
	f := url.Values{}
	for _, field := range hiddenField.FindAllStringSubmatch(found[2], -1) {
		f.Set(field[1], html.UnescapeString(field[2]))
	}
	status, to, body := c.post(t, html.UnescapeString(found[1]), f)
	if status != http.StatusSeeOther {
		t.Fatalf("undo: %d %s", status, body)
	}
	_, _, body = c.get(t, to)
	return body
}

func TestAnOperationIsUndoneFromItsNotice(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	at, now := netip.MustParseAddr("192.0.2.66"), c.Clock.Now()
	listed := func(want guard.Verdict, note string) {
		t.Helper()
		entries, err := c.control.Lists.Entries(t.Context())
		c.must(t, err)
		switch {
		case c.Lists.Look(at, now) != want:
			t.Errorf("%v, want %v", c.Lists.Look(at, now), want)
		case want == guard.NotListed && len(entries) != 0, want != guard.NotListed && entries[0].Note != note:
			t.Errorf("%+v", entries)
		}
	}
	page := c.submit(t, "/list", url.Values{"verdict": {"block"}, "cidr": {"192.0.2.66"}, "for": {"24h"}, "note": {"<one>"}})
	listed(guard.Blocked, "<one>")
	page = c.undo(t, page)
	listed(guard.NotListed, "")
	page = c.undo(t, page) // what was removed is listed again, as it was
	listed(guard.Blocked, "<one>")
	entries, _ := c.control.Lists.Entries(t.Context())
	if !entries[0].ExpiresAt.Equal(now.Add(24 * time.Hour)) {
		t.Errorf("until %v", entries[0].ExpiresAt)
	}
	page = c.submit(t, "/list", url.Values{"verdict": {"allow"}, "cidr": {"192.0.2.66"}, "note": {"two"}})
	listed(guard.Allowed, "two")
	c.undo(t, page) // the entry that it replaced
	listed(guard.Blocked, "<one>")

	page = c.submit(t, "/mode", url.Values{"mode": {"on"}, "for": {"10m"}, "reason": {"drill"}})
	page = c.undo(t, page)
	if c.Mode.On() || !strings.Contains(page, "automatic again") {
		t.Error("the mode is still on")
	}
	c.submit(t, "/mode", url.Values{"mode": {"on"}, "for": {"10m"}, "reason": {"drill"}})
	page = c.submit(t, "/mode", url.Values{"mode": {"off"}, "for": {"5h"}, "reason": {"load test"}})
	c.undo(t, page)
	if o := c.Mode.State().Override; o.State != captchamode.ForcedOn || o.Why != "drill" || !o.Until.Equal(now.Add(10*time.Minute)) {
		t.Errorf("%+v", o)
	}

	_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: "bob", Password: rightPassword})
	c.must(t, err)
	page = c.submit(t, "/accounts/disable", url.Values{"username": {"bob"}})
	if a, _ := c.accounts.Get(t.Context(), "bob"); !a.Disabled || !strings.Contains(page, "Undo does not restore sessions, known clients and passkeys.") {
		t.Errorf("%+v", a)
	}
	page = c.undo(t, page)
	if a, _ := c.accounts.Get(t.Context(), "bob"); a.Disabled {
		t.Errorf("%+v", a)
	}
	if _, _, again := c.get(t, "/"); undoForm.MatchString(again) || !undoForm.MatchString(page) {
		t.Error("Undo is not shown exactly once")
	}
}

// An operation without undo gives the reason. No URL makes a page offer undo.
func TestANoticeSaysWhyThereIsNoUndo(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: "bob", Password: rightPassword})
	c.must(t, err)
	for path, why := range map[string]string{
		"/unlock":                "No undo: the counted failures are deleted.",
		"/forget":                "No undo: a client becomes known again at its next sign-in.",
		"/lookup/sessions":       "No undo: a user who is signed out has to sign in again.",
		"/accounts/ask-password": "No undo: sessions, known clients and passkeys are removed.",
		"/mode":                  "No undo: the failure rate was cleared on all nodes.",
	} {
		page := c.submit(t, path, url.Values{"account": {"bob"}, "username": {"bob"}, "mode": {"clear"}})
		if !strings.Contains(page, why) || undoForm.MatchString(page) {
			t.Errorf("%s: %q is missing, or there is an undo", path, why)
		}
	}
	for _, path := range []string{"/?notice=x&undo=%2Fblock", "/lookup?account=bob&path=%2Fblock&cidr=192.0.2.1"} {
		if _, _, page := c.get(t, path); undoForm.MatchString(page) {
			t.Errorf("%s offers an undo", path)
		}
	}
}

// A verification code is shown once, on the page after the form, so that reloading the page makes no other code.
func TestACodeIsShownOnceAfterARedirect(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: "bob", Password: rightPassword})
	c.must(t, err)
	first := oneTime.FindStringSubmatch(c.submit(t, "/pass", url.Values{"account": {"bob"}}))
	if first == nil {
		t.Fatal("no code")
	}
	if _, _, again := c.get(t, "/"); oneTime.MatchString(again) || strings.Contains(again, first[1]) {
		t.Error("it is shown twice")
	}
	page := c.submit(t, "/pass", url.Values{"account": {"bob"}})
	if second := oneTime.FindStringSubmatch(page); second == nil || second[1] == first[1] || !strings.Contains(page, "An earlier code of this account is still valid, too.") {
		t.Errorf("%v, or no word of the earlier code", second)
	}
}
