package mw_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/web/mw"
)

func exampleGuard() *guard.Guard {
	g, err := guard.Default([]byte("sixteen random bytes, or more"))
	if err != nil {
		log.Fatal(err)
	}
	return g
}

// post sends a login, as a browser or a script does.
func post(h http.Handler, password string) *httptest.ResponseRecorder {
	form := url.Values{"username": {"alice"}, "password": {password}}
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// The handler says when a password was right. After three wrong ones in a row nobody
// looks at the next, right or wrong, until it is due.
func ExampleProtect() {
	g := exampleGuard()
	defer g.Close()
	login := mw.Protect(g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "correct horse" { // yours: look at a hash
			http.Error(w, "wrong user name or password", http.StatusUnauthorized)
			return
		}
		if err := mw.Succeeded(r); err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "welcome")
	}))
	for _, password := range []string{"correct horse", "guess", "guess 2", "guess 3", "correct horse"} {
		answer := post(login, password)
		fmt.Println(answer.Code, answer.Header()["Retry-After"])
	}
	// Output:
	// 200 []
	// 401 []
	// 401 []
	// 401 []
	// 429 [1]
}

// echo, and whatever else takes middleware of net/http.
func ExampleMiddleware() {
	g := exampleGuard()
	defer g.Close()
	e := echo.New()
	e.POST("/login", func(c echo.Context) error {
		if c.FormValue("password") != "correct horse" {
			return echo.NewHTTPError(http.StatusUnauthorized)
		}
		if err := mw.Succeeded(c.Request()); err != nil {
			return err
		}
		return c.String(http.StatusOK, "welcome")
	}, echo.WrapMiddleware(mw.Middleware(g)))
	fmt.Println(post(e, "correct horse").Code, post(e, "guess").Code)
	// Output: 200 401
}

// A handler that answers every wrong password with 400 or more need not be changed.
func ExampleByStatus() {
	g := exampleGuard()
	defer g.Close()
	theirs := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "correct horse" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	signedIn := func(r *http.Request) bool { _, err := r.Cookie("session"); return err == nil } // look the session up
	answer := post(mw.Protect(g, theirs, mw.ByStatus(), mw.SignedIn(signedIn)), "correct horse")
	fmt.Println(answer.Code, len(answer.Result().Cookies()), "device cookie")
	// Output: 204 1 device cookie
}

// What does not reach the handler can be answered in one's own way.
func ExampleOnRefusal() {
	g := exampleGuard()
	defer g.Close()
	login := mw.Protect(g, http.NotFoundHandler(), mw.OnRefusal(func(w http.ResponseWriter, r *http.Request, f *mw.Refusal) {
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Type)
	}))
	for i := range 4 {
		answer := post(login, fmt.Sprint("guess ", i))
		fmt.Println(answer.Code, strings.TrimSpace(answer.Body.String()))
	}
	// Output:
	// 404 404 page not found
	// 404 404 page not found
	// 404 404 page not found
	// 429 slow-down
}
