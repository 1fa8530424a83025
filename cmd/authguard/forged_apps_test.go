//go:build apps

package main

import (
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"authguard/internal/testing/appstest"
	"authguard/internal/testing/redistest"
)

// unread are ways to write a login that PHP does not read as one.
func (a realApp) unread(user, password string) []variant {
	path := a.variants[0].path
	fields := user + "={user}&" + password + "={password}"
	asFile := func(name, value string) string {
		return "--XyZ\r\nContent-Disposition: form-data; name=\"" + name + "\"; filename=\"a\"\r\n\r\n" + value + "\r\n"
	}
	return []variant{
		{"POST", path, formType + "\t;", fields},
		{"POST", path, formType + "\u00a0;", fields},
		{"POST", path, formType, strings.Repeat("a&", 1001) + fields},
		{"POST", path, partsType, asFile(user, "{user}") + asFile(password, "{password}") + "--XyZ--\r\n"},
		{"PUT", path, formType, fields},
	}
}

// mallory's own cookies, with a login for bob that the application does not read: it renews the session of the cookies.
func TestAppsARenewedSessionProvesNoPassword(t *testing.T) {
	for name, fields := range map[string][2]string{"WordPress": {"log", "pwd"}, "phpMyAdmin": {"pma_username", "pma_password"}, "DokuWiki": {"u", "p"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := realApps[name]
			app := a.start(t)
			s := newServer(t, a.before(t, app)+noDelay+quiet)
			mallory := from("127.0.0.1")
			a.sendBy(t, mallory, s.base, a.variants[0], appstest.User, appstest.Password)
			redistest.Until(t, "mallory's success", func() bool { return successes(s, appstest.User) == 1 })
			for i, v := range a.unread(fields[0], fields[1]) {
				for j := range 4 {
					p := from(loopback(60+i, j))
					for name, value := range mallory.jar {
						if !strings.HasPrefix(name, "authguard") && !strings.HasPrefix(name, "DokuWiki") { // a new session each time
							p.jar[name] = value
						}
					}
					if got := a.sendBy(t, p, s.base, v, "bob", fmt.Sprint("guess ", i, j)); strings.Contains(fmt.Sprint(got.header), "authguard_device") {
						t.Errorf("%v: %d %v", v, got.status, got.header)
					}
				}
			}
			a.sendBy(t, from("127.59.0.1"), s.base, a.variants[0], "carol", "guess")
			redistest.Until(t, "carol's failure", func() bool { return strings.Contains(s.log.String(), "account=carol") })
			if n := successes(s, "bob"); n > 0 { // events keep their order
				t.Errorf("%d successes are recorded:\n%s", n, s.log)
			}
		})
	}
}

// mallory changes her own password in a request that also has bob's name. MediaWiki renews her session and ends the old
// one, so that no repetition of the request succeeds.
func TestAppsMediaWikiRenewsTheSessionOfItsOwnAccount(t *testing.T) {
	t.Parallel()
	a := realApps["MediaWiki"]
	s, mallory := newServer(t, a.before(t, a.start(t))+noDelay+quiet), from("127.0.0.1")
	a.sendBy(t, mallory, s.base, a.variants[0], appstest.User, appstest.Password)
	redistest.Until(t, "mallory's success", func() bool { return successes(s, appstest.User) == 1 })
	const page = "/index.php?returnto=Main_Page&title=Special:ChangeCredentials/MediaWiki%5CAuth%5CPasswordAuthenticationRequest"
	fields := url.Values{"wpName": {"bob"}, "wpPassword": {"guess"}, "password": {"another long one"}, "retype": {"another long one"}}
	for _, one := range regexp.MustCompile(`<input[^>]* type="hidden"[^>]*>`).FindAllString(mallory.get(t, s.base+page).body, -1) {
		name, value := regexp.MustCompile(`name="([^"]*)"`).FindStringSubmatch(one), regexp.MustCompile(`value="([^"]*)"`).FindStringSubmatch(one)
		if name != nil && value != nil && name[1] != "title" {
			fields.Set(name[1], html.UnescapeString(value[1]))
		}
	}
	before := maps.Clone(mallory.jar)
	got := mallory.send(t, s, "POST", page, fields.Encode(), "Content-Type", formType)
	if got.status != http.StatusFound || maps.Equal(before, mallory.jar) {
		t.Fatalf("the password is not changed: %d %v %s", got.status, got.header, got.body)
	}
	a.sendBy(t, from("127.59.0.1"), s.base, a.variants[0], "carol", "guess")
	redistest.Until(t, "carol's failure", func() bool { return strings.Contains(s.log.String(), "account=carol") })
	if n := successes(s, "bob"); n > 0 || strings.Contains(fmt.Sprint(got.header), "authguard_device") {
		t.Errorf("%d successes, %v:\n%s", n, got.header, s.log)
	}
}

// A right password by XML-RPC makes its client a known one.
func TestAppsARightPasswordByXMLRPCSucceeds(t *testing.T) {
	a := realApps["WordPress"]
	app := a.start(t)
	s := newServer(t, a.before(t, app)+noDelay+quiet)
	for i, password := range []string{"wrong", appstest.Password} {
		got := a.sendBy(t, from("127.58.0.1"), s.base, variant{"POST", "/xmlrpc.php", "text/xml", xmlCall("wp.getUsersBlogs", "{user}", "{password}")}, appstest.User, password)
		if got.status != http.StatusOK || strings.Contains(fmt.Sprint(got.header), "authguard_device") != (i == 1) {
			t.Errorf("%s: %d %v", password, got.status, got.header)
		}
	}
}

// phpMyAdmin checks the password in its cookies on every page, and renews the cookies there.
func TestAppsPHPMyAdminGetsItsOwnCookiesOnly(t *testing.T) {
	a := realApps["phpMyAdmin"]
	app := a.start(t)
	s := newServer(t, a.before(t, app)+noDelay+quiet)
	for base, want := range map[string]bool{s.base: true, app.URL: false} {
		p := from("127.0.0.1")
		if got := a.sendBy(t, p, base, a.variants[0], appstest.User, appstest.Password); got.status != http.StatusFound {
			t.Fatalf("%s: %d", base, got.status)
		}
		for range 3 {
			if got := p.get(t, s.base+"/index.php?route=/"); strings.Contains(got.body, a.inside) != want {
				t.Errorf("cookies of %s: %d, signed in: %v, cookies set: %q", base, got.status, !want, got.header["Set-Cookie"])
			}
		}
	}
}
