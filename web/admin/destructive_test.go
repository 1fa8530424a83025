package admin_test

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authguard/internal/accounts"
	"authguard/internal/control"
)

// Every operation of the table that destroys something shows numbers before, if it has a page, and afterwards an Undo
// or why there is none. A new operation has to be entered here.
func TestEveryDestructiveOperationHasAPreviewAndAnUndoOrAReason(t *testing.T) {
	t.Parallel()
	const account, people = "/lookup?account=bob", "/administrators"
	const numbers = `(\d+|No|no) (session|known client|account|wrong password|failure)s?`
	type destruction struct {
		page, shows string // before
		path, form  string
		undo        bool
	}
	destructive := map[string]destruction{
		"captcha":              {"/", `Failure rate</dt><dd>\d+`, "/mode", "mode=on&for=1h", true},
		"policy":               {"/policy?limit=account&to=monitor", `\d`, "/policy", "limit=account&to=monitor", true},
		"policy-limits":        {"/policy/try?limit=account", `\d`, "/policy/limits", "limit=account&limits=6/24h+challenge,+90/24h+block&for=24h", true},
		"unlock":               {"/act?what=unlock&account=bob", numbers, "/unlock", "account=bob", false},
		"known-clients-remove": {account, numbers, "/forget", "account=bob", false},
		"block":                {"/act?what=block&cidr=192.0.2.0/24", numbers, "/list", "verdict=block&cidr=192.0.2.0/24", true},
		"unlist":               {"/act?what=remove&cidr=192.0.2.0/24", numbers, "/lists/remove", "cidr=192.0.2.0/24", true},
		"user-sessions":        {account, numbers, "/lookup/sessions", "account=bob", false},
		"user-set-password":    {account, numbers, "/accounts/password", "username=bob&password=another+long+one", false},
		"user-ask-password":    {account, numbers, "/accounts/ask-password", "username=bob", false},
		"user-disable":         {account, numbers, "/accounts/disable", "username=bob", true},
		"session-end":          {people, numbers, "/administrators/sessions/end", "username=eve", false},
		"mfa-reset":            {people, numbers, "/administrators/mfa", "username=eve", false},
		"admin-passwd":         {people, numbers, "/administrators/password", "username=eve", false},
		"admin-remove":         {people, numbers, "/administrators/remove", "username=eve", false},
		"token-revoke":         {people, `1 API token`, "/administrators/tokens/revoke", "name=ci", false},
	}
	others := []string{
		"user-delete", "user-groups", // on no page; the command of the first says that it is for good
		"block-import", "unlist-many", // TestTheListsPageShowsWhatWillHappenBeforeItDoes, TestSelectedEntriesAreRemovedAndRestored
		"relist", "prolong", "alert-test", "user-add", "user-create-code", "admin-add", "token-add", // destroy nothing
	}
	order := []string{}
	for _, o := range control.Operations() {
		if slices.Contains(others, o.Name) {
			continue
		}
		if _, is := destructive[o.Name]; !is {
			t.Errorf("%s: neither destructive nor harmless", o.Name)
		}
		order = append(order, o.Name)
	}
	for _, name := range order {
		one := destructive[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCounter(t)
			c.admit(t, "ann", accounts.Admin, false)
			for other, role := range map[string]accounts.Role{"bob": accounts.User, "eve": accounts.Admin} {
				_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: other, Password: rightPassword, Role: role})
				c.must(t, err)
			}
			c.mustAsk(t, "POST", "/api/tokens", `{"name":"ci","scopes":["read"]}`, nil)
			if name == "unlist" {
				c.mustAsk(t, "POST", "/api/lists", `{"verdict":"block","cidr":"192.0.2.0/24"}`, nil)
			}
			if _, _, page := c.get(t, one.page); !regexp.MustCompile(one.shows).MatchString(page) {
				t.Errorf("%s has no %s\n%s", one.page, one.shows, page)
			}
			f, err := url.ParseQuery(one.form)
			c.must(t, err)
			f.Set("reason", "x")
			page := c.submit(t, one.path, f)
			if undoForm.MatchString(page) != one.undo || !one.undo && !strings.Contains(page, "No undo: ") {
				t.Errorf("undo: %t, and no reason\n%s", undoForm.MatchString(page), page)
			}
		})
	}
}
