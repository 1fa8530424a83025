package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authguard/guard"
	"authguard/internal/route"
	"authguard/internal/testing/world"
	"authguard/web"
)

// before is a proxy that guards nothing.
func before(t *testing.T, app string) *Proxy {
	t.Helper()
	p, err := New(Config{Edge: new(web.Edge), Hold: new(atomic.Int64), Secret: make([]byte, 16), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	upstream, err := url.Parse(app)
	if err != nil {
		t.Fatal(err)
	}
	p.Set(App{Upstream: upstream})
	return p
}

// Nothing of an answer is kept back until more of it comes, whether its length is
// known or not.
func TestAnswersArriveAsTheyAreSent(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/known" {
			w.Header().Set("Content-Length", "3")
		}
		for _, piece := range []string{"", "a", "b", "c"} {
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	}))
	defer app.Close()
	p := before(t, app.URL)
	front := httptest.NewServer(p)
	defer front.Close()
	for _, path := range []string{"/known", "/unknown"} {
		answer, err := http.Get(front.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		one := make([]byte, 1)
		for _, want := range []string{"a", "b", "c"} {
			next <- struct{}{}
			if _, err := io.ReadFull(answer.Body, one); err != nil || string(one) != want {
				t.Fatalf("%s: %q %v, want %q", path, one, err, want)
			}
		}
		next <- struct{}{}
		_ = answer.Body.Close()
	}
}

// pipes are connections within the test.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return new(net.TCPAddr) }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p <- far
	return near, nil
}

// Where every request has an Authorization header, downloads have the time that they
// need, and end with their client.
func TestWhatComesAfterTheVerdictTakesItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		front, back := make(pipes), make(pipes)
		left := make(chan struct{})
		app := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, password, _ := r.BasicAuth(); password != "right" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			for _, piece := range []string{"begin ", "end"} {
				_, _ = io.WriteString(w, piece)
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Hour)
			}
			<-r.Context().Done()
			close(left)
		})}
		g := world.New(t, world.Options{}).Guard
		p, err := New(Config{Edge: new(web.Edge), Hold: new(atomic.Int64), Secret: make([]byte, 16), Log: slog.New(slog.DiscardHandler), Guard: func(string) *guard.Guard { return g }})
		if err != nil {
			t.Fatal(err)
		}
		login, err := route.Compile(route.Spec{Name: "login", Path: "/*", Account: "basic", Success: []string{"status 200"}})
		if err != nil {
			t.Fatal(err)
		}
		p.Set(App{Upstream: &url.URL{Scheme: "http", Host: "app"}, Timeout: time.Minute, Routes: route.Table{login}})
		p.app.Load().transport.DialContext = back.dial
		us := &http.Server{Handler: p, ReadTimeout: 15 * time.Second, WriteTimeout: 90 * time.Second}
		go func() { _ = us.Serve(front) }()
		go func() { _ = app.Serve(back) }()
		client := &http.Transport{DialContext: front.dial}
		r, _ := http.NewRequest(http.MethodGet, "http://site/file", nil)
		r.SetBasicAuth("alice", "right")
		answer, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len("begin end"))
		if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != "begin end" {
			t.Errorf("%q, %v", got, err)
		}
		_ = answer.Body.Close()
		<-left
		client.CloseIdleConnections()
		p.Off()
		_ = us.Close()
		_ = app.Close()
		time.Sleep(time.Second) // in which the server ends its connections
	})
}

// A stream goes on as long as it moves, however slowly the app answers: an upload, an
// answer, and both over HTTP/2, where a deadline ends a stream that nobody waits for.
func TestStreamsHaveTimeAsLongAsTheyMove(t *testing.T) {
	t.Parallel()
	for _, multiplexed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			front, back := make(pipes), make(pipes)
			app := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for range 3 {
					time.Sleep(time.Hour)
					_, _ = r.Body.Read(make([]byte, 1<<20))
				}
				for range 3 {
					time.Sleep(time.Hour)
					_, _ = io.WriteString(w, "piece ")
					_ = http.NewResponseController(w).Flush()
				}
			})}
			p := before(t, "http://app")
			p.app.Load().transport.DialContext = back.dial
			us := &http.Server{Handler: p, ReadTimeout: 15 * time.Second, WriteTimeout: 90 * time.Second, Protocols: new(http.Protocols)}
			us.Protocols.SetHTTP1(true)
			us.Protocols.SetUnencryptedHTTP2(true)
			go func() { _ = us.Serve(front) }()
			go func() { _ = app.Serve(back) }()
			client := &http.Transport{DialContext: front.dial, Protocols: new(http.Protocols)}
			client.Protocols.SetHTTP1(!multiplexed)
			client.Protocols.SetUnencryptedHTTP2(multiplexed)
			r, _ := http.NewRequest(http.MethodPost, "http://site/", strings.NewReader(strings.Repeat("x", 3<<20)))
			answer, err := client.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(answer.Body); string(got) != "piece piece piece " {
				t.Errorf("HTTP/%d: %q %v", answer.ProtoMajor, got, err)
			}
			client.CloseIdleConnections()
			p.Off()
			_ = us.Close()
			_ = app.Close()
			time.Sleep(time.Second) // in which the server ends its connections
		})
	}
}

// Whoever takes nothing of an answer is not waited for.
func TestAnAnswerThatIsNotTakenEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		sets := 0
		w := &patientWriter{stuck{httptest.NewRecorder(), far}, patience{set: func(at time.Time) error { sets++; return far.SetWriteDeadline(at) }}}
		go func() { _, _ = io.CopyN(io.Discard, near, 1000) }()
		began := time.Now()
		for range 1000 {
			_, _ = w.Write([]byte("x"))
		}
		if _, err := w.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != idle {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if sets != 1 {
			t.Errorf("%d deadlines for 1,000 pieces at once, want 1", sets)
		}
	})
}

// A stuck answer goes over a connection.
type stuck struct {
	http.ResponseWriter
	to net.Conn
}

func (s stuck) Write(b []byte) (int, error) { return s.to.Write(b) }

// Every body has a connection of its own to the app; over TLS none but the first pays
// for a whole handshake.
func TestConnectionsToAnAppOverTLSAreResumed(t *testing.T) {
	t.Parallel()
	var whole, resumed atomic.Int64
	app := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.TLS.DidResume {
			resumed.Add(1)
		} else {
			whole.Add(1)
		}
	}))
	defer app.Close()
	p := before(t, app.URL)
	p.app.Load().transport.TLSClientConfig.RootCAs = app.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for range 5 {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("a body")))
		if w.Code != http.StatusOK {
			t.Fatal(w.Code, w.Body)
		}
	}
	if whole.Load() != 1 || resumed.Load() != 4 {
		t.Errorf("%d whole handshakes and %d resumed, want 1 and 4", whole.Load(), resumed.Load())
	}
}
