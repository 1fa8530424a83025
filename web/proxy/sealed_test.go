package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"authguard/internal/route"
)

// An app that keeps the password in a cookie gets that cookie only as it has set it: another one would be a guess that no
// route reads.
func TestNoForgedCookieReachesTheApp(t *testing.T) {
	t.Parallel()
	d, got := newDoor(t, redirects, nil), ""
	spec := guestRoute(func(s *route.Spec) { s.Path, s.SealedCookies, s.SignedIn = "/*", []string{"DW*"}, []string{"never"} })
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
