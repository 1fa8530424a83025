package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"authguard/guard"
	"authguard/internal/testing/world"
	"authguard/web"
	"authguard/web/pages"
)

// germans is what people who speak German do, and what the page says to them.
var germans = map[string]struct {
	do     func(*browser) *httptest.ResponseRecorder
	status int
	says   string
}{
	"the page":        {func(b *browser) *httptest.ResponseRecorder { return b.get("/login") }, http.StatusOK, "Benutzername"},
	"wrong":           {func(b *browser) *httptest.ResponseRecorder { return b.login("alice", "wrong") }, http.StatusUnauthorized, "Benutzername oder Passwort falsch"},
	"no password":     {func(b *browser) *httptest.ResponseRecorder { return b.login("alice", "") }, http.StatusBadRequest, "Geben Sie Ihr Passwort ein."},
	"a long password": {func(b *browser) *httptest.ResponseRecorder { return b.login("alice", strings.Repeat("a", 257)) }, http.StatusBadRequest, "länger als jedes hier erlaubte Passwort"},
	"a NUL":           {func(b *browser) *httptest.ResponseRecorder { return b.login("alice", "a\x00") }, http.StatusBadRequest, "ein NUL-Zeichen"},
	"no name":         {func(b *browser) *httptest.ResponseRecorder { return b.login("", right) }, http.StatusBadRequest, "Geben Sie Ihren Benutzernamen ein."},
	"an odd name":     {func(b *browser) *httptest.ResponseRecorder { return b.login("a\u202eb", right) }, http.StatusBadRequest, "Benutzernamen noch einmal ein"},
	"twice":           {func(b *browser) *httptest.ResponseRecorder { return b.login("alice", right, "username", "bob") }, http.StatusBadRequest, "Senden Sie das Feld username nur einmal."},
	"too much":        {func(b *browser) *httptest.ResponseRecorder { return b.login(strings.Repeat("a", web.MaxBody), right) }, http.StatusRequestEntityTooLarge, "höchstens 16384 Bytes"},
	"a broken form": {func(b *browser) *httptest.ResponseRecorder {
		return b.do("POST", "/login", "application/x-www-form-urlencoded", "a=%zz")
	},
		http.StatusBadRequest, "Das Formular konnte nicht gelesen werden"},
	"a text":            {func(b *browser) *httptest.ResponseRecorder { return b.do("POST", "/login", "text/plain", "a") }, http.StatusUnsupportedMediaType, "Senden Sie ein Formular (application"},
	"broken JSON":       {func(b *browser) *httptest.ResponseRecorder { return b.do("POST", "/login", "application/json", "{") }, http.StatusBadRequest, "Es fehlt etwas"},
	"signed out":        {func(b *browser) *httptest.ResponseRecorder { return b.get("/login?signed-out=1") }, http.StatusOK, "Sie sind abgemeldet"},
	"codes":             {func(b *browser) *httptest.ResponseRecorder { return b.get("/login/code") }, http.StatusOK, "Bitten Sie den Administrator"},
	"no codes here":     {func(b *browser) *httptest.ResponseRecorder { return b.post("/login/code", "username", "a") }, http.StatusNotFound, "kann keine Bestätigungscodes senden"},
	"nothing":           {func(b *browser) *httptest.ResponseRecorder { return b.get("/nothing") }, http.StatusNotFound, "Seite nicht gefunden"},
	"not so":            {func(b *browser) *httptest.ResponseRecorder { return b.do("PUT", "/login", "", "") }, http.StatusMethodNotAllowed, "Methode nicht erlaubt"},
	"no such challenge": {func(b *browser) *httptest.ResponseRecorder { return b.get("/captcha/xyz.png") }, http.StatusNotFound, "Diese Aufgabe ist abgelaufen"},
	"another site": {func(b *browser) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/login", nil)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Accept", page)
		r.Header.Set("Accept-Language", b.speaks)
		w := httptest.NewRecorder()
		b.to.ServeHTTP(w, r)
		return w
	}, http.StatusForbidden, "von einer anderen Website"},
}

func TestPagesAreInTheLanguageOfTheBrowser(t *testing.T) {
	t.Parallel()
	for name, tc := range germans {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHouse(t).browser(page)
			b.speaks = "de-CH,de;q=0.9,en;q=0.5"
			w := tc.do(b)
			want(t, w, tc.status, `<html lang="de">`, tc.says)
			if w.Header().Get("Content-Language") != "de" || w.Header().Get("Vary") != "Accept-Language" {
				t.Errorf("headers: %v", w.Header())
			}
			if english := regexp.MustCompile(`(?i)\b(the|your|you|and|not|send)\b`).FindString(bare(w.Body.String())); english != "" {
				t.Errorf("%q is left in English: %s", english, w.Body)
			}
			asked := newHouse(t).browser("application/problem+json")
			asked.speaks = "de"
			if w := tc.do(asked); w.Code >= 400 && name != "another site" {
				if w.Header().Get("Content-Language") != "" || strings.Contains(w.Body.String(), tc.says) {
					t.Errorf("a program is answered in German: %s", w.Body)
				}
			}
		})
	}
}

// bare is a page without its tags.
func bare(page string) string { return regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, "") }

func TestABrowserThatAsksForNothingGetsEnglish(t *testing.T) {
	t.Parallel()
	for _, speaks := range []string{"", "tlh", "en-GB,de;q=0.9"} {
		b := newHouse(t).browser(page)
		b.speaks = speaks
		w := b.get("/login")
		want(t, w, http.StatusOK, `<html lang="en">`, "User name")
		if w.Header().Get("Vary") != "Accept-Language" {
			t.Errorf("%q: Vary is %q", speaks, w.Header().Get("Vary"))
		}
	}
}

func TestAnotherLookIsInForceAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouseWith(t, world.Options{})
	b := h.browser(page)
	b.login("alice", "wrong")
	h.dress(t, pages.Brand{Name: "Müller & Söhne", Help: "mailto:help@example.org"})
	for _, w := range []*httptest.ResponseRecorder{b.login("alice", "wrong"), b.get("/login"), b.get("/nothing")} {
		if body := w.Body.String(); !strings.Contains(body, "Müller &amp; Söhne</title>") || !strings.Contains(body, `<a href="mailto:help@example.org">Need help?</a>`) || strings.Contains(body, "authguard<") {
			t.Errorf("the page still looks as before:\n%s", body)
		}
	}
}

// What a door says to people is in the language files, and what those have for it
// is said.
func TestEveryProblemIsOneOfTheTexts(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("texts/en.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := yaml.Unmarshal(file, &all); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("*.go")
	more, _ := filepath.Glob("proxy/*.go")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, name := range append(names, more...) {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range regexp.MustCompile(`"(problem\.[a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
			used[key[1]] = true
			if all[key[1]] == nil {
				t.Errorf("%s says %s, which is no text", name, key[1])
			}
		}
	}
	for key := range all {
		if strings.HasPrefix(key, "problem.") && !used[key] {
			t.Errorf("%s is said nowhere", key)
		}
	}
}

func TestThePageAboutCodesTakesNoPathOfAnApps(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	login := h.login("login", h.gate, h.checker)
	login.Look, login.AskCode = h.look.Below("/.authguard"), func(guard.Code) {}
	e := web.NewEcho("", login.Look, quiet)
	login.CodeRoutes(e)
	b := h.browser(page)
	b.to = e
	for _, w := range []*httptest.ResponseRecorder{b.get("/login/code"), b.post("/login/code", "username", ""), b.post("/login/code", "username", "alice"), b.get("/nothing")} {
		for _, path := range regexp.MustCompile(`(?:href|src|action)="([^"#]+)`).FindAllStringSubmatch(w.Body.String(), -1) {
			if !strings.HasPrefix(path[1], "/.authguard/") && path[1] != "/" {
				t.Errorf("%d: %s is the app's", w.Code, path[1])
			}
		}
	}
}

func TestTheLogoAndTheColoursAreServedAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	svg := `<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`
	for _, path := range []string{"/static/logo", "/static/colours.css"} {
		want(t, h.browser(page).get(path), http.StatusNotFound)
	}
	h.dress(t, pages.Brand{Name: "Shop", Logo: []byte(svg), Colour: "#00aa77"})
	w := h.browser(page).get("/static/logo")
	want(t, w, http.StatusOK, svg)
	for name, value := range map[string]string{
		"Content-Type": "image/svg+xml", "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
		"X-Content-Type-Options": "nosniff", "Cache-Control": "max-age=300",
	} {
		if got := w.Header().Get(name); got != value {
			t.Errorf("%s: %q", name, got)
		}
	}
	css := h.browser(page).get("/static/colours.css")
	want(t, css, http.StatusOK, "--fill: #00aa77;")
	if css.Header().Get("Content-Type") != "text/css; charset=utf-8" || css.Header().Get("Cache-Control") != "max-age=300" || css.Header().Get("ETag") == w.Header().Get("ETag") {
		t.Errorf("headers: %v", css.Header())
	}
	want(t, h.browser(page).get("/login"), http.StatusOK, `<img class="logo" src="/static/logo" alt="Shop">`, `<link rel="stylesheet" href="/static/colours.css">`)
	want(t, h.browser(page).get("/static/authguard.css"), http.StatusOK, "--accent")
	for _, none := range []string{"/static/", "/static/static.go", "/static/x"} {
		want(t, h.browser(page).get(none), http.StatusNotFound)
	}
}

func TestHEADOfAFileIsAnsweredLikeGETWithoutABody(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.dress(t, pages.Brand{Name: "Shop", Logo: []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`)})
	issued, err := h.Issue(t.Context(), guard.Attempt{Address: netip.MustParseAddr("192.0.2.1"), Integration: "login"}, guard.Decision{})
	if err != nil {
		t.Fatal(err)
	}
	for path, status := range map[string]int{
		"/static/logo": http.StatusOK, "/static/authguard.css": http.StatusOK, "/static/none": http.StatusNotFound,
		"/captcha/" + issued.ID + ".png": http.StatusOK, "/captcha/none.wav": http.StatusNotFound,
	} {
		b := h.browser(page)
		got, head := b.get(path), b.do("HEAD", path, "", "")
		if got.Code != status || head.Code != status {
			t.Errorf("%s: GET %d, HEAD %d, want %d", path, got.Code, head.Code, status)
		}
		for _, name := range []string{"Content-Type", "Content-Length", "Cache-Control", "ETag", "Content-Security-Policy"} {
			if head.Header().Get(name) != got.Header().Get(name) {
				t.Errorf("%s: %s is %q, by GET %q", path, name, head.Header().Get(name), got.Header().Get(name))
			}
		}
		if status == http.StatusOK && head.Body.Len() > 0 {
			t.Errorf("%s: HEAD has a body of %d bytes", path, head.Body.Len())
		}
	}
	want(t, h.browser(page).do("POST", "/static/logo", "", ""), http.StatusMethodNotAllowed)
}

func TestFilesAreCompressedForClientsThatAcceptIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for accepts, compressed := range map[string]bool{"": false, "br": false, "gzip;q=0": false, "gzip": true, "br, GZIP;q=0.5": true} {
		r := httptest.NewRequest(http.MethodGet, "/static/authguard.css", nil)
		r.Header.Set("Accept-Encoding", accepts)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != compressed || w.Code != http.StatusOK || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: %d %v", accepts, w.Code, w.Header())
		}
		if w.Header().Get("Content-Type") != "text/css; charset=utf-8" || compressed && w.Body.Len() > 12_000 {
			t.Errorf("%q: %d bytes of %s", accepts, w.Body.Len(), w.Header().Get("Content-Type"))
		}
	}
}
