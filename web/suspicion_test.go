package web_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/control"
	"authguard/internal/outbox"
	"authguard/internal/passwords"
	"authguard/internal/testing/apitest"
	"authguard/internal/testing/world"
	"authguard/trusted"
	"authguard/web"
)

// doors are the ways in to a house: what offers a password for an account from
// an address, and reports whether it was let in.
func (h *house) doors(t *testing.T) map[string]func(account, address, password string) bool {
	t.Helper()
	form := func(to http.Handler) func(account, address, password string) bool {
		return func(account, address, password string) bool {
			b := h.browser(page)
			b.to, b.from = to, address
			return b.login(account, password).Code == http.StatusSeeOther
		}
	}
	administration := h.login("admin", h.gate, h.checker)
	administration.Admin = true
	api := &backEnd{World: h.World, echo: web.NewEcho("", nil, quiet)}
	h.api.Routes(api.echo)
	api.doors = apitest.Handler(t, api.echo)
	return map[string]func(account, address, password string) bool{
		"login":   form(h),
		"admin":   form((&web.Public{Login: administration, API: h.api, Log: quiet}).Handler()),
		"api":     func(account, address, password string) bool { return api.login(t, account, address, password) },
		"library": func(account, address, password string) bool { return h.library(t, account, address, password) },
	}
}

// login is what a back end does with a password: it asks, checks it itself and
// settles.
func (b *backEnd) login(t *testing.T, account, address, password string) bool {
	t.Helper()
	var out struct{ Decision, Ticket string }
	b.post(t, "/v1/attempts", map[string]string{"account": account, "address": address}, &out)
	if out.Decision != "proceed" {
		return false
	}
	b.settle(t, out.Ticket, guard.OutcomeOf(password == right).String())
	return password == right
}

func (h *house) library(t *testing.T, account, address, password string) bool {
	t.Helper()
	a := world.From(account, address)
	a.Integration = "library"
	_, ok := h.Try(t, a, strings.ReplaceAll(password, right, world.Right))
	return ok
}

// An owner hears of a right password that came after an attack on her account,
// whichever door it came in by.
func TestR28ASuccessAfterManyFailuresIsAnEventAndAnAlertAtEveryDoor(t *testing.T) {
	t.Parallel()
	for door := range newHouse(t).doors(t) {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			policy := guard.DefaultPolicy()
			policy.Account[0].Failures = 6 // five lie below it
			h := newHouseWith(t, world.Options{Policy: &policy})
			h.people.all["root"] = accounts.Login{Account: "root", Role: accounts.Admin, Password: passwords.Stored{Hash: h.people.all["alice"].Password.Hash, Usable: true}}
			account := map[bool]string{true: "root", false: "alice"}[door == "admin"]
			enter := h.doors(t)[door]
			for i := range 5 {
				enter(account, fmt.Sprintf("198.51.%d.1", i), "wrong")
			}
			if !enter(account, "203.0.113.1", right) {
				t.Fatal("the right password was not let in")
			}
			events := h.Events()
			last := events[len(events)-1]
			if !last.NewClient || last.AccountFailures != 5 || last.Integration != door {
				t.Errorf("the event says %d failures, new place %v, door %q; want 5, true, %q", last.AccountFailures, last.NewClient, last.Integration, door)
			}
			var log strings.Builder
			told, err := alerts.New(alerts.Config{PerHour: 1}, outbox.Store{Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			told.Handle(events)
			if n := strings.Count(log.String(), "kind="+string(alerts.SuspiciousSuccess)); n != 1 {
				t.Errorf("%d alerts:\n%s", n, &log)
			}
		})
	}
}

// A configured proxy that does not say who the client is looks alike at every integration. At
// the decision API it is a back end that sends its gateway's address for the client's.
func TestR9AConfiguredProxyWithoutAHeaderIsNoticedAtEveryDoor(t *testing.T) {
	t.Parallel()
	const proxy = "203.0.113.80"
	for door := range newHouse(t).doors(t) {
		if door == "admin" {
			continue // it has proxies of its own
		}
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.Proxies([]netip.Prefix{netip.MustParsePrefix(proxy + "/32")})
			enter := h.doors(t)[door]
			for i := range 10 {
				enter(fmt.Sprint("victim", i), proxy, "wrong")
			}
			got := h.UnconfiguredProxies()
			if len(got) != 1 || !got[0].Configured || got[0].Integration != door {
				t.Fatalf("noticed %+v", got)
			}
			text := control.UnconfiguredProxy(got[0]).Text
			if !strings.Contains(text, "proxy_set_header X-Forwarded-For $remote_addr;") {
				t.Errorf("no line to add in: %s", text)
			}
			if strings.Contains(text, "back end must send") != (door == "api") {
				t.Errorf("what the back end must do: %s", text)
			}
		})
	}
}

// spray has strangers fail with the right password at so many other accounts.
func (h *house) spray(t *testing.T, accounts int) {
	t.Helper()
	for i := range accounts {
		b := h.browser(page)
		b.from = fmt.Sprintf("198.51.%d.1", i)
		if w := b.login(fmt.Sprint("victim", i), right); w.Code != http.StatusUnauthorized {
			t.Fatalf("victim %d: %d", i, w.Code)
		}
		h.Clock.Advance(time.Minute)
	}
}

// A right password that strangers try everywhere is answered to a stranger as a
// wrong one, try for try, and leaves nothing behind. With a one-time code it lets
// her in.
func TestR28ASprayedRightPasswordIsAnsweredLikeAWrongOne(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"login", page}, {"login", "application/json"}, {"admin", page}, {"admin", "application/json"}} {
		door, accept := c[0], c[1]
		t.Run(door+" "+accept, func(t *testing.T) {
			t.Parallel()
			account := map[string]string{"login": "alice", "admin": "root"}[door]
			came := func() (h *house, b *browser) {
				h = newHouseWith(t, world.Options{Mail: true, Codes: new(codebook)})
				h.people.all["root"] = accounts.Login{Account: "root", Role: accounts.Admin, Password: h.people.all["alice"].Password}
				h.spray(t, 10)
				b = h.browser(accept)
				if door == "admin" {
					login := h.login("admin", h.gate, h.checker)
					login.Admin = true
					b.to = (&web.Public{Login: login, API: h.api, Log: quiet}).Handler()
				}
				return h, b
			}
			hers, she := came()
			others, stranger := came()
			for i := range 3 { // the fourth has to wait
				got, want := she.login(account, right), stranger.login(account, "not "+right)
				if got.Code != http.StatusUnauthorized || says(got, account) != says(want, account) || !reflect.DeepEqual(got.Header(), want.Header()) {
					t.Errorf("try %d: %s %v\nnot %s %v", i, says(got, account), got.Header(), says(want, account), want.Header())
				}
				if len(got.Result().Cookies()) > 0 {
					t.Errorf("try %d: cookies %v", i, got.Header())
				}
			}
			if all, _ := hers.sessions.All(); len(all) > 0 || hers.Status(t, account, "192.0.2.1") != trusted.Unknown {
				t.Errorf("%d sessions, the place is %v", len(all), hers.Status(t, account, "192.0.2.1"))
			}
			if a, b := hers.charged(t, account), others.charged(t, account); a != b {
				t.Errorf("%d charges, a wrong password has %d", a, b)
			}
			hers.Clock.Advance(time.Minute)
			if got := she.login(account, right, "code", "made up"); got.Code != http.StatusUnauthorized || len(got.Result().Cookies()) > 0 {
				t.Errorf("a made-up code: %d %v", got.Code, got.Header())
			}
			hers.Clock.Advance(time.Minute)
			in := she.login(account, right, "code", "good")
			if in.Code != http.StatusOK && in.Code != http.StatusSeeOther || hers.Status(t, account, "192.0.2.1") != trusted.Known {
				t.Errorf("with a code: %d %s, the place is %v", in.Code, in.Body, hers.Status(t, account, "192.0.2.1"))
			}
			if n := len(in.Result().Cookies()); n != 2 { // session and device
				t.Errorf("with a code: cookies %v", in.Header())
			}
		})
	}
}

// Who is turned away with a right password that is sprayed must learn how to get
// in. So everybody who is answered 401 is told, at both doors.
func TestR28AWrongPasswordsAnswerOffersTheWayIn(t *testing.T) {
	t.Parallel()
	h := newHouseWith(t, world.Options{Mail: true})
	administration := h.login("admin", h.gate, h.checker)
	administration.Admin = true
	h.spray(t, 10)
	tries := 0
	for accept, offer := range map[string]string{page: `<a href="/login/code">Get a verification code</a>`, "application/json": "send it as code. See /login/code."} {
		for _, door := range []http.Handler{h, (&web.Public{Login: administration, API: h.api, Log: quiet}).Handler()} {
			b := h.browser(accept)
			b.to = door
			for name, password := range map[string]string{"alice": right, "bob": "wrong", "nobody": right} {
				tries++
				b.from = fmt.Sprintf("203.0.113.%d", tries)
				want(t, b.login(name, password), http.StatusUnauthorized, offer)
			}
			b.accept = page
			want(t, b.get("/login/code"), http.StatusOK, "Get a verification code")
		}
	}
}
