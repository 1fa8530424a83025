package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"authguard/internal/accounts"
)

// No operation locks out the administrator who does it, except an import that is confirmed on the page or that does
// not skip doubtful lines.
func TestNoOperationLocksOutTheAdministratorWhoDoesIt(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: "eve", Password: rightPassword, Role: accounts.Admin})
	c.must(t, err)
	c.keeps(t, "20260314-1155-abcd", "ann")
	const address, account = "lock yourself out", "this is your own account"
	before := c.power(t, "ann")
	for _, one := range []struct{ method, path, question, says string }{
		{"POST", "/api/lists", `{"verdict":"block","cidr":"127.0.0.1"}`, address},
		{"POST", "/api/lists", `{"verdict":"block","cidr":"127.0.0.0/24"}`, address},
		{"POST", "/api/lists/import", `{"text":"127.0.0.0/24\n","verdict":"block","skip_doubtful":true}`, "no ranges to import"},
		{"POST", "/api/users/disable", `{"username":"ann"}`, account},
		{"DELETE", "/api/users?username=ann", "", account},
		{"POST", "/api/users/ask-password", `{"username":"ann"}`, account},
		{"DELETE", "/api/users/sessions?username=ann", "", "end the sessions under Administrators"},
		{"DELETE", "/api/administrators?username=ann&reason=x", "", account},
		{"POST", "/api/administrators/password", `{"username":"ann","reason":"x"}`, account},
		{"POST", "/api/administrators/mfa", `{"username":"ann","reason":"x"}`, account},
		{"POST", "/api/attacks/20260314-1155-abcd/reset", `{"account":"ann","reason":"x"}`, account},
	} {
		status, body := c.program(t, one.method, one.path, one.question, nil)
		if status < http.StatusBadRequest || !strings.Contains(body, one.says) {
			t.Errorf("%s %s %s: %d %s, want %q", one.method, one.path, one.question, status, body, one.says)
		}
	}
	// "All" leaves administrators out.
	if status, body := c.program(t, "POST", "/api/attacks/20260314-1155-abcd/reset", `{"reason":"x"}`, nil); status != http.StatusOK ||
		!strings.Contains(body, `"left_out":true`) {
		t.Errorf("all accounts of an attack: %d %s", status, body)
	}
	if after := c.power(t, "ann"); after != before {
		t.Errorf("before %s, after %s", before, after)
	}
	// Sessions are ended as often as wanted: the password still admits.
	if status, body := c.program(t, "DELETE", "/api/administrators/sessions?username=ann", "", nil); status != http.StatusOK {
		t.Errorf("the own sessions: %d %s", status, body)
	}
	c.browser = newBrowser(t)
	c.admit(t, "ann", accounts.Admin, false)
}
