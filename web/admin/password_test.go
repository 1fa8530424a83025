package admin_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/passwords"
	"authguard/trusted"
)

const newPassword = "battery staple"

func (c *counter) change(t *testing.T, current, password, repeat string) (status int, to, body string) {
	t.Helper()
	return c.post(t, "/password", url.Values{
		"csrf": {c.csrf(t, "/password")}, "current_password": {current}, "new_password": {password}, "repeat_password": {repeat},
	})
}

func TestAOneTimePasswordIsGoodForChoosingAnotherOneOnly(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, true)
	for _, path := range []string{"/", "/lookup?account=x"} {
		if status, to, _ := c.get(t, path); status != http.StatusSeeOther || to != "/password" {
			t.Errorf("%s: %d to %q", path, status, to)
		}
	}
	token := c.csrf(t, "/password")
	if status, to, _ := c.post(t, "/mode", url.Values{"mode": {"on"}, "csrf": {token}}); to != "/password" || c.Mode.On() {
		t.Errorf("/mode: %d to %q", status, to)
	}
	if status, _, body := c.get(t, "/api/status"); status != http.StatusForbidden || !strings.Contains(body, "/password") {
		t.Errorf("/api/status: %d %s", status, body)
	}
	if status, to, body := c.change(t, rightPassword, newPassword, newPassword); status != http.StatusSeeOther || to != "/?password=changed" {
		t.Fatalf("%d to %q\n%s", status, to, body)
	}
	if status, _, body := c.get(t, "/?password=changed"); status != http.StatusOK || !strings.Contains(body, "Your password was changed") {
		t.Errorf("%d", status)
	}
}

func TestANewPasswordEndsTheOtherSessionsAndKeepsOnlyThisPlace(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	elsewhere := c.browser
	c.browser = newBrowser(t)
	c.admit(t, "ann", accounts.Admin, false)
	c.inside.Right(t, "ann", "192.0.2.99")
	before := c.csrf(t, "/")
	if status, _, _ := c.change(t, rightPassword, newPassword, newPassword); status != http.StatusSeeOther {
		t.Fatal(status)
	}
	if c.csrf(t, "/") == before {
		t.Error("the session is the old one")
	}
	c.browser = elsewhere
	if status, _, _ := c.get(t, "/"); status != http.StatusSeeOther {
		t.Errorf("the other session goes on: %d", status)
	}
	here, there := c.inside.Status(t, "ann", "127.0.0.1"), c.inside.Status(t, "ann", "192.0.2.99")
	if here != trusted.Known || there != trusted.Unknown {
		t.Errorf("here %v, elsewhere %v", here, there)
	}
	if what, who, subject := c.recorded(t); what != "user-set-password" || who != "admin:ann" || subject != "ann" {
		t.Errorf("%s by %s of %s is on record", what, who, subject)
	}
}

func TestAPasswordThatCannotBeTakenSaysWhyAndCostsNoAttempt(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	events := len(c.inside.Events())
	for _, one := range []struct{ current, password, repeat, says string }{
		{rightPassword, "short", "short", "too short"},
		{rightPassword, "leaked password", "leaked password", "known from leaks"},
		{rightPassword, strings.Repeat("x", 73), strings.Repeat("x", 73), "too long"},
		{rightPassword, "12345678\x00", "12345678\x00", "NUL character"},
		{rightPassword + "\x00" + rightPassword, "something else", "something else", "current password"},
		{rightPassword, rightPassword, rightPassword, "is the same as the current one"},
		{rightPassword, newPassword, newPassword + "x", "new passwords do not match"},
		{"", newPassword, newPassword, "current password is wrong"},
	} {
		if status, _, body := c.change(t, one.current, one.password, one.repeat); status != http.StatusUnprocessableEntity || !strings.Contains(body, one.says) {
			t.Errorf("%q: %d", one.says, status)
		}
	}
	if got := len(c.inside.Events()); got != events {
		t.Errorf("%d attempts were counted", got-events)
	}
}

// What others guess at an administrator's address delays nobody with a device cookie,
// also where the current password is asked for; and the new password, which ends all
// places, leaves this browser a cookie.
func TestR30OthersAtTheAddressDelayNoCookieOfAnAdministrator(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	guess := func() (status int) {
		mine := c.browser
		defer func() { c.browser = mine }()
		c.browser = newBrowser(t)
		status, _, _ = c.post(t, "/login", url.Values{"username": {"ann"}, "password": {"wrong" + rand.Text()}}) // each another one (R28)
		return status
	}
	for range 9 {
		guess()
	}
	if status := guess(); status != http.StatusTooManyRequests {
		t.Fatalf("the tenth guess at the address was answered %d, want 429", status)
	}
	before := c.device(t)
	c.Clock.Advance(time.Second) // a cookie of the same device and moment is the same
	if status, _, body := c.change(t, rightPassword, newPassword, newPassword); status != http.StatusSeeOther {
		t.Fatalf("changing the password: %d\n%s", status, body)
	}
	if after := c.device(t); before == "" || after == "" || after == before {
		t.Errorf("the device cookie was %q and is %q", before, after)
	}
}

// device is the browser's device cookie.
func (c *counter) device(t *testing.T) string {
	t.Helper()
	at, err := url.Parse(c.base)
	if err != nil {
		t.Fatal(err)
	}
	for _, cookie := range c.browser.Jar.Cookies(at) {
		if strings.HasPrefix(cookie.Name, "authguard_device_") {
			return cookie.Value
		}
	}
	return ""
}

func TestAnOpenSessionIsNoPlaceToGuessAt(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	checked, stopped := 0, 0
	for i := range 40 {
		switch status, _, _ := c.change(t, fmt.Sprint("wrong", i), newPassword, newPassword); status {
		case http.StatusUnprocessableEntity:
			checked++
		case http.StatusForbidden, http.StatusTooManyRequests:
			stopped++
		default:
			t.Fatal(status)
		}
	}
	if checked > 20 || stopped == 0 {
		t.Errorf("%d were checked, %d stopped", checked, stopped)
	}
	if status, _, _ := c.change(t, rightPassword, newPassword, newPassword); status == http.StatusSeeOther {
		t.Error("the right password passes when no password is looked at")
	}
}

// An offered table keeps the passwords that it is asked to check, right or wrong.
type offered struct {
	*accounts.Table
	passwords chan string
}

func (o offered) Verify(ctx context.Context, name, password string) (accounts.Login, bool, error) {
	o.passwords <- password
	login, _, err := o.FindForLogin(ctx, name)
	return login, password == rightPassword, err
}

// Whoever is pretended to has nobody look at the password, right or wrong, and cannot
// tell.
func TestTheFormForANewPasswordPretendsToo(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	if err := c.inside.RemoveKnownClients(t.Context(), "ann", netip.Addr{}); err != nil {
		t.Fatal(err)
	}
	p := guard.DefaultPolicy()
	p.Account = []guard.Limit{{Failures: 1, Window: 24 * time.Hour, Action: guard.FakeFailure}}
	if err := c.inside.SetPolicy(p); err != nil {
		t.Fatal(err)
	}
	table := offered{c.accounts, make(chan string, 1)}
	c.check.Source = table
	var pages []string
	for i, one := range []struct {
		current string
		looked  bool
	}{{"wrong", true}, {rightPassword, false}, {"wrong again", false}} {
		status, _, body := c.change(t, one.current, newPassword, newPassword)
		got := <-table.passwords
		if status != http.StatusUnprocessableEntity || (got == one.current) != one.looked || len(got) < len(one.current) {
			t.Errorf("try %d: %d, and %q was looked at", i, status, got)
		}
		pages = append(pages, body)
	}
	if pages[1] != pages[0] || pages[1] != pages[2] {
		t.Errorf("the pages differ:\n%s", strings.Join(pages, "\n"))
	}
	if status, to, _ := c.get(t, "/"); status != http.StatusOK {
		t.Errorf("the session: %d to %q", status, to)
	}
}

func TestR26WhoHangsUpWhileTheCurrentPasswordWaitsIsCounted(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	form := url.Values{
		"csrf": {c.csrf(t, "/password")}, "current_password": {rightPassword}, "new_password": {newPassword}, "repeat_password": {newPassword},
	}
	for range 4 {
		leave, err := c.gate.Enter(t.Context(), passwords.Request{})
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
	}
	ctx, goAway := context.WithCancel(t.Context())
	r := c.request(t, http.MethodPost, "/password", form.Encode(), "application/x-www-form-urlencoded").WithContext(ctx)
	answered := make(chan struct{})
	go func() {
		if response, err := c.browser.Do(r); err == nil {
			response.Body.Close()
		}
		close(answered)
	}()
	for c.gate.State().Administrators == 0 {
		runtime.Gosched()
	}
	goAway()
	<-answered
	for c.inside.HungUp() == 0 { // the server hears of it a moment later
		runtime.Gosched()
	}
	if got := c.inside.Mode.State().FailureRate[captchamode.Overload]; got != 1 || c.inside.HungUp() != 1 {
		t.Errorf("pressure of %d, %d counted", got, c.inside.HungUp())
	}
}
