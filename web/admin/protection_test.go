package admin_test

import (
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authguard/internal/accounts"
	"authguard/internal/operation"
)

// changing are the routes that change something, but for those of the API's programs.
func (c *counter) changing(below string) (paths []string) {
	for _, r := range c.routes {
		if (r.Method == http.MethodPost) && strings.HasPrefix(r.Path, below) && !strings.HasPrefix(r.Path, "/api") {
			paths = append(paths, r.Path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// signIn are the paths that nobody is signed in at yet: they have no session's token, and
// where a request comes from is all that protects them.
var signIn = []string{"/login", "/login/code", "/login/passkey", "/login/passkey/ask", "/login/second", "/login/second/ask", "/logout"}

// CSRF: no form of another site, and none without the session's token, changes anything.
func TestNoOtherSiteChangesAnything(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	all := c.changing("/")
	if len(all) < 15 {
		t.Fatalf("only %v", all)
	}
	for _, path := range all {
		for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
			r := c.request(t, http.MethodPost, path, "mode=on", "application/x-www-form-urlencoded")
			r.Header.Set(header, value)
			if status, _, _ := c.send(t, r); status != http.StatusForbidden {
				t.Errorf("%s with %s: %s is answered %d", path, header, value, status)
			}
		}
		if slices.Contains(signIn, path) {
			continue
		}
		status, _, _ := c.post(t, path, url.Values{"csrf": {"made up"}})
		if status == http.StatusUnsupportedMediaType { // a file, in another kind of form
			r := c.request(t, http.MethodPost, path, "--x\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\nmade up\r\n--x--\r\n", "multipart/form-data; boundary=x")
			status, _, _ = c.send(t, r)
		}
		if status != http.StatusForbidden {
			t.Errorf("%s without the session's token: %d", path, status)
		}
	}
	if c.Mode.On() {
		t.Error("the mode was switched")
	}
}

// Clickjacking: no page may be shown in another's frame.
func TestNoPageIsShownInAFrame(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	for _, r := range c.routes {
		if r.Method != http.MethodGet || strings.ContainsAny(r.Path, ":*") {
			continue
		}
		response, err := c.browser.Do(c.request(t, http.MethodGet, r.Path, "", ""))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if policy := response.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe-inline") || strings.Contains(policy, "http") || strings.Contains(policy, "*") || !strings.Contains(policy, "default-src 'none'") || response.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %q %q", r.Path, policy, response.Header.Get("X-Frame-Options"))
		}
	}
}

// Session fixation: a token that somebody planted is not the one that the login starts,
// after the password and after the second factor.
func TestALoginStartsASessionOfItsOwn(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	shows, _ := c.enrolled(t)
	at, err := url.Parse(c.base)
	c.must(t, err)
	tokens := func() map[string]string {
		all := map[string]string{}
		for _, cookie := range c.browser.Jar.Cookies(at) {
			if !strings.Contains(cookie.Name, "device") {
				all[cookie.Name] = cookie.Value
			}
		}
		return all
	}
	thief := newBrowser(t) // who knows a token that the server once gave out, and two that are made up
	c.browser = thief
	c.password(t)
	stolen := c.browser.Jar.Cookies(at)
	c.browser = newBrowser(t)
	c.browser.Jar.SetCookies(at, append(stolen, &http.Cookie{Name: "authguard_admin", Value: "planted"}))
	planted := tokens()
	if status, to, _ := c.post(t, "/login", url.Values{"username": {"ann"}, "password": {rightPassword}}); to != "/login/second" {
		t.Fatalf("%d to %q", status, to)
	}
	waiting := tokens()
	if status, to, _ := c.code(t, shows()); to != "/" {
		t.Fatalf("%d to %q", status, to)
	}
	signedIn := tokens()
	for name, value := range planted {
		if waiting[name] == value && name != "authguard_admin" || signedIn[name] == value {
			t.Errorf("the planted %s goes on", name)
		}
	}
	for _, old := range []map[string]string{planted, waiting} {
		c.browser = newBrowser(t)
		for name, value := range old {
			c.browser.Jar.SetCookies(at, []*http.Cookie{{Name: name, Value: value}})
		}
		if status, _, _ := c.get(t, "/"); status != http.StatusSeeOther {
			t.Errorf("an earlier token opens the administration: %d", status)
		}
	}
}

// Open redirect: whatever asks to go elsewhere afterwards stays here (CWE-601).
func TestNothingLeadsToAnotherSite(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	shows, _ := c.enrolled(t)
	for _, elsewhere := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, `\\evil.example`, "/\t/evil.example", "javascript:alert(1)", "https:evil.example"} {
		c.browser = newBrowser(t)
		stays := func(what, to string) {
			t.Helper()
			u, err := url.Parse(to)
			if err != nil || u.IsAbs() || u.Host != "" || strings.HasPrefix(to, "//") || strings.HasPrefix(to, `/\`) {
				t.Errorf("%s leads to %q for %q", what, to, elsewhere)
			}
		}
		_, to, _ := c.post(t, "/login", url.Values{"username": {"ann"}, "password": {rightPassword}, "next": {elsewhere}})
		stays("the password", to)
		_, to, _ = c.post(t, "/login/second", url.Values{"otp": {shows()}, "csrf": {c.csrf(t, "/login/second")}, "next": {elsewhere}})
		stays("the second factor", to)
		_, to, _ = c.post(t, "/unlock", url.Values{"account": {"x"}, "csrf": {c.csrf(t, "/security")}, "back": {elsewhere}})
		stays("a form", to)
		_, to, _ = c.post(t, "/security/again", url.Values{"csrf": {c.csrf(t, "/security")}, "back": {elsewhere}})
		stays("signing in again", to)
		if _, _, body := c.get(t, "/login?next="+url.QueryEscape(elsewhere)); strings.Contains(body, "evil.example") {
			t.Errorf("the page has %q", elsewhere)
		}
	}
}

// Token in URL: what stands there is in logs, histories and Referer headers, so none is
// read there and none is written there.
func TestNoTokenIsInAURL(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	at, err := url.Parse(c.base)
	c.must(t, err)
	var made struct{ Token string }
	c.mustAsk(t, "POST", "/api/tokens", `{"name":"ci","scopes":["read"]}`, &made)
	secrets := []string{made.Token, c.csrf(t, "/")}
	for _, cookie := range c.browser.Jar.Cookies(at) {
		secrets = append(secrets, cookie.Value)
	}
	links := regexp.MustCompile(`(?:href|action|src|data-passkey)="([^"]*)"`)
	for _, path := range []string{"/", "/security", "/lookup?q=x", "/password", "/login"} {
		_, _, body := c.get(t, path)
		for _, link := range links.FindAllStringSubmatch(body, -1) {
			for _, secret := range secrets {
				if strings.Contains(link[1], secret) {
					t.Errorf("%s links to %q", path, link[1])
				}
			}
		}
	}
	signedIn := c.browser
	c.browser = newBrowser(t)
	for _, secret := range secrets {
		for _, name := range []string{"token", "access_token", "authguard_admin", "csrf", "session"} {
			if status, _, _ := c.get(t, "/api/status?"+name+"="+url.QueryEscape(secret)); status != http.StatusUnauthorized {
				t.Errorf("?%s= opens the API: %d", name, status)
			}
		}
	}
	c.browser = signedIn
	if status, _, _ := c.send(t, c.request(t, http.MethodPost, "/mode?csrf="+secrets[1], "mode=on&for=1h&reason=x", "application/x-www-form-urlencoded")); status != http.StatusForbidden || c.Mode.On() {
		t.Errorf("the session's token is read from the URL: %d", status)
	}
}

// Enumeration: nobody learns from outside who is an administrator, nor who has a second
// factor.
func TestNobodyLearnsWhoIsAnAdministrator(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.enrolled(t) // ann
	for name, role := range map[string]accounts.Role{"bob": accounts.Admin, "carl": accounts.User} {
		_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: name, Password: rightPassword, Role: role})
		c.must(t, err)
	}
	_, err := c.control.Do(t.Context(), operation.By{Who: "test", Fresh: true}, accounts.DisableUser{OfAccount: operation.OfAccount{Username: "bob"}})
	c.must(t, err)
	type answer struct {
		status int
		header string
		body   string
	}
	ask := func(path, name, password string) answer {
		t.Helper()
		r := c.request(t, http.MethodPost, path, url.Values{"username": {name}, "password": {password}}.Encode(), "application/x-www-form-urlencoded")
		response, err := newBrowser(t).Do(r)
		c.must(t, err)
		defer response.Body.Close()
		h := response.Header.Clone()
		for _, varies := range []string{"Date", "Content-Length"} {
			h.Del(varies)
		}
		var keys []string
		for _, key := range slices.Sorted(maps.Keys(h)) {
			keys = append(keys, key+": "+strings.Join(h[key], ","))
		}
		body := make([]byte, 1<<20)
		n, _ := response.Body.Read(body)
		return answer{response.StatusCode, strings.Join(keys, "\n"), strings.ReplaceAll(string(body[:n]), `value="`+name+`"`, "")}
	}
	for _, path := range []string{"/login", "/login/code"} {
		want := ask(path, "dora", "wrong password of dora") // whom nobody knows
		for _, name := range []string{"ann", "bob", "carl"} {
			if got := ask(path, name, "wrong password of "+name); got != want {
				t.Errorf("%s tells %s from nobody: %d %q, not %d %q", path, name, got.status, got.header, want.status, want.header)
			}
			c.must(t, c.inside.Unlock(t.Context(), name, netip.Addr{}))
		}
	}
	if right, nobody := ask("/login", "carl", rightPassword), ask("/login", "dora", rightPassword); right != nobody {
		t.Errorf("a user's right password is answered %d, a stranger's %d", right.status, nobody.status)
	}
}
