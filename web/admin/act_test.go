package admin_test

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/lists"
)

// One dialog shows the affected accounts before a range is blocked or allowed, or counters are reset.
func TestTheDialogSaysWhoIsAffected(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: "bob", Password: rightPassword})
	c.must(t, err)
	c.Right(t, "bob", "192.0.2.66")
	c.Wrong(t, "vic", "192.0.2.77")
	c.Wrong(t, "bob", "192.0.2.77")
	c.logged(t)
	c.submit(t, "/list", url.Values{"verdict": {"allow"}, "cidr": {"192.0.2.128/25"}, "for": {"24h"}, "note": {"<office>"}})
	for query, want := range map[string][]string{
		"what=block&cidr=192.0.2.0/24&back=/lists": {
			"<b>1 account signed in from there</b>", ">bob<", "2 wrong passwords in the last 7 days, for 2 accounts", "Overlaps <code>192.0.2.128/25</code>, allowed until", "&lt;office&gt;",
			`action="/list"`, `name="back" value="/lists"`, `name="verdict" value="block"`, "known clients included", "what=allow", "what=unlock",
		},
		"what=allow&cidr=192.0.2.128/25":  {"Replaces the entry <code>192.0.2.128/25</code>", "No account signed in", "what=remove"},
		"what=block&cidr=127.0.0.0/8":     {"Contains your own IP address, 127.0.0.1: you would lock yourself out."},
		"what=block&cidr=nowhere":         {`role="alert"`, "nowhere"},
		"what=remove&cidr=192.0.2.128/25": {`action="/lists/remove"`},
		"what=unlock&account=bob":         {`action="/unlock"`, "A reset cannot be undone."},
		"what=unlock&address=192.0.2.77":  {`action="/unlock"`, `name="address" value="192.0.2.77"`, "Address: 2 of 10 failures"},
		"what=unlock&cidr=192.0.2.0/24":   {`name="network" value="192.0.2.0/24"`, "Network: 2 of 60 failures"},
		"what=unlock&account=nobody":      {"There is no account with this name."},
	} {
		_, _, page := c.get(t, "/act?"+query)
		for _, part := range want {
			if !strings.Contains(page, part) {
				t.Errorf("%s: %q is missing", query, part)
			}
		}
	}
	for _, query := range []string{"what=block&cidr=127.0.0.0/8", "what=unlock&account=nobody", "what=block&cidr=nowhere", "what=remove&cidr=192.0.2.1"} {
		if _, _, page := c.get(t, "/act?"+query); strings.Contains(page, `id="act_why"`) {
			t.Errorf("%s: there is a form", query)
		}
	}
	for _, back := range []string{"https://evil.test/", "//evil.test/", "javascript:alert(1)"} {
		if _, _, page := c.get(t, "/act?what=block&cidr=192.0.2.1&back="+url.QueryEscape(back)); strings.Contains(page, "evil") || strings.Contains(page, "javascript:") {
			t.Errorf("it returns to %s", back)
		}
	}
	if entries, _ := c.control.Lists.Entries(t.Context()); len(entries) != 1 {
		t.Error("the dialog has changed something")
	}
}

// The primary button is the operation that helps; without one there is no such button.
func TestThePrimaryButtonFollowsTheSituation(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	for _, name := range []string{"bob", "quiet"} {
		_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: name, Password: rightPassword})
		c.must(t, err)
	}
	for range 5 {
		c.Wrong(t, "bob", "192.0.2.66")
		c.Clock.Advance(time.Minute)
	}
	c.logged(t)
	c.submit(t, "/list", url.Values{"verdict": {"block"}, "cidr": {"198.51.100.7"}})
	for query, want := range map[string]string{
		"account=bob":                      "Create verification code",
		"account=quiet":                    "",
		"account=nobody":                   "",
		"address=192.0.2.66":               "Block IP address…",
		"address=203.0.113.9":              "",
		"address=198.51.100.7":             "Unblock 198.51.100.7/32…",
		"account=bob&address=198.51.100.7": "Unblock 198.51.100.7/32…",
	} {
		_, _, page := c.get(t, "/lookup?"+query)
		var primary []string
		for _, part := range strings.Split(page, `class="button"`)[1:] {
			_, text, _ := strings.Cut(part, ">")
			text, _, _ = strings.Cut(text, "<")
			primary = append(primary, text)
		}
		if got := strings.Join(primary, ", "); got != want {
			t.Errorf("%s: primary %q, want %q", query, got, want)
		}
	}
	if _, _, page := c.get(t, "/lookup?account=nobody"); strings.Contains(page, "Reset failure counters") || strings.Contains(page, "verification code") {
		t.Error("a name that does not exist has operations")
	}
	if _, _, page := c.get(t, "/lookup?address=192.0.2.66"); !strings.Contains(page, "5 wrong passwords for 1 account") {
		t.Error("the address has no facts")
	}
}

// A page with every entry of a long list would take seconds and tens of megabytes.
func TestTheDialogShowsAFewOfManyEntries(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	var all []lists.Request
	for i := range 50 {
		all = append(all, lists.Request{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), 32), Verdict: lists.Allow})
	}
	_, err := c.config.Listings.AddAll(t.Context(), all, c.Clock.Now())
	c.must(t, err)
	_, _, page := c.get(t, "/act?what=block&cidr=198.51.100.0/24")
	if n := strings.Count(page, "Overlaps <code>"); n != 20 || !strings.Contains(page, "30 more entries overlap.") {
		t.Errorf("%d entries\n%s", n, page)
	}
}

// An entry may exempt the administrator from a wider block: without it, the administrator could not sign in again.
func TestRemovingAnEntryDoesNotLockOutTheAdministrator(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	own := netip.MustParseAddr("127.0.0.1")
	_, err := c.config.Listings.AddAll(t.Context(), []lists.Request{{Prefix: netip.MustParsePrefix("127.0.0.0/8"), Verdict: lists.Block},
		{Prefix: netip.PrefixFrom(own, 32), Verdict: lists.Allow}}, c.Clock.Now())
	c.must(t, err)
	c.must(t, c.config.Listings.Reload(t.Context(), c.Clock.Now()))
	for path, f := range map[string]url.Values{"/lists/remove": {"cidr": {"127.0.0.1"}}, "/lists/unlist": {"ranges": {"127.0.0.1/32"}}} {
		if page := c.submit(t, path, f); !strings.Contains(page, "Nothing was changed.") || !strings.Contains(page, "lock yourself out") || c.Lists.Look(own, c.Clock.Now()) != guard.Allowed {
			t.Errorf("%s: removed\n%s", path, page)
		}
	}
	for _, mapped := range []string{"::ffff:127.0.0.1/128", "::ffff:127.0.0.0/104"} {
		page := c.submit(t, "/lists/restore", url.Values{"entries": {`[{"cidr":"` + mapped + `","verdict":"block"}]`}})
		if !strings.Contains(page, "lock yourself out") || c.Lists.Look(own, c.Clock.Now()) != guard.Allowed {
			t.Errorf("%s is restored\n%s", mapped, page)
		}
	}
	if page := c.submit(t, "/lists/restore", url.Values{"entries": {"[]"}}); !strings.Contains(page, "Nothing was changed.") {
		t.Errorf("nothing is restored\n%s", page)
	}
	if page := c.submit(t, "/lists/unlist", url.Values{"ranges": {"127.0.0.1/32 127.0.0.0/8"}}); strings.Contains(page, "Nothing was changed.") {
		t.Errorf("with the block: not removed\n%s", page)
	}
	if status, _, body := c.send(t, c.request(t, http.MethodPost, "/api/lists", `{"verdict":"block","cidr":"127.0.0.0/8"}`, "application/json")); status != http.StatusBadRequest || !strings.Contains(body, "lock yourself out") {
		t.Errorf("the API: %d %s", status, body)
	}
}

// logged writes events into the audit log.
func (c *counter) logged(t *testing.T) {
	t.Helper()
	log := c.config.Audit
	log.Handle(c.Events())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log.Run(ctx)
}
