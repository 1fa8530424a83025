package web_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/audit"
	"authguard/internal/operation"
	"authguard/internal/outbox"
	"authguard/internal/passwords"
	"authguard/internal/testing/world"
	"authguard/trusted"
)

// letters are the emails about forgotten passwords.
type letters struct {
	sent    []outbox.Email
	mailers []*outbox.Mailer
}

// forgets lets users of the home reset their passwords.
func (h *home) forgets(t *testing.T) *letters {
	t.Helper()
	all := new(letters)
	open := func(c outbox.MailerConfig) *outbox.Mailer {
		c.Store = outbox.Store{DB: h.db, Now: h.Clock.Now, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
		c.Realm, c.Secret = guard.DefaultRealm, []byte("the server's secret")
		c.Find = func(ctx context.Context, _, name string) (string, error) {
			a, err := h.accounts.Get(ctx, name)
			if err != nil || a.Disabled || a.Role == accounts.Admin {
				return "", nil
			}
			return a.Email, nil
		}
		c.Send = func(_ context.Context, m outbox.Email) error { all.sent = append(all.sent, m); return nil }
		m, err := outbox.NewMailer(c)
		if err != nil {
			t.Fatal(err)
		}
		all.mailers = append(all.mailers, m)
		return m
	}
	h.door.Resets = open(outbox.MailerConfig{
		Purpose: outbox.AboutReset,
		Version: func(ctx context.Context, l outbox.Notice) (int64, error) {
			a, err := h.accounts.Get(ctx, l.Account)
			return a.Version, err
		},
		Write: func(l outbox.Notice, token string) (string, string) {
			return h.look.Email(outbox.AboutReset, "en", "https://login.example.org", l, token)
		},
	})
	h.door.Changes = open(outbox.MailerConfig{
		Purpose: outbox.AboutPasswordChange,
		Write: func(l outbox.Notice, _ string) (string, string) {
			return h.look.Email(outbox.AboutPasswordChange, "en", "", l, "")
		},
	})
	h.serve()
	return all
}

// challengeOn is the ID of the challenge on a page.
func challengeOn(t *testing.T, page string) string {
	t.Helper()
	found := challengeID.FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no challenge:\n%s", page)
	}
	return found[1]
}

var resetLink = regexp.MustCompile(`https://login\.example\.org(/login/reset/\S+)`)

// link sends the waiting emails, and returns the path of the newest link.
func (l *letters) link(t *testing.T) string {
	t.Helper()
	for _, m := range l.mailers {
		m.SendDue(t.Context())
	}
	for i := len(l.sent) - 1; i >= 0; i-- {
		if found := resetLink.FindStringSubmatch(l.sent[i].Text); found != nil {
			return found[1]
		}
	}
	t.Fatalf("no link in %+v", l.sent)
	return ""
}

func TestAForgottenPasswordIsResetByEmail(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	all := h.forgets(t)
	owner, elsewhere := h.browser(page), h.browser(page)
	elsewhere.login("alice", right)
	if w := owner.get("/login").Body.String(); !strings.Contains(w, `href="/login/forgot"`) {
		t.Errorf("the sign-in page has no link:\n%s", w)
	}
	if w := owner.post("/login/forgot", "username", "Alice@example.org"); w.Code != http.StatusAccepted {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	to := all.link(t)
	for range 2 { // a mail scanner opens the link
		w := owner.get(to)
		if w.Code != http.StatusOK || w.Header().Get("Referrer-Policy") != "no-referrer" || w.Header().Get("Cache-Control") != "no-store" ||
			strings.Contains(w.Body.String(), "current_password") || strings.Contains(w.Body.String(), "example.com") { // Host
			t.Fatalf("%d %v\n%s", w.Code, w.Header(), w.Body)
		}
	}
	if w := owner.post(to, "new_password", "leaked password"); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "known from leaks") {
		t.Errorf("a leaked password: %d\n%s", w.Code, w.Body)
	}
	if w := owner.post(to, "new_password", "short", "repeat_password", "other"); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "too short") {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
	if w := elsewhere.get("/account"); w.Code != http.StatusOK {
		t.Errorf("a session ended before the reset: %d", w.Code)
	}
	if w := owner.post(to, "new_password", chosen, "repeat_password", chosen); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/login?reset=1" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if w := owner.get("/login?reset=1").Body.String(); !strings.Contains(w, "Your password was changed") {
		t.Errorf("the sign-in page does not say so:\n%s", w)
	}
	for _, w := range []int{owner.get(to).Code, owner.post(to, "new_password", right, "repeat_password", right).Code} {
		if w != http.StatusNotFound {
			t.Errorf("the link works twice: %d", w)
		}
	}
	if w := elsewhere.get("/account"); w.Code != http.StatusSeeOther {
		t.Errorf("a session goes on: %d", w.Code)
	}
	all.mailers[1].SendDue(t.Context())
	if last := all.sent[len(all.sent)-1]; last.Subject != "Your password was changed" || last.To != "alice@example.org" {
		t.Errorf("the owner is not notified: %+v", last)
	}
	if w := owner.login("alice", right); w.Code != http.StatusUnauthorized {
		t.Errorf("the old password: %d", w.Code)
	}
	if w := owner.login("alice", chosen); w.Code != http.StatusSeeOther {
		t.Errorf("the new password: %d", w.Code)
	}
	rows, err := h.audit.Recent(t.Context(), audit.Filter{Kind: audit.KindAdmin, Limit: 10})
	if err != nil || len(rows) != 1 || rows[0].Decision != "user-reset-password" || rows[0].Who != "user:alice" || strings.Contains(rows[0].Detail, to) {
		t.Errorf("on record: %+v %v", rows, err)
	}
}

// R14: an attacker whose browser is known would stay so.
func TestR14AResetRemovesAllKnownClients(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	all := h.forgets(t)
	attacker, owner := h.browser(page), h.browser(page)
	attacker.from = "198.51.100.7"
	attacker.login("alice", right)
	known := func(address string) bool { return h.Status(t, "alice", address) == trusted.Known }
	if !known(attacker.from) {
		t.Fatal("the attacker is not known")
	}
	owner.post("/login/forgot", "username", "alice")
	owner.post(all.link(t), "new_password", chosen, "repeat_password", chosen)
	if known(attacker.from) || known("192.0.2.1") {
		t.Error("a client is known after the reset")
	}
	if owner.login("alice", chosen); !known("192.0.2.1") {
		t.Error("the browser that reset is not known after its login")
	}
}

// R12: the response does not depend on the account, and comes before any lookup.
func TestR12AForgottenPasswordRevealsNoAccount(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	all := h.forgets(t)
	for _, a := range []accounts.Addition{{Username: "mute"}, {Username: "gone", Email: "gone@example.org"}, {Username: "root1", Email: "root1@example.org", Role: accounts.Admin}} {
		a.Password = right
		if _, err := h.accounts.Add(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.control.Do(t.Context(), operation.By{Who: "admin:eve"}, accounts.DisableUser{OfAccount: operation.OfAccount{Username: "gone"}}); err != nil {
		t.Fatal(err)
	}
	var answers, headers []string
	for i, name := range []string{"alice", "mute", "gone", "root1", "nobody"} {
		b := h.browser(page)
		b.from = []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5"}[i]
		w := b.post("/login/forgot", "username", name)
		w.Header().Del("Date")
		w.Header().Del("Content-Length") // the page repeats the name
		answers = append(answers, strings.ReplaceAll(w.Body.String(), name, "NAME"))
		headers = append(headers, fmt.Sprint(w.Header()))
		if w.Code != http.StatusAccepted || answers[i] != answers[0] || headers[i] != headers[0] || len(w.Result().Cookies()) > 0 {
			t.Errorf("%s: %d %s\n%s", name, w.Code, headers[i], w.Body)
		}
	}
	for _, m := range all.mailers {
		m.SendDue(t.Context())
	}
	if len(all.sent) != 1 || all.sent[0].To != "alice@example.org" {
		t.Errorf("%+v", all.sent)
	}
	if w := h.browser(page).get("/login/reset/" + strings.Repeat("A", 26) + "-1." + strings.Repeat("A", 26)); w.Code != http.StatusNotFound || w.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("a made-up link: %d", w.Code)
	}
}

// R12: the answer comes before the account is looked up, so its time reveals nothing either.
func TestR12AForgottenPasswordIsAnsweredBeforeTheLookUp(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	all := h.forgets(t)
	if _, err := h.db.Exec(`ALTER TABLE accounts RENAME TO away`); err != nil {
		t.Fatal(err)
	}
	if w := h.browser(page).post("/login/forgot", "username", "alice"); w.Code != http.StatusAccepted {
		t.Errorf("without the table: %d %s", w.Code, w.Body)
	}
	if _, err := h.db.Exec(`ALTER TABLE away RENAME TO accounts`); err != nil {
		t.Fatal(err)
	}
	if all.link(t); len(all.sent) != 1 {
		t.Errorf("%d emails", len(all.sent))
	}
}

// R19: a new password's hash costs as much as a password check.
func TestR19AResetWaitsLikeAPasswordCheck(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	queue, err := passwords.NewQueue(passwords.QueueConfig{AtOnce: 1, Queue: 1})
	if err != nil {
		t.Fatal(err)
	}
	h.door.Passwords.Gate = queue
	all := h.forgets(t)
	b := h.browser(page)
	b.post("/login/forgot", "username", "alice")
	to := all.link(t)
	leave, err := queue.Enter(t.Context(), passwords.Request{Known: true})
	if err != nil {
		t.Fatal(err)
	}
	waiting, done := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { _, _ = queue.Enter(waiting, passwords.Request{Known: true}); close(ended) }()
	for queue.State().Known == 0 {
		runtime.Gosched()
	}
	if w := b.post(to, "new_password", chosen, "repeat_password", chosen); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("overloaded: %d %s", w.Code, w.Body)
	}
	done()
	<-ended
	leave()
	if w := b.post(to, "new_password", chosen, "repeat_password", chosen); w.Code != http.StatusSeeOther {
		t.Errorf("the link is used up: %d %s", w.Code, w.Body)
	}
}

// Of two requests with one link, one sets the password, even if both have read the link before.
func TestAnAccountsVersionAdmitsOneNewPassword(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	before, err := h.accounts.Get(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	reset := func(password string) error {
		return h.control.Accounts.ResetPassword(t.Context(), "alice", password, before.Version, netip.MustParseAddr("192.0.2.1"))
	}
	if err := reset(chosen); err != nil {
		t.Fatal(err)
	}
	if err := reset("the attacker's choice"); !errors.Is(err, accounts.ErrUnknown) {
		t.Errorf("twice: %v", err)
	}
	if w := h.browser(page).login("alice", chosen); w.Code != http.StatusSeeOther {
		t.Errorf("the first new password: %d", w.Code)
	}
}

// A request counts like a failed attempt from its IP address, for any name.
func TestRequestsForLinksAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	all := h.forgets(t)
	b := h.browser(page)
	accepted := 0
	for i := range 20 {
		w := b.post("/login/forgot", "username", []string{"alice", "nobody"}[i%2])
		if w.Code == http.StatusAccepted {
			accepted++
		} else if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `name="captcha_id"`) {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if accepted != 10 {
		t.Errorf("%d requests without a challenge", accepted)
	}
	w := b.post("/login/forgot", "username", "alice")
	id := challengeOn(t, w.Body.String())
	if w := b.post("/login/forgot", "username", "alice", "captcha_id", id, "captcha_answer", "41"); w.Code != http.StatusForbidden {
		t.Errorf("a wrong solution: %d", w.Code)
	}
	id = challengeOn(t, b.post("/login/forgot", "username", "alice").Body.String())
	if w := b.post("/login/forgot", "username", "alice", "captcha_id", id, "captcha_answer", world.Answer); w.Code != http.StatusAccepted {
		t.Errorf("solved: %d %s", w.Code, w.Body)
	}
	if all.link(t); len(all.sent) != outbox.MostADay {
		t.Errorf("%d emails", len(all.sent))
	}
	other := h.browser(page)
	other.from = "198.51.100.9"
	for i := range 11 {
		want := http.StatusBadRequest
		if i == 10 { // invalid names count, too
			want = http.StatusForbidden
		}
		if w := other.post("/login/forgot", "username", "a\u200bb"); w.Code != want {
			t.Errorf("invalid name %d: %d, want %d", i, w.Code, want)
		}
	}
}

func TestInCAPTCHAModeALinkNeedsAChallenge(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	all := h.forgets(t)
	h.Force(t)
	b := h.browser(page)
	id := challengeOn(t, b.get("/login/forgot").Body.String())
	if w := b.post("/login/forgot", "username", "alice"); w.Code != http.StatusForbidden {
		t.Errorf("without a solution: %d", w.Code)
	}
	if w := b.post("/login/forgot", "username", "alice", "captcha_id", id, "captcha_answer", world.Answer); w.Code != http.StatusAccepted {
		t.Errorf("solved: %d %s", w.Code, w.Body)
	}
	if all.link(t); len(all.sent) != 1 {
		t.Errorf("%d emails", len(all.sent))
	}
}

func TestALinkExpiresAndIsVoidAfterAnotherChange(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	all := h.forgets(t)
	b := h.browser(page)
	b.post("/login/forgot", "username", "alice")
	to := all.link(t)
	h.Clock.Advance(30 * time.Minute)
	if w := b.post(to, "new_password", chosen, "repeat_password", chosen); w.Code != http.StatusNotFound {
		t.Errorf("expired: %d", w.Code)
	}
	b.post("/login/forgot", "username", "alice")
	first := all.link(t)
	h.Clock.Advance(time.Second)
	b.post("/login/forgot", "username", "alice")
	newest := all.link(t)
	if first == newest || b.get(first).Code != http.StatusNotFound || b.get(newest).Code != http.StatusOK {
		t.Error("not the newest link alone is valid")
	}
	h.mustChange(t, oneTime)
	if w := b.post(newest, "new_password", chosen, "repeat_password", chosen); w.Code != http.StatusNotFound {
		t.Errorf("after an administrator's new password: %d", w.Code)
	}
}

// deaf is a store that does not answer: it is down, or the client has hung up in the middle of the request.
type deaf struct{ guard.Store }

func (deaf) Begin(context.Context, *guard.Charge) error { return context.Canceled }

// R27: a request that is not counted sends nothing. Otherwise clients that hang up have no limit and no challenge.
func TestR27ARequestThatIsNotCountedSendsNoLink(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.door.Guard = h.Second(t, func(c *guard.Config) { c.Store = deaf{c.Store} }).Guard
	all := h.forgets(t)
	if w := h.browser(page).post("/login/forgot", "username", "alice"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, m := range all.mailers {
		m.SendDue(t.Context())
	}
	if len(all.sent) > 0 {
		t.Errorf("sent: %+v", all.sent)
	}
}

// A new account of the same name may have another owner.
func TestALinkOfADeletedAccountDoesNotOpenItsSuccessor(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	all := h.forgets(t)
	b := h.browser(page)
	b.post("/login/forgot", "username", "alice")
	to := all.link(t)
	if _, err := h.control.Do(t.Context(), operation.By{Who: "admin:eve"}, accounts.DeleteUser{OfAccount: operation.OfAccount{Username: "alice"}}); err != nil {
		t.Fatal(err)
	}
	h.Clock.Advance(time.Minute)
	if _, err := h.accounts.Add(t.Context(), accounts.Addition{Username: "alice", Email: "other@example.org", Password: right}); err != nil {
		t.Fatal(err)
	}
	if w := b.get(to); w.Code != http.StatusNotFound {
		t.Errorf("the page: %d", w.Code)
	}
	if w := b.post(to, "new_password", chosen, "repeat_password", chosen); w.Code != http.StatusNotFound {
		t.Errorf("the form: %d", w.Code)
	}
	if w := b.login("alice", right); w.Code != http.StatusSeeOther {
		t.Errorf("the successor's password: %d", w.Code)
	}
}
