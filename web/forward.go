package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/access"
	"authguard/internal/route"
	"authguard/internal/wire"
	"authguard/web/client"
	"authguard/web/pages"
)

// Where gateways ask: whether a request may pass; what to tell a client whose request may
// not; what its address alone is worth.
const (
	verifyPath  = "/auth/verify"
	deniedPath  = "/auth/denied"
	addressPath = "/auth/address"
)

// forwardRoutes adds them. A gateway asks with GET whatever it was asked with.
func (l *Login) forwardRoutes(e *echo.Echo) {
	file(e, verifyPath, l.verify)
	file(e, deniedPath, l.denied)
	file(e, addressPath, l.address)
}

// asksForAnother reports whether a path is one of those, at which the site that is asked
// for may be another than that of the host.
func asksForAnother(path string) bool {
	return slices.Contains([]string{verifyPath, deniedPath, addressPath}, path)
}

// A wanted request is what somebody asked a gateway for, as the gateway says. The zero
// wanted says nothing.
type wanted struct {
	host   string // as it was sent, with its port
	uri    string // path and query as they were sent; empty: not said
	method string // empty: not said
	secure bool
	// handsOn: the gateway gives our answer to its client as it is.
	handsOn bool
	// elsewhere: we were asked at another host, as Traefik does.
	elsewhere bool
}

// want is what a request asks about. Only a configured proxy is believed (R9), and one
// that says two things is not: it passes on what its client sent.
func (l *Login) want(r *http.Request) (w wanted, err error) {
	w = wanted{host: r.Host, secure: l.Edge.Client(r).Secure}
	if !l.Edge.Believes(r) {
		return w, nil
	}
	hosts := client.Hops(r.Header, "X-Forwarded-Host")
	uris, methods := slices.Clone(r.Header["X-Forwarded-Uri"]), slices.Concat(r.Header["X-Forwarded-Method"], r.Header["X-Original-Method"])
	w.handsOn = len(uris) > 0
	uris = append(uris, r.Header["X-Original-Uri"]...)
	for _, original := range r.Header["X-Original-Url"] {
		scheme, host, uri := cutURL(original)
		if uris = append(uris, uri); host != "" {
			hosts, w.secure = append(hosts, host), w.secure || scheme == "https"
		}
	}
	for _, one := range []struct {
		said []string
		as   *string
	}{{hosts, &w.host}, {uris, &w.uri}, {methods, &w.method}} {
		if said := slices.Compact(one.said); len(said) > 1 {
			return w, errTwice
		} else if len(said) == 1 {
			*one.as = said[0]
		}
	}
	if w.host != "" && !wire.Host(w.host) {
		return w, Invalid("The host of the request is not a name with an optional port.")
	}
	if name := forged(r.Header); name != "" {
		return w, Invalid("The client sent the header %s, which apps trust as set by the gateway. "+
			"Configure the gateway to remove it.", name)
	}
	if w.uri != "" && !strings.HasPrefix(w.uri, "/") || len(w.uri) > maxURI || strings.ContainsFunc(w.uri+w.host+w.method, unicode.IsControl) {
		return w, Invalid("The gateway sent no URL path.")
	}
	path, _, _ := strings.Cut(w.uri, "?")
	if strings.Contains(w.uri, "%00") || route.Unreadable(path) { // PHP cuts names at a NUL, others do not
		return w, Invalid("The URL must not contain %%00, broken escapes or overlong UTF-8.")
	}
	w.elsewhere = !strings.EqualFold(w.host, r.Host)
	return w, nil
}

// forged names a header that no gateway sends here and that apps take for one that it does:
// PHP takes Remote.User for Remote-User. A gateway that passes it to us, and cannot remove
// headers by a rule, passes it to the app too. Empty: there is none.
func forged(h http.Header) string {
	for name := range h {
		if !client.PlainHeader(name) || strings.Contains(name, "--") || slices.ContainsFunc(claims, func(c claim) bool {
			rest, is := strings.CutPrefix(name, c.prefix)
			return is && !slices.Contains(c.gateways, rest)
		}) {
			return name
		}
	}
	return ""
}

// A claim is the beginning of headers' names, and how those go on that gateways set
// themselves when they ask.
type claim struct {
	prefix   string
	gateways []string
}

var claims = []claim{
	{"Remote-", nil}, {"X-Remote-", nil}, {"X-Rewrite-", nil}, {"X-Original-", []string{"Url", "Uri", "Method"}},
	{"X-Forwarded", []string{"-For", "-Proto", "-Host", "-Uri", "-Method", "-Port", "-Server", "-Prefix"}},
}

// maxURI is as long as a path with its query may be, in bytes.
const maxURI = 16 << 10

var errTwice = Invalid("The gateway sent two different forms of the original request. Set either X-Forwarded-Host, X-Forwarded-Uri and X-Forwarded-Method, or X-Original-URL and X-Original-Method, and remove the others from client requests.")

// cutURL takes an address apart without reading it otherwise than it was sent.
func cutURL(text string) (scheme, host, uri string) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return "", "", text
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		return strings.ToLower(scheme), rest[:i], rest[i:]
	}
	return strings.ToLower(scheme), rest, "/"
}

// need is what the rules say about it.
func (l *Login) need(r *http.Request, w wanted) access.Need {
	path, query, _ := strings.Cut(w.uri, "?")
	var rules access.Rules
	if l.Access != nil && l.Access.Load() != nil {
		rules = *l.Access.Load()
	}
	return rules.Of(access.Request{
		Host: hostName(w.host), Path: path, Method: w.method,
		// php -S drops further question marks.
		Overridden: route.InQuery(strings.TrimLeft(query, "?"), "_method") || slices.ContainsFunc(overrides, func(h string) bool {
			return strings.Join(r.Header.Values(h), "") != "" // PHP takes the last, Node all
		}),
	})
}

// overrides are headers that make another method of a request in Rails, Laravel,
// Symfony, Spring and Express, as _method in the query does in the first three.
var overrides = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// admit is what becomes of what a gateway was asked for. A public address stays one while
// sessions cannot be looked up.
func (l *Login) admit(c echo.Context) (w wanted, who *Session, v access.Verdict, err error) {
	if w, err = l.want(c.Request()); err != nil {
		return w, nil, access.Refused, err
	}
	need := l.need(c.Request(), w)
	if who, err = l.Sessions.Get(c); errors.Is(err, ErrSessions) && need.Nothing() {
		l.Log.Error("the session of a request for a public path could not be read", "error", err)
		err = nil
	}
	if who != nil && !l.opensTo(who.Account) || who.held() {
		who = nil
	}
	var groups []string
	if who != nil {
		groups = who.Account.Groups
	}
	return w, who, need.Meets(who != nil, groups), err
}

// verify is GET /auth/verify, which gateways ask before they pass a request on: 200 with
// the account's name, e-mail address and groups, or 401, or 403. A gateway that gives our
// answer to its client (it names the address in X-Forwarded-Uri, as Caddy and Traefik do)
// gets 303 to the login page for a browser.
func (l *Login) verify(c echo.Context) error {
	w, who, v, err := l.admit(c)
	if err != nil || v != access.Granted {
		return l.refuse(c, w, who, v, err)
	}
	h := c.Response().Header()
	// All three, always: what is not set a gateway may leave as its client sent it.
	h["Remote-User"], h["Remote-Groups"], h["Remote-Email"] = []string{""}, []string{""}, []string{""}
	if who != nil {
		h.Set("Remote-User", inHeader(who.Account.Account))
		h.Set("Remote-Groups", inHeader(strings.Join(who.Account.Groups, ",")))
		h.Set("Remote-Email", inHeader(who.Account.Email))
	}
	return c.NoContent(http.StatusOK)
}

// inHeader is a text as a header can hold it: nothing, if that is not as it stands.
func inHeader(text string) string {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return ""
	}
	return text
}

// denied is GET /auth/denied: what a client is told whose request /auth/verify did not
// let pass, for gateways that show no more of that than its status (nginx).
func (l *Login) denied(c echo.Context) error {
	w, who, v, err := l.admit(c)
	w.handsOn = true
	if v == access.Granted && err == nil { // by now
		return c.Redirect(http.StatusSeeOther, l.next(w.uri))
	}
	return l.refuse(c, w, who, v, err)
}

// LoginRequired and NotPermitted are the types of problems of who may not pass.
const (
	LoginRequired = "login-required"
	NotPermitted  = "not-permitted"
)

// refuse answers who may not pass: a redirect to the login page or a page of ours, or a
// problem for a script.
func (l *Login) refuse(c echo.Context, w wanted, who *Session, v access.Verdict, err error) error {
	if p := (Problem{}); errors.As(err, &p) {
		return l.hand(c, w, p, pages.ErrorView{})
	} else if err != nil {
		l.Log.Error("a request could not be authorized", "error", err)
		p, _ = problemOf(err)
		return l.hand(c, w, p, pages.ErrorView{})
	}
	way := l.way(w)
	switch {
	case v == access.Unknown && w.handsOn && navigates(c.Request()):
		return c.Redirect(http.StatusSeeOther, way)
	case v == access.Unknown:
		p := refusal(http.StatusUnauthorized, "problem.login")
		p.Type, p.Title, p.Login = LoginRequired, "Sign-in required", way
		return l.hand(c, w, p, pages.ErrorView{Login: way})
	}
	p, view := refusal(http.StatusForbidden, "problem.closed"), pages.ErrorView{}
	if who != nil {
		p, view.Login = refusal(http.StatusForbidden, "problem.not-permitted"), way
	}
	p.Type, p.Title = NotPermitted, "Not permitted"
	return l.hand(c, w, p, view)
}

// hand answers with a problem or its page, which is shown at the app's address.
func (l *Login) hand(c echo.Context, w wanted, p Problem, view pages.ErrorView) error {
	if p.RetryAfter > 0 {
		c.Response().Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	switch {
	case w.method == http.MethodHead:
		return c.NoContent(p.Status)
	case !navigates(c.Request()):
		return p.Write(c.Response())
	}
	view.Page, view.Status = l.Look.Page(c.Response().Header(), c.Request()), p.Status
	view.Base, view.Detail = Base, p.Words(view.Page)
	page, err := pages.RenderError(view)
	return WritePage(c, p.Status, page, err)
}

// navigates reports whether a person waits for a page: scripts do not ask for HTML, or
// say that they are none of a page's navigation.
func navigates(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return strings.Contains(r.Header.Get("Accept"), "html") && (mode == "" || mode == "navigate") &&
		!strings.EqualFold(r.Header.Get("X-Requested-With"), "XMLHttpRequest")
}

// maxNext is as much of an address as goes along to the login page, escaped: nginx keeps
// 4 KiB for all headers of an answer.
const maxNext = 2800

// way is the login page that leads back to what was asked for: at the same host, or at
// the one of the origin where its sessions are good at both. An address that is too long
// leads back to its path.
func (l *Login) way(w wanted) string {
	scheme := "http://"
	if w.secure {
		scheme = "https://"
	}
	at, here := "", ""
	switch {
	case l.within(hostName(w.host)) && !l.isOrigin(w.host):
		at, here = l.Origin, scheme+w.host
	case w.elsewhere:
		at = scheme + w.host
	}
	path, _, _ := strings.Cut(w.uri, "?")
	for _, uri := range []string{w.uri, path} {
		next := l.next(here + spelt(uri))
		if query := "?next=" + url.QueryEscape(next); uri != "" && next != "/" && len(query) <= maxNext {
			return at + Base + "/login" + query
		}
	}
	return at + Base + "/login"
}

// spelt is a path and a query with what no browser sends, and some read otherwise,
// escaped.
func spelt(uri string) string {
	var b strings.Builder
	for i := range len(uri) {
		if c := uri[i]; c <= ' ' || c >= 0x7f || c == '\\' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// within reports whether a session is good at a host beside that of the origin.
func (l *Login) within(host string) bool {
	d := l.Sessions.Domain
	return d != "" && (host == d || strings.HasSuffix(host, "."+d))
}

func (l *Login) isOrigin(host string) bool {
	_, origin, _ := cutURL(l.Origin)
	return strings.EqualFold(host, origin)
}

// next is where to go after logging in: a path of this host, or an address of the
// origin, or of a host where its sessions are good, by the origin's scheme and port.
// Anything else is "/".
func (l *Login) next(next string) string {
	scheme, host, uri := cutURL(next)
	own, origin, _ := cutURL(l.Origin)
	if host == "" || l.Origin == "" || scheme != own || !strings.HasPrefix(next, own+"://") {
		return LocalPath(next)
	}
	if LocalPath(uri) != uri || !plainHost(host) || portOf(host) != portOf(origin) || !l.isOrigin(host) && !l.within(hostName(host)) {
		return "/"
	}
	return next
}

// plainHost reports whether a host is a name and a port that every browser and every
// Content-Security-Policy reads alike: a name that ends with a dot is another site to
// them, without the session, and a port that is empty none.
func plainHost(host string) bool {
	name, port, named := strings.Cut(host, ":")
	return !strings.HasSuffix(name, ".") && (port != "" || !named) && !strings.ContainsFunc(host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-.:", r)
	})
}

func portOf(host string) string {
	_, port, _ := strings.Cut(host, ":")
	return port
}

// opens lets the page's form lead to next: Chromium holds a form's redirects to
// form-action too.
func (l *Login) opens(h http.Header, next string) {
	if next != "" && !strings.HasPrefix(next, "/") {
		scheme, origin, _ := cutURL(l.Origin)
		d := l.Sessions.Domain
		if port := portOf(origin); port != "" {
			d += ":" + port
		}
		also := " " + scheme + "://" + d + " " + scheme + "://*." + d
		h.Set("Content-Security-Policy", strings.Replace(h.Get("Content-Security-Policy"), "form-action 'self'", "form-action 'self'"+also, 1))
	}
}

// address is GET /auth/address: what an edge may know of the client's address before it
// does anything else, in the header Authguard-Address. 403 is for what an administrator
// has blocked; everybody else may pass, since people log in from their known places
// whatever others do at the same address (R14). Nothing is charged.
func (l *Login) address(c echo.Context) error {
	e, err := l.Guard.Explain(c.Request().Context(), "", l.Edge.Client(c.Request()).Address)
	if err != nil {
		l.Log.Error("a client's address could not be looked up", "error", err)
		return c.NoContent(http.StatusServiceUnavailable)
	}
	h, word := c.Response().Header(), "free"
	switch {
	case e.Listed == guard.Blocked:
		word = "blocked"
	case e.Decision.Action == guard.Block:
		word = "block"
	case e.Decision.Action == guard.Challenge:
		word = "challenge"
	}
	h.Set("Authguard-Address", word)
	if after := e.Decision.RetryAfter; after > 0 && word != "free" {
		h.Set("Retry-After", strconv.Itoa(retryAfter(after)))
	}
	if word != "blocked" {
		return c.NoContent(http.StatusNoContent)
	}
	p := refusal(http.StatusForbidden, "gate.blocked")
	p.Type, p.Title = NotPermitted, "Blocked"
	return l.hand(c, wanted{}, p, pages.ErrorView{})
}

// Base begins our paths at the host of an app: everything that is at the root of the
// login host is below it as well, out of the app's way.
const Base = "/.authguard"

type baseKey struct{}

// baseOf is what our paths begin with where a request came to.
func baseOf(r *http.Request) string {
	base, _ := r.Context().Value(baseKey{}).(string)
	return base
}

// alsoBelow serves a handler's paths below Base as well, but for what gateways and back
// ends ask: that is nothing for browsers.
func alsoBelow(h http.Handler) http.Handler {
	stripped := http.StripPrefix(Base, h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.Path, Base)
		switch {
		case !ok || !strings.HasPrefix(rest, "/"):
			h.ServeHTTP(w, r)
		case strings.HasPrefix(rest, "/auth/") || strings.HasPrefix(rest, "/v1/"):
			http.NotFound(w, r)
		default:
			stripped.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), baseKey{}, Base)))
		}
	})
}
