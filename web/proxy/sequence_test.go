//go:build !race

package proxy_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"authguard/guard"
)

// What an app may take for its login in another spelling is guarded or refused. 40
// tries of each; the app here takes every path for its login.
func TestNoSpellingLeadsAroundTheGuard(t *testing.T) {
	t.Parallel()
	const urlencoded = "application/x-www-form-urlencoded"
	multipart := "--b\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nalice\r\n--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\nguess-NUMBER\r\n--b--\r\n"
	fields := "username=alice&password=guess-NUMBER"
	json := `{"user":{"username":"alice","password":"guess-NUMBER"}}`
	for _, c := range []struct {
		route string
		offer
	}{
		{"form", offer{"POST", "/login", urlencoded, fields}},
		{"form", offer{"POST", "/login/", urlencoded, fields}},
		{"form", offer{"POST", "//login", urlencoded, fields}},
		{"form", offer{"POST", "/./login", urlencoded, fields}},
		{"form", offer{"POST", "/x/../login", urlencoded, fields}},
		{"form", offer{"POST", "/%2e/login", urlencoded, fields}},
		{"form", offer{"POST", "/x/%2e%2e/login", urlencoded, fields}},
		{"form", offer{"POST", "/x%2f..%2flogin", urlencoded, fields}},
		{"form", offer{"POST", "/%6cogin", urlencoded, fields}},
		{"form", offer{"POST", "/%256cogin", urlencoded, fields}},
		{"form", offer{"POST", "/%2flogin", urlencoded, fields}},
		{"form", offer{"POST", "/login;x", urlencoded, fields}},
		{"form", offer{"POST", "/login;jsessionid=1", urlencoded, fields}},
		{"form", offer{"POST", "/;x/login", urlencoded, fields}},
		{"form", offer{"POST", "/x/..;y/login", urlencoded, fields}},
		{"form", offer{"POST", "/login%3bx", urlencoded, fields}},
		{"form", offer{"POST", "/login%00", urlencoded, fields}},
		{"form", offer{"POST", "/login%00.png", urlencoded, fields}},
		{"form", offer{"POST", "/login%20", urlencoded, fields}},
		{"form", offer{"POST", "/login.", urlencoded, fields}},
		{"form", offer{"POST", "/LogIn", urlencoded, fields}},
		{"form", offer{"POST", "/\\login", urlencoded, fields}},
		{"form", offer{"POST", "/x\\..\\login", urlencoded, fields}},
		{"form", offer{"POST", "/login?x=/../y", urlencoded, fields}},
		{"form", offer{"POST", "/login", "Application/X-WWW-Form-UrlEncoded; charset=UTF-8", fields}},
		{"form", offer{"POST", "/login", "application/x-www-form-urlencoded; charset=utf-7", fields}},
		{"form", offer{"POST", "/login", "multipart/form-data; boundary=b", multipart}},
		{"form", offer{"POST", "/login", "application/json", `{"username":"alice","password":"guess-NUMBER"}`}},
		{"form", offer{"POST", "/login", "text/plain", fields}},
		{"form", offer{"POST", "/login", "", fields}},
		{"form", offer{"POST", "/login?username=alice&password=guess-NUMBER", urlencoded, ""}},
		{"form", offer{"POST", "/login?password=guess-NUMBER", urlencoded, fields}},
		{"form", offer{"POST", "/login?username=alice", urlencoded, "password=guess-NUMBER"}},
		{"form", offer{"GET", "/login?username=alice&password=guess-NUMBER", "", ""}},
		{"form", offer{"GET", "/login?username=alice&PassWord=guess-NUMBER", "", ""}},
		{"form", offer{"GET", "/login", urlencoded, fields}},
		{"form", offer{"PUT", "/login", urlencoded, fields}},
		{"form", offer{"FOO", "/login", urlencoded, fields}},
		{"form", offer{"POST", "/login", urlencoded, "username=bob-NUMBER&username=alice&password=guess-NUMBER"}},
		{"form", offer{"POST", "/login", urlencoded, "username=bob-NUMBER&password=a&password=guess-NUMBER"}},
		{"form", offer{"POST", "/login", urlencoded, "Username=bob-NUMBER&username=alice&password=guess-NUMBER"}},
		{"form", offer{"POST", "/login", urlencoded, "username[]=bob-NUMBER&username=alice&password=guess-NUMBER"}},
		{"form", offer{"POST", "/login", urlencoded, "username=bob-NUMBER&+username=alice&password=guess-NUMBER"}},
		{"form", offer{"POST", "/login", urlencoded, "username=bob-NUMBER&username%00x=alice&password=guess-NUMBER"}},
		{"form", offer{"POST", "/login", urlencoded, "username=bob-NUMBER;username=alice&password=guess-NUMBER"}},
		{"form", offer{"POST", "/login", urlencoded, "username=bob-NUMBER&password=%zz&password=guess-NUMBER"}},
		{"form", offer{"POST", "/login", urlencoded, "username=%ff-NUMBER&password=guess-NUMBER"}},
		{"json", offer{"POST", "/api/login", "application/json", json}},
		{"json", offer{"POST", "/api/login", "application/json; charset=utf-16", json}},
		{"json", offer{"POST", "/api/login", urlencoded, fields}},
		{"json", offer{"POST", "/api/login", "application/json", `{"user":{"username":"bob-NUMBER","username":"alice","password":"guess"}}`}},
		{"json", offer{"POST", "/api/login", "application/json", `{"user":{"username":"bob-NUMBER","Username":"alice","password":"guess"}}`}},
		{"json", offer{"POST", "/api/login", "application/json", `{"User":{"username":"alice"},"user":{"username":"bob-NUMBER","password":"guess"}}`}},
		{"json", offer{"POST", "/api/login", "application/json", `{"user":{"username":["bob-NUMBER"],"password":"guess"}}`}},
		{"json", offer{"POST", "/api/login", "application/json", `[{"user":{"username":"bob-NUMBER","password":"guess"}}]`}},
		{"json", offer{"POST", "/api/login", "application/json", `{"user":{"username":"bob-NUMBER","password":"guess"}} {}`}},
		{"any", offer{"POST", "/anything/at/all", urlencoded, fields}},
		{"any", offer{"GET", "/?username=alice&password=guess-NUMBER", "", ""}},
		{"any", offer{"POST", "/x?username=alice", urlencoded, "password=guess-NUMBER"}},
		{"any", offer{"POST", "/x?username=bob", urlencoded, fields}},
	} {
		d := newDoor(t, wordpress, nil, c.route)
		for i := range 12 {
			o := c.offer
			number := strings.NewReplacer("NUMBER", fmt.Sprint(i))
			o.path, o.body = number.Replace(o.path), number.Replace(o.body)
			d.send(t, fmt.Sprintf("198.18.%d.1", i), o)
		}
		if n := d.app.passwords(); n > 5 {
			t.Errorf("%s %s %s %q: the app saw %d passwords", c.method, c.path, c.kind, c.body, n)
		}
	}
}

// An attacker logs in with made-up sessions. The notes of others stay.
func TestR6MadeUpSessionsReplaceNoNote(t *testing.T) {
	t.Parallel()
	d, app := newTwoSteps(t)
	many := make([]string, 20)
	for i := range many {
		many[i] = fmt.Sprintf("c%d=%s", i, rand.Text())
	}
	login := form("username=mallory&password=correct+horse")
	d.send(t, "203.0.113.9", login, "Cookie", strings.Join(many, "; "))
	session := d.signIn(t, "alice", "203.0.113.9", "")
	for i := range 130 {
		ids := make([]string, 860)
		for k := range ids {
			ids[k] = fmt.Sprintf("%03d%05d", i, k)
		}
		d.signIn(t, "mallory", "203.0.113.10", "sid="+strings.Join(ids, "."))
	}
	if r := d.send(t, "203.0.113.9", code("000000"), "Cookie", session); r.StatusCode != http.StatusOK || app.checked("alice") != 1 {
		t.Errorf("%d, %d codes", r.StatusCode, app.checked("alice"))
	}
	if n := d.Used(t, "alice", "203.0.113.9", guard.OnAccount); n != 1 {
		t.Errorf("%d failures", n)
	}
}

// An attacker has a session of their own, tries alice's account in it, and lets the app renew it. Her notes stay.
func TestR6RenewedSessionsReplaceNoNote(t *testing.T) {
	t.Parallel()
	d, app := newTwoSteps(t)
	app.renews = true
	session, mine := d.signIn(t, "alice", "203.0.113.9", ""), d.signIn(t, "mallory", "203.0.113.10", "")
	d.send(t, "203.0.113.10", form("username=alice&password=guess"), "Cookie", mine)
	for range 130 {
		mine = d.send(t, "203.0.113.10", offer{"GET", "/code", "", ""}, "Cookie", mine).Header.Get("Set-Cookie")
	}
	if r := d.send(t, "203.0.113.9", code("000000"), "Cookie", session); r.StatusCode != http.StatusOK || app.checked("alice") != 1 {
		t.Errorf("%d, %d codes", r.StatusCode, app.checked("alice"))
	}
}
