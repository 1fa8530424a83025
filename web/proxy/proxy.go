// Package proxy is the door before an app that cannot be changed. What is not for
// one of its guarded routes streams through untouched. What is goes this way:
//
//	ServeHTTP (proxy.go) finds the routes of the path, as the app may read it;
//	attempt (attempt.go) reads the request, has the guard begin, forwards the
//	request to the app, and settles by what the app answers;
//	a request that is stopped, or that two parsers could read differently, is
//	answered by a page of ours (gate.go), which keeps what the visitor had typed.
//
// What the client says about who it is never reaches the app (headers.go).
package proxy

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/remote"
	"authguard/guard"
	"authguard/internal/route"
	"authguard/web"
	"authguard/web/client"
)

// Base begins the paths that are ours, and not the app's.
const Base = web.Base

// BaseOf begins those of a realm that shares its host with others.
func BaseOf(realm string) string { return Base + "/~" + realm }

// Config is what a Proxy needs.
type Config struct {
	// Base begins our own paths: a realm's BaseOf; default Base.
	Base string
	Edge *web.Edge
	// Guard is that of a route's counters, by the route's name.
	Guard func(name string) *guard.Guard
	// Login has the page about one-time codes; its own form is not served.
	Login      *web.Login
	Challenges *challenge.Desk
	// Remote is the provider of challenges on the web; nil for none.
	Remote *remote.Provider
	// Hold is how long an attempt may be held until it is due (R15), in
	// nanoseconds.
	Hold   *atomic.Int64
	Secure web.CookieSecurity // of cookies
	// Identity is what clients are recognised by; nil: nothing.
	Identity *client.Identity
	// Look is of our pages; nil: authguard's own.
	Look *web.Look
	// Origin is where browsers find us; empty: the request's own host.
	Origin string
	// Secret seals forms: at least 16 bytes, the same on every node.
	Secret []byte
	// Now is the clock of sealed forms; default time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// An App is what stands behind a Proxy.
type App struct {
	Upstream *url.URL
	Routes   route.Table
	Timeout  time.Duration // for the answer to a guarded request
	Patience time.Duration // for the head of the answer to any other
	MaxBody  int64         // of a guarded request, in bytes
}

// A Proxy serves one app. It is safe for concurrent use.
type Proxy struct {
	Config
	forms  *route.Forms
	own    http.Handler
	app    atomic.Pointer[app]
	rivals *rivals
}

// An app is an App and the way there.
type app struct {
	App
	transport *transport
	forward   *httputil.ReverseProxy
}

// New returns a proxy without an app.
func New(c Config) (*Proxy, error) {
	c.Base = cmp.Or(c.Base, Base)
	if c.Now == nil {
		c.Now = time.Now
	}
	p := &Proxy{Config: c, rivals: newRivals()}
	p.Look = c.Look.Below(c.Base)
	var err error
	if p.forms, err = route.NewForms(c.Secret, c.Now); err != nil {
		return nil, err
	}
	p.own = p.ownPaths()
	return p, nil
}

// Off ends the proxy: On is false until Set names an app again.
func (p *Proxy) Off() { p.put(nil) }

// On reports whether there is an app.
func (p *Proxy) On() bool { return p.app.Load() != nil }

// Set puts another app, or other routes, in force. What is under way goes on with the
// old ones.
func (p *Proxy) Set(a App) {
	one := &app{App: a, transport: newTransport(a.Patience)}
	one.forward = &httputil.ReverseProxy{
		Rewrite: one.rewrite, ModifyResponse: answered, ErrorHandler: failed, FlushInterval: soon, Transport: one.transport,
		BufferPool: newBuffers(32 << 10), ErrorLog: slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug),
	}
	p.put(one)
}

func (p *Proxy) put(one *app) {
	if before := p.app.Swap(one); before != nil {
		before.transport.CloseIdleConnections()
	}
}

// ownPaths are the pictures, the static files and the page about one-time codes.
func (p *Proxy) ownPaths() http.Handler {
	e := web.NewEcho(p.Origin, p.Look, p.Log)
	web.Media(e, p.Challenges)
	if p.Login != nil {
		p.Login.CodeRoutes(e)
	}
	return http.StripPrefix(p.Base, e)
}

// ServeHTTP streams a request to the app, or guards it. There must be an app.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, p.Base+"/") {
		p.own.ServeHTTP(w, r)
		return
	}
	v := &visit{proxy: p, app: p.app.Load(), client: p.Edge.Client(r)}
	r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
	routes, where := v.app.Routes.At(r.URL.EscapedPath())
	switch {
	case r.Host == "": // net/http would name the upstream instead, which the app may trust
		v.refuse(w, r, &route.Refusal{Status: http.StatusBadRequest, Text: "Send the site's name in the Host header."})
	case where == route.Ambiguous:
		v.refuse(w, r, &route.Refusal{Status: http.StatusBadRequest, Text: oddPath})
	case where == route.Elsewhere || !v.guarded(w, r, routes):
		v.app.stream(w, r)
	}
}

const oddPath = "Send a normalized URL path, without //, /./, /../, \\ or encoded slashes."

// soon is how long a piece of an answer whose length is known may wait for the next
// one. Streams do not wait. Without it each small answer is sent in two packets.
const soon = 5 * time.Millisecond

// stream passes a request on as it is, however long it takes.
func (a *app) stream(w http.ResponseWriter, r *http.Request) {
	control, shared := http.NewResponseController(w), r.ProtoMajor > 1
	_ = control.SetReadDeadline(time.Time{})
	if shared {
		_ = control.SetWriteDeadline(time.Time{})
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &patientBody{r.Body, patience{set: control.SetReadDeadline, shared: shared}}
	}
	a.forward.ServeHTTP(&patientWriter{w, patience{set: control.SetWriteDeadline, shared: shared}}, r)
}

// idle is how long a client may take to send or to take the next bytes of a stream.
// Deadlines are set again when they are this much older: to set one for every piece
// costs more than the piece.
const (
	idle    = 90 * time.Second
	renewal = time.Second
)

// A patience sets one direction's deadlines.
type patience struct {
	set    func(time.Time) error
	since  time.Time
	shared bool // the connection, by HTTP/2: there a deadline ends a stream that is silent too
}

func (p *patience) begin() {
	if now := time.Now(); p.shared || now.Sub(p.since) > renewal {
		p.since = now
		_ = p.set(now.Add(idle))
	}
}

func (p *patience) end() {
	if p.shared {
		_ = p.set(time.Time{})
	}
}

// A patientBody is a body that may take long, as long as it goes on.
type patientBody struct {
	io.ReadCloser
	patience
}

// Read implements io.Reader.
func (b *patientBody) Read(into []byte) (int, error) {
	b.begin()
	defer b.end()
	n, err := b.ReadCloser.Read(into)
	if err != nil {
		_ = b.set(time.Time{})
	}
	return n, err
}

// A patientWriter is an answer that may take long, as long as it is taken.
type patientWriter struct {
	http.ResponseWriter
	patience
}

// WriteHeader implements http.ResponseWriter. The server guesses no type where the app
// names none.
func (w *patientWriter) WriteHeader(status int) {
	if h := w.Header(); status >= http.StatusOK && h["Content-Type"] == nil {
		h["Content-Type"] = nil
	}
	w.begin()
	defer w.end()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *patientWriter) Write(b []byte) (int, error) {
	w.begin()
	defer w.end()
	return w.ResponseWriter.Write(b)
}

// FlushError is for http.ResponseController.
func (w *patientWriter) FlushError() error {
	w.begin()
	defer w.end()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
