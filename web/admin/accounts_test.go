package admin_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"authguard/internal/accounts"
)

// Ensure that the page adds users, gives and asks for passwords, disables and enables, each
// on record, and leaves administrators to their own page.
func TestAccountsAreChangedOnTheirPage(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	token := c.csrf(t, "/accounts")
	post := func(path string, fields ...string) (int, string, string) {
		t.Helper()
		f := url.Values{"csrf": {token}, "back": {"/accounts?find=bob"}}
		for i := 0; i < len(fields); i += 2 {
			f.Set(fields[i], fields[i+1])
		}
		return c.post(t, path, f)
	}
	secret := regexp.MustCompile(`<code class="secret">([a-z2-7]{16})</code>`)
	status, _, body := post("/accounts/add", "username", "bob", "email", "bob@example.org", "groups", "staff, editors")
	var kept string
	c.must(t, c.db.QueryRowContext(t.Context(), `SELECT group_concat(CAST(data AS TEXT)) FROM sessions`).Scan(&kept))
	_, _, body = c.get(t, "/accounts?find=bob")
	found := secret.FindStringSubmatch(body)
	if status != http.StatusSeeOther || found == nil || strings.Count(body, found[1]) != 1 || strings.Contains(kept, found[1]) {
		t.Fatalf("%d\n%s", status, body)
	}
	if _, _, body := c.get(t, "/accounts?find=bob@"); strings.Contains(body, found[1]) || !strings.Contains(body, "password change required") || !strings.Contains(body, "editors, staff") {
		t.Errorf("the secret stays, or the account is not there:\n%s", body)
	}
	account := func() accounts.Account {
		t.Helper()
		a, err := c.accounts.Get(t.Context(), "bob")
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, one := range []struct {
		path, what, reason string
		more               []string
		is                 func(accounts.Account) bool
	}{
		{"/accounts/disable", "user-disable", "left", nil, func(a accounts.Account) bool { return a.Disabled }},
		{"/accounts/disable", "user-enable", "is back", []string{"enable", "true"}, func(a accounts.Account) bool { return !a.Disabled }},
		{"/accounts/ask-password", "user-ask-password", "seen in a leak", nil, func(a accounts.Account) bool { return a.NeedsCode && a.MustChange }},
		{"/accounts/password", "user-set-password", "forgotten", []string{"password", "battery staple"}, func(a accounts.Account) bool { return !a.NeedsCode && a.MustChange }},
	} {
		fields := append([]string{"username", "bob", "reason", one.reason}, one.more...)
		if status, to, body := post(one.path, fields...); status != http.StatusSeeOther || to != "/accounts?find=bob" || !one.is(account()) {
			t.Errorf("%s: %d to %s, %+v\n%s", one.what, status, to, account(), body)
		}
		if what, who, subject := c.recorded(t); what != one.what || who != "admin:ann" || subject != "bob" {
			t.Errorf("%s by %s of %s is on record", what, who, subject)
		}
	}
	post("/accounts/password", "username", "bob")
	if _, _, body := c.get(t, "/accounts?find=bob"); secret.FindStringSubmatch(body) == nil {
		t.Error("no password is made up")
	}
	before, _ := c.accounts.Get(t.Context(), "ann")
	for _, path := range []string{"/accounts/disable", "/accounts/ask-password", "/accounts/password"} {
		post(path, "username", "ann")
	}
	if after, _ := c.accounts.Get(t.Context(), "ann"); after.Version != before.Version {
		t.Error("an administrator is changed without the login of the last ten minutes")
	}
	if _, _, body := c.get(t, "/accounts"); !strings.Contains(body, "administrator") || !strings.Contains(body, "Nothing was changed.") {
		t.Error("nobody says why")
	}
	if status, _, _ := c.get(t, "/accounts?sort=size"); status != http.StatusBadRequest {
		t.Errorf("%d", status)
	}
}

func TestTheAPIFindsAndSortsAccounts(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.mustAsk(t, "POST", "/api/users", `{"username":"ann","password":"long enough"}`, nil)
	o.mustAsk(t, "POST", "/api/users", `{"username":"bob","password":"long enough"}`, nil)
	var page struct {
		Kept  string
		Users []struct{ Username, State string }
		Next  string
	}
	o.mustAsk(t, "GET", "/api/users?limit=1", "", &page)
	if page.Next != "ann" || page.Kept != "authguard" || len(page.Users) != 1 || page.Users[0].State != "active" {
		t.Errorf("%+v", page)
	}
	o.mustAsk(t, "GET", "/api/users?find=bo", "", &page)
	if len(page.Users) != 1 || page.Users[0].Username != "bob" {
		t.Errorf("%+v", page)
	}
	page.Users = nil
	o.mustAsk(t, "GET", "/api/users?sort=failures", "", &page)
	if len(page.Users) != 0 {
		t.Errorf("%+v", page)
	}
	if status, body := o.ask(t, "GET", "/api/users?sort=size", "", nil); status != http.StatusBadRequest || !strings.Contains(body, "failures") {
		t.Errorf("%d %s", status, body)
	}
	o.mustAsk(t, "POST", "/api/users/ask-password", `{"username":"bob","reason":"leaked"}`, nil)
	if what, _, subject := o.recorded(t); what != "user-ask-password" || subject != "bob" {
		t.Errorf("%s of %s", what, subject)
	}
}

func TestPeopleAreCountedFilteredAndFound(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	for name, must := range map[string]bool{"bob": true, "carl": false, "carla": false} {
		_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: name, Password: rightPassword, MustChange: must})
		c.must(t, err)
	}
	c.must(t, c.accounts.Disable(t.Context(), "carl"))
	_, _, page := c.get(t, "/accounts")
	for _, part := range []string{">4 accounts<", ">1 must change their password<", ">1 disabled<", `<span class="tag calm">disabled</span>`, `<span class="tag wait">password change required</span>`} {
		if !strings.Contains(page, part) {
			t.Errorf("%q is missing", part)
		}
	}
	if _, _, page := c.get(t, "/accounts?state=disabled"); !strings.Contains(page, "account=carl&#34;") && !strings.Contains(page, `account=carl"`) || strings.Contains(page, "account=bob") {
		t.Error("not only the disabled account")
	}
	if status, to, _ := c.get(t, "/lookup?q=car"); status != http.StatusSeeOther || to != "/accounts?find=car" {
		t.Errorf("a part of a name: %d to %s", status, to)
	}
	if status, _, _ := c.get(t, "/lookup?q=carl"); status != http.StatusOK {
		t.Errorf("a name: %d", status)
	}
}
