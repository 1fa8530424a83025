package admin_test

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/control"
)

// Every operation of the table that destroys something shows before what it affects, with the numbers, if it has a page, and afterwards an Undo
// or why there is none. A new operation has to be entered here.
func TestEveryDestructiveOperationHasAPreviewAndAnUndoOrAReason(t *testing.T) {
	t.Parallel()
	const account, people = "/lookup?account=bob", "/administrators"
	const noUse = `No account signed in from there in the last 7 days\.(?s:.*)No wrong passwords in the last 7 days\.`
	const eve = `2 administrators(?s:.*)>2 sessions` // ann has one session
	type destruction struct {
		page, shows string // before
		path, form  string
		undo        bool
	}
	destructive := map[string]destruction{
		"captcha":              {"/", `Failure rate</dt><dd>0 <small>a minute`, "/mode", "mode=on&for=1h", true},
		"policy":               {"/policy?limit=account&to=monitor", `More than 5 failures in 24h`, "/policy", "limit=account&to=monitor", true},
		"policy-limits":        {"/policy/try?limit=account", `5/24h challenge, 100/24h block`, "/policy/limits", "limit=account&limits=6/24h+challenge,+90/24h+block&for=24h", true},
		"unlock":               {"/act?what=unlock&account=bob", `No failures are counted now\.`, "/unlock", "account=bob", false},
		"known-clients-remove": {account, `For a stolen password: removes 0 known clients\.`, "/forget", "account=bob", false},
		"block":                {"/act?what=block&cidr=192.0.2.0/24", noUse, "/list", "verdict=block&cidr=192.0.2.0/24", true},
		"unlist":               {"/act?what=remove&cidr=192.0.2.0/24", noUse, "/lists/remove", "cidr=192.0.2.0/24", true},
		"user-sessions":        {account, `>End 2 sessions</button>`, "/lookup/sessions", "account=bob", false},
		"user-set-password":    {account, `temporary password, ends 2 sessions, removes 0 known clients`, "/accounts/password", "username=bob&password=another+long+one", false},
		"user-ask-password":    {account, `stolen password: ends 2 sessions, removes 0 known clients`, "/accounts/ask-password", "username=bob", false},
		"user-disable":         {account, `>Ends 2 sessions, removes 0 known clients`, "/accounts/disable", "username=bob", true},
		"session-end":          {people, eve, "/administrators/sessions/end", "username=eve", false},
		"mfa-reset":            {people, eve, "/administrators/mfa", "username=eve", false},
		"admin-passwd":         {people, eve, "/administrators/password", "username=eve", false},
		"admin-remove":         {people, eve, "/administrators/remove", "username=eve", false},
		"token-revoke":         {people, `1 API token`, "/administrators/tokens/revoke", "name=ci", false},
	}
	others := []string{
		"user-delete", "user-groups", // on no page; the command of the first says that it is for good
		"block-import", "unlist-many", // TestTheListsPageShowsWhatWillHappenBeforeItDoes, TestSelectedEntriesAreRemovedAndRestored
		"attack-reset",                                    // TestSecuringAnAttacksAccountsLocksOutNoAdministrator
		"totp-remove", "passkey-remove", "recovery-codes", // on the own page /security, after a recent sign-in
		"totp-begin", "totp-add", "passkey-rename",
		"relist", "prolong", "alert-test", "user-add", "user-import", "user-create-code", "admin-add", "token-add", // destroy nothing
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
				for _, id := range []string{"1", "2"} {
					_, err := c.db.Exec(`INSERT INTO sessions (token_hash, data, account, realm, door, seen_at, expires_at)
						VALUES ($1, '', $2, 'default', $3, $4, $5)`, other+id, other, map[string]string{"bob": "login", "eve": "admin"}[other],
						c.Clock.Now().UnixMilli(), c.Clock.Now().Add(time.Hour).UnixMilli())
					c.must(t, err)
				}
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
