package proxy_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/testing/world"
	"authguard/web"
	"authguard/web/proxy"
)

// BenchmarkPage requests a page of 200 KB, and a script of that size, from an app that does not compress: with the
// insertion of our script, and without. The ratio is that of the rates.
func BenchmarkPage(b *testing.B) {
	body := "<!doctype html><html><head><title>App</title></head><body>" + strings.Repeat("<p>A line of the app's page.</p>\n", 6200)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := "text/html; charset=utf-8"
		if r.URL.Path == "/app.js" {
			kind = "text/javascript"
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = io.WriteString(w, body)
	}))
	defer app.Close()
	upstream, err := url.Parse(app.URL)
	if err != nil {
		b.Fatal(err)
	}
	own := world.New(b, world.Options{})
	through := func(script string) *httptest.Server {
		p, err := proxy.New(proxy.Config{Edge: new(web.Edge), Hold: new(atomic.Int64), Secret: make([]byte, 16),
			Guard: func(string) *guard.Guard { return own.Guard }, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		p.Set(proxy.App{Upstream: upstream, Timeout: time.Minute, Patience: time.Minute, MaxBody: 4096, Script: script})
		server := httptest.NewServer(p)
		b.Cleanup(server.Close)
		return server
	}
	with, without := through("always"), through("never")
	get := func(server *httptest.Server, path string) int64 {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Accept-Encoding", "identity")
		answer, err := server.Client().Do(r)
		if err != nil {
			b.Fatal(err)
		}
		defer answer.Body.Close()
		n, err := io.Copy(io.Discard, answer.Body)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	if n, m := get(with, "/"), get(without, "/"); n <= m || m != int64(len(body)) {
		b.Fatalf("%d bytes with the script, %d without", n, m)
	}
	for name, path := range map[string]string{"page": "/", "script": "/app.js"} {
		b.Run(name, func(b *testing.B) {
			const round = 4 // requests in turns: a busy machine slows both
			var took [2]time.Duration
			for range b.N {
				for i, server := range []*httptest.Server{with, without} {
					began := time.Now()
					for range round {
						get(server, path)
					}
					took[i] += time.Since(began)
				}
			}
			b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "ratio")
			b.ReportMetric(float64(round*b.N)/took[0].Seconds(), "pages/s")
		})
	}
}
