package web_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/attacks"
	"authguard/internal/audit"
	"authguard/internal/codes"
	"authguard/internal/control"
	"authguard/internal/database"
	"authguard/internal/database/databasetest"
	"authguard/internal/lists"
	"authguard/internal/metrics"
	"authguard/internal/mfa"
	"authguard/internal/operation"
	"authguard/internal/outbox"
	"authguard/internal/passwords"
	"authguard/internal/policy"
	"authguard/internal/route"
	"authguard/internal/sessions"
	"authguard/internal/testing/world"
	"authguard/internal/times"
	"authguard/trusted"
	"authguard/web"
)

// A home is a house whose accounts, sessions and one-time codes are in a database, with
// the page /account.
type home struct {
	*house
	db       *sql.DB
	accounts *accounts.Table
	codes    *codes.Table
	audit    *audit.Log
	control  *control.Control
	running  *sessions.Store
	door     *web.Login
	inside   *world.World // the administrators' sign-in
	leaked   *guard.LeakedPasswords
}

func newHome(t *testing.T) *home {
	t.Helper()
	return newHomeWith(t, func(*control.Config) {})
}

// newHomeWith is newHome with another configuration of its Control.
func newHomeWith(t *testing.T, change func(*control.Config)) *home {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db := databasetest.SQLite(t)
	codes := codes.New(db, nil)
	leaked := new(guard.LeakedPasswords)
	h := &home{house: newHouseWith(t, world.Options{Start: time.Now().Truncate(time.Second), Codes: codes, Leaked: leaked}), db: db, codes: codes, leaked: leaked}
	gate, err := passwords.NewQueue(passwords.QueueConfig{AtOnce: 4, Queue: 16, MaxWait: time.Minute})
	must(err)
	checker, err := passwords.NewChecker(bcrypt.MinCost, nil)
	must(err)
	h.accounts, err = accounts.New(t.Context(), accounts.Config{DB: db, Normalise: guard.NormaliseAccount, Hash: checker.Hash, Now: h.Clock.Now,
		Leaked: func(password string) bool { return password == "leaked password" }})
	must(err)
	running, err := sessions.New(sessions.Config{DB: db, Now: h.Clock.Now})
	must(err)
	h.running = running
	second, err := mfa.New(mfa.Config{DB: db, Secret: []byte("the server's secret"), Now: h.Clock.Now})
	must(err)
	watcher := database.NewWatcher(db, h.Clock.Now, quiet)
	told, err := alerts.New(alerts.Config{PerHour: 1}, outbox.Store{DB: db, Alone: true, Now: h.Clock.Now, Log: quiet})
	must(err)
	h.audit = audit.New(db, audit.Config{Logger: quiet})
	h.inside = h.Second(t, func(c *guard.Config) { c.Codes, c.Observer = codes.Of("administration"), h.World })
	listings := lists.New(db)
	listings.Memory = h.Lists
	steered := control.Config{
		Guard: h.Guard, Administration: h.inside.Guard, Mode: h.Mode, IPLists: control.IPLists{Listings: listings}, Tables: accounts.Tables{Accounts: h.accounts, Sessions: running, Codes: codes, Tokens: accounts.NewTokens(db), MFA: second},
		Users: accounts.Users{DirectoryOf: nobodys}, Sinks: control.Sinks{Audit: h.audit, Attacks: attacks.New(attacks.Config{DB: db, Secret: []byte("secret"), Now: h.Clock.Now, Log: quiet}), Alerts: told, Effects: policy.NewEffects(db, []byte("secret"), h.Clock.Now, quiet), Tops: new(metrics.Tops)}, Policies: control.Policies{Overrides: policy.NewTable(db)}, Changes: watcher, Now: h.Clock.Now, Log: quiet,
	}
	change(&steered)
	h.control, err = control.New(steered)
	must(err)
	h.door = &web.Login{
		Guard: h.Guard, Edge: new(web.Edge), Integration: "login", Log: quiet, Hold: new(atomic.Int64), Look: h.look, LoginUsers: web.LoginUsers{Control: h.control, Passwords: &web.Passwords{Source: h.accounts, Gate: gate, Checker: checker, Log: quiet}, Sessions: web.NewSessions(web.SessionConfig{Store: running, Source: h.accounts, Integration: "login", Lifetime: 24 * time.Hour, Now: h.Clock.Now})}, Access: new(atomic.Pointer[route.AccessRules]),
	}
	h.serve()
	_, err = h.accounts.Add(t.Context(), accounts.Addition{Username: "alice", Email: "alice@example.org", Password: right})
	must(err)
	return h
}

// serve makes the door's handler anew.
func (h *home) serve() {
	h.Handler = (&web.Public{Login: h.door, API: h.api, Challenges: h.Challenges, Look: h.look, Log: quiet}).Handler()
}

// mustChange makes a password of alice's that is good for choosing another one only.
func (h *home) mustChange(t *testing.T, password string) {
	t.Helper()
	if _, err := h.control.Do(t.Context(), operation.By{Who: "admin:eve"}, accounts.SetPassword{OfAccount: operation.OfAccount{Username: "alice"}, Password: password, MustChange: true}); err != nil {
		t.Fatal(err)
	}
}

// form posts a form of a page with the session's token.
func (b *browser) form(t *testing.T, page, path string, fields ...string) (status int, to, body string) {
	t.Helper()
	found := csrfField.FindStringSubmatch(b.get(page).Body.String())
	if found == nil {
		t.Fatalf("%s has no form", page)
	}
	w := b.post(path, append(fields, "csrf", found[1])...)
	return w.Code, w.Header().Get("Location"), w.Body.String()
}

const oneTime, chosen = "one time only", "battery staple"

// A password that has to be changed opens its page and nothing else: no app behind a
// gateway, no page of ours. The new one opens all of it, where the person was going.
func TestAOneTimePasswordOfAUserIsGoodForChoosingAnotherOneOnly(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.mustChange(t, oneTime)
	b := h.browser(page)
	if w := b.login("alice", oneTime, "next", "/app"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/account/password?next=%2Fapp" {
		t.Fatalf("%d to %s", w.Code, w.Header().Get("Location"))
	}
	opens := func(path string) (int, string) {
		w := b.get(path)
		return w.Code, w.Header().Get("Location")
	}
	if status, _ := opens("/auth/verify"); status != http.StatusUnauthorized {
		t.Errorf("an app opens: %d", status)
	}
	for path, want := range map[string]string{"/account": "/account/password", "/login": "/account/password", "/login?next=/app": "/account/password?next=%2Fapp"} {
		if status, to := opens(path); status != http.StatusSeeOther || to != want {
			t.Errorf("%s: %d to %s", path, status, to)
		}
	}
	for say, fields := range map[string][]string{
		"is the same as the current one": {"new_password", oneTime, "repeat_password", oneTime},
		"too short":                      {"new_password", "short", "repeat_password", "short"},
		"common or known from leaks":     {"new_password", "leaked password", "repeat_password", "leaked password"},
		"passwords do not match":         {"new_password", chosen, "repeat_password", chosen + "x"},
	} {
		if status, _, body := b.form(t, "/account/password", "/account/password", fields...); status != http.StatusUnprocessableEntity || !strings.Contains(body, say) {
			t.Errorf("%s: %d\n%s", say, status, body)
		}
	}
	if w := b.post("/account/password", "new_password", chosen, "repeat_password", chosen); w.Code != http.StatusForbidden {
		t.Errorf("without the session's token: %d", w.Code)
	}
	before := b.cookies["authguard_login"].Value
	status, to, body := b.form(t, "/account/password?next=/app", "/account/password", "new_password", chosen, "repeat_password", chosen, "next", "/app")
	if status != http.StatusSeeOther || to != "/app" {
		t.Fatalf("%d to %s\n%s", status, to, body)
	}
	if b.cookies["authguard_login"].Value == before {
		t.Error("the session is the one that was good for nothing else")
	}
	if status, _ := opens("/auth/verify"); status != http.StatusOK {
		t.Errorf("the app stays closed: %d", status)
	}
	if h.Status(t, "alice", b.from) != trusted.Known {
		t.Error("the place is not known")
	}
	if w := h.browser(page).login("alice", oneTime); w.Code != http.StatusUnauthorized {
		t.Errorf("the one-time password is still good: %d", w.Code)
	}
}

func TestAProgramIsToldToSendAnotherPassword(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.mustChange(t, oneTime)
	b := h.browser("application/json")
	w := b.login("alice", oneTime)
	var p web.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusForbidden || p.Type != web.ChangeRequired {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if w := b.get("/auth/verify"); w.Code != http.StatusUnauthorized {
		t.Errorf("an app opens: %d", w.Code)
	}
	if w := b.do("POST", "/account/password", "application/json", `{"new_password":"short"}`); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "too short") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := b.do("POST", "/account/password", "application/json", `{"new_password":"`+chosen+`"}`); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"alice"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := b.get("/auth/verify"); w.Code != http.StatusOK {
		t.Errorf("the app stays closed: %d", w.Code)
	}
	if w := h.browser("application/json").do("POST", "/account/password", "application/json", `{"new_password":"`+right+`"}`); w.Code != http.StatusUnauthorized {
		t.Errorf("without a session: %d", w.Code)
	}
}

// Ten minutes after the one-time password was typed it is asked for again, through the
// guard.
func TestAOneTimePasswordIsAskedForAgainLater(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.mustChange(t, oneTime)
	b := h.browser(page)
	b.login("alice", oneTime)
	h.Clock.Advance(11 * time.Minute)
	if _, _, body := b.form(t, "/account/password", "/account/password", "new_password", chosen, "repeat_password", chosen); !strings.Contains(body, "current password is wrong") {
		t.Error("it is not asked for")
	}
	if status, _, _ := b.form(t, "/account/password", "/account/password", "current_password", oneTime, "new_password", chosen, "repeat_password", chosen); status != http.StatusSeeOther {
		t.Errorf("%d", status)
	}
}

// Whose password somebody else may have: that one alone opens nothing from a place that is
// not known, and answers like a wrong one; nor does it choose the next one. The owner
// brings a one-time code.
func TestWhoHasAPasswordThatIsDoubtedGetsNowhereWithItAlone(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	owner, thief := h.browser(page), h.browser(page)
	owner.from, thief.from = "192.0.2.1", "198.51.100.66"
	for _, b := range []*browser{owner, thief} {
		if w := b.login("alice", right); w.Code != http.StatusSeeOther {
			t.Fatal(w.Code)
		}
	}
	if _, err := h.control.Do(t.Context(), operation.By{Who: "admin:eve"}, accounts.AskPassword{OfAccount: operation.OfAccount{Username: "alice"}}); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*browser{"owner": owner, "thief": thief} {
		if w := b.get("/auth/verify"); w.Code != http.StatusUnauthorized {
			t.Errorf("the session of the %s goes on: %d", name, w.Code)
		}
	}
	wrong := says(thief.login("alice", "wrong"), "alice")
	if got := says(thief.login("alice", right), "alice"); got != wrong {
		t.Errorf("the right password is answered otherwise than a wrong one:\n%s\n%s", got, wrong)
	}
	if w := thief.get("/account/password"); w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), "/login?") {
		t.Errorf("the thief may choose: %d to %s", w.Code, w.Header().Get("Location"))
	}
	code, _, err := h.codes.Issue(t.Context(), codes.Grant{Account: "alice", For: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if w := owner.login("alice", right, "code", code); w.Header().Get("Location") != "/account/password" {
		t.Fatalf("the owner does not get in: %d\n%s", w.Code, w.Body)
	}
	if status, to, _ := owner.form(t, "/account/password", "/account/password", "new_password", chosen, "repeat_password", chosen); status != http.StatusSeeOther {
		t.Fatalf("%d to %s", status, to)
	}
	if account, err := h.accounts.Get(t.Context(), "alice"); err != nil || account.MustChange || account.NeedsCode {
		t.Errorf("%+v %v", account, err)
	}
	if w := h.browser(page).login("alice", chosen); w.Code != http.StatusSeeOther {
		t.Errorf("the new password needs more: %d", w.Code)
	}
}

// A login that had begun before the places were forgotten makes its place known again when
// it ends: that is no way in for the password alone.
func TestALoginOnItsWayDoesNotOpenADoubtedAccount(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	thief := h.browser(page)
	thief.from = "198.51.100.66"
	if w := thief.login("alice", right); w.Code != http.StatusSeeOther {
		t.Fatal(w.Code)
	}
	d, err := h.Begin(t.Context(), world.From("alice", thief.from))
	if err != nil || d.Action != guard.Proceed || !d.Known {
		t.Fatalf("%+v %v", d, err)
	}
	if _, err := h.control.Do(t.Context(), operation.By{Who: "admin:eve"}, accounts.AskPassword{OfAccount: operation.OfAccount{Username: "alice"}}); err != nil {
		t.Fatal(err)
	}
	h.Clock.Advance(time.Second)
	if err := h.Settle(t.Context(), d.Ticket, guard.Succeeded); err != nil || h.Status(t, "alice", thief.from) != trusted.Known {
		t.Fatalf("the place is not known again: %v", err)
	}
	if w := thief.login("alice", right); w.Code != http.StatusUnauthorized {
		t.Errorf("the thief gets in: %d to %s", w.Code, w.Header().Get("Location"))
	}
}

// A request that was begun while its session was good, and is sent to its end after the
// account was closed, chooses no password.
func TestAHalfSentRequestDoesNotOutliveItsSession(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(h *home) string{
		"a user's session": func(*home) string { return right },
		"one that was good for choosing a password only": func(h *home) string { h.mustChange(t, oneTime); return oneTime },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			password := begin(h)
			thief := h.browser(page)
			if w := thief.login("alice", password); w.Code != http.StatusSeeOther {
				t.Fatal(w.Code)
			}
			csrf := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(thief.get("/account/password").Body.String())[1]
			form := url.Values{"csrf": {csrf}, "current_password": {password}, "new_password": {chosen}, "repeat_password": {chosen}}
			r := httptest.NewRequest(http.MethodPost, "/account/password", &closing{text: strings.NewReader(form.Encode()), before: func() {
				if _, err := h.control.Do(t.Context(), operation.By{Who: "admin:eve"}, accounts.AskPassword{OfAccount: operation.OfAccount{Username: "alice"}}); err != nil {
					t.Error(err)
				}
			}})
			r.RemoteAddr = thief.from + ":1234"
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Accept", page)
			for _, c := range thief.cookies {
				r.AddCookie(c)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/login" {
				t.Errorf("%d to %s", w.Code, w.Header().Get("Location"))
			}
			if account, err := h.accounts.Get(t.Context(), "alice"); err != nil || !account.NeedsCode || !account.MustChange {
				t.Errorf("the account is open again: %+v %v", account, err)
			}
			if h.Status(t, "alice", thief.from) == trusted.Known {
				t.Error("the place is known")
			}
		})
	}
}

// A closing is a body before which something happens.
type closing struct {
	text   io.Reader
	before func()
}

func (c *closing) Read(into []byte) (int, error) {
	if c.before != nil {
		c.before()
		c.before = nil
	}
	return c.text.Read(into)
}

// A person's own change asks for the present password, under the limits of a login.
func TestAUserChangesTheirPasswordWithThePresentOne(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	b, other := h.browser(page), h.browser(page)
	other.from = "198.51.100.7"
	b.login("alice", right)
	other.login("alice", right)
	if _, _, body := b.form(t, "/account/password", "/account/password", "current_password", "not it at all", "new_password", chosen, "repeat_password", chosen); !strings.Contains(body, "current password is wrong") {
		t.Error("a wrong one is taken")
	}
	status, to, _ := b.form(t, "/account/password", "/account/password", "current_password", right, "new_password", chosen, "repeat_password", chosen)
	if status != http.StatusSeeOther || to != "/account?done=password" {
		t.Fatalf("%d to %s", status, to)
	}
	if other.get("/auth/verify").Code != http.StatusUnauthorized || b.get("/auth/verify").Code != http.StatusOK {
		t.Error("it is the other session that has to end")
	}
	stop := 0
	for i := range 25 { // the place's own budget is 20 an hour
		status, _, _ := b.form(t, "/account/password", "/account/password", "current_password", "guess "+string(rune('a'+i)), "new_password", right, "repeat_password", right)
		if status == http.StatusForbidden || status == http.StatusTooManyRequests {
			stop++
		}
	}
	if stop < 5 {
		t.Errorf("an open session guesses on: %d of 25 were stopped", stop)
	}
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// nobodys is control.Config.DirectoryOf where all accounts log in at the public door.
func nobodys(context.Context, string) (string, error) { return "", nil }

// remember writes what was observed so far into the audit log.
func (h *home) remember(t *testing.T) {
	t.Helper()
	h.audit.Handle(h.Events())
	h.audit.Tick(h.Clock.Now())
	ctx, stop := context.WithCancel(t.Context())
	stop()
	h.audit.Run(ctx) // which writes what waits
}

// tells has owners told by letters; it returns the newest one's link.
func (h *home) tells(t *testing.T) func() (path, text string) {
	t.Helper()
	var text string
	mailer, err := outbox.NewMailer(outbox.MailerConfig{
		Store: outbox.Store{DB: h.db, Now: h.Clock.Now, Log: slog.New(slog.NewTextHandler(t.Output(), nil))},
		Realm: guard.DefaultRealm, Purpose: outbox.AboutNewClient, Secret: []byte("the server's secret"),
		Find: func(context.Context, string, string) (string, error) { return "alice@example.org", nil },
		Write: func(l outbox.Notice, token string) (string, string) {
			return h.look.Email(outbox.AboutNewClient, "en", "https://login.example.org", l, token)
		},
		Send: func(_ context.Context, l outbox.Email) error { text = l.Text; return nil }, Code: h.codeFor,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.door.Notices, h.door.NotifyNewClient = mailer, true
	h.serve()
	return func() (string, string) {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		stop()
		mailer.Run(ctx)
		mailer.SendDue(t.Context())
		link := regexp.MustCompile(`https://login\.example\.org(/login/not-me/\S+)`).FindStringSubmatch(text)
		if link == nil {
			return "", text
		}
		return link[1], text
	}
}

func TestAnAccountShowsItsOwnerWhereItIsSignedInAndKnown(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	b, other := h.browser(page), h.browser(page)
	other.from = "198.51.100.7"
	other.login("alice", right)
	h.Clock.Advance(time.Minute)
	b.login("alice", right)
	h.remember(t)
	if w := h.browser(page).get("/account"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/login?next=%2Faccount" {
		t.Errorf("a stranger: %d to %s", w.Code, w.Header().Get("Location"))
	}
	if w := b.get("/login").Body.String(); !strings.Contains(w, `href="/account"`) || !strings.Contains(w, `href="/account/password"`) {
		t.Errorf("the page of a signed-in user does not lead to the account:\n%s", w)
	}
	if w := b.get("/.well-known/change-password"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/account/password" {
		t.Errorf("/.well-known/change-password: %d to %s", w.Code, w.Header().Get("Location"))
	}
	w := b.get("/account")
	for say, times := range map[string]int{"198.51.100.7": 8, "<b class=\"tag\">this session": 1, "<b class=\"tag\">this address": 1, "This was not me": 2} {
		if n := strings.Count(w.Body.String(), say); w.Code != http.StatusOK || n != times {
			t.Errorf("%d: %q stands there %d times", w.Code, say, n)
		}
	}
	for header, want := range map[string]string{"X-Frame-Options": "DENY", "Cache-Control": "no-store"} {
		if got := w.Header().Get(header); got != want {
			t.Errorf("%s: %q", header, got)
		}
	}
	if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
		t.Error(policy)
	}
	if said := b.get("/account?done=<script>").Body.String(); strings.Contains(said, "<script>") || strings.Contains(said, "account.done") {
		t.Error("what stands in the link is on the page")
	}
	for path, fields := range map[string][]string{
		"/account/sessions/end": {"id", "x"}, "/account/sessions/others": nil, "/account/forget": nil, "/account/not-me": nil, "/account/password": nil,
	} {
		if w := b.post(path, fields...); w.Code != http.StatusForbidden {
			t.Errorf("%s without the session's token: %d", path, w.Code)
		}
	}
	if _, to, _ := b.form(t, "/account", "/account/forget", "address", "198.51.100.7"); to != "/account?done=place" || h.Status(t, "alice", "198.51.100.7") != trusted.Unknown || h.Status(t, "alice", b.from) != trusted.Known {
		t.Errorf("forgetting one: to %s", to)
	}
	if _, to, _ := b.form(t, "/account", "/account/forget"); to != "/account?done=places" || h.Status(t, "alice", b.from) != trusted.Unknown {
		t.Errorf("forgetting all: to %s", to)
	}
	if status, _, _ := b.form(t, "/account", "/account/forget", "address", "none"); status != http.StatusBadRequest {
		t.Errorf("%d", status)
	}
	if _, to, _ := b.form(t, "/account", "/account/sessions/end", "id", strings.Repeat("0", 64)); to != "/account?done=ended" || other.get("/auth/verify").Code != http.StatusOK {
		t.Errorf("no session of theirs: to %s", to)
	}
	if _, to, _ := b.form(t, "/account", "/account/sessions/others"); to != "/account?done=others" || other.get("/auth/verify").Code != http.StatusUnauthorized || b.get("/auth/verify").Code != http.StatusOK {
		t.Errorf("ending the others: to %s", to)
	}
	found := regexp.MustCompile(`name="id" value="([0-9a-f]{64})"`).FindStringSubmatch(b.get("/account").Body.String())
	if _, to, _ := b.form(t, "/account", "/account/sessions/end", "id", found[1]); to != "/login?signed-out=1" || b.get("/auth/verify").Code != http.StatusUnauthorized {
		t.Errorf("ending this one: to %s", to)
	}
	rows, err := h.audit.Recent(t.Context(), audit.Filter{Kind: audit.KindAdmin})
	if err != nil || len(rows) != 3 || rows[0].Who != "user:alice" || rows[0].Decision != "session-end" {
		t.Errorf("%+v %v", rows, err)
	}
}

// A letter's link closes the account to a thief who has the password, once, and opens it
// to nobody: to look at it changes nothing.
func TestThatWasNotMeByALetter(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	letter := h.tells(t)
	owner, thief := h.browser(page), h.browser(page)
	owner.from, thief.from = "192.0.2.1", "198.51.100.66"
	owner.login("alice", right)
	if path, _ := letter(); path == "" {
		t.Fatal("the first place is new, too")
	}
	h.Clock.Advance(time.Hour)
	thief.login("alice", right)
	path, text := letter()
	if !strings.Contains(text, "198.51.100.66") || !strings.Contains(text, times.Text(h.Clock.Now().UTC())) {
		t.Error(text)
	}
	owner.login("alice", right)
	if _, again := letter(); again != text {
		t.Error("a known place is told of")
	}
	reader := h.browser(page) // the owner's telephone, signed in nowhere
	for range 2 {
		w := reader.get(path)
		if w.Code != http.StatusOK || w.Header().Get("Referrer-Policy") != "no-referrer" || !strings.Contains(w.Body.String(), "198.51.100.66") {
			t.Fatalf("%d %v\n%s", w.Code, w.Header(), w.Body)
		}
	}
	if thief.get("/auth/verify").Code != http.StatusOK {
		t.Error("to look at the link does something")
	}
	if w := reader.post(path); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Your account is secured") || len(w.Result().Cookies()) != 0 {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
	for name, b := range map[string]*browser{"owner": owner, "thief": thief} {
		if b.get("/auth/verify").Code != http.StatusUnauthorized || h.Status(t, "alice", b.from) != trusted.Unknown {
			t.Errorf("the %s is still in, or known", name)
		}
	}
	if w := thief.login("alice", right); w.Code != http.StatusUnauthorized {
		t.Errorf("the thief gets in again: %d", w.Code)
	}
	for _, do := range []func(string, ...string) *httptest.ResponseRecorder{reader.post, func(path string, _ ...string) *httptest.ResponseRecorder { return reader.get(path) }} {
		if w := do(path); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "This link has expired or was already used") {
			t.Errorf("the link is good twice: %d", w.Code)
		}
	}
	code, _, err := h.codes.Issue(t.Context(), codes.Grant{Account: "alice", For: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if w := owner.login("alice", right, "code", code); w.Header().Get("Location") != "/account/password" {
		t.Errorf("the owner: %d to %s", w.Code, w.Header().Get("Location"))
	}
	rows, err := h.audit.Recent(t.Context(), audit.Filter{Kind: audit.KindAdmin, Account: "alice", Limit: 1})
	if err != nil || len(rows) != 1 || rows[0].Decision != "not-me" || !strings.Contains(rows[0].Detail, "from 198.51.100.66") {
		t.Errorf("%+v %v", rows, err)
	}
}

// Somebody who stole a session and says "that was not me" of the owner's login gets
// nowhere: the present password is asked for. Who has it chooses another one at once, and
// is the only one who is still in.
func TestThatWasNotMeAsksAStolenSessionForThePassword(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	owner, stolen := h.browser(page), h.browser(page)
	stolen.from = "198.51.100.66"
	owner.login("alice", right)
	h.remember(t)
	for name, cookie := range owner.cookies {
		if name == "authguard_login" {
			stolen.cookies[name] = cookie
		}
	}
	link := regexp.MustCompile(`/account/not-me\?login=(\d+)`).FindStringSubmatch(owner.get("/account").Body.String())
	if link == nil {
		t.Fatal("no link")
	}
	say := func(b *browser, password string) (int, string, string) {
		return b.form(t, link[0], "/account/not-me", "login", link[1], "current_password", password, "new_password", chosen, "repeat_password", chosen)
	}
	for _, password := range []string{"", "a guess of mine"} {
		if status, _, body := say(stolen, password); status != http.StatusUnprocessableEntity || !strings.Contains(body, "Nothing was changed") {
			t.Errorf("%d\n%s", status, body)
		}
	}
	if w := owner.get("/auth/verify"); w.Code != http.StatusOK || h.Status(t, "alice", owner.from) != trusted.Known {
		t.Errorf("the owner is thrown out: %d", w.Code)
	}
	if w := stolen.get("/account/not-me?login=1"); w.Header().Get("Location") != "/account" {
		t.Errorf("no login of theirs: %d", w.Code)
	}
	if status, to, body := say(owner, right); status != http.StatusSeeOther || to != "/account?done=not-me" {
		t.Fatalf("%d to %s\n%s", status, to, body)
	}
	if owner.get("/account").Code != http.StatusOK || stolen.get("/account").Code != http.StatusSeeOther {
		t.Error("it is the stolen session that has to end")
	}
	account, err := h.accounts.Get(t.Context(), "alice")
	if err != nil || account.MustChange || account.NeedsCode {
		t.Errorf("%+v %v", account, err)
	}
}

// A person of the site may have an administrator's name where another program keeps the
// people's accounts. What they see, forget and say of a login is their own, by the page and
// by a letter.
func TestAUserNamedLikeAnAdministratorChangesNothingOfTheirs(t *testing.T) {
	t.Parallel()
	theSite := &people{all: map[string]accounts.Login{}}
	site := struct{ accounts.Source }{theSite} // whose passwords are not ours to replace
	h := newHomeWith(t, func(c *control.Config) { c.Elsewhere, c.Source = "htpasswd", site })
	theSite.all["root"] = accounts.Login{Account: "root", Password: h.people.all["alice"].Password}
	if _, err := h.accounts.Add(t.Context(), accounts.Addition{Username: "root", Password: chosen, Role: accounts.Admin}); err != nil {
		t.Fatal(err)
	}
	inside := &web.Login{
		Guard: h.inside.Guard, Edge: new(web.Edge), Integration: "admin", LoginUsers: web.LoginUsers{Directory: "administration", Control: h.control, Passwords: h.door.Passwords, Sessions: web.NewSessions(web.SessionConfig{Store: h.running, Source: h.accounts, Integration: "admin", Lifetime: time.Hour, Now: h.Clock.Now})}, Admin: true, Log: quiet, Hold: new(atomic.Int64), Look: h.look,
		Access: new(atomic.Pointer[route.AccessRules]),
	}
	h.door.Passwords = &web.Passwords{Source: site, Gate: h.gate, Checker: h.checker, Log: quiet}
	h.door.Sessions = web.NewSessions(web.SessionConfig{Store: h.running, Source: site, Integration: "login", Lifetime: time.Hour, Now: h.Clock.Now})
	letter := h.tells(t)
	admin := h.browser(page)
	admin.to, admin.from = (&web.Public{Login: inside, API: h.api, Look: h.look, Log: quiet}).Handler(), "198.51.100.7"
	if w := admin.login("root", chosen); w.Code != http.StatusSeeOther {
		t.Fatal(w.Code)
	}
	code, _, err := h.codes.Issue(t.Context(), codes.Grant{Directory: "administration", Account: "root", For: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	h.remember(t)
	theirs := regexp.MustCompile(`login=(\d+)`).FindStringSubmatch(admin.get("/account").Body.String())
	rows, err := h.audit.Successes(t.Context(), guard.DefaultRealm, "root")
	if err != nil || len(rows) != 1 || theirs != nil {
		t.Fatalf("%+v %v %v", rows, err, theirs)
	}
	untouched := func(after string) {
		t.Helper()
		if a, err := h.accounts.Get(t.Context(), "root"); err != nil || a.MustChange || a.NeedsCode {
			t.Errorf("%s the administrator's account: %+v %v", after, a, err)
		}
		running, err := h.running.Of(t.Context(), "root", "admin")
		if err != nil || len(running) != 1 || admin.get("/auth/verify").Code != http.StatusOK {
			t.Errorf("%s the administrator's session has ended: %v %v", after, running, err)
		}
		places, err := h.inside.KnownClients(t.Context(), guard.Attempt{Account: "root"}, nil)
		if live, failed := h.codes.Live(t.Context(), "root"); err != nil || len(places.List) != 1 || !places.Reset.IsZero() || !live || failed != nil {
			t.Errorf("%s the administrator's places and codes: %+v %v, %v %v", after, places, err, live, failed)
		}
	}
	b := h.browser(page)
	if w := b.login("root", right); w.Code != http.StatusSeeOther {
		t.Fatal(w.Code)
	}
	h.remember(t)
	shown := b.get("/account").Body.String()
	link := regexp.MustCompile(`/account/not-me\?login=(\d+)`).FindAllStringSubmatch(shown, -1)
	if len(link) != 1 || strings.Contains(shown, "198.51.100.7") {
		t.Fatalf("the administrator's login is on the user's page: %v", link)
	}
	if _, to, _ := b.form(t, "/account", "/account/not-me", "login", strconv.FormatInt(rows[0].ID, 10)); to != "/account" {
		t.Errorf("the administrator's login is the user's to deny: to %s", to)
	}
	if _, to, _ := b.form(t, "/account", "/account/forget"); to != "/account?done=places" || h.Status(t, "root", b.from) != trusted.Unknown {
		t.Errorf("forgetting: to %s", to)
	}
	untouched("forgetting:")
	path, _ := letter()
	if status, _, body := b.form(t, link[0][0], "/account/not-me", "login", link[0][1]); status != http.StatusOK {
		t.Errorf("%d\n%s", status, body)
	}
	if b.get("/auth/verify").Code != http.StatusUnauthorized {
		t.Error("the user's session goes on")
	}
	untouched("the page:")
	if w := b.login("root", right); w.Code != http.StatusSeeOther {
		t.Fatal(w.Code)
	}
	if w := h.browser(page).post(path); w.Code != http.StatusOK || b.get("/auth/verify").Code != http.StatusUnauthorized {
		t.Errorf("the letter: %d\n%s", w.Code, w.Body)
	}
	untouched("the letter:")
	if good, err := h.codes.Of("administration").Show(t.Context(), guard.Code{Account: "root", Text: code, Now: h.Clock.Now()}); err != nil || !good {
		t.Errorf("the administrator's code: %v %v", good, err)
	}
}

// keyOfLetter is a key whose text is missing; "email." ends a sentence.
var keyOfLetter = regexp.MustCompile(`mail\.[a-z]`)

// What a stranger's browser calls itself is data in a letter: no header, no line of its
// own, no link.
func TestR23ALetterHoldsWhatStrangersSendAsText(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, agent := range []string{"x\r\nBcc: all@example.org\r\n\r\nhello", "https://evil.example/ www.evil.example", "evil.example", "evil.example Firefox/1", strings.Repeat("a", 1<<20), "\u202egpj"} {
		subject, text := h.look.Email(outbox.AboutNewClient, "en", "https://login.example.org", outbox.Notice{Account: "alice\r\n", Address: "192.0.2.1", Agent: agent, At: h.Clock.Now()}, "x")
		lines := strings.Split(text, "\n")
		if strings.ContainsAny(subject+text, "\r\u202e") || len(lines) < 13 || len(lines) > 14 || len(text) > 2000 || strings.Contains(text, "evil") || strings.Count(text, "://") != 1 {
			t.Errorf("%d lines:\n%.1000s", len(lines), text)
		}
	}
	for tag, want := range map[string]string{"de": "Neue Anmeldung bei Ihrem Konto", "fr": "Nouvelle connexion à votre compte", "xx": "New sign-in to your account"} {
		if subject, text := h.look.Email(outbox.AboutNewClient, tag, "", outbox.Notice{}, ""); subject != want || strings.Contains(text, "{") || keyOfLetter.MatchString(text) {
			t.Errorf("%s: %s\n%s", tag, subject, text)
		}
	}
}
