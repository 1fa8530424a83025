package learn

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"authguard/internal/route"
)

// A rule that matches each login protects nothing, whatever kind of login it is.
func TestLooseFindsRulesThatMatchEveryLogin(t *testing.T) {
	t.Parallel()
	var logins, away, busy atomic.Int64
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() > 0 || busy.Load() > 0 && r.Method == http.MethodPost {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if r.Host != "login.example.org" || r.Header.Get("X-Forwarded-Proto") != "https" {
			t.Errorf("asked as %s, %s", r.Host, r.Header.Get("X-Forwarded-Proto"))
		}
		var object struct {
			Login struct{ Name, Password string }
		}
		if r.URL.Path == "/app/json" {
			_ = json.NewDecoder(r.Body).Decode(&object)
		}
		_, basic, _ := r.BasicAuth()
		switch _, err := r.Cookie("token"); {
		case r.URL.Path == "/app/form" && r.Method == http.MethodGet:
			http.SetCookie(w, &http.Cookie{Name: "token", Value: "1"})
			fmt.Fprint(w, `<form><input type=hidden name=token value=1><input name=name><input type=password name=secret></form>`)
			return
		case r.URL.Path == "/app/form" && err == nil && r.FormValue("name") != "" && r.FormValue("secret") != "" && r.FormValue("token") == "1",
			r.URL.Path == "/app/json" && object.Login.Name != "" && object.Login.Password != "",
			r.URL.Path == "/app/basic" && basic != "":
			logins.Add(1)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"ok":false}`)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(app.Close)
	upstream, origin := app.URL+"/app", "https://login.example.org"
	names := `[A-Za-z0-9._@+-]+`
	form := route.Spec{Path: "/form", Account: "form:name", Password: "form:secret", Names: names}
	object := route.Spec{Path: "/json", Account: "json:/Login/Name", Password: "json:/Login/Password"}
	basic := route.Spec{Path: "/basic/*", Account: "basic", Methods: []string{"ANY"}}
	with := func(s route.Spec, name string, success ...string) route.Spec {
		s.Name, s.Success = name, success
		return s
	}
	object200 := []string{"status 200"}
	specs := []route.Spec{
		with(form, "form", "status 200"), with(form, "same", "status 302"), with(form, "never", "never"),
		with(object, "json", "status 2xx"), with(object, "right", "json /ok true"), with(basic, "basic", "status 200"),
	}
	if loose, err := Loose(t.Context(), app.URL, origin, []route.Spec{{Name: "root", Path: "/app/json", Success: object200,
		Account: object.Account, Password: object.Password}}); err != nil || len(loose) != 1 {
		t.Errorf("an app at /: %q, %v", loose, err)
	}
	logins.Store(0)
	loose, err := Loose(t.Context(), upstream, origin, specs)
	if err != nil || !slices.Equal(loose, []string{"form", "json", "basic"}) || logins.Load() != 5 {
		t.Errorf("%q after %d logins, %v", loose, logins.Load(), err)
	}
	unusual := with(form, "unusual", "status 200")
	unusual.Names = `[0-9]+`
	if loose, err := Loose(t.Context(), upstream, origin, []route.Spec{unusual}); err != nil || loose != nil {
		t.Errorf("no name fits: %q, %v", loose, err)
	}
	// A login that the app answered is not repeated, whatever the answer.
	logins.Store(0)
	busy.Store(1)
	if loose, err := Loose(t.Context(), upstream, origin, specs[:1]); err != nil || loose != nil {
		t.Errorf("a login that got 503: %q, %v", loose, err)
	}
	away.Store(1)
	if _, err := Loose(t.Context(), upstream, origin, specs); err == nil {
		t.Error("an app that is away is no error")
	}
}
