package web_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"authguard/guard"
	"authguard/internal/outbox"
)

// A leaked right password from an unknown client answers like a wrong one, on the list or not, for every account. Its
// owner gets the code of a step-up, signs in with it, and is asked for a new password. Known clients are asked, too.
func TestR32TheOwnerOfALeakedPasswordGetsACode(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	sent := h.tells(t)
	h.door.AskCode = func(guard.Code) {}
	h.leaked.Set(func(password string) bool { return password == right })
	answers := h.refused(t)
	if !strings.Contains(answers[page], "we have emailed you a verification code") {
		t.Errorf("the page does not ask for the code:\n%s", answers[page])
	}
	_, text := sent()
	code := mailedCode.FindStringSubmatch(text)
	if code == nil || !strings.Contains(text, "known from leaks") {
		t.Fatalf("the email:\n%s", text)
	}
	b := h.browser(page)
	b.from = "198.51.100.70"
	for _, try := range []struct{ code, what string }{{code[1], "with the code"}, {"", "known from then on"}} {
		w := b.login("alice", right, "code", try.code, "next", "/app")
		if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || to != "/account/password?leaked=1&next=%2Fapp" {
			t.Errorf("%s: %d to %s\n%s", try.what, w.Code, to, w.Body)
		}
	}
	if w := b.get("/account/password?leaked=1&next=%2Fapp"); !strings.Contains(w.Body.String(), "known from leaks") ||
		!strings.Contains(w.Body.String(), `<a href="/app">Not now</a>`) {
		t.Errorf("%s", w.Body)
	}
	if w := b.get("/account/password?leaked=1&next=https://evil.example/"); !strings.Contains(w.Body.String(), `<a href="/account">Not now</a>`) {
		t.Errorf("%s", w.Body)
	}
	program := h.browser("application/json")
	program.from = "198.51.100.70"
	if w := program.login("alice", right); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"password_leaked":true`) {
		t.Errorf("a program: %d %s", w.Code, w.Body)
	}
	h.leaked.Set(nil)
	if w := b.login("alice", right, "next", "/app"); w.Header().Get("Location") != "/app" {
		t.Errorf("another password: %d to %s", w.Code, w.Header().Get("Location"))
	}
}

// The owner of a leaked password is notified of a login once in 30 days.
func TestTheOwnerOfALeakedPasswordIsNotifiedOnceAMonth(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.leaked.Set(func(password string) bool { return password == right })
	var letters []outbox.Email
	mailer, err := outbox.NewMailer(outbox.MailerConfig{
		Store: outbox.Store{DB: h.db, Now: h.Clock.Now, Log: quiet}, Realm: guard.DefaultRealm, Secret: []byte("the server's secret"), Purpose: outbox.AboutLeakedPassword,
		Find: func(context.Context, string, string) (string, error) { return "alice@example.org", nil },
		Write: func(l outbox.Notice, _ string) (string, string) {
			return h.look.Email(outbox.AboutLeakedPassword, "en", "", l, "")
		},
		Send: func(_ context.Context, m outbox.Email) error { letters = append(letters, m); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	h.door.Leaked = mailer
	for day := range 62 {
		if w := h.browser(page).login("alice", right); w.Code != http.StatusSeeOther {
			t.Fatalf("day %d: %d\n%s", day, w.Code, w.Body)
		}
		mailer.SendDue(t.Context())
		h.Clock.Advance(24 * 3600e9)
	}
	if len(letters) != 3 || !strings.Contains(letters[0].Text, "known from leaks") || letters[0].To != "alice@example.org" {
		t.Errorf("%d emails: %+v", len(letters), letters)
	}
}
