package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"authguard/internal/accounts"
	"authguard/internal/audit"
	"authguard/internal/testing/world"
	"authguard/trusted"
	"authguard/web/admin"
)

// enrolled signs ann in, sets an app up on the page and is what it shows, and her
// recovery codes.
func (c *counter) enrolled(t *testing.T) (shows func() string, recovery []string) {
	t.Helper()
	c.admit(t, "ann", accounts.Admin, false)
	if to, _ := c.own(t, "/security/app", url.Values{}); to != "/security?setup=app" {
		t.Fatalf("to %q", to)
	}
	_, _, body := c.get(t, "/security?setup=app")
	found := secretText.FindStringSubmatch(body)
	if found == nil || !strings.Contains(body, "data:image/png;base64,") {
		t.Fatalf("no secret:\n%s", body)
	}
	secret := strings.ReplaceAll(found[1], " ", "")
	if to, body := c.own(t, "/security/app/confirm", url.Values{"otp": {"000000"}}); to != "" || !strings.Contains(body, found[0]) || !strings.Contains(body, `aria-describedby="otp_problem"`) {
		t.Fatalf("a mistyped code loses the secret or says nothing: to %q\n%s", to, body)
	}
	shows = func() string {
		t.Helper()
		c.Clock.Advance(time.Minute) // each code is good once
		code, err := totp.GenerateCode(secret, c.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	_, body = c.own(t, "/security/app/confirm", url.Values{"otp": {shows()}})
	for _, one := range recoveryCode.FindAllStringSubmatch(body, -1) {
		recovery = append(recovery, one[1])
	}
	if !strings.Contains(body, `download="authguard-recovery-codes.txt"`) || !strings.Contains(body, "I have saved these codes") {
		t.Errorf("the codes can be lost:\n%s", body)
	}
	if len(recovery) != 10 {
		t.Fatalf("%d recovery codes:\n%s", len(recovery), body)
	}
	return shows, recovery
}

var (
	secretText   = regexp.MustCompile(`<code class="secret">([A-Z2-7 ]+)</code>`)
	recoveryCode = regexp.MustCompile(`<li><code>([a-z2-7-]{19})</code></li>`)
)

// own posts a form of the page /security.
func (c *counter) own(t *testing.T, path string, f url.Values) (to, body string) {
	t.Helper()
	f.Set("csrf", c.csrf(t, "/security"))
	_, to, body = c.post(t, path, f)
	return to, body
}

// password offers ann's right password in a browser of its own.
func (c *counter) password(t *testing.T) {
	t.Helper()
	c.browser = newBrowser(t)
	if status, to, body := c.post(t, "/login", url.Values{"username": {"ann"}, "password": {rightPassword}}); status != http.StatusSeeOther || to != "/login/second" {
		t.Fatalf("%d to %q\n%s", status, to, body)
	}
}

// code answers the second step.
func (c *counter) code(t *testing.T, otp string) (status int, to, body string) {
	t.Helper()
	return c.post(t, "/login/second", url.Values{"otp": {otp}, "csrf": {c.csrf(t, "/login/second")}})
}

// The challenge of the password counts for one code, too.
func TestAnAdministratorWithMFASolvesOneChallenge(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(*counter){
		"CAPTCHA mode": func(c *counter) { c.inside.Force(t) },
		"account under attack": func(c *counter) {
			for i := range 5 {
				c.inside.Wrong(t, "ann", world.Address(i))
			}
		},
	} {
		c := newCounter(t)
		shows, _ := c.enrolled(t)
		attack(c)
		if err := c.inside.RemoveKnownClients(t.Context(), "ann", netip.Addr{}); err != nil {
			t.Fatal(err)
		}
		c.browser = newBrowser(t)
		offer := func(password string) (status int, to, body string) {
			a := world.From("ann", "127.0.0.1")
			a.Integration = admin.Integration
			s := c.inside.Solve(t, a)
			return c.post(t, "/login", url.Values{"username": {"ann"}, "password": {password}, "captcha_id": {s.ID}, "captcha_answer": {s.Answer}})
		}
		if status, to, body := offer(rightPassword); to != "/login/second" {
			t.Fatalf("%s: %d to %q\n%s", name, status, to, body)
		}
		if _, _, body := c.get(t, "/login/second"); strings.Contains(body, "captcha_id") {
			t.Errorf("%s: the page of the code has a second challenge", name)
		}
		if status, _, _ := c.code(t, "000000"); status != http.StatusUnauthorized {
			t.Errorf("%s: a wrong code: %d", name, status)
		}
		if status, _, body := c.code(t, shows()); status != http.StatusForbidden || !strings.Contains(body, "captcha_id") {
			t.Errorf("%s: the next code without a challenge of its own: %d", name, status)
		} else if _, _, page := c.get(t, "/login/second?challenge"); strings.Contains(page, "captcha_id") != (name == "CAPTCHA mode") || !strings.Contains(body, "/login/second?challenge") {
			t.Errorf("%s: another image:\n%s", name, page)
		}
		if status, _, _ := offer("guess"); status != http.StatusUnauthorized {
			t.Errorf("%s: a wrong password: %d", name, status)
		}
		if status, _, _ := c.code(t, shows()); status != http.StatusForbidden {
			t.Errorf("%s: a code with the challenge of a wrong password: %d", name, status)
		}
		if _, to, _ := offer(rightPassword); to != "/login/second" {
			t.Fatalf("%s: to %q", name, to)
		}
		if status, to, body := c.code(t, shows()); to != "/" {
			t.Errorf("%s: the right code: %d to %q\n%s", name, status, to, body)
		}
	}
}

func TestAPasswordAloneOpensNothingOnceThereIsAnApp(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	shows, recovery := c.enrolled(t)
	c.password(t)
	for _, path := range []string{"/", "/security", "/password", "/lookup"} {
		if status, to, _ := c.get(t, path); status != http.StatusSeeOther || !strings.HasPrefix(to, "/login") {
			t.Errorf("%s: %d to %q", path, status, to)
		}
	}
	if status, _, _ := c.get(t, "/api/status"); status != http.StatusUnauthorized {
		t.Errorf("/api/status: %d", status)
	}
	if status, _, body := c.code(t, "000000"); status != http.StatusUnauthorized || !strings.Contains(body, "Wrong code") {
		t.Errorf("a wrong code: %d", status)
	}
	code := shows()
	if status, to, _ := c.code(t, code); status != http.StatusSeeOther || to != "/" {
		t.Fatalf("the right code: %d to %q", status, to)
	}
	if status, _, _ := c.get(t, "/"); status != http.StatusOK {
		t.Errorf("signed in: %d", status)
	}
	if status, to, _ := c.get(t, "/login/second"); to != "/login" {
		t.Errorf("the step goes on: %d to %q", status, to)
	}
	c.password(t)
	if status, _, _ := c.code(t, code); status != http.StatusUnauthorized {
		t.Errorf("the same code again: %d", status)
	}
	if status, to, _ := c.code(t, recovery[0]); status != http.StatusSeeOther || to != "/" {
		t.Errorf("a recovery code: %d to %q", status, to)
	}
	if what, who, subject := c.recorded(t); what != "recovery-code-used" || who != "admin:ann" || subject != "ann" {
		t.Errorf("%s by %s of %s is on record", what, who, subject)
	}
	c.password(t)
	if status, _, _ := c.code(t, recovery[0]); status != http.StatusUnauthorized {
		t.Errorf("the same recovery code again: %d", status)
	}
}

// A code is six digits: whoever has the password could try them all. Each guess is
// charged before it is looked at, under the limits of a password's.
func TestR1NoMoreCodesAreLookedAtThanPasswords(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	shows, _ := c.enrolled(t)
	browsers := make([]*counter, 8)
	for i := range browsers {
		c.password(t)
		browsers[i] = &counter{office: c.office, base: c.base, browser: c.browser}
	}
	c.Clock.Advance(48 * time.Hour) // ann's own logins count nowhere, nor does the place
	c.must(t, c.inside.RemoveKnownClients(t.Context(), "ann", netip.Addr{}))
	right := shows()
	before := len(c.inside.Events())
	var looked, stopped atomic.Int32
	var all sync.WaitGroup
	for i := range 64 {
		csrf := browsers[i%8].csrf(t, "/login/second")
		all.Go(func() {
			switch status, _, _ := browsers[i%8].post(t, "/login/second", url.Values{"otp": {fmt.Sprintf("%06d", i)}, "csrf": {csrf}}); status {
			case http.StatusUnauthorized:
				looked.Add(1)
			case http.StatusTooManyRequests, http.StatusForbidden:
				stopped.Add(1)
			default:
				t.Errorf("a guess was answered %d", status)
			}
		})
	}
	all.Wait()
	passwords := guessesOfPasswords(t)
	if looked.Load() != passwords || stopped.Load() != 64-passwords {
		t.Errorf("%d codes were looked at and %d stopped; of passwords %d are looked at", looked.Load(), stopped.Load(), passwords)
	}
	if n := len(c.inside.Events()) - before; n < 64 {
		t.Errorf("%d events", n)
	}
	if status, _, _ := browsers[0].code(t, right); status == http.StatusSeeOther {
		t.Error("the right code passes where none is looked at")
	}
}

// guessesOfPasswords is how many of 64 wrong passwords at once are looked at.
func guessesOfPasswords(t *testing.T) int32 {
	t.Helper()
	c := newCounter(t)
	_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: "ann", Password: rightPassword, Role: accounts.Admin})
	c.must(t, err)
	c.browser = newBrowser(t)
	var looked atomic.Int32
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			if status, _, _ := c.post(t, "/login", url.Values{"username": {"ann"}, "password": {fmt.Sprint("wrong", i)}}); status == http.StatusUnauthorized {
				looked.Add(1)
			}
		})
	}
	all.Wait()
	return looked.Load()
}

func (c *counter) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A right password that lacks the second factor leaves nothing behind: no failure, so that
// ann's own logins cost her nothing, and no known place.
func TestAPasswordWithoutItsCodeVouchesForNoPlace(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	shows, _ := c.enrolled(t)
	c.must(t, c.inside.RemoveKnownClients(t.Context(), "ann", netip.Addr{}))
	for range 30 {
		c.password(t)
	}
	if at := c.inside.Status(t, "ann", "127.0.0.1"); at == trusted.Known {
		t.Error("a known place, after the password alone")
	}
	if status, _, body := c.code(t, shows()); status != http.StatusSeeOther {
		t.Fatalf("after thirty right passwords: %d\n%s", status, body)
	}
	if at := c.inside.Status(t, "ann", "127.0.0.1"); at != trusted.Known {
		t.Errorf("after the code: %v", at)
	}
}

func TestAnAdministratorWithoutASecondFactorGetsOneFirstWhereItIsRequired(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.required.Store(true)
	c.admit(t, "bob", accounts.Admin, false)
	if status, to, _ := c.get(t, "/"); status != http.StatusSeeOther || to != "/security" {
		t.Errorf("/: %d to %q", status, to)
	}
	if status, _, body := c.get(t, "/api/status"); status != http.StatusForbidden || !strings.Contains(body, "mfa-required") {
		t.Errorf("/api/status: %d %s", status, body)
	}
	c.browser = newBrowser(t)
	c.enrolled(t)
	if status, _, _ := c.get(t, "/"); status != http.StatusOK {
		t.Errorf("with one: %d", status)
	}
}

// A browser that was left open, or a cookie that was stolen, must not be enough to stay in
// for good.
func TestAnOldSessionChangesNoWayIn(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.enrolled(t)
	c.Clock.Advance(10 * time.Minute)
	for _, path := range []string{"/security/app", "/security/app/remove", "/security/passkeys/remove", "/security/recovery", "/security/passkeys"} {
		if to, _ := c.own(t, path, url.Values{}); to != "/security" {
			t.Errorf("%s: to %q", path, to)
		}
		if _, _, body := c.get(t, "/security"); !strings.Contains(body, "Sign in again first") {
			t.Errorf("%s: the page does not say why", path)
		}
	}
	has, err := c.mfa.Of(t.Context(), c.account(t, "ann").ID)
	if err != nil || has.TOTP == nil || has.Recovery != 10 {
		t.Errorf("%+v, %v", has, err)
	}
	if to, _ := c.own(t, "/security/again", url.Values{"back": {"/security"}}); to != "/login?next=%2Fsecurity" {
		t.Errorf("to %q", to)
	}
}

func (c *counter) account(t *testing.T, name string) accounts.Account {
	t.Helper()
	a, err := c.accounts.Get(t.Context(), name)
	c.must(t, err)
	return a
}

func TestSessionsAreListedAndEnded(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	mine := c.browser
	c.browser = newBrowser(t)
	c.admit(t, "ann", accounts.Admin, false)
	other := c.browser
	c.browser = mine
	_, _, body := c.get(t, "/security")
	ids := regexp.MustCompile(`name="id" value="([0-9a-f]{64})"`).FindAllStringSubmatch(body, -1)
	if len(ids) != 2 || strings.Count(body, "This session") != 1 || !strings.Contains(body, "Go-http-client") {
		t.Fatalf("%v\n%s", ids, body)
	}
	c.own(t, "/security/sessions/others", url.Values{})
	if status, _, _ := c.get(t, "/"); status != http.StatusOK {
		t.Errorf("this session ended: %d", status)
	}
	c.browser = other
	if status, _, _ := c.get(t, "/"); status != http.StatusSeeOther {
		t.Errorf("the other one goes on: %d", status)
	}
	c.browser = mine
	for _, id := range ids {
		c.own(t, "/security/sessions/end", url.Values{"id": {id[1]}})
	}
	if status, _, _ := c.get(t, "/"); status != http.StatusSeeOther {
		t.Errorf("this one goes on: %d", status)
	}
	rows, err := c.api.Audit.Recent(t.Context(), audit.Filter{Kind: audit.KindAdmin, Limit: 10})
	c.must(t, err)
	if len(rows) != 2 || rows[0].Decision != "session-end" || rows[0].Who != "admin:ann" {
		t.Errorf("on record: %+v", rows)
	}
}

// What the browser asks its passkeys names nobody, so that nobody learns who is one.
func TestPasskeysAreAskedForAtANameOnly(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	ask := func(host, path string) (status int, options map[string]any) {
		t.Helper()
		r := c.request(t, http.MethodPost, path, "{}", "application/json")
		r.Host = host
		status, _, body := c.send(t, r)
		var answer struct{ Options map[string]any }
		_ = json.Unmarshal([]byte(body), &answer)
		return status, answer.Options
	}
	if status, _ := ask("127.0.0.1:8081", "/login/passkey/ask"); status != http.StatusBadRequest {
		t.Errorf("at an address: %d", status)
	}
	if status, _ := ask("evil.example", "/login/passkey/ask"); status != http.StatusBadRequest {
		t.Errorf("at a stranger's name: %d", status)
	}
	status, options := ask("localhost:8081", "/login/passkey/ask")
	if status != http.StatusOK || options["rpId"] != "localhost" || options["userVerification"] != "required" || options["allowCredentials"] != nil {
		t.Errorf("at localhost: %d %v", status, options)
	}
	if status, _ := ask("localhost:8081", "/login/second/ask"); status != http.StatusUnauthorized {
		t.Errorf("before the password: %d", status)
	}
	if status, _, body := c.post(t, "/login/passkey", url.Values{"assertion": {`{"id":"x"}`}, "state": {"x"}}); status != http.StatusUnauthorized || !strings.Contains(body, "Passkey sign-in failed") {
		t.Errorf("a made-up answer: %d", status)
	}
	_, _, body := c.get(t, "/login")
	if !strings.Contains(body, `<a href="http://localhost:`) {
		t.Error("the page does not say where passkeys work")
	}
}

// The second step has a session of its own, whose token its form carries: without it a
// right code is not even looked at, and so not used up.
func TestTheSecondStepNeedsItsOwnForm(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	shows, _ := c.enrolled(t)
	c.password(t)
	code := shows()
	for _, csrf := range []string{"", "made up"} {
		if status, to, _ := c.post(t, "/login/second", url.Values{"otp": {code}, "csrf": {csrf}}); status != http.StatusSeeOther || to != "/login/second" {
			t.Errorf("csrf %q: %d to %q", csrf, status, to)
		}
	}
	if status, to, _ := c.code(t, code); status != http.StatusSeeOther || to != "/" {
		t.Errorf("the code was used up: %d to %q", status, to)
	}
}
