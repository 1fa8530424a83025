package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"authguard/internal/route"
)

// A wrong password repeats (R28) only in the same request: with another code or at another tenant it is another guess.
func TestR28TheSamePasswordBesideAnotherCodeIsAnotherGuess(t *testing.T) {
	t.Parallel()
	const json = "application/json"
	multipart := "--b\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nalice\r\n--b\r\nContent-Disposition: form-data; " +
		"name=\"password\"\r\n\r\nstale\r\n--b\r\nContent-Disposition: form-data; name=\"otp\"\r\n\r\nNUMBER\r\n--b--\r\n"
	form, basic := guestRoute(nil), route.Spec{Name: "login", Path: "/*", Account: "basic", Success: []string{"cookie session"}}
	folder := guestRoute(func(s *route.Spec) { s.Path = "/*" })
	code := guestRoute(func(s *route.Spec) { s.Password = "form:code" })
	otp := guestRoute(func(s *route.Spec) { s.Password = "form:one_time_password" })
	object := guestRoute(func(s *route.Spec) { s.Account, s.Password = "json:/username", "json:/password" })
	stale := "Basic YWxpY2U6c3RhbGU="
	for name, c := range map[string]struct {
		route   route.Spec
		offer   offer
		headers []string
		want    int
	}{
		"the same request":       {form, offer{"POST", "/login", plainForm, "username=alice&password=stale"}, nil, 12},
		"a CSRF token":           {form, offer{"POST", "/login", plainForm, "username=alice&csrf_token=NUMBER&password=stale"}, []string{"X-Csrf-Token", "NUMBER"}, 12},
		"a browser's headers":    {form, offer{"POST", "/login", plainForm, "username=alice&password=stale"}, []string{"Accept-Language", "NUMBER", "Cf-Ray", "NUMBER", "Cookie", "authguard_solve=NUMBER"}, 12},
		"a client of many pages": {basic, offer{"GET", "/feed/NUMBER", "", ""}, []string{"Authorization", stale}, 12},
		"a code as the password": {form, offer{"POST", "/login", plainForm, "username=alice&password=081+5"}, nil, 5},
		"a code for parseInt":    {form, offer{"POST", "/login", plainForm, "username=alice&password=0815x081+5"}, nil, 5},
		"a code for Python":      {form, offer{"POST", "/login", plainForm, "username=alice&password=%2B%D9%A0_081+5"}, nil, 5},
		"a code in long":         {form, offer{"POST", "/login", plainForm, "username=alice&password=000000000000081+5"}, nil, 5},
		"a field for a code":     {code, offer{"POST", "/login", plainForm, "username=alice&code=stale"}, nil, 5},
		"a field for an OTP":     {otp, offer{"POST", "/login", plainForm, "username=alice&one_time_password=stale"}, nil, 5},
		"a code":                 {form, offer{"POST", "/login", plainForm, "username=alice&password=stale&otp=NUMBER"}, nil, 5},
		"a code with padding":    {form, offer{"POST", "/login", plainForm, "username=alice&password=stale&otp=NUMBER++++++++++++++++"}, nil, 5},
		"a code in multipart":    {form, offer{"POST", "/login", "multipart/form-data; boundary=b", multipart}, nil, 5},
		"a code in JSON":         {object, offer{"POST", "/login", json, `{"username":"alice","password":"stale","otp":1NUMBER}`}, nil, 5},
		"a code in the query":    {form, offer{"POST", "/login?otp=NUMBER", plainForm, "username=alice&password=stale"}, nil, 5},
		"a code in a header":     {basic, offer{"GET", "/", "", ""}, []string{"Authorization", stale, "X-Otp", "NUMBER"}, 5},
		"a code beside Basic":    {basic, offer{"POST", "/", plainForm, "otp=NUMBER"}, []string{"Authorization", stale}, 5},
		"a code in a long body":  {basic, offer{"PUT", "/", plainForm, "otp=NUMBER&pad=" + strings.Repeat("x", 9000)}, []string{"Authorization", stale}, 5},
		"the same beside Basic":  {basic, offer{"PROPFIND", "/feed/NUMBER", "text/xml", "<a/>"}, []string{"Authorization", stale}, 12},
		"a tenant in a cookie":   {form, offer{"POST", "/login", plainForm, "username=alice&password=stale"}, []string{"Cookie", "tenant=tNUMBER"}, 5},
		"a tenant's host":        {form, offer{"POST", "/login", plainForm, "username=alice&password=stale"}, []string{"Host", "tNUMBER.example"}, 5},
		"a tenant's folder":      {folder, offer{"POST", "/tNUMBER/login", plainForm, "username=alice&password=stale"}, nil, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, checked := newDoor(t, redirects, nil), 0
			d.behind(t, c.route, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if _, password, _ := r.BasicAuth(); password == "stale" || strings.Contains(string(body), "stale") || strings.Contains(string(body), "081+5") {
					checked++ // not a made-up one
				}
				w.WriteHeader(http.StatusUnauthorized)
			})
			vary := func(s string, i int) string {
				return strings.NewReplacer("NUMBER", fmt.Sprintf("%06d", i)).Replace(s)
			}
			for i := range 12 {
				o, headers := c.offer, append([]string(nil), c.headers...)
				o.path, o.body = vary(o.path, i), vary(o.body, i)
				for k := range headers {
					headers[k] = vary(headers[k], i)
				}
				d.send(t, fmt.Sprintf("198.18.%d.7", i), o, headers...)
			}
			if checked != c.want {
				t.Errorf("the app has checked %d passwords, want %d", checked, c.want)
			}
		})
	}
}
