package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/passwords"
	"authguard/internal/policy"
	"authguard/internal/testing/world"
	"authguard/trusted"
	"authguard/web"
)

func want(t *testing.T, w *httptest.ResponseRecorder, status int, parts ...string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("%d, not %d: %s", w.Code, status, w.Body)
	}
	for _, part := range parts {
		if !strings.Contains(w.Body.String(), part) {
			t.Errorf("%q is not in %s", part, w.Body)
		}
	}
}

func problem(t *testing.T, w *httptest.ResponseRecorder, status int, kind string) (p web.Problem) {
	t.Helper()
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("%d is %q: %s", w.Code, got, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != status || p.Status != status || p.Type != kind || p.Title == "" {
		t.Errorf("%d %s, %v; want %d %s", w.Code, w.Body, err, status, kind)
	}
	return p
}

func TestTheRightPasswordStartsASession(t *testing.T) {
	t.Parallel()
	b := newHouse(t).browser(page)
	w := b.login(" ALICE", right, "next", "/account?tab=1")
	if want(t, w, http.StatusSeeOther); w.Header().Get("Location") != "/account?tab=1" {
		t.Errorf("to %s", w.Header().Get("Location"))
	}
	want(t, b.get("/login"), http.StatusOK, "You are signed in", "alice")
	asJSON := newHouse(t).browser("application/json").login("alice", right, "next", "//evil.example")
	want(t, asJSON, http.StatusOK, `"account":"alice"`, `"next":"/"`)
}

func TestASessionsCookieIsForThisSiteOnlyAndNoScriptReadsIt(t *testing.T) {
	t.Parallel()
	b := newHouse(t).browser(page)
	before := time.Now()
	b.login("alice", right)
	after := time.Now()
	c := b.cookies["authguard_login"]
	if c == nil || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.Secure {
		t.Errorf("%+v", c)
	}
	if c.Expires.Before(before.Add(time.Hour-time.Second)) || c.Expires.After(after.Add(time.Hour+time.Second)) { // told in whole seconds
		t.Errorf("made between %v and %v it lasts until %v, want an hour", before, after, c.Expires)
	}
	r := httptest.NewRequest("POST", "https://login.example/login", strings.NewReader("username=alice&password=correct+horse"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	b.to.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if !c.Secure {
			t.Errorf("over TLS: %+v", c)
		}
	}
}

func TestCookiesAreForTLSOnlyAsTheDoorSays(t *testing.T) {
	t.Parallel()
	for how, want := range map[web.CookieSecurity][2]bool{ // over HTTP, over TLS
		web.SecureLikeRequest: {false, true}, web.SecureAlways: {true, true}, web.SecureNever: {false, false},
	} {
		h := newHouse(t)
		checker, err := passwords.NewChecker(bcrypt.MinCost, nil)
		if err != nil {
			t.Fatal(err)
		}
		login := h.login("login", h.gate, checker)
		login.Secure, login.Sessions.Secure = how, how
		door := (&web.Public{Login: login, API: new(web.API), Log: quiet}).Handler()
		for i, scheme := range []string{"http", "https"} {
			r := httptest.NewRequest("POST", scheme+"://login.example/login", strings.NewReader("username=alice&password=correct+horse"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			door.ServeHTTP(w, r)
			for _, c := range w.Result().Cookies() {
				if c.Secure != want[i] {
					t.Errorf("%v over %s: %s is secure: %v", how, scheme, c.Name, c.Secure)
				}
			}
			if len(w.Result().Cookies()) == 0 {
				t.Errorf("%v over %s: no cookies, %d", how, scheme, w.Code)
			}
		}
	}
}

func TestR12AWrongPasswordAndAnUnknownOrDisabledAccountLookAlike(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{page, "application/json"} {
		h := newHouse(t)
		wrong := h.browser(accept).login("alice", "wrong")
		want(t, wrong, http.StatusUnauthorized)
		for name, password := range map[string]string{"nobody": right, "gone": right} {
			if got := h.browser(accept).login(name, password); says(got, name) != says(wrong, "alice") {
				t.Errorf("%s: %s\nnot %s", name, says(got, name), says(wrong, "alice"))
			}
		}
	}
}

var challengeID = regexp.MustCompile(`name="captcha_id" value="([^"]+)"`)

func TestAChallengeIsAskedForShownAndSolvedOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Force(t)
	b := h.browser(page)
	if ahead := b.get("/login"); !challengeID.MatchString(ahead.Body.String()) {
		t.Error("the page has no challenge in it")
	}
	asked := b.login("alice", right)
	want(t, asked, http.StatusForbidden, "One more step", `value="alice"`)
	id := challengeID.FindStringSubmatch(asked.Body.String())[1]
	want(t, b.login("alice", right, "captcha_id", id, "captcha_answer", "41"), http.StatusForbidden, "was not solved")
	want(t, b.login("alice", right, "captcha_id", id, "captcha_answer", world.Answer), http.StatusForbidden) // burnt
	p := problem(t, h.browser("application/json").login("alice", right), http.StatusForbidden, web.ChallengeRequired)
	if p.Challenge == nil || p.Challenge.Image == "" {
		t.Fatalf("no challenge in %+v", p)
	}
	want(t, b.login("alice", right, "captcha_id", p.Challenge.ID, "captcha_answer", world.Answer), http.StatusSeeOther)
	if got := h.Status(t, "alice", "192.0.2.1"); got != trusted.Known {
		t.Errorf("the place is %v", got)
	}
	other := h.browser(page)
	want(t, other.login("alice", right), http.StatusSeeOther) // known now
}

var powOf = regexp.MustCompile(`data-pow="[^"]*work&#34;:(\d+)`)

// An owner at a new client while CAPTCHA mode is on and the account is under attack, too. The challenge that the page
// shows before it knows the name is the image; the account asks for the rest of its price only.
func TestR17AnOwnerOfAnAttackedAccountMeetsOneImage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how      string
		failures int
		work     []string // the proofs of work, in this order
	}{
		{"without JavaScript", 5, nil}, {"with JavaScript", 5, []string{"100"}}, {"with JavaScript", 20, []string{"100", "200"}},
		{"with JavaScript", 40, []string{"100", "800"}}, {"as JSON", 5, []string{"100"}}, {"as JSON", 40, []string{"100", "800"}},
	} {
		t.Run(fmt.Sprintf("%s, %d failures", c.how, c.failures), func(t *testing.T) {
			t.Parallel()
			h := newHouseWith(t, world.Options{Work: true})
			attack(t, h, "alice", c.failures)
			h.Force(t)
			accept, scripts := page, c.how != "without JavaScript"
			if c.how == "as JSON" {
				accept = "application/json"
			}
			b, images, work := h.browser(accept), 0, []string(nil)
			shown := b.get("/login")
			if c.how == "as JSON" { // a wrong password at another account answers with a challenge for any
				id, _, _ := challengeIn(t, b.login("bob", "wrong"))
				shown = b.login("bob", "wrong", "captcha_id", id, "captcha_answer", world.Answer, "captcha_work", world.Done)
				h.Clock.Advance(5 * time.Second) // unknown clients are throttled
			}
			for range 3 {
				id, hasImage, asks := challengeIn(t, shown)
				fields := []string{"captcha_id", id}
				if hasImage {
					images++
					fields = append(fields, "captcha_answer", world.Answer)
				}
				if scripts && asks != "" {
					work = append(work, asks)
					fields = append(fields, "captcha_work", world.Done)
				}
				if shown = b.login("alice", right, fields...); shown.Code != http.StatusForbidden {
					break
				}
			}
			if shown.Code != http.StatusSeeOther && shown.Code != http.StatusOK || images != 1 || !slices.Equal(work, c.work) {
				t.Errorf("%d with %d images and work %v, want 1 and %v: %s", shown.Code, images, work, c.work, shown.Body)
			}
		})
	}
}

// The price of a guess stays: nothing that was solved before the name is known is good for a second guess, or for less
// than the account's work, and a wrong one for none.
func TestR29AChallengeBeforeTheNameMakesNoGuessCheaper(t *testing.T) {
	t.Parallel()
	h := newHouseWith(t, world.Options{Work: true})
	attack(t, h, "alice", 40)
	h.Force(t)
	b := h.browser(page)
	ahead := func() string {
		id, _, _ := challengeIn(t, b.get("/login"))
		return id
	}
	before := h.Used(t, "alice", b.from, guard.OnAccount)
	id := ahead()
	first := b.login("alice", "wrong", "captcha_id", id, "captcha_answer", world.Answer, "captcha_work", world.Done)
	second := b.login("alice", "wrong", "captcha_id", id, "captcha_answer", world.Answer, "captcha_work", world.Done)
	want(t, first, http.StatusForbidden)
	want(t, second, http.StatusForbidden)
	if _, image, _ := challengeIn(t, second); !image {
		t.Error("the same image is good for two challenges")
	}
	rest, _, _ := challengeIn(t, first)
	want(t, b.login("bob", "wrong", "captcha_id", rest, "captcha_work", world.Done), http.StatusForbidden)
	for name, solved := range map[string][2]string{
		"a wrong image": {"41", world.Done}, "no image": {"", world.Done}, "an image alone": {world.Answer, ""}, // without JavaScript
	} {
		w := b.login("alice", "wrong", "captcha_id", ahead(), "captcha_answer", solved[0], "captcha_work", solved[1])
		if _, image, _ := challengeIn(t, w); w.Code != http.StatusForbidden || !image {
			t.Errorf("%s: %d, then without an image", name, w.Code)
		}
	}
	want(t, b.login("alice", "wrong", "captcha_id", rest), http.StatusForbidden)
	if now := h.Used(t, "alice", b.from, guard.OnAccount); now != before {
		t.Fatalf("%d guesses were checked for less than the price", now-before)
	}
	want(t, b.login("alice", "wrong", "captcha_id", rest, "captcha_work", world.Done), http.StatusUnauthorized)
	h.Clock.Advance(5 * time.Second) // unknown clients are throttled
	want(t, b.login("alice", "wrong", "captcha_id", rest, "captcha_work", world.Done), http.StatusForbidden)
	b.from = "192.0.2.2" // many challenges of the other one are unsolved
	rest, _, _ = challengeIn(t, b.login("alice", "wrong", "captcha_id", ahead(), "captcha_answer", world.Answer, "captcha_work", world.Done))
	want(t, b.login("alice", "wrong", "captcha_id", rest, "captcha_answer", world.Answer), http.StatusForbidden)
	if now := h.Used(t, "alice", b.from, guard.OnAccount); now != before+1 {
		t.Errorf("%d guesses for one price", now-before)
	}
}

// attack makes n wrong guesses at an account from other IP addresses, each at its price.
func attack(t *testing.T, h *house, account string, n int) {
	t.Helper()
	for i := range n {
		a := world.From(account, world.Address(1000+i))
		if d, _ := h.Try(t, a, "wrong"); d.Action == guard.Challenge {
			a.Solution = h.Works(t, a, d)
			d, _ = h.Try(t, a, "wrong")
		}
	}
	if got := h.Used(t, account, "192.0.2.1", guard.OnAccount); got != n {
		t.Fatalf("%d failures of the account, want %d", got, n)
	}
}

// challengeIn returns the challenge of a page or problem: its ID, whether it has an image, and its work.
func challengeIn(t *testing.T, w *httptest.ResponseRecorder) (id string, image bool, work string) {
	t.Helper()
	body := w.Body.String()
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/problem+json") {
		var p web.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Challenge == nil {
			t.Fatalf("no challenge, %v: %s", err, body)
		}
		if p.Challenge.PoW != nil {
			work = fmt.Sprint(p.Challenge.PoW.Work)
		}
		return p.Challenge.ID, p.Challenge.Image != "", work
	}
	found := challengeID.FindStringSubmatch(body)
	if found == nil {
		t.Fatalf("no challenge in %s", body)
	}
	if asked := powOf.FindStringSubmatch(body); asked != nil {
		work = asked[1]
	}
	return found[1], strings.Contains(body, "captcha-image"), work
}

func TestWaitAndRefuseAreOneAnswer(t *testing.T) {
	t.Parallel()
	answer := func(title string, prepare func(h *house)) (string, string) {
		h := newHouse(t)
		prepare(h)
		w := h.browser("application/json").login("alice", right)
		p := problem(t, w, http.StatusTooManyRequests, web.SlowDown)
		if p.RetryAfter < 1 || w.Header().Get("Retry-After") == "" {
			t.Errorf("%+v, %v", p, w.Header())
		}
		p.RetryAfter = 0
		text, _ := json.Marshal(p)
		page := h.browser(page).login("alice", right)
		want(t, page, http.StatusTooManyRequests, title)
		return string(text), page.Result().Status
	}
	a, aPage := answer("Please wait before you try again", func(h *house) {
		for range 4 {
			h.browser(page).login("alice", "wrong")
		}
	})
	b, bPage := answer("Sign-ins from your network are blocked", func(h *house) {
		h.Lists.Set([]guard.Listing{{Prefix: prefix("192.0.2.0/24"), Verdict: guard.Blocked}})
	})
	if a != b || aPage != bPage {
		t.Errorf("wait: %s\nrefuse: %s", a, b)
	}
}

// A block of a week is no 15 minutes, and no failed sign-ins of the visitor's.
func TestABlockedVisitorIsToldOfTheBlock(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Lists.Set([]guard.Listing{{Prefix: prefix("192.0.2.0/24"), Verdict: guard.Blocked, Until: h.Clock.Now().Add(12 * time.Hour)}})
	w := h.browser(page).login("alice", right)
	want(t, w, http.StatusTooManyRequests, "has blocked this network")
	want(t, w, http.StatusTooManyRequests, "<strong>192.0.2.1, ")
	for _, not := range []string{"several failed sign-ins", "15 minutes", "data-until", "<form"} {
		if strings.Contains(w.Body.String(), not) {
			t.Errorf("the page says %q", not)
		}
	}
	if got := w.Header().Get("Retry-After"); got != "43200" {
		t.Errorf("Retry-After is %s, want the 12 hours that are left of the block", got)
	}
}

func TestR19OverloadIs503AndNobodysFailure(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	leave, err := h.gate.Enter(t.Context(), passwords.Request{Known: true})
	if err != nil {
		t.Fatal(err)
	}
	waiting, done := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { _, _ = h.gate.Enter(waiting, passwords.Request{Known: true}); close(ended) }()
	for h.gate.State().Known == 0 {
		runtime.Gosched()
	}
	w := h.browser("application/json").login("alice", right)
	if p := problem(t, w, http.StatusServiceUnavailable, web.OverloadedProblem); p.RetryAfter < 1 || w.Header().Get("Retry-After") == "" {
		t.Errorf("%+v", p)
	}
	want(t, h.browser(page).login("alice", right), http.StatusServiceUnavailable, "The server is busy")
	done()
	<-ended
	leave()
	want(t, h.browser(page).login("alice", right), http.StatusSeeOther)
}

func TestR27AnAccountTableThatFailsIs503ForRightAndWrong(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.people.change(func() { h.people.fail = errors.New("the disk is gone") })
	for i := range 28 {
		password := []string{right, "wrong"}[i%2]
		w := h.browser("application/json").login("alice", password)
		if problem(t, w, http.StatusServiceUnavailable, web.OverloadedProblem); strings.Contains(w.Body.String(), "disk") {
			t.Errorf("a stranger is told what broke: %s", w.Body)
		}
	}
	if got := h.charged(t, "alice"); got != 0 {
		t.Errorf("%d charges are left of the outage", got)
	}
	h.people.change(func() { h.people.fail = nil })
	want(t, h.browser(page).login("alice", right), http.StatusSeeOther)
}

// charged is what stands against an account at the browsers' address.
func (h *house) charged(t *testing.T, account string) (charges int) {
	t.Helper()
	e, err := h.Explain(t.Context(), account, netip.MustParseAddr("192.0.2.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range e.Lines {
		charges += line.Used
	}
	return charges
}

// A client that hangs up while its password waits for its turn has not guessed; one
// that hangs up while the password is checked has.
func TestR1OnlyAPasswordThatWasCheckedCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		checking bool // it hangs up while its password is checked
		failures int
	}{"waiting": {}, "checked": {checking: true, failures: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			ctx, hangUp := context.WithCancel(t.Context())
			checker, err := passwords.NewChecker(bcrypt.MinCost, func(*passwords.Hash, string) bool {
				hangUp()
				return false
			})
			if err != nil {
				t.Fatal(err)
			}
			doors := (&web.Public{Login: h.login("login", h.gate, checker), API: new(web.API), Log: quiet}).Handler()
			if !c.checking {
				leave, err := h.gate.Enter(t.Context(), passwords.Request{Known: true})
				if err != nil {
					t.Fatal(err)
				}
				defer leave()
				go func() {
					for h.gate.State().Unknown == 0 {
						runtime.Gosched()
					}
					hangUp()
				}()
			}
			form := url.Values{"username": {"alice"}, "password": {"wrong"}}.Encode()
			r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(form)).WithContext(ctx)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			doors.ServeHTTP(httptest.NewRecorder(), r)
			pressure := h.Mode.State().FailureRate
			if pressure[captchamode.Failure] != c.failures || pressure.Total() != 1 || h.charged(t, "alice") > 0 != c.checking {
				t.Errorf("%d charges, pressure %v", h.charged(t, "alice"), pressure)
			}
		})
	}
}

// A right password writes a session. A wrong one has nothing to write, so whatever
// the database says must be found out for it.
func TestR27StorageThatCannotBeWrittenAnswersRightAndWrongAlike(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	for name, fails := range map[string]func(*house){
		"nobody knows yet": func(h *house) { h.sessions.write, h.storage.tried = full, full },
		"it is known":      func(h *house) { h.sessions.write, h.storage.known = full, full },
	} {
		for _, accept := range []string{"application/json", page} {
			h := newHouse(t)
			fails(h)
			bodies := map[string]bool{}
			for i := range 8 { // more than the account may fail
				password := []string{right, "wrong"}[i%2]
				b := h.browser(accept)
				b.from = fmt.Sprintf("192.0.%d.1", 2+i)
				w := b.login("alice", password)
				if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || len(w.Result().Cookies()) > 0 {
					t.Errorf("%s: %s got %d %v", name, password, w.Code, w.Header())
				}
				bodies[says(w, "alice")] = true
			}
			if len(bodies) != 1 {
				t.Errorf("%s: %d different answers", name, len(bodies))
			}
			h.sessions.write, h.storage.known, h.storage.tried = nil, nil, nil
			if w := h.browser(accept).login("alice", right); w.Code != http.StatusOK && w.Code != http.StatusSeeOther {
				t.Errorf("%s: afterwards %d %s", name, w.Code, w.Body)
			}
		}
	}
}

func TestR27OnlyAWrongPasswordNeedsAProof(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for password, proofs := range map[string]int{right: 0, "wrong": 1} {
		h.storage.proofs = 0
		if h.browser(page).login("alice", password); h.storage.proofs != proofs {
			t.Errorf("%s: %d proofs, want %d", password, h.storage.proofs, proofs)
		}
	}
}

func TestWhatCannotBeUsedSaysWhy(t *testing.T) {
	t.Parallel()
	const form, text = "application/x-www-form-urlencoded", "application/json"
	for _, one := range []struct {
		kind, body string
		status     int
		says       string
	}{
		{form, "username=alice", 400, "Enter your password."},
		{form, "password=x", 400, "Enter your user name."},
		{form, "username=k%E2%80%8Bim&password=x", 400, "Enter your user name again"},
		{form, "username=K%C4%B0M&password=x", 400, "characters that are invisible or look like others"},
		{form, "username=alice&password=" + strings.Repeat("x", 257), 400, "longer than any password"},
		{form, "username=alice&password=correct+horse%00correct+horse", 400, "contains a NUL character"},
		{form, "username=nobody&password=x%00x", 400, "contains a NUL character"},
		{text, `{"username":"alice","password":"correct horse\u0000correct horse"}`, 400, "contains a NUL character"},
		{form, "username=alice&username=bob&password=x", 400, "Send the field username only once."},
		{form, "username=%zz", 400, "could not be read"},
		{form, "username=" + strings.Repeat("x", 17<<10), 413, "at most 16384 bytes"},
		{"text/plain", "username=alice&password=x", 415, "Send a form"},
		{"", "username=alice&password=x", 415, "Send a form"},
		{text, `{"username":"alice","username":"bob","password":"x"}`, 400, "once"},
		{text, `{"username":["alice"],"password":"x"}`, 400, "The field username must be a JSON string."},
		{text, `{"username":null,"password":"x"}`, 400, "The field username must be a JSON string."},
		{text, `{"username":"alice","password":1}`, 400, "The field password must be a JSON string."},
		{text, `{"USERNAME":"alice","password":"x"}`, 400, "Enter your user name."},
		{text, `{"u\u017fername":"alice","password":"x"}`, 400, "Enter your user name."},
		{text, `["alice"]`, 400, "Send one JSON object."},
		{text, `{"username":"alice","password":"x"} {}`, 400, "nothing after it"},
		{text, `{"username":"alice"`, 400, "Invalid JSON"},
		{text, `{"username":"` + "\xff" + `","password":"x"}`, 400, "Invalid JSON"},
	} {
		h := newHouse(t)
		b := h.browser("application/json")
		w := b.do("POST", "/login", one.kind, one.body)
		if p := problem(t, w, one.status, web.InvalidRequest); !strings.Contains(p.Detail, one.says) {
			t.Errorf("%s: %q, not %q", one.body, p.Detail, one.says)
		}
		b.accept = page
		want(t, b.do("POST", "/login", one.kind, one.body), one.status, "Something is missing")
	}
}

func TestR11AFormThatIsNoneCountsForTheAddress(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.browser("application/json")
	for range 10 {
		problem(t, b.do("POST", "/login", "application/json", `[]`), http.StatusBadRequest, web.InvalidRequest)
	}
	problem(t, b.do("POST", "/login", "application/json", `[]`), http.StatusForbidden, web.ChallengeRequired)
}

func TestAnotherSitesPageLogsNobodyInOrOut(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, path := range []string{"/login", "/logout", "/v1/attempts"} {
		r := httptest.NewRequest("POST", path, strings.NewReader("username=alice&password=correct+horse"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden || len(w.Result().Cookies()) > 0 {
			t.Errorf("%s: %d", path, w.Code)
		}
		if json := strings.HasPrefix(path, "/v1/"); json != strings.Contains(w.Header().Get("Content-Type"), "json") {
			t.Errorf("%s is answered as %s", path, w.Header().Get("Content-Type"))
		}
	}
}

// The administration is enforced while everything else is watched. At the public door an
// administrator's right password is answered there as a wrong one once an enforced limit
// would have stopped it, and everybody else's opens.
func TestWatchingOpensNoAdministratorsAccountToGuesses(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	administrator := h.people.all["alice"]
	administrator.Account, administrator.Role = "root", accounts.Admin
	h.people.all["root"] = administrator
	written := policy.Written{Policy: h.Guard.Policy(), Mode: h.Mode.Config(), Enforce: true}
	watch := func(overrides ...policy.Override) {
		t.Helper()
		p, _, err := written.With(overrides)
		if err == nil {
			err = h.SetPolicy(p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	watch(policy.Override{LimitSet: policy.Whole})
	if w := h.browser(page).login("root", right); w.Code != http.StatusSeeOther {
		t.Fatalf("nothing has happened, and an administrator is kept out: %d", w.Code)
	}
	for name, opens := range map[string]bool{"root": false, "alice": true} {
		b := h.browser(page)
		b.from = "198.51.100.66"
		var wrong string
		for i := range 40 {
			w := b.login(name, fmt.Sprint("guess ", i))
			if w.Code != http.StatusUnauthorized {
				t.Fatalf("%s: guess %d is stopped while all is watched: %d", name, i, w.Code)
			}
			wrong = says(w, name)
		}
		h.ForgetEvents()
		w := b.login(name, right)
		if opens != (w.Code == http.StatusSeeOther) || !opens && says(w, name) != wrong {
			t.Errorf("%s: %d\n%s\nafter\n%s", name, w.Code, says(w, name), wrong)
		}
		for _, e := range h.Events() {
			if e.Settled && (e.Outcome == guard.Succeeded) != opens {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
	known := h.browser(page) // where the administrator is known
	if w := known.login("root", right); w.Code != http.StatusSeeOther {
		t.Errorf("the known place is closed: %d", w.Code)
	}
}
