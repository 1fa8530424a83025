package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"authguard/internal/config"
	"authguard/internal/route"
)

// An app that keeps the password in a cookie gets that cookie only as it has set it: another one would be a guess that no
// route reads.
func TestNoForgedCookieReachesTheApp(t *testing.T) {
	t.Parallel()
	d, got := newDoor(t, redirects, nil), ""
	spec := guestRoute(func(s *route.Spec) {
		s.Path, s.SealedCookies, s.SignedIn = "/*", []string{"DW*", "__Host-remember", "_auth*", "remember_me"}, []string{"never"}
	})
	d.behind(t, spec, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Cookie")
		if r.URL.Path == "/set" {
			w.Header()["Set-Cookie"] = []string{"DWab=bWFsbG9yeQ%3D%3D.1; Path=/; HttpOnly", "theme=dark", "DWgone=; Max-Age=0"}
		}
	})
	set := d.send(t, "198.18.0.1", offer{"GET", "/set", "", ""}).Header["Set-Cookie"]
	sealed, attributes, _ := strings.Cut(set[0], ";")
	if !strings.HasPrefix(sealed, "DWab=bWFsbG9yeQ%3D%3D.1.") || attributes != " Path=/; HttpOnly" || set[1] != "theme=dark" || set[2] != "DWgone=; Max-Age=0" {
		t.Fatalf("the cookies are %q", set)
	}
	_, value, _ := strings.Cut(sealed, "=")
	for sent, want := range map[string]string{
		sealed:                     "DWab=bWFsbG9yeQ%3D%3D.1",
		"a=1; " + sealed + "; b=2": "a=1; DWab=bWFsbG9yeQ%3D%3D.1; b=2",
		"a=1; b=2.x":               "a=1; b=2.x",
		"DWab=dmljdGlt.1; a=1":     "a=1",
		"DWab=bWFsbG9yeQ%3D%3D.1":  "",
		"DWcd=" + value:            "",
		sealed + "x":               "",
		"DWab=dmljdGlt." + value:   "",
		"\"DWab\"=x":               "",
		"D%57ab=x":                 "",
		"a=1,DWab=x; b=2":          "b=2",
		"DWab=x; " + sealed:        "DWab=bWFsbG9yeQ%3D%3D.1",
		"DWab":                     "",
		"a=1 DWab=x; b=2":          "b=2", // as Python separates them
		"dwab=x; rememberme=y":     "rememberme=y",
		"remember_me=x; remember.me=x; remember[me=x; remember me=x": "", // to PHP, one name
		"a=1\tDWab=x":             "",
		"__Host-remember=x":       "",
		"_auth_1=x; _authority=y": "",
		"\"_auth=x; +__Host-remember=x; Host-remember=x": "",
	} {
		for _, o := range []offer{{"GET", "/page", "", ""}, {"POST", "/x", plainForm, "a=b"}} {
			got = "none"
			d.send(t, "198.18.0.1", o, "Cookie", sent)
			if got != want {
				t.Errorf("%s %q: the app got %q, want %q", o.method, sent, got, want)
			}
		}
	}
}

// phpMyAdmin encrypts the account and the password apart, and takes the account of its second server at the first one,
// where another user may have that name.
func TestNoRenamedCookieReachesPHPMyAdmin(t *testing.T) {
	t.Parallel()
	d, got := newDoor(t, redirects, nil), ""
	routes, err := config.Preset("phpmyadmin")
	if err != nil {
		t.Fatal(err)
	}
	d.behind(t, routes[0].Spec, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Cookie")
		w.Header()["Set-Cookie"] = []string{r.URL.Query().Get("name") + "=dmljdGlt%2B; HttpOnly"}
	})
	for name, others := range map[string][]string{
		"pmaUser-2":       {"pmaUser-1", "pmaUser-1_https", "pmaUser-2.https", "pmaUser-1[x", "pma%55ser-1", "+pmaUser-1", "x, pmaUser-1"},
		"pmaUser-2_https": {"pmaUser-1_https", "pmaUser-2", "pmaUser-1.https"},
		"pmaAuth-2":       {"pmaAuth-1", "pmaUser-2", "pmaAuth-2_https"},
		"pmaAuth-1_https": {"pmaAuth-1", "pmaAuth-2_https"},
	} {
		set := d.send(t, "198.18.0.1", offer{"GET", "/index.php?name=" + name, "", ""}).Header.Get("Set-Cookie")
		sealed, _, _ := strings.Cut(set, ";")
		_, value, _ := strings.Cut(sealed, "=")
		sent := map[string]string{"pma_lang=en; " + sealed: "pma_lang=en; " + name + "=dmljdGlt%2B"}
		for _, other := range others {
			sent["pma_lang=en; "+other+"="+value] = "pma_lang=en"
			sent["pma_lang=en; "+other+"=dmljdGlt%2B"] = "pma_lang=en"
		}
		for cookies, want := range sent {
			d.send(t, "198.18.0.1", offer{"GET", "/index.php", "", ""}, "Cookie", cookies)
			if got != want {
				t.Errorf("%q: phpMyAdmin got %q, want %q", cookies, got, want)
			}
		}
	}
}
