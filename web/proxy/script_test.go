package proxy

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

const scriptTag = `<script src="/.authguard/client.js"></script>`

// Text that begins no page is sent on at once: the app may need long for the rest.
func TestTextDoesNotWaitForMore(t *testing.T) {
	t.Parallel()
	read, at, err := startOf(io.MultiReader(strings.NewReader("ok<p>"), iotest.ErrReader(io.ErrNoProgress)))
	if string(read) != "ok<p>" || at != -1 || err != nil {
		t.Errorf("%q, %d, %v", read, at, err)
	}
}

func TestTheScriptIsTheFirstInTheHead(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		"<!doctype html><html><head><title>x</title></head>":             "<!doctype html><html><head>|<title>x</title></head>",
		"\ufeff\n<!-- <head> -->\n<HTML lang='>'>\n<HEAD data-x=\">\">x": "\ufeff\n<!-- <head> -->\n<HTML lang='>'>\n<HEAD data-x=\">\">|x",
		"<!DOCTYPE html><!--><meta charset=utf-8><p>":                    "<!DOCTYPE html><!-->|<meta charset=utf-8><p>",
		"<?xml version='1.0'?><html><body>text":                          "<?xml version='1.0'?><html>|<body>text",
		"<header>not a head</header>":                                    "|<header>not a head</header>",
		"<head/>whole":                                                   "<head/>|whole",
		"plain text that is no page":                                     "",
		"{\"json\": \"<head>\"}":                                         "",
		"<!-- never ends <head>":                                         "",
		"\xff\xfe<\x00h\x00t\x00m\x00l\x00>\x00":                         "",
		"<1":                                                             "",
		"<!--" + strings.Repeat("x", 2*mostStart) + "--><head>":          "",
	} {
		for _, step := range []int{1, 7, len(page)} { // in chunks of any size
			read, at, err := startOf(&chunked{page, step})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if at >= 0 {
				rest, _ := strings.CutPrefix(page, string(read))
				got = string(read[:at]) + "|" + string(read[at:]) + rest
			}
			if got != want {
				t.Errorf("%.60q by %d: %.80q, want %q", page, step, got, want)
			}
		}
	}
}

// A chunked reader returns a few bytes at a time.
type chunked struct {
	text string
	step int
}

func (c *chunked) Read(b []byte) (int, error) {
	if c.text == "" {
		return 0, io.EOF
	}
	n := copy(b, c.text[:min(c.step, len(c.text))])
	c.text = c.text[n:]
	return n, nil
}

func TestAPolicyAllowsTheScriptAndNothingElse(t *testing.T) {
	t.Parallel()
	const script = "example.org/.authguard/client.js"
	for _, c := range []struct{ policy, want, nonce string }{
		{"default-src 'self'", "default-src 'self'", ""},
		{"img-src 'none'; frame-ancestors 'none'", "img-src 'none'; frame-ancestors 'none'", ""},
		{"default-src 'none'; script-src 'nonce-a+b/c=' 'strict-dynamic'", "default-src 'none'; script-src 'nonce-a+b/c=' 'strict-dynamic'", "a+b/c="},
		{"script-src https://cdn.example/x.js; img-src *", "script-src https://cdn.example/x.js " + script + "; img-src *", ""},
		{"default-src https:", "default-src https:; script-src https: " + script, ""},
		{"Script-Src 'sha256-abc'; default-src 'self'", "Script-Src 'sha256-abc' " + script + "; default-src 'self'", ""},
		{"script-src 'self'; script-src-elem 'sha256-abc'", "script-src 'self'; script-src-elem 'sha256-abc' " + script, ""},
		{"default-src 'self', script-src 'sha256-abc'", "default-src 'self', script-src 'sha256-abc' " + script, ""},
		{"script-src 'none'", "", ""}, {"default-src 'none'", "", ""}, {"script-src", "", ""},
		{"script-src 'sha256-abc' 'strict-dynamic'", "", ""},
		{"script-src 'nonce-a', script-src 'nonce-b'", "", ""},
	} {
		policies, nonce, ok := allow([]string{c.policy}, script)
		if got := strings.Join(policies, "|"); got != c.want || nonce != c.nonce || ok != (c.want != "") {
			t.Errorf("%s: %q with %q, %t", c.policy, got, nonce, ok)
		}
	}
	if _, _, ok := allow([]string{"script-src 'sha256-abc'"}, "[::1]:80/.authguard/client.js"); ok {
		t.Error("a policy names an address that no policy can name")
	}
}

func ask(t *testing.T, p *Proxy, method, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, "http://example.org"+path, nil)
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	r.Header.Set("Accept-Encoding", "gzip")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result()
}

func TestOnlyPagesGetTheScript(t *testing.T) {
	t.Parallel()
	const page = "<!doctype html><head><title>x</title>"
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Accept-Ranges", "bytes")
		h.Set("Cache-Control", "max-age=5")
		h.Set("ETag", `"v1"`)
		switch r.URL.Path {
		case "/json":
			h.Set("Content-Type", "application/json")
		case "/download":
			h.Set("Content-Disposition", `attachment; filename="x.html"`)
		case "/closed":
			h.Set("Content-Security-Policy", "script-src 'none'")
		case "/gone":
			w.WriteHeader(http.StatusNotFound)
		}
		if r.Header.Get("If-None-Match") == `"v1"` || r.Header.Get("If-Modified-Since") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if r.Header.Get("Accept-Encoding") != "" || r.URL.Path == "/forced" {
			h.Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, page)
			_ = z.Close()
			return
		}
		if r.URL.Path != "/stream" {
			h.Set("Content-Length", strconv.Itoa(len(page)))
		}
		fmt.Fprint(w, page)
	}))
	defer app.Close()
	p := before(t, app.URL)
	one := p.app.Load().App
	one.Script = "always"
	p.Set(one)
	for _, path := range []string{"/", "/stream"} {
		r := ask(t, p, "GET", path)
		body, _ := io.ReadAll(r.Body)
		if got, want := string(body), "<!doctype html><head>"+scriptTag+"<title>x</title>"; got != want {
			t.Errorf("%s: %s", path, got)
		}
		if n := r.Header.Get("Content-Length"); n != "" && n != strconv.Itoa(len(body)) {
			t.Errorf("%s: %s bytes, not %d", path, n, len(body))
		}
		if h := r.Header; h.Get("ETag") != `"v1-authguard"` || h.Get("Accept-Ranges") != "" || h.Get("Cache-Control") != "max-age=5" {
			t.Errorf("%s: %v", path, h)
		}
	}
	if r, whole := ask(t, p, "HEAD", "/"), ask(t, p, "GET", "/"); r.Header.Get("Content-Length") != whole.Header.Get("Content-Length") || r.Header.Get("ETag") != whole.Header.Get("ETag") {
		t.Errorf("HEAD: %v, GET: %v", r.Header, whole.Header)
	}
	if r := ask(t, p, "GET", "/", "If-None-Match", `"v1-authguard"`); r.StatusCode != http.StatusNotModified || r.Header.Get("ETag") != `"v1-authguard"` {
		t.Errorf("the page with the script, again: %d %v", r.StatusCode, r.Header)
	}
	for _, header := range [][]string{{"If-None-Match", `"v1"`}, {"If-Modified-Since", "Mon, 02 Mar 2026 09:00:00 GMT"}} {
		if r := ask(t, p, "GET", "/", header...); r.StatusCode != http.StatusOK {
			t.Errorf("a page without the script is kept: %d for %v", r.StatusCode, header)
		}
	}
	for path, headers := range map[string][]string{
		"/json": nil, "/download": nil, "/closed": nil, "/gone": nil, "/forced": nil,
		"/a": {"Sec-Fetch-Dest", "empty"}, "/b": {"Accept", "*/*"}, "/c": {"X-Requested-With", "XMLHttpRequest"},
		"/d": {"Sec-Fetch-Dest", "image"},
	} {
		r := ask(t, p, "GET", path, headers...)
		var from io.Reader = r.Body
		if r.Header.Get("Content-Encoding") != "" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			from = z
		}
		if body, _ := io.ReadAll(from); string(body) != page || r.Header.Get("ETag") != `"v1"` || r.Header.Get("Accept-Ranges") == "" {
			t.Errorf("%s: %s %v", path, body, r.Header)
		}
	}
	for _, why := range []string{"the app compresses pages without being asked to", "the app's Content-Security-Policy allows no script of its own site"} {
		if _, reported := p.reported.Load(why); !reported {
			t.Errorf("not reported: %s", why)
		}
	}
	one.Script = "auto"
	p.Set(one)
	if body, _ := io.ReadAll(ask(t, p, "GET", "/", "Accept-Encoding", "").Body); string(body) != page {
		t.Errorf("no route needs it: %s", body)
	}
	p.scripted.Store(true)
	if body, _ := io.ReadAll(ask(t, p, "GET", "/").Body); !strings.Contains(string(body), scriptTag) {
		t.Errorf("a script has sent a login: %s", body)
	}
}
