package admin_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/audit"
	"authguard/trusted"
)

// one is the only alert since this was asked last.
func (b *bell) one(t *testing.T, kind string, says ...string) {
	t.Helper()
	rung := b.take()
	if len(rung) != 1 || !strings.HasPrefix(rung[0], kind+"\n") {
		t.Errorf("alerts %q, want one %s", rung, kind)
		return
	}
	for _, text := range says {
		if !strings.Contains(rung[0], text) {
			t.Errorf("%q does not say %q", rung[0], text)
		}
	}
}

// Whoever takes over an account makes it theirs for good, and that is what is told.
func TestWhatLetsSomebodyInIsToldOnce(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	shows, recovery := c.enrolled(t)
	if rung := c.told.take(); len(rung) != 0 {
		t.Errorf("setting an app up: %q", rung)
	}
	c.mustAsk(t, "POST", "/api/users", `{"username":"bob","password":"long enough","role":"admin"}`, nil)
	c.told.one(t, "administrator-added", `"bob"`, "cli:")
	c.mustAsk(t, "POST", "/api/users", `{"username":"carl","password":"long enough"}`, nil)
	c.mustAsk(t, "POST", "/api/administrators", `{"username":"dora","reason":"on call <b>"}`, nil)
	c.told.one(t, "administrator-added", `"dora"`, `on call \x3cb`)
	c.mustAsk(t, "POST", "/api/administrators", `{"username":"carl","reason":"helps out"}`, nil)
	c.told.one(t, "administrator-added", `"carl"`, "helps out")
	c.mustAsk(t, "POST", "/api/tokens", `{"name":"ci","scopes":["read"]}`, nil)
	c.told.one(t, "token-created", `"ci"`, "read", "all realms")
	c.mustAsk(t, "POST", "/api/tokens", `{"name":"shop"}`, nil)
	c.told.one(t, "token-created", `"shop"`, "decision API")
	c.password(t)
	if status, to, _ := c.code(t, recovery[0]); to != "/" {
		t.Fatalf("%d to %q", status, to)
	}
	c.told.one(t, "recovery-code-used", `"ann"`)
	c.own(t, "/security/app/remove", url.Values{})
	c.told.one(t, "mfa-removed", `"ann"`)
	c.must(t, c.control.Accounts.FactorUsed(t.Context(), "admin:ann", "ann", "passkey-cloned"))
	c.told.one(t, "passkey-cloned", `"ann"`)
	c.mustAsk(t, "POST", "/api/administrators/mfa", `{"username":"ann","reason":"lost phone"}`, nil)
	c.told.one(t, "mfa-removed", `"ann"`, "lost phone")
	_ = shows
}

func TestAnAdministratorComesAndGoes(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	c.mustAsk(t, "POST", "/api/users", `{"username":"bob","email":"bob@example.org","password":"`+rightPassword+`"}`, nil)
	ask := func(method, path, question string) (int, string) {
		t.Helper()
		r := c.request(t, method, path, question, "application/json")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		status, _, body := c.send(t, r)
		return status, body
	}
	for _, one := range []struct{ method, path, question, says string }{
		{"POST", "/api/administrators", `{"username":"bob"}`, "missing reason"},
		{"POST", "/api/administrators", `{"username":"ann","reason":"x"}`, "already"},
		{"DELETE", "/api/administrators?username=bob", "", "missing reason"},
		{"DELETE", "/api/administrators?username=bob&reason=x", "", "no such account"},
		{"DELETE", "/api/administrators?username=ANN&reason=x", "", "this is your own account"},
		{"POST", "/api/administrators/password", `{"username":"bob","reason":"x"}`, "no such account"},
		{"POST", "/api/administrators/password", `{"username":"ann","reason":"x"}`, "this is your own account"},
		{"POST", "/api/administrators/password", `{"username":"ann"}`, "missing reason"},
		{"POST", "/api/administrators/mfa", `{"username":"ann","reason":"x"}`, "this is your own account"},
		{"POST", "/api/users/disable", `{"username":"ann"}`, "this is your own account"},
	} {
		if status, body := ask(one.method, one.path, one.question); status < 400 || !strings.Contains(body, one.says) {
			t.Errorf("%s %s %s: %d %s, want %q", one.method, one.path, one.question, status, body, one.says)
		}
	}
	before := c.account(t, "bob")
	c.Right(t, "bob", "192.0.2.1")
	status, body := ask("POST", "/api/administrators", `{"username":"Bob@example.org","reason":"on call"}`)
	if at := c.Status(t, "bob", "192.0.2.1"); at == trusted.Known {
		t.Error("the user's place is the administrator's")
	}
	after := c.account(t, "bob")
	if status != http.StatusCreated || after.Role != accounts.Admin || !after.MustChange || after.Version == before.Version || after.ID != before.ID {
		t.Fatalf("%d %s: %+v", status, body, after)
	}
	ann := c.browser
	c.browser = newBrowser(t) // whoever knew the user's password is no administrator
	if status, _, _ := c.post(t, "/login", url.Values{"username": {"bob"}, "password": {rightPassword}}); status != http.StatusUnauthorized {
		t.Errorf("the user's password: %d", status)
	}
	oneTime := body[strings.Index(body, `"password":"`)+len(`"password":"`):][:16]
	if status, to, _ := c.post(t, "/login", url.Values{"username": {"bob"}, "password": {oneTime}}); status != http.StatusSeeOther {
		t.Errorf("the one-time password: %d to %q", status, to)
	}
	if _, to, _ := c.get(t, "/"); to != "/password" {
		t.Errorf("it is good for more than choosing another: to %q", to)
	}
	bob := c.browser
	_, err := c.mfa.NewRecovery(t.Context(), after.ID)
	c.must(t, err)
	c.browser = ann
	if status, body := ask("DELETE", "/api/administrators?username=bob&reason=left+us", ""); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	if a := c.account(t, "bob"); a.Role != accounts.User || a.Disabled {
		t.Errorf("%+v", a)
	}
	if has, err := c.mfa.Of(t.Context(), after.ID); err != nil || has.Recovery != 0 {
		t.Errorf("second factors go on: %+v, %v", has, err)
	}
	rows, err := c.api.Audit.Recent(t.Context(), audit.Filter{Kind: audit.KindAdmin, Limit: 1})
	if err != nil || rows[0].Decision != "admin-remove" || rows[0].Who != "admin:ann" || rows[0].Detail != "left us" {
		t.Errorf("on record: %+v, %v", rows, err)
	}
	c.browser = bob
	if status, to, _ := c.get(t, "/password"); status != http.StatusSeeOther || !strings.HasPrefix(to, "/login") {
		t.Errorf("the session goes on: %d to %q", status, to)
	}
	for _, way := range []string{"DELETE /api/administrators?username=ann&reason=x ", `POST /api/users/disable {"username":"ann"}`} {
		method, rest, _ := strings.Cut(way, " ")
		path, question, _ := strings.Cut(rest, " ")
		if status, body := c.ask(t, method, path, question, nil); status != http.StatusConflict || !strings.Contains(body, "add another one first") {
			t.Errorf("the last one, %s: %d %s", way, status, body)
		}
	}
}

// steer posts one of the page /administrators and follows it.
func (c *counter) steer(t *testing.T, path string, f url.Values) (body string) {
	t.Helper()
	f.Set("csrf", c.csrf(t, "/administrators"))
	f.Set("back", "/administrators")
	status, to, body := c.post(t, path, f)
	if status == http.StatusSeeOther {
		if to != "/administrators" {
			t.Fatalf("%s leads to %q", path, to)
		}
		_, _, body = c.get(t, to)
	}
	return body
}

var oneTime = regexp.MustCompile(`<code class="secret">([^<]+)</code>`)

func TestThePageOfAdministrators(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.shop(t)
	c.admit(t, "ann", accounts.Admin, false)
	body := c.steer(t, "/administrators/add", url.Values{"username": {"Bob"}, "email": {"bob@example.org"}, "reason": {"on call"}})
	secret := oneTime.FindStringSubmatch(body)
	if secret == nil || !strings.Contains(body, "password change required") {
		t.Fatalf("no one-time password:\n%s", body)
	}
	if _, _, again := c.get(t, "/administrators"); strings.Contains(again, secret[1]) {
		t.Error("the one-time password is shown twice")
	}
	ann := c.browser
	c.browser = newBrowser(t)
	c.post(t, "/login", url.Values{"username": {"bob"}, "password": {secret[1]}})
	if _, to, _ := c.get(t, "/"); to != "/password" {
		t.Errorf("the one-time password leads to %q", to)
	}
	bob := c.browser
	c.browser = ann
	_, _, body = c.get(t, "/administrators")
	id := regexp.MustCompile(`name="username" value="bob"><input type="hidden" name="id" value="([0-9a-f]{64})"`).FindStringSubmatch(body)
	if id == nil {
		t.Fatalf("bob's session is not listed:\n%s", body)
	}
	if body = c.steer(t, "/administrators/sessions/end", url.Values{"username": {"bob"}, "id": {id[1]}}); !strings.Contains(body, "Session ended:") {
		t.Error("it says nothing of the session")
	}
	c.browser = bob
	if _, to, _ := c.get(t, "/password"); !strings.HasPrefix(to, "/login") {
		t.Errorf("bob's session goes on: %q", to)
	}
	c.browser = ann
	for _, one := range []struct {
		path, says, recorded string
	}{
		{"/administrators/disable", "Disabled and signed out:", "user-disable"},
		{"/administrators/enable", "Enabled", "user-enable"},
		{"/administrators/mfa", "MFA removed and sessions ended:", "mfa-reset"},
		{"/administrators/password", "Shown only once", "admin-passwd"},
		{"/administrators/remove", "Admin role removed:", "admin-remove"},
	} {
		if body := c.steer(t, one.path, url.Values{"username": {"bob"}, "reason": {"because of " + one.path}}); !strings.Contains(body, one.says) {
			t.Errorf("%s does not say %q:\n%s", one.path, one.says, body)
		}
		rows, err := c.api.Audit.Recent(t.Context(), audit.Filter{Kind: audit.KindAdmin, Limit: 1})
		if err != nil || rows[0].Decision != one.recorded || rows[0].Who != "admin:ann" || rows[0].Detail != "because of "+one.path {
			t.Errorf("%s is on record as %+v, %v", one.path, rows, err)
		}
	}
	body = c.steer(t, "/administrators/tokens/add", url.Values{"name": {"ci"}, "scope_read": {"true"}, "scope_mode": {"true"}, "in": {"shop"}, "for": {"7d"}})
	made := oneTime.FindStringSubmatch(body)
	if made == nil || !strings.Contains(body, "mode, read") && !strings.Contains(body, "read, mode") {
		t.Fatalf("no token:\n%s", body)
	}
	if status, body := c.bearer(t, made[1], "GET", "/api/users?realm=default", ""); status != http.StatusForbidden {
		t.Errorf("it is good in another realm: %d %s", status, body)
	}
	c.must(t, c.accounts.Promote(t.Context(), "bob", "another long one"))
	c.must(t, c.accounts.Disable(t.Context(), "ann"))
	if status, body := c.bearer(t, made[1], "GET", "/api/users", ""); status != http.StatusUnauthorized {
		t.Errorf("it outlives its maker: %d %s", status, body)
	}
	c.must(t, c.accounts.Enable(t.Context(), "ann"))
	c.browser = newBrowser(t)
	c.admit(t, "ann", accounts.Admin, false)
	if body = c.steer(t, "/administrators/tokens/add", url.Values{"name": {"bad"}, "scope_admin": {"true"}, "in": {"shop"}}); !strings.Contains(body, "apply to all realms") {
		t.Error("a token with admin of one realm")
	}
	if body = c.steer(t, "/administrators/tokens/revoke", url.Values{"name": {"ci"}, "in": {"shop"}}); !strings.Contains(body, "Revoked") || strings.Contains(body, "<td data-label=\"Realm\">shop") {
		t.Error("it was not revoked")
	}
}

// Ending sessions and revoking tokens is done in a hurry; what lets somebody in needs a
// login of a moment ago.
func TestAnOldSessionLetsNobodyIn(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	for _, name := range []string{"bob", "carl"} {
		_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: name, Password: rightPassword, Role: accounts.Admin})
		c.must(t, err)
	}
	c.mustAsk(t, "POST", "/api/tokens", `{"name":"ci","scopes":["read"]}`, nil)
	c.admit(t, "ann", accounts.Admin, false)
	c.Clock.Advance(10 * time.Minute)
	before, n := c.power(t, "bob"), 0
	for _, path := range c.changing("/administrators/") {
		body := c.steer(t, path, url.Values{"username": {"bob"}, "reason": {"x"}, "name": {"ci"}})
		hurry := strings.HasSuffix(path, "/end") || strings.HasSuffix(path, "/revoke")
		if refused := strings.Contains(body, "Sign in again first"); refused == hurry {
			t.Errorf("%s: refused %t", path, refused)
		}
		if after := c.power(t, "bob"); after != before && !hurry {
			t.Errorf("%s: before %safter  %s", path, before, after)
		}
		before = c.power(t, "bob")
		n++
	}
	if n != 9 {
		t.Errorf("%d paths", n)
	}
	_, _, body := c.get(t, "/administrators")
	for _, form := range []string{"/administrators/add", "/administrators/password", "/administrators/tokens/add"} {
		if strings.Contains(body, form) {
			t.Errorf("the page offers %s", form)
		}
	}
}
