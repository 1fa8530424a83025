// Package proxy is the integration for apps that cannot be changed. Requests to unguarded paths stream through
// untouched. A guarded request goes this way:
//
//   - ServeHTTP (proxy.go) finds the routes of the path, as the app may read it.
//   - guarded (attempt.go) reads the request, begins its attempts, forwards it to the app, and settles by the app's
//     response.
//   - A page of ours (gate.go) answers stopped requests and keeps the user's form. It also answers requests that two
//     parsers could read differently.
//
// The client's claims about its identity never reach the app (headers.go).
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
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/route"
	"authguard/web"
	"authguard/web/client"
)

// Base is the prefix of our paths, which never reach the app.
const Base = web.Base

// BaseOf is the prefix for a realm that shares its host with others.
func BaseOf(realm string) string { return Base + "/~" + realm }

// Config configures a Proxy.
type Config struct {
	Base       string // prefix of our paths, such as BaseOf of a realm; default Base
	Edge       *web.Edge
	Guard      func(name string) *guard.Guard // with a route's counters, by the route's name
	Login      *web.Login                     // for the verification code page; its own form is not served
	Challenges *challenge.Issuer
	Widget     *web.Widget          // of an external CAPTCHA provider; nil: none
	Hold       *atomic.Int64        // longest wait of an early attempt on a timer (R15), in nanoseconds
	Secure     web.CookieSecurity   // of cookies
	Identity   *client.Identity     // client fingerprints; nil: none
	Look       *web.Look            // of our pages; nil: authguard's own
	Origin     string               // the public origin; empty: the request's host
	Rivals     *Rivals              // of all proxies that may serve one app; nil: the proxy's own
	Claims     challenge.Spent      // of sessions, by all nodes; nil: there is one node
	Away       func() time.Duration // for how long Claims have been unavailable; required with Claims
	Secret     []byte               // seals forms: at least 16 bytes, the same on every node
	Now        func() time.Time     // clock of sealed forms; default time.Now
	Log        *slog.Logger
}

// An App is the app behind a Proxy.
type App struct {
	Upstream *url.URL
	Routes   route.Table
	Timeout  time.Duration // for the response to a guarded request
	Patience time.Duration // for the response headers of other requests
	MaxBody  int64         // of a guarded request, in bytes
	// Script is which pages get the script for challenges: "always" all of them, "never" none, "auto" all if a route
	// reads JSON, or once a script has sent a login. Empty: never.
	Script string
}

// A Proxy serves one app. It is safe for concurrent use.
type Proxy struct {
	Config
	forms  *route.Forms
	own    http.Handler
	app    atomic.Pointer[app]
	rivals *Rivals
	// outages are the attempts that stayed free because the app seemed not to check their passwords, by account.
	outages  *lru.Cache[string, outage]
	codes    *lru.Cache[codeKey, ahead] // entered on our page
	scripted atomic.Bool                // a script has sent a login
	reported sync.Map                   // why pages get no script
}

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
	if c.Widget == nil {
		c.Widget = new(web.Widget)
	}
	outages, _ := lru.New[string, outage](mostOutages) // the size is right
	codes, _ := lru.New[codeKey, ahead](mostCodes)
	p := &Proxy{Config: c, rivals: c.Rivals, outages: outages, codes: codes}
	if p.rivals == nil {
		p.rivals = NewRivals()
	}
	p.Look = c.Look.Below(c.Base)
	var err error
	if p.forms, err = route.NewForms(c.Secret, c.Now); err != nil {
		return nil, err
	}
	p.own = p.ownPaths()
	return p, nil
}

// Off removes the app: On returns false until Set.
func (p *Proxy) Off() { p.put(nil) }

// On reports whether there is an app.
func (p *Proxy) On() bool { return p.app.Load() != nil }

// Set replaces the app or its routes. Requests in progress keep the old ones.
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

func (p *Proxy) ownPaths() http.Handler {
	e := web.NewEcho(p.Origin, p.Look, p.Log)
	web.Media(e, p.Challenges)
	web.Script(e, p.Look)
	e.GET(solvePath, p.solvePage)
	e.POST(solvePath, p.solve)
	if p.Login != nil {
		p.Login.CodeRoutes(e)
	}
	return http.StripPrefix(p.Base, e)
}

// ServeHTTP streams or guards a request to the app, which must be set.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, p.Base+"/") {
		p.own.ServeHTTP(w, r)
		return
	}
	v := &visit{proxy: p, app: p.app.Load(), client: p.Edge.Client(r)}
	r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
	routes, where := v.app.Routes.At(r.URL.EscapedPath())
	switch {
	case r.Host == "": // net/http would send the upstream's name, which the app may trust
		v.refuse(w, r, &route.Refusal{Status: http.StatusBadRequest, Text: "Send the site's name in the Host header."})
	case where == route.Ambiguous:
		v.refuse(w, r, &route.Refusal{Status: http.StatusBadRequest, Text: oddPath})
	case where == route.Elsewhere || !v.guarded(w, r, routes):
		v.app.stream(w, r)
	}
}

const oddPath = "Send a normalized URL path, without //, /./, /../, \\ or encoded slashes."

// soon is how long part of a response with known length is buffered. Streams are not. Without it each small response is
// sent in two packets.
const soon = 5 * time.Millisecond

// stream forwards a request unchanged, without a time limit.
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

// idle is how long a client may take for the next bytes of a stream. A deadline is set anew only once it is older than
// renewal: one per write costs more than the write.
const (
	idle    = 90 * time.Second
	renewal = time.Second
)

// A patience sets the deadlines of one direction.
type patience struct {
	set    func(time.Time) error
	since  time.Time
	shared bool // HTTP/2: there a deadline also ends a silent stream
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

// A patientBody is a request body that may take long, as long as bytes arrive.
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

// A patientWriter is a response that may take long, as long as the client reads.
type patientWriter struct {
	http.ResponseWriter
	patience
}

// WriteHeader implements http.ResponseWriter. It disables content sniffing if the app sends no type.
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

// FlushError implements the interface of http.ResponseController.
func (w *patientWriter) FlushError() error {
	w.begin()
	defer w.end()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap implements the interface of http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
