// Package mw protects the login handler of a Go program with a [guard.Guard]. It is net/http middleware, and so works
// with echo and other routers.
//
//	g, err := guard.Default(secret)
//	…
//	http.Handle("/login", mw.Protect(g, http.HandlerFunc(login)))
//
// A POST with a password is an attempt. It reaches the handler only if the password may be checked (R16). The handler
// reports a correct password:
//
//	func login(w http.ResponseWriter, r *http.Request) {
//		if !right(r.FormValue("username"), r.FormValue("password")) {
//			http.Error(w, "wrong user name or password", http.StatusUnauthorized)
//			return
//		}
//		if err := mw.Succeeded(r); err != nil {
//			http.Error(w, "try again", http.StatusServiceUnavailable)
//			return // without signing the user in
//		}
//		…
//	}
//
// All other attempts count as failed: a handler that panics, times out or loses its client has still checked a guess
// (R1), unless it answers 502 or 503, as http.TimeoutHandler does: put that outside. A handler without [Succeeded] is
// thus too strict, never open. The status alone decides nothing, since many handlers show the form again with 200 or
// redirect to it; [ByStatus] is for other handlers.
//
// A stopped client gets a page that works without JavaScript and keeps its form, or problem+json (RFC 9457).
// [OnRefusal] replaces this response. GET, HEAD and OPTIONS pass, unless their URL contains a password.
//
// Put it outside other middleware that reads the form, such as CSRF checks: the challenge page sends its own form, and
// the inner handler receives the original one.
package mw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"authguard/captchamode/challenge/image"
	"authguard/guard"
	"authguard/internal/route"
	"authguard/web/client"
	"authguard/web/texts"
)

// MaxBody is the default of [Body], in bytes.
const MaxBody = 16 << 10

// An Option changes the defaults of Protect.
type Option func(*endpoint) error

// A endpoint is one protected handler.
type endpoint struct {
	guard *guard.Guard
	name  string // of the integration, in events
	fields
	routes   route.Table
	client   func(*http.Request) client.Client
	identity func(*http.Request) string
	hold     time.Duration
	body     int64
	onCode   func(ctx context.Context, account, code string)
	judgement
	refuse    func(http.ResponseWriter, *http.Request, *Refusal)
	sameSite  *http.CrossOriginProtection
	forms     *route.Forms
	languages *texts.Set
	log       *slog.Logger
}

// fields are the names of the login's fields; see Account and Passes.
type fields struct {
	account, password string
	passes            []string
}

// judgement is how the outcome of an attempt is found.
type judgement struct {
	judge    func(status int, h http.Header) guard.Outcome
	judges   bool // Outcome or ByStatus is set
	signedIn func(*http.Request) bool
}

// Protect puts the guard in front of a login handler. Like http.ServeMux, it panics on an invalid option, so the
// program fails at its start. The returned handler is safe for concurrent use.
func Protect(g *guard.Guard, login http.Handler, options ...Option) http.Handler {
	return Middleware(g, options...)(login)
}

// Middleware is Protect for routers that take middleware:
//
//	e.POST("/login", login, echo.WrapMiddleware(mw.Middleware(g)))
func Middleware(g *guard.Guard, options ...Option) func(http.Handler) http.Handler {
	d, err := newEndpoint(g, options)
	if err != nil {
		panic(fmt.Errorf("mw: %w", err))
	}
	return func(login http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.serve(w, r, login) })
	}
}

func newEndpoint(g *guard.Guard, options []Option) (*endpoint, error) {
	d := &endpoint{
		guard: g, name: "library", fields: fields{account: "username", password: "password"},
		client: new(client.Finder).Client, identity: new(client.Identity).Of,
		body: MaxBody, judgement: judgement{judge: notified}, refuse: func(w http.ResponseWriter, r *http.Request,
			f *Refusal) {
			f.Write(w, r)
		},
		sameSite: http.NewCrossOriginProtection(), languages: texts.Standard(), log: slog.Default(),
	}
	if g == nil {
		return nil, errors.New("a guard is required")
	}
	var errs []error
	for _, option := range options {
		errs = append(errs, option(d))
	}
	if d.judges && d.signedIn == nil {
		errs = append(errs, errors.New("ByStatus and Outcome need SignedIn: "+
			"a handler that redirects a signed-in visitor looks like one that accepted the password"))
	}
	if d.judges && d.onCode != nil {
		errs = append(errs, errors.New("OnVerificationCode needs a handler that calls Succeeded, not ByStatus or Outcome: "+
			"such a handler has signed the user in when the code is required"))
	}
	errs = append(errs, d.findFields())
	key, err := g.Key("the forms of mw")
	errs = append(errs, err)
	if d.forms, err = route.NewForms(key, time.Now); err != nil {
		errs = append(errs, err)
	}
	pictures, err := image.New(image.Config{})
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	g.Illustrate(pictures)
	return d, nil
}

// findFields compiles the routes. A plain name applies to form fields and to members of a JSON object.
func (d *endpoint) findFields() error {
	add := func(account, password string, passes []string) error {
		one, err := route.Compile(route.Spec{Name: "login", Path: "/", Account: account, Password: password,
			Success: []string{"never"}, Passes: passes})
		d.routes = append(d.routes, one)
		return err
	}
	switch {
	case d.account == "basic":
		return add("basic", "", nil)
	case strings.Contains(d.account, ":"):
		return add(d.account, d.password, d.passes)
	}
	escaped := strings.NewReplacer("~", "~0", "/", "~1")
	var inForm, inJSON []string
	for _, field := range d.passes {
		inForm, inJSON = append(inForm, "form:"+field), append(inJSON, "json:/"+escaped.Replace(field))
	}
	return errors.Join(
		add("form:"+d.account, "form:"+d.password, inForm),
		add("json:/"+escaped.Replace(d.account), "json:/"+escaped.Replace(d.password), inJSON),
	)
}

// Account sets the field of the account name in forms and JSON objects; default "username". "json:/user/name" is a JSON
// pointer (RFC 6901), and "form:name" a form field only. Password then needs the same syntax.
func Account(field string) Option {
	return func(d *endpoint) error { d.account = field; return nonempty("Account", field) }
}

// Password sets the field of the password; default "password".
func Password(field string) Option {
	return func(d *endpoint) error { d.password = field; return nonempty("Password", field) }
}

// Passes permits fields that have the name of an account, such as "email" beside "username". Otherwise, a login with
// such a field is rejected, because a handler might look up the account by it. A request with such a field and without
// a password reaches the handler. The syntax is that of Account.
func Passes(fields ...string) Option {
	return func(d *endpoint) error { d.passes = fields; return nil }
}

// Basic reads both from the Authorization header, for all methods. Requests without the header pass.
func Basic() Option {
	return func(d *endpoint) error { d.account = "basic"; return nil }
}

// Proxies sets the IP addresses and networks of reverse proxies, such as "127.0.0.1" or "10.0.0.0/8". Their
// X-Forwarded-For and X-Forwarded-Proto headers are trusted, and no others (R9). The default is none: the client's
// address is the TCP peer. [guard.Guard.UnconfiguredProxies] reports unconfigured proxies. Handlers that share a guard
// share the last list.
func Proxies(networks ...string) Option {
	return func(d *endpoint) error {
		var all []netip.Prefix
		for _, n := range networks {
			prefix, err := netip.ParsePrefix(n)
			if a, failed := netip.ParseAddr(n); failed == nil {
				prefix, err = netip.PrefixFrom(a, a.BitLen()), nil
			}
			if err != nil {
				return fmt.Errorf("Proxies: must be an IP address or a network such as 10.0.0.0/8, not %q", n)
			}
			all = append(all, prefix)
		}
		finder := new(client.Finder)
		finder.Set(all, client.XForwardedFor)
		d.client = finder.Client
		d.guard.Proxies(all)
		return nil
	}
}

// Client sets a function that identifies the sender of a request, for other headers than those of Proxies (see
// [client.Finder]). It must not trust headers that any client can send. All invalid addresses count as one address.
func Client(find func(*http.Request) client.Client) Option {
	return func(d *endpoint) error {
		if d.client = find; find == nil {
			return errors.New("Client: must be a function")
		}
		return nil
	}
}

// Identity sets a function that returns the client fingerprint of a request, for guard.Policy.Identity: equal texts
// share a count, whatever their IP addresses. The guard keys the text and keeps 32 bits; an empty text does not count.
// [client.Identity.Of] builds it from headers. The default is none.
func Identity(of func(*http.Request) string) Option {
	return func(d *endpoint) error {
		if d.identity = of; of == nil {
			return errors.New("Identity: must be a function")
		}
		return nil
	}
}

// Origins adds origins, such as "https://app.example.org", whose pages may send logins. The default is the site's own
// origin: a page elsewhere could make its visitors guess (login CSRF).
func Origins(origins ...string) Option {
	return func(d *endpoint) (err error) {
		for _, o := range origins {
			err = errors.Join(err, d.sameSite.AddTrustedOrigin(o))
		}
		return err
	}
}

// Hold sets how long an early attempt may wait on a timer, at most 1 minute (R15). Default 0: the client is asked to
// wait.
func Hold(most time.Duration) Option {
	return func(d *endpoint) error {
		if d.hold = most; most < 0 || most > time.Minute {
			return fmt.Errorf("Hold: must be from 0 to 1m, not %v", most)
		}
		return nil
	}
}

// OnVerificationCode sets a function that sends a verification code to an account's owner, who has signed in with the
// right password where that is not enough (R32). It runs after the response. The client gets a page that asks for the
// code, after a right and a wrong password alike: the handler's response is discarded. The handler must call Succeeded
// before it signs the user in, and not sign in after an error. Without the function such clients solve a challenge.
func OnVerificationCode(send func(ctx context.Context, account, code string)) Option {
	return func(d *endpoint) error {
		if d.onCode = send; send == nil {
			return errors.New("OnVerificationCode: must be a function")
		}
		return nil
	}
}

// Integration sets the integration's name in events; default "library". A challenge that was solved at one integration
// is invalid at another.
func Integration(name string) Option {
	return func(d *endpoint) error { d.name = name; return nonempty("Integration", name) }
}

// Body sets the largest login request, in bytes, at most 10 MiB; default [MaxBody].
func Body(most int64) Option {
	return func(d *endpoint) error {
		if d.body = most; most < 1 || most > 10<<20 {
			return fmt.Errorf("Body: must be from 1 to %d, not %d", 10<<20, most)
		}
		return nil
	}
}

// Outcome sets the judge of responses whose handler has reported no outcome; it needs [SignedIn]. By default 502 and
// 503 mean that the password was not checked, and all others that it was wrong. The judge gets status and headers
// before they are sent.
func Outcome(judge func(status int, h http.Header) guard.Outcome) Option {
	return func(d *endpoint) error {
		if d.judge, d.judges = judge, true; judge == nil {
			return errors.New("Outcome: must be a function")
		}
		return nil
	}
}

// SignedIn sets a function that reports whether the client is signed in already. Such a login gets 409 before the
// handler and counts against the IP address. Many handlers redirect it without checking the password. By the status
// that is a success, for every account that an attacker names. ByStatus and Outcome need this option; a handler that
// calls [Succeeded] does not. A login that ends between this call and the handler's own look is not noticed: give a
// session a new identifier at each login.
func SignedIn(is func(*http.Request) bool) Option {
	return func(d *endpoint) error {
		if d.signedIn = is; is == nil {
			return errors.New("SignedIn: must be a function")
		}
		return nil
	}
}

// ByStatus treats 2xx and 3xx as a correct password, and needs [SignedIn]. Use it only if the handler always answers a
// wrong password with 400 or more, and redirects no attempt before it looks at the password. If it shows the form again
// with 200 or redirects to it, every guess would be a success: it must call [Succeeded] instead. A handler that writes
// no response counts as failed: another middleware may write the error that it has returned.
func ByStatus() Option {
	return Outcome(func(status int, h http.Header) guard.Outcome {
		if status >= 200 && status < 400 {
			return guard.Succeeded
		}
		return notified(status, h)
	})
}

// OnRefusal sets the response to requests that do not reach the handler; default f.Write. It must not depend on whether
// the account exists (R12).
func OnRefusal(answer func(w http.ResponseWriter, r *http.Request, f *Refusal)) Option {
	return func(d *endpoint) error {
		if d.refuse = answer; answer == nil {
			return errors.New("OnRefusal: must be a function")
		}
		return nil
	}
}

// Log sets the logger for errors; default slog.Default().
func Log(log *slog.Logger) Option {
	return func(d *endpoint) error {
		if d.log = log; log == nil {
			return errors.New("Log: must be a logger")
		}
		return nil
	}
}

func nonempty(option, text string) error {
	if text == "" {
		return fmt.Errorf("%s: must not be empty", option)
	}
	return nil
}
