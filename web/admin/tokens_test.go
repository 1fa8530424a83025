package admin_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/audit"
	"authguard/internal/operation"
)

// bearer asks the API with a token and nothing else.
func (c *counter) bearer(t *testing.T, token, method, path, question string) (int, string) {
	t.Helper()
	r := c.request(t, method, path, question, "")
	if question != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+token)
	c.browser = newBrowser(t)
	status, _, body := c.send(t, r)
	return status, body
}

// token makes one on the server.
func (c *counter) token(t *testing.T, name string, scopes string) string {
	t.Helper()
	var made struct{ Token string }
	c.mustAsk(t, "POST", "/api/tokens", `{"name":"`+name+`","scopes":[`+scopes+`]}`, &made)
	return made.Token
}

func TestATokenDoesWhatItsScopesSayAndNoMore(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	may := func(scope operation.Scope) (all []string) {
		t.Helper()
		token := c.token(t, string(scope), `"`+string(scope)+`"`)
		for _, one := range []struct{ method, path, question string }{
			{"GET", "/api/status", ""}, {"GET", "/api/users", ""}, {"GET", "/api/tokens", ""}, {"GET", "/api/administrators", ""},
			{"PUT", "/api/mode", `{"mode":"auto"}`}, {"POST", "/api/unlock", `{"account":"x"}`}, {"POST", "/api/lists", `{"cidr":"203.0.113.0/24","verdict":"block"}`},
			{"POST", "/api/users", `{"username":"by-` + string(scope) + `","password":"long enough"}`},
			{"POST", "/api/users", `{"username":"admin-by-` + string(scope) + `","password":"long enough","role":"admin"}`},
			{"DELETE", "/api/users?username=by-" + string(scope), ""},
			{"POST", "/api/users/set-password", `{"username":"ann","password":"another long one"}`}, {"POST", "/api/users/create-code", `{"username":"ann"}`},
			{"POST", "/api/users/disable", `{"username":"ann"}`},
			{"POST", "/api/tokens", `{"name":"more-by-` + string(scope) + `","scopes":["admin"]}`},
			{"POST", "/api/administrators/mfa", `{"username":"ann","reason":"test"}`},
		} {
			status, body := c.bearer(t, token, one.method, one.path, one.question)
			switch {
			case status < 300:
				path, _, _ := strings.Cut(strings.TrimPrefix(one.path, "/api/"), "?")
				all = append(all, path)
			case scope == operation.Accounts && status == http.StatusNotFound && strings.Contains(one.question, `"username":"ann"`): // an administrator is nobody to it
			case status != http.StatusForbidden || !strings.Contains(body, `"scope"`):
				t.Errorf("%s: %s %s: %d %s", scope, one.method, one.path, status, body)
			}
		}
		return all
	}
	for scope, want := range map[operation.Scope]string{
		operation.Read: "status users", operation.Mode: "mode", operation.Unlock: "unlock", operation.Lists: "lists", operation.Accounts: "users users", operation.Alerts: "", operation.Policy: "",
		operation.Admin: "status users tokens administrators mode unlock lists users users users users/set-password users/create-code users/disable tokens administrators/mfa",
	} {
		if got := strings.Join(may(scope), " "); got != want {
			t.Errorf("%s may %q, want %q", scope, got, want)
		}
	}
	rows, err := c.api.Audit.Recent(t.Context(), audit.Filter{Kind: audit.KindAdmin, Limit: 100})
	if err != nil || !slices.ContainsFunc(rows, func(r audit.Row) bool { return r.Who == "token:admin" && r.Decision == "mfa-reset" }) {
		t.Errorf("on record: %+v, %v", rows, err)
	}
}

// A token is its maker's: what the decision API takes is none here, and the other way round.
func TestATokenIsGoodAtItsOwnDoorOnly(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	var decisions struct{ Token string }
	c.mustAsk(t, "POST", "/api/tokens", `{"name":"shop"}`, &decisions)
	for _, bad := range []string{decisions.Token, "", "authguard_admin_AAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		if status, body := c.bearer(t, bad, "GET", "/api/status", ""); status != http.StatusUnauthorized {
			t.Errorf("%q: %d %s", bad, status, body)
		}
	}
	good := c.token(t, "ci", `"read"`)
	if status, _ := c.bearer(t, good, "GET", "/api/status", ""); status != http.StatusOK {
		t.Errorf("its own: %d", status)
	}
	if status, _ := c.bearer(t, good, "GET", "/", ""); status != http.StatusSeeOther {
		t.Errorf("a token opens a page: %d", status)
	}
	c.mustAsk(t, "DELETE", "/api/tokens?name=ci", "", nil)
	if status, _ := c.bearer(t, good, "GET", "/api/status", ""); status != http.StatusUnauthorized {
		t.Errorf("revoked: %d", status)
	}
}

// A change that is on no list is open to no token: whoever adds a path says by which scope.
func TestEveryChangeOfTheAPIHasAScope(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	token := c.token(t, "all", `"admin"`)
	for _, r := range c.routes {
		if !strings.HasPrefix(r.Path, "/api/") || strings.HasPrefix(r.Path, "/api/security") || !slices.Contains([]string{"POST", "PUT", "DELETE", "PATCH"}, r.Method) {
			continue
		}
		if status, body := c.bearer(t, token, r.Method, r.Path, ""); status == http.StatusForbidden {
			t.Errorf("%s %s: %s", r.Method, r.Path, body)
		}
	}
}

func TestASessionOfLongAgoMakesNoTokenAndNoAdministrator(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	ask := func(path, question string) (int, string) {
		t.Helper()
		r := c.request(t, http.MethodPost, path, question, "application/json")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		status, _, body := c.send(t, r)
		return status, body
	}
	if status, body := ask("/api/tokens", `{"name":"fresh","scopes":["read"]}`); status != http.StatusCreated {
		t.Errorf("%d %s", status, body)
	}
	c.Clock.Advance(10 * time.Minute)
	for path, question := range map[string]string{
		"/api/tokens": `{"name":"stale","scopes":["read"]}`, "/api/users": `{"username":"eve","password":"long enough","role":"admin"}`,
		"/api/administrators/mfa": `{"username":"ann","reason":"x"}`, "/api/users/set-password": `{"username":"ann","password":"another long one"}`,
	} {
		if status, body := ask(path, question); status != http.StatusForbidden || !strings.Contains(body, "fresh-login-required") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := ask("/api/users", `{"username":"zoe","password":"long enough"}`); status != http.StatusCreated {
		t.Errorf("an ordinary account: %d %s", status, body)
	}
}
