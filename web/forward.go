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
	"authguard/internal/route"
	"authguard/web/client"
	"authguard/web/pages"
)

// Paths that gateways call: authorize a request, explain a denial, classify the client's IP address.
const (
	verifyPath  = "/auth/verify"
	deniedPath  = "/auth/denied"
	addressPath = "/auth/address"
)

// forwardRoutes adds them. Gateways call them with GET, whatever the method of the original request.
func (l *Login) forwardRoutes(e *echo.Echo) {
	file(e, verifyPath, l.verify)
	file(e, deniedPath, l.denied)
	file(e, addressPath, l.address)
}

// A wanted is the original request as the gateway describes it. The zero wanted describes none.
type wanted struct {
	host      string // as received, with its port
	uri       string // path and query as received; empty: unknown
	method    string // empty: unknown
	secure    bool
	handsOn   bool // the gateway passes our response on to its client unchanged
	elsewhere bool // the gateway called another host than the requested one, as Traefik does
}

// want reads the original request. It trusts configured proxies only (R9), and none that sends two versions: such a
// gateway passes on what its client sent.
func (l *Login) want(r *http.Request) (w wanted, err error) {
	w = wanted{host: r.Host, secure: l.Edge.Client(r).Secure}
	if !l.Edge.Believes(r) {
		return w, nil
	}
	hosts := client.Hops(r.Header, "X-Forwarded-Host")
	uris, methods := slices.Clone(r.Header["X-Forwarded-Uri"]), slices.Concat(r.Header["X-Forwarded-Method"],
		r.Header["X-Original-Method"])
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
	if w.host != "" && !validHost(w.host) {
		return w, Invalid("The host of the request is not a name with an optional port.")
	}
	if name := forged(r.Header); name != "" {
		return w, Invalid("The client sent the header %s, which apps trust as set by the gateway. "+
			"Configure the gateway to remove it.", name)
	}
	if w.uri != "" && !strings.HasPrefix(w.uri, "/") || len(w.uri) > maxURI || strings.ContainsFunc(w.uri+w.host+w.method,
		unicode.IsControl) {
		return w, Invalid("The gateway sent no URL path.")
	}
	path, _, _ := strings.Cut(w.uri, "?")
	if strings.Contains(w.uri, "%00") || route.Unreadable(path) { // PHP cuts names at a NUL, others do not
		return w, Invalid("The URL must not contain %%00, broken escapes or overlong UTF-8.")
	}
	w.elsewhere = !strings.EqualFold(w.host, r.Host)
	return w, nil
}

// forged returns a header that no gateway sends here, but that apps confuse with one that it does: PHP reads
// Remote.User as Remote-User. A gateway that passes it to us and cannot remove headers by a pattern passes it to the
// app as well. Empty: there is none.
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

// A claim is a prefix of header names that apps trust, with the endings that gateways send here themselves.
type claim struct {
	prefix   string
	gateways []string
}

var claims = []claim{
	{"Remote-", nil}, {"X-Remote-", nil}, {"X-Rewrite-", nil}, {"X-Original-", []string{"Url", "Uri", "Method"}},
	{"X-Forwarded", []string{"-For", "-Proto", "-Host", "-Uri", "-Method", "-Port", "-Server", "-Prefix"}},
}

// maxURI is the longest accepted path with query, in bytes.
const maxURI = 16 << 10

var errTwice = Invalid("The gateway sent two different forms of the original request. Set either X-Forwarded-Host, " +
	"X-Forwarded-Uri and X-Forwarded-Method, or X-Original-URL and X-Original-Method, and remove the others from client " +
	"requests.")

func (l *Login) need(r *http.Request, w wanted) route.Need {
	path, query, _ := strings.Cut(w.uri, "?")
	var rules route.AccessRules
	if l.Access != nil && l.Access.Load() != nil {
		rules = *l.Access.Load()
	}
	return rules.Of(route.AccessRequest{
		Host: hostName(w.host), Path: path, Method: w.method,
		// php -S drops further question marks.
		Overridden: route.InQuery(strings.TrimLeft(query, "?"), "_method") || slices.ContainsFunc(overrides,
			func(h string) bool {
				return strings.Join(r.Header.Values(h), "") != "" // PHP takes the last, Node all
			}),
	})
}

// overrides are headers that change a request's method in Rails, Laravel, Symfony, Spring and Express. The query's
// _method does so in the first three.
var overrides = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// admit decides on the original request. A public path stays public while sessions cannot be read.
func (l *Login) admit(c echo.Context) (w wanted, who *Session, v route.Access, err error) {
	if w, err = l.want(c.Request()); err != nil {
		return w, nil, route.AccessDenied, err
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

// verify is GET /auth/verify, which gateways call before they pass a request on. It answers 200 with the account's
// name, email address and groups, or 401, or 403. Some gateways pass our response on to their client: they send
// X-Forwarded-Uri, as Caddy and Traefik do. They get 303 to the login page for a browser.
func (l *Login) verify(c echo.Context) error {
	w, who, v, err := l.admit(c)
	if err != nil || v != route.AccessGranted {
		return l.refuse(c, w, who, v, err)
	}
	h := c.Response().Header()
	// All three, always: a gateway may leave an unset header as its client sent it.
	h["Remote-User"], h["Remote-Groups"], h["Remote-Email"] = []string{""}, []string{""}, []string{""}
	if who != nil {
		h.Set("Remote-User", inHeader(who.Account.Account))
		h.Set("Remote-Groups", inHeader(strings.Join(who.Account.Groups, ",")))
		h.Set("Remote-Email", inHeader(who.Account.Email))
	}
	return c.NoContent(http.StatusOK)
}

// inHeader returns the text, or nothing if it has control characters: no header can carry those.
func inHeader(text string) string {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return ""
	}
	return text
}

// denied is GET /auth/denied: the response to a denied client, for gateways that use only the status of /auth/verify
// (nginx).
func (l *Login) denied(c echo.Context) error {
	w, who, v, err := l.admit(c)
	w.handsOn = true
	if v == route.AccessGranted && err == nil { // by now
		return c.Redirect(http.StatusSeeOther, l.next(w.uri))
	}
	return l.refuse(c, w, who, v, err)
}

// Types of problems for denied requests.
const (
	LoginRequired = "login-required"
	NotPermitted  = "not-permitted"
)

// refuse answers a denied request: a redirect to the login page, an error page, or a problem for a script.
func (l *Login) refuse(c echo.Context, w wanted, who *Session, v route.Access, err error) error {
	if p := (Problem{}); errors.As(err, &p) {
		return l.hand(c, w, p, pages.ErrorView{})
	} else if err != nil {
		l.Log.Error("a request could not be authorized", "error", err)
		p, _ = problemOf(err)
		return l.hand(c, w, p, pages.ErrorView{})
	}
	way := l.way(w)
	switch {
	case v == route.LoginRequired && w.handsOn && navigates(c.Request()):
		return c.Redirect(http.StatusSeeOther, way)
	case v == route.LoginRequired:
		p := refusal(http.StatusUnauthorized, "problem.login")
		p.Type, p.Title, p.Login = LoginRequired, "Sign-in required", way
		return l.hand(c, w, p, pages.ErrorView{Login: way})
	}
	p, view := refusal(http.StatusForbidden, "problem.closed"), pages.ErrorView{}
	if who != nil {
		p, view.Login = refusal(http.StatusForbidden, "problem.not-permitted"), way
		path, _, _ := strings.Cut(w.uri, "?") // a query may contain secrets
		view.Account, view.Asked = who.Account.Account, w.host+path
	}
	p.Type, p.Title = NotPermitted, "Not permitted"
	return l.hand(c, w, p, view)
}

// hand sends a problem, or its page, which appears at the app's URL.
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

// navigates reports whether a browser loads a page: scripts do not accept HTML, or send headers of a fetch.
func navigates(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return strings.Contains(r.Header.Get("Accept"), "html") && (mode == "" || mode == "navigate") &&
		!strings.EqualFold(r.Header.Get("X-Requested-With"), "XMLHttpRequest")
}

// maxNext is the longest escaped URL that is passed to the login page: nginx keeps 4 KiB for all headers of a response.
const maxNext = 2800

// way returns the login page that leads back to the requested page. It is at the origin if the session works at both
// hosts, otherwise at the same host. A URL that is too long is cut to its path.
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

// spelt escapes characters that browsers do not send and that some parsers misread.
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

// within reports whether the session's cookie domain includes a host.
func (l *Login) within(host string) bool {
	d := l.Sessions.Domain
	return d != "" && (host == d || strings.HasSuffix(host, "."+d))
}

func (l *Login) isOrigin(host string) bool {
	_, origin, _ := cutURL(l.Origin)
	return strings.EqualFold(host, origin)
}

// plainHost reports whether browsers and Content-Security-Policies read a host alike. To them a name with a final dot
// is another site, without the session; an empty port matches no source.
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

// opens allows the form to lead to next: Chromium applies form-action to a form's redirects as well.
func (l *Login) opens(h http.Header, next string) {
	if next != "" && !strings.HasPrefix(next, "/") {
		scheme, origin, _ := cutURL(l.Origin)
		d := l.Sessions.Domain
		if port := portOf(origin); port != "" {
			d += ":" + port
		}
		also := " " + scheme + "://" + d + " " + scheme + "://*." + d
		h.Set("Content-Security-Policy", strings.Replace(h.Get("Content-Security-Policy"), "form-action 'self'",
			"form-action 'self'"+also, 1))
	}
}

// address is GET /auth/address: it classifies the client's IP address for an edge proxy, in the header
// Authguard-Address. Only addresses that an administrator has blocked get 403: known clients sign in although others
// attack from the same address (R14). The request is not counted.
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

// Base is the prefix of our paths at an app's host, where all paths of the login host are available as well.
const Base = "/.authguard"

type baseKey struct{}

// alsoBelow serves a handler's paths below Base, too, except those of gateways and back ends, which no browser needs.
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
