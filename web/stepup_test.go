package web_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/codes"
	"authguard/internal/outbox"
)

var mailedCode = regexp.MustCompile(`(?m)^    ([A-Z2-7]{4}(?:-[A-Z2-7]{4}){3})$`)

// refused are the answers, by kind, to the right and wrong passwords of an account and of an unknown one, each from a
// client of its own: all alike, and none signs in.
func (h *home) refused(t *testing.T) map[string]string {
	t.Helper()
	answers := map[string]string{}
	for i, c := range []struct{ account, password string }{
		{"alice", right}, {"alice", "wrong"}, {"unknown", right}, {"unknown", "wrong"},
	} {
		for _, accept := range []string{page, "application/json"} {
			b := h.browser(accept)
			b.from = "198.51.100." + string(rune('1'+i)) + map[bool]string{true: "0"}[accept == page]
			w := b.login(c.account, c.password)
			body := strings.ReplaceAll(w.Body.String(), c.account, "NAME")
			if first, ok := answers[accept]; ok && first != body {
				t.Errorf("%v is answered differently:\n%s\n%s", c, first, body)
			}
			if answers[accept] = body; w.Code != http.StatusUnauthorized || len(w.Result().Cookies()) > 0 {
				t.Errorf("%v: %d, %v", c, w.Code, w.Result().Cookies())
			}
		}
	}
	return answers
}

// While the site is throttled, a right password at an unknown client answers like a wrong one, and its owner gets a
// code by email, with which they sign in.
func TestR32TheOwnerOfARightPasswordGetsACode(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	sent := h.tells(t)
	h.door.AskCode = func(guard.Code) {}
	for i := range 11 {
		h.Mode.Observe(captchamode.Failure, [16]byte{byte(i)})
	}
	answers := h.refused(t)
	if !strings.Contains(answers[page], "we have emailed you a verification code") ||
		!strings.Contains(answers[page], `<details class="code" open>`) {
		t.Errorf("the page does not ask for the code:\n%s", answers[page])
	}
	link, text := sent()
	code := mailedCode.FindStringSubmatch(text)
	if code == nil || link == "" || !strings.Contains(text, "198.51.100.1") {
		t.Fatalf("the email:\n%s", text)
	}
	b := h.browser(page)
	b.from = "198.51.100.70"
	h.Clock.Advance(5e9) // it is throttled
	if w := b.login("alice", right, "code", code[1]); w.Code != http.StatusSeeOther {
		t.Errorf("with the code: %d\n%s", w.Code, w.Body)
	}
	h.Clock.Advance(5e9)
	if b.login("alice", right); h.browser(page).get(link).Code != http.StatusOK {
		t.Error("the link of the email is not good")
	}
}

// So does the owner of a possibly compromised account, who needs a code in any case.
func TestR32TheOwnerOfACompromisedAccountGetsACode(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	sent := h.tells(t)
	h.door.AskCode = func(guard.Code) {}
	if _, err := h.db.Exec(`UPDATE accounts SET needs_code = 1 WHERE username = 'alice'`); err != nil {
		t.Fatal(err)
	}
	h.browser(page).login("alice", right)
	if _, text := sent(); text != "" {
		t.Errorf("without a step-up the page promises no email:\n%s", text)
	}
	for i := range 11 {
		h.Mode.Observe(captchamode.Failure, [16]byte{byte(i)})
	}
	b := h.browser(page)
	b.from = "198.51.100.7"
	b.login("alice", right)
	if _, text := sent(); !mailedCode.MatchString(text) {
		t.Errorf("the email:\n%s", text)
	}
}

// codeFor is the realm's outbox.MailerConfig.Code.
func (h *home) codeFor(ctx context.Context, l outbox.Notice) (string, func(context.Context) error, error) {
	code, _, err := h.codes.Asked(ctx, codes.Grant{Account: l.Account, For: codes.DefaultLife, From: [16]byte{1},
		RightPassword: true})
	return code, func(ctx context.Context) error { return h.codes.Forget(ctx, code) }, err
}
