package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/passwords"
	"authguard/internal/testing/world"
	"authguard/web"
)

// A slowHouse checks Django's hashes in 40 ms and bcrypt in 200 ms.
func slowHouse(t *testing.T, o world.Options) (*house, http.Handler) {
	t.Helper()
	h := newHouseWith(t, o)
	checker, err := passwords.NewChecker(4, func(hash *passwords.Hash, password string) bool {
		took := 40 * time.Millisecond
		if hash.Kind() == "bcrypt" {
			took = 200 * time.Millisecond
		}
		time.Sleep(took)
		return password == right
	})
	if err != nil {
		t.Fatal(err)
	}
	django := passwords.Stored{Hash: aDjangoHash, Usable: true}
	h.people.all["django"] = accounts.Login{Account: "django", Password: django}
	h.people.all["off"] = accounts.Login{Account: "off", Password: passwords.Stored{Hash: aDjangoHash}}
	h.people.all["mailed"] = accounts.Login{Account: "mailed", NeedsCode: true, Password: django}
	h.people.all["root"] = accounts.Login{Account: "root", Role: accounts.Admin, MustChange: true, Password: django}
	return h, (&web.Public{Login: h.login("login", h.gate, checker), API: h.api, Look: h.look, Log: quiet}).Handler()
}

// post logs in and returns the status and after how long.
func post(ctx context.Context, to http.Handler, from, name, password string) (int, time.Duration) {
	form := strings.NewReader(url.Values{"username": {name}, "password": {password}}.Encode())
	r := httptest.NewRequest(http.MethodPost, "/login", form).WithContext(ctx)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = from + ":1"
	w, began := httptest.NewRecorder(), time.Now()
	to.ServeHTTP(w, r)
	return w.Code, time.Since(began)
}

func TestR12EveryAnswerOfAWrongPasswordComesAtOneTime(t *testing.T) {
	t.Parallel()
	_, login := slowHouse(t, world.Options{})
	synctest.Test(t, func(t *testing.T) {
		post(t.Context(), login, "192.0.2.1", "alice", "wrong")
		for _, c := range [][2]string{
			{"alice", "wrong"}, {"django", "wrong"}, {"nobody", "wrong"},
			{"off", right}, {"root", right}, {"mailed", right}, // right, and answered as wrong
		} {
			status, took := post(t.Context(), login, "192.0.2.2", c[0], c[1])
			if status != http.StatusUnauthorized || took != 250*time.Millisecond {
				t.Errorf("%s: %d after %v", c, status, took)
			}
		}
		status, took := post(t.Context(), login, "192.0.2.3", "django", right)
		if status != http.StatusSeeOther || took != 40*time.Millisecond {
			t.Errorf("a right one: %d after %v", status, took)
		}
	})
}

func TestR12AFakeFailureComesAtTheSameTime(t *testing.T) {
	t.Parallel()
	_, login := slowHouse(t, hole())
	synctest.Test(t, func(t *testing.T) {
		post(t.Context(), login, "192.0.2.1", "alice", "wrong")
		post(t.Context(), login, "192.0.2.1", "django", "wrong")
		status, took := post(t.Context(), login, "192.0.2.2", "django", right)
		if status != http.StatusUnauthorized || took != 250*time.Millisecond {
			t.Errorf("%d after %v", status, took)
		}
	})
}

// The hold takes no turn in the queue, which has room for one check and one that waits: five held answers fill nothing.
func TestR19AHeldAnswerTakesNoTurn(t *testing.T) {
	t.Parallel()
	h, login := slowHouse(t, world.Options{})
	synctest.Test(t, func(t *testing.T) {
		post(t.Context(), login, "192.0.2.1", "alice", "wrong")
		ctx, hangUp := context.WithCancel(t.Context())
		done := make(chan int, 5)
		for range 5 {
			go func() {
				status, _ := post(ctx, login, "192.0.2.2", "django", "wrong")
				done <- status
			}()
			time.Sleep(41 * time.Millisecond)
		}
		synctest.Wait()
		if state := h.gate.State(); state.Running+state.Waiting() != 0 || len(done) != 0 {
			t.Errorf("%+v, %d answers", state, len(done))
		}
		hangUp()
		synctest.Wait()
		if len(done) != 5 || h.charged(t, "django") == 0 {
			t.Errorf("%d of 5 ended with their clients", len(done))
		}
	})
}
