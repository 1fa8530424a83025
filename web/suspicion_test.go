package web_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/passwords"
	"authguard/internal/world"
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
	api := &backEnd{World: h.World, doors: web.NewEcho("", quiet)}
	h.api.Routes(api.doors)
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
	a.Door = "library"
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
			if !last.NewPlace || last.AccountFailures != 5 || last.Door != door {
				t.Errorf("the event says %d failures, new place %v, door %q; want 5, true, %q", last.AccountFailures, last.NewPlace, last.Door, door)
			}
			var log strings.Builder
			told, err := alerts.New(alerts.Config{PerHour: 1}, slog.New(slog.NewTextHandler(&log, nil)))
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
