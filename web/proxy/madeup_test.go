package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"authguard/internal/route"
)

// A pinApp has a JSON login without a page, so that each attempt with a session makes the proxy send a made-up password.
type pinApp struct {
	mu    sync.Mutex
	pins  map[string]int
	asked chan struct{} // not nil: one for each made-up password, which then gets no answer until the client has gone
}

func (a *pinApp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct{ Username, Password string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	a.mu.Lock()
	a.pins[in.Password]++
	a.mu.Unlock()
	if a.asked != nil && in.Password != "0000" {
		a.asked <- struct{}{}
		<-r.Context().Done()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	fmt.Fprint(w, `{"ok":false}`)
}

var pinRoute = route.Spec{
	Name: "login", Path: "/login", Account: "json:/username", Password: "json:/password",
	Success: []string{"status 200", "json /ok true"},
}

func pin(password string) offer {
	return offer{"POST", "/login", "application/json", fmt.Sprintf(`{"username":"alice","password":%q}`, password)}
}

// The made-up passwords of one account are few: repeating a wrong PIN checks no others.
func TestR1RepeatedProbesCheckOneMadeUpPassword(t *testing.T) {
	t.Parallel()
	d, app := newDoor(t, redirects, nil), &pinApp{pins: map[string]int{}}
	d.behind(t, pinRoute, app.ServeHTTP)
	for i := range 40 {
		d.send(t, fmt.Sprintf("198.18.%d.1", i), pin("0000"), "Cookie", "sid=mallorys")
	}
	if n := len(app.pins); n != 2 || app.pins["0000"] != 5 { // digits may be a code, and each counts
		t.Errorf("the app has checked %v", app.pins)
	}
}

// Hanging up while the app checks a made-up password does not make the attempt free.
func TestR1HangingUpDuringAProbeIsAGuess(t *testing.T) {
	t.Parallel()
	d, app := newDoor(t, redirects, nil), &pinApp{pins: map[string]int{}, asked: make(chan struct{}, 100)}
	d.behind(t, pinRoute, app.ServeHTTP)
	for i := range 12 {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL+"/login",
			strings.NewReader(fmt.Sprintf(`{"username":"alice","password":"0000%s"}`, strings.Repeat(" ", i))))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Cookie", "sid=mallorys")
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.18.%d.1", i))
		done := make(chan struct{})
		go func() {
			if answer, err := (&http.Transport{}).RoundTrip(r); err == nil {
				_ = answer.Body.Close()
			}
			close(done)
		}()
		select {
		case <-app.asked:
			cancel()
			<-done
			<-d.gone
			d.settled(t, i+1)
		case <-done: // it was stopped
			cancel()
		}
	}
	if n := len(app.pins); n != 5 {
		t.Errorf("the app has checked %d made-up passwords, want 5", n)
	}
}

// settled waits until n attempts have ended.
func (d *door) settled(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); len(d.Events()) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d attempts have ended, want %d", len(d.Events()), n)
		}
	}
}
