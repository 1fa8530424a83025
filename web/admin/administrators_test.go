package admin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"authguard/internal/accounts"
	"authguard/internal/audit"
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
	c.told.one(t, "token-added", `"ci"`, "read", "all realms")
	c.mustAsk(t, "POST", "/api/tokens", `{"name":"shop"}`, nil)
	c.told.one(t, "token-added", `"shop"`, "decision API")
	c.password(t)
	if status, to, _ := c.code(t, recovery[0]); to != "/" {
		t.Fatalf("%d to %q", status, to)
	}
	c.told.one(t, "recovery-code-used", `"ann"`)
	c.own(t, "/security/app/remove", url.Values{})
	c.told.one(t, "second-factor-removed", `"ann"`)
	c.must(t, c.control.FactorUsed(t.Context(), "ann", "passkey-copied"))
	c.told.one(t, "passkey-copied", `"ann"`)
	c.mustAsk(t, "POST", "/api/administrators/second-factor", `{"username":"ann","reason":"lost phone"}`, nil)
	c.told.one(t, "second-factor-removed", `"ann"`, "lost phone")
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
		{"POST", "/api/administrators", `{"username":"bob"}`, "say why"},
		{"POST", "/api/administrators", `{"username":"ann","reason":"x"}`, "already"},
		{"DELETE", "/api/administrators?username=bob", "", "say why"},
		{"DELETE", "/api/administrators?username=bob&reason=x", "", "no such account"},
		{"DELETE", "/api/administrators?username=ANN&reason=x", "", "that is yourself"},
		{"POST", "/api/administrators/password", `{"username":"bob","reason":"x"}`, "no such account"},
		{"POST", "/api/administrators/password", `{"username":"ann","reason":"x"}`, "that is yourself"},
		{"POST", "/api/administrators/password", `{"username":"ann"}`, "say why"},
		{"POST", "/api/administrators/second-factor", `{"username":"ann","reason":"x"}`, "that is yourself"},
		{"POST", "/api/users/disable", `{"username":"ann"}`, "that is yourself"},
	} {
		if status, body := ask(one.method, one.path, one.question); status < 400 || !strings.Contains(body, one.says) {
			t.Errorf("%s %s %s: %d %s, want %q", one.method, one.path, one.question, status, body, one.says)
		}
	}
	before := c.account(t, "bob")
	status, body := ask("POST", "/api/administrators", `{"username":"Bob@example.org","reason":"on call"}`)
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
	c.browser = ann
	if status, body := ask("DELETE", "/api/administrators?username=bob&reason=left+us", ""); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	if a := c.account(t, "bob"); a.Role != accounts.User || a.Disabled {
		t.Errorf("%+v", a)
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
