package admin_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"authguard/internal/accounts"
)

// program asks the API as a program with a session does: its cookie, and JSON.
func (c *counter) program(t *testing.T, method, path, question string, answer any) (status int, body string) {
	t.Helper()
	r := c.request(t, method, path, question, "application/json")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	status, _, body = c.send(t, r)
	if answer != nil {
		if err := json.Unmarshal([]byte(body), answer); err != nil {
			t.Errorf("%s %s: %d %s", method, path, status, body)
		}
	}
	return status, body
}

// The whole page /security without a browser, for an administrator who needs a second
// factor before anything else opens.
func TestOnesOwnSignInByTheAPI(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.required.Store(true)
	c.admit(t, "ann", accounts.Admin, false)
	other := newBrowser(t)
	mine := c.browser
	c.browser = other
	c.admit(t, "ann", accounts.Admin, false)
	c.browser = mine
	var own struct {
		Username string
		TOTP     *struct{}
		Recovery int  `json:"recovery_codes"`
		Lacks    bool `json:"mfa_required"`
		Fresh    bool
		Sessions []struct {
			ID   string
			This bool
		}
	}
	if status, body := c.program(t, "GET", "/api/security", "", &own); status != http.StatusOK || own.Username != "ann" || !own.Lacks || !own.Fresh || len(own.Sessions) != 2 {
		t.Fatalf("%d %s", status, body)
	}
	var app struct{ Secret, URL string }
	c.program(t, "POST", "/api/security/totp", "{}", &app)
	if !strings.HasPrefix(app.URL, "otpauth://totp/") {
		t.Fatalf("%+v", app)
	}
	if status, body := c.program(t, "POST", "/api/security/totp/confirm", `{"otp":"000000"}`, nil); status != http.StatusBadRequest {
		t.Errorf("a wrong code: %d %s", status, body)
	}
	code, err := totp.GenerateCode(app.Secret, c.Clock.Now())
	c.must(t, err)
	var codes struct {
		Codes []string `json:"recovery_codes"`
	}
	if c.program(t, "POST", "/api/security/totp/confirm", `{"otp":"`+code+`"}`, &codes); len(codes.Codes) != 10 {
		t.Fatalf("%+v", codes)
	}
	if status, body := c.program(t, "GET", "/api/status", "", nil); status != http.StatusOK {
		t.Errorf("with a second factor: %d %s", status, body)
	}
	first := codes.Codes[0]
	if c.program(t, "POST", "/api/security/recovery-codes", "{}", &codes); len(codes.Codes) != 10 || slices.Contains(codes.Codes, first) {
		t.Errorf("%+v", codes)
	}
	var ended struct{ Ended int }
	if c.program(t, "DELETE", "/api/security/sessions", "", &ended); ended.Ended != 1 {
		t.Errorf("%+v", ended)
	}
	if status, body := c.program(t, "DELETE", "/api/security/sessions?id=x", "", nil); status != http.StatusNotFound {
		t.Errorf("a session that there is not: %d %s", status, body)
	}
	account := c.account(t, "ann")
	_, err = c.db.Exec(`INSERT INTO passkeys (id, account, host, name, data, created_at) VALUES ('k', $1, 'localhost', 'old', '{}', 1)`, account.ID)
	c.must(t, err)
	if status, body := c.program(t, "PUT", "/api/security/passkeys", `{"id":"k","name":" new <b> "}`, nil); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	has, err := c.mfa.Of(t.Context(), account.ID)
	if err != nil || has.Passkeys[0].Name != "new <b>" {
		t.Errorf("%+v, %v", has, err)
	}
	for _, id := range []string{"k", "k"} {
		want := http.StatusOK
		if has, _ := c.mfa.Of(t.Context(), account.ID); len(has.Passkeys) == 0 {
			want = http.StatusNotFound
		}
		if status, body := c.program(t, "DELETE", "/api/security/passkeys?id="+id, "", nil); status != want {
			t.Errorf("%d %s", status, body)
		}
	}
	if status, body := c.program(t, "DELETE", "/api/security/totp", "", nil); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	if what, who, _ := c.recorded(t); what != "totp-remove" || who != "admin:ann" {
		t.Errorf("%s by %s is on record", what, who)
	}
	if status, body := c.program(t, "POST", "/password", `{"current_password":"`+rightPassword+`","new_password":"another long one"}`, nil); status >= 400 {
		t.Errorf("the own password: %d %s", status, body)
	}
}

// What says how somebody signs in asks for the person: no token of any scope may, nobody
// else's session, none that is old, and no page of another site.
func TestNobodyElseChangesHowSomebodySignsIn(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.enrolled(t)
	signedIn := c.browser
	token := c.token(t, "all", `"admin"`)
	n := 0
	for _, r := range c.routes {
		if !strings.HasPrefix(r.Path, "/api/security") {
			continue
		}
		n++
		if status, body := c.bearer(t, token, r.Method, r.Path, "{}"); status != http.StatusForbidden {
			t.Errorf("%s %s with a token: %d %s", r.Method, r.Path, status, body)
		}
		c.browser = newBrowser(t)
		if status, body := c.program(t, r.Method, r.Path+"?realm=nowhere", "{}", nil); status != http.StatusUnauthorized {
			t.Errorf("%s %s without a session: %d %s", r.Method, r.Path, status, body)
		}
		c.browser = signedIn
		foreign := c.request(t, r.Method, r.Path, "otp=000000", "application/x-www-form-urlencoded")
		foreign.Header.Set("Sec-Fetch-Site", "cross-site")
		if status, _, body := c.send(t, foreign); r.Method != http.MethodGet && status != http.StatusForbidden {
			t.Errorf("%s %s from another site: %d %s", r.Method, r.Path, status, body)
		}
		form := c.request(t, r.Method, r.Path, "otp=000000", "application/x-www-form-urlencoded")
		if status, _, body := c.send(t, form); (r.Method == http.MethodPost || r.Method == http.MethodPut) && (status != http.StatusForbidden || !strings.Contains(body, "csrf")) {
			t.Errorf("%s %s by a form without the session's token: %d %s", r.Method, r.Path, status, body)
		}
		if status, body := c.ask(t, r.Method, r.Path, "{}", nil); status != http.StatusNotFound {
			t.Errorf("%s %s at the socket: %d %s", r.Method, r.Path, status, body)
		}
	}
	if n != 8 {
		t.Errorf("%d paths", n)
	}
	c.browser = newBrowser(t)
	c.admit(t, "bob", accounts.Admin, false)
	if _, body := c.program(t, "GET", "/api/security?username=ann", "", nil); !strings.Contains(body, `"username":"bob"`) {
		t.Errorf("bob is told of ann: %s", body)
	}
	c.browser = newBrowser(t)
	c.admit(t, "carl", accounts.Admin, true)
	if status, body := c.program(t, "POST", "/api/security/totp", "{}", nil); status != http.StatusForbidden || !strings.Contains(body, "password-change-required") {
		t.Errorf("with a one-time password: %d %s", status, body)
	}
	c.browser = signedIn
	c.Clock.Advance(10 * time.Minute)
	before := c.power(t, "ann")
	for _, r := range c.routes {
		if strings.HasPrefix(r.Path, "/api/security/") && r.Path != "/api/security/sessions" {
			if status, body := c.program(t, r.Method, r.Path, `{}`, nil); status != http.StatusForbidden || !strings.Contains(body, "fresh-login-required") {
				t.Errorf("%s %s with an old session: %d %s", r.Method, r.Path, status, body)
			}
		}
	}
	if after := c.power(t, "ann"); after != before {
		t.Errorf("before %safter  %s", before, after)
	}
}
