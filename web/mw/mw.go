// Package mw puts a [guard.Guard] before the login handler of a Go program: as
// middleware of net/http, and of whatever takes that, such as echo.
//
//	g, err := guard.Default(secret)
//	…
//	http.Handle("/login", mw.Protect(g, http.HandlerFunc(login)))
//
// A POST with a password is an attempt. The handler sees it only if the password may
// be looked at (R16), and says so if it was right:
//
//	func login(w http.ResponseWriter, r *http.Request) {
//		if !right(r.FormValue("username"), r.FormValue("password")) {
//			http.Error(w, "wrong user name or password", http.StatusUnauthorized)
//			return
//		}
//		mw.Succeeded(r)
//		…
//	}
//
// What nobody calls right was wrong: a handler that panics, that runs into its time
// limit or whose client hangs up has looked at a guess all the same (R1). So a
// handler that forgets [Succeeded] is stricter than it should be, and never open. A
// status alone decides nothing, since many handlers show the form once more with 200,
// or redirect to it; [ByStatus] is for those that do not.
//
// Who is stopped gets a page that works without JavaScript and keeps what was
// filled in, or problem+json (RFC 9457); [OnRefusal] is for pages of one's own. GET,
// HEAD and OPTIONS pass, unless a password is in their address.
//
// Put it around whatever else reads the form, such as a check of CSRF tokens: the
// page in between sends its own form, and the handler inside gets the first one.
package mw

import (
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

// MaxBody is the largest login that is read, in bytes, unless [Body] says otherwise.
const MaxBody = 16 << 10

// An Option changes what Protect does by default.
type Option func(*door) error

// A door is one protected handler.
type door struct {
	guard     *guard.Guard
	name      string // of the door, in events
	account   string
	password  string
	routes    route.Table
	client    func(*http.Request) client.Client
	identity  func(*http.Request) string
	hold      time.Duration
	body      int64
	judge     func(status int, h http.Header) guard.Outcome
	judges    bool // by what the handler answers
	signedIn  func(*http.Request) bool
	refuse    func(http.ResponseWriter, *http.Request, *Refusal)
	sameSite  *http.CrossOriginProtection
	forms     *route.Forms
	languages *texts.Set
	log       *slog.Logger
}

// Protect puts the guard before a login handler. It panics if an option is wrong, as
// http.ServeMux does: that is seen when the program starts. The handler that it
// returns is safe for concurrent use.
func Protect(g *guard.Guard, login http.Handler, options ...Option) http.Handler {
	return Middleware(g, options...)(login)
}

// Middleware is Protect for routers that take middleware:
//
//	e.POST("/login", login, echo.WrapMiddleware(mw.Middleware(g)))
func Middleware(g *guard.Guard, options ...Option) func(http.Handler) http.Handler {
	d, err := newDoor(g, options)
	if err != nil {
		panic(fmt.Errorf("mw: %w", err))
	}
	return func(login http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.serve(w, r, login) })
	}
}

func newDoor(g *guard.Guard, options []Option) (*door, error) {
	d := &door{
		guard: g, name: "library", account: "username", password: "password", client: new(client.Finder).Client, identity: new(client.Identity).Of,
		body: MaxBody, judge: told, refuse: func(w http.ResponseWriter, r *http.Request, f *Refusal) { f.Write(w, r) },
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

// findFields makes routes of where the account and the password are: a plain name is
// that of a form's field and of a JSON object's member.
func (d *door) findFields() error {
	add := func(account, password string) error {
		one, err := route.Compile(route.Spec{Name: "login", Path: "/", Account: account, Password: password, Success: []string{"never"}})
		d.routes = append(d.routes, one)
		return err
	}
	switch {
	case d.account == "basic":
		return add("basic", "")
	case strings.Contains(d.account, ":"):
		return add(d.account, d.password)
	}
	escaped := strings.NewReplacer("~", "~0", "/", "~1")
	return errors.Join(
		add("form:"+d.account, "form:"+d.password),
		add("json:/"+escaped.Replace(d.account), "json:/"+escaped.Replace(d.password)),
	)
}

// Account names the field of the account's name, in a form and in a JSON object;
// default "username". "json:/user/name" is a JSON pointer (RFC 6901), and "form:name"
// a form's field alone: then Password is written like that, too.
func Account(field string) Option {
	return func(d *door) error { d.account = field; return nonempty("Account", field) }
}

// Password names the field of the password; default "password".
func Password(field string) Option {
	return func(d *door) error { d.password = field; return nonempty("Password", field) }
}

// Basic looks for both in the Authorization header, of requests of any method. Those
// without one pass.
func Basic() Option {
	return func(d *door) error { d.account = "basic"; return nil }
}

// Proxies are the addresses and networks of the reverse proxies in front, such as
// "127.0.0.1" or "10.0.0.0/8": what they say in X-Forwarded-For and
// X-Forwarded-Proto is believed, and nobody else (R9). Without this the client's
// address is the TCP peer. [guard.Guard.ForgottenProxies] reports those that do not say who
// the client is; handlers that share a guard share the last list.
func Proxies(networks ...string) Option {
	return func(d *door) error {
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

// Client has a function say who sent a request, for what Proxies cannot: another
// header (see [client.Finder]), or one that a network of one's own sets. It must not
// believe what a stranger can send. An invalid address is one that all who have it
// share.
func Client(find func(*http.Request) client.Client) Option {
	return func(d *door) error {
		if d.client = find; find == nil {
			return errors.New("Client: must be a function")
		}
		return nil
	}
}

// Identity has a function say what a request's client looks like, whatever its address, for
// guard.Policy.Identity: all for whom it says the same share a count. The guard keys the
// text and keeps 32 bits; the empty text is not counted. [client.Identity.Of] is one, of
// headers. Without this nobody looks at clients.
func Identity(of func(*http.Request) string) Option {
	return func(d *door) error {
		if d.identity = of; of == nil {
			return errors.New("Identity: must be a function")
		}
		return nil
	}
}

// Origins are other origins, such as "https://app.example.org", whose pages may send
// logins here. Without this those of the site itself may: a page elsewhere could have
// its visitors guess (login CSRF).
func Origins(origins ...string) Option {
	return func(d *door) (err error) {
		for _, o := range origins {
			err = errors.Join(err, d.sameSite.AddTrustedOrigin(o))
		}
		return err
	}
}

// Hold keeps an attempt that is early on a timer for at most so long, in place of
// telling it to wait (R15). Default 0: it is told at once.
func Hold(most time.Duration) Option {
	return func(d *door) error {
		if d.hold = most; most < 0 || most > time.Minute {
			return fmt.Errorf("Hold: must be from 0 to 1m, not %v", most)
		}
		return nil
	}
}

// Integration is the integration's name in events; default "library". A challenge that was solved at one
// integration is invalid at another.
func Integration(name string) Option {
	return func(d *door) error { d.name = name; return nonempty("Integration", name) }
}

// Body is the largest login that is read, in bytes; default [MaxBody].
func Body(most int64) Option {
	return func(d *door) error {
		if d.body = most; most < 1 || most > 10<<20 {
			return fmt.Errorf("Body: must be from 1 to %d, not %d", 10<<20, most)
		}
		return nil
	}
}

// Outcome judges what the handler answers where it has not said how the attempt
// ended, with [SignedIn]; default: 502, 503 and 504 say that the password was not looked at, and
// everything else that it was wrong. It gets the status and the headers before they
// are sent.
func Outcome(judge func(status int, h http.Header) guard.Outcome) Option {
	return func(d *door) error {
		if d.judge, d.judges = judge, true; judge == nil {
			return errors.New("Outcome: must be a function")
		}
		return nil
	}
}

// SignedIn has a function say whether the visitor who sends a request is signed in already.
// Such a login is refused (409) before the handler, and counts against the IP address. Many
// handlers redirect such a visitor without checking the password. By the status that is a
// success, for every account that an attacker names. ByStatus and Outcome need this option;
// a handler that calls [Succeeded] says itself that it has checked the password.
func SignedIn(is func(*http.Request) bool) Option {
	return func(d *door) error {
		if d.signedIn = is; is == nil {
			return errors.New("SignedIn: must be a function")
		}
		return nil
	}
}

// ByStatus is for a handler that answers a wrong password with 400 or more, always,
// and a right one with 2xx or 3xx. One that shows the form again with 200, or
// redirects to it, makes every guess a success: it must call [Succeeded] instead.
// [SignedIn] must be there, too.
func ByStatus() Option {
	return Outcome(func(status int, h http.Header) guard.Outcome {
		if status >= 200 && status < 400 {
			return guard.Succeeded
		}
		return told(status, h)
	})
}

// OnRefusal answers what does not reach the handler; f.Write is what answers it
// otherwise. The answer must not depend on whether there is such an account (R12).
func OnRefusal(answer func(w http.ResponseWriter, r *http.Request, f *Refusal)) Option {
	return func(d *door) error {
		if d.refuse = answer; answer == nil {
			return errors.New("OnRefusal: must be a function")
		}
		return nil
	}
}

// Log is told what went wrong; default slog.Default().
func Log(log *slog.Logger) Option {
	return func(d *door) error {
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
