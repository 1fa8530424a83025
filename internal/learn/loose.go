package learn

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"authguard/internal/config"
	"authguard/internal/route"
)

// Loose returns the names of the routes whose success also matches a login with a made-up account and a random
// password, of which it sends one to the app for each route. It leaves out routes whose success is never, and those
// whose login it cannot write. upstream is the app's base URL, and origin the site's public one, or empty. The error
// is that of an app that does not respond to a GET of a route's path; then no login was sent there.
func Loose(ctx context.Context, upstream, origin string, specs []route.Spec) (names []string, err error) {
	app, err := url.Parse(upstream)
	if err != nil {
		return nil, err
	}
	site, err := url.Parse(origin)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true}
	c := checker{ctx: ctx, login: &Login{}, send: func(r *http.Request) (*http.Response, error) {
		(&httputil.ProxyRequest{In: r, Out: r}).SetURL(app)
		if site.Host != "" {
			r.Host = site.Host
			r.Header.Set("X-Forwarded-Proto", site.Scheme)
		}
		return transport.RoundTrip(r)
	}}
	for _, s := range specs {
		compiled, wrong := route.Compile(s)
		if wrong != nil || slices.Equal(s.Success, never) {
			continue
		}
		answer, away := c.madeUp(s)
		if away != nil {
			err = away
			continue
		}
		if compiled.Judge(answer) == route.Succeeded && !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names, err
}

// madeUp sends a login with a made-up account: with the cookies and hidden fields of the route's page if it is a form's.
// The answer is empty if no name or field fits the route.
func (c checker) madeUp(s route.Spec) (a route.Answer, err error) {
	if s.Kind == route.SecondFactor { // without a session, a code is wrong
		s.Account, s.Password = s.Password, ""
	}
	name, password := madeUpName(s.Names), rand.Text()
	path := strings.TrimSuffix(s.Path, "/*")
	q := request{http.MethodPost, "", &url.URL{Path: "/" + strings.TrimPrefix(path, "/")}, http.Header{}, nil}
	if len(s.Methods) > 0 && s.Methods[0] != "ANY" {
		q.method = s.Methods[0]
	}
	account, at, _ := strings.Cut(s.Account, ":")
	_, secret, _ := strings.Cut(s.Password, ":")
	if name == "" {
		return a, nil
	}
	page, err := c.do(c.request(request{http.MethodGet, "", q.url, http.Header{"Accept": {"text/html"}}, nil}, nil))
	if err == nil && page.Status >= http.StatusBadGateway && page.Status <= http.StatusGatewayTimeout {
		err = fmt.Errorf("it answered %d", page.Status)
	}
	if err != nil {
		return a, err
	}
	var cookies []*http.Cookie
	switch {
	case account == "basic":
		q.method = http.MethodGet
		(&http.Request{Header: q.header}).SetBasicAuth(name, password)
	case account == "form", account == "param":
		cookies = keep(nil, page)
		form := url.Values{}
		for field, value := range hidden(page.Body) {
			form.Set(strings.TrimPrefix(field, "form:"), value)
		}
		form.Set(at, name)
		form.Set(secret, password)
		q.header.Set("Content-Type", "application/x-www-form-urlencoded")
		q.body = []byte(form.Encode())
	case account == "json":
		top := map[string]any{}
		put(top, at, name)
		put(top, secret, password)
		q.header.Set("Content-Type", "application/json")
		q.body, _ = json.Marshal(top)
	default:
		return a, nil
	}
	a, _ = c.do(c.request(q, cookies)) // without an answer it is no success, and is not repeated
	return a, nil
}

// put sets the member of an object at a JSON pointer.
func put(at map[string]any, pointer, value string) {
	names := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, name := range names {
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	}
	for _, name := range names[:len(names)-1] {
		below, ok := at[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			at[name] = below
		}
		at = below
	}
	at[names[len(names)-1]] = value
}

// madeUpName returns a name that a route accepts and no account has; empty if it finds none.
func madeUpName(names string) string {
	fits, err := regexp.Compile(`^(?:` + names + `)$`)
	random := strings.ToLower(rand.Text())[:16]
	for _, name := range []string{"probe-" + random, "probe" + random, "probe" + random + "@example.org"} {
		if err == nil && (names == "" || fits.MatchString(name)) {
			return name
		}
	}
	return ""
}

// probeAgain is how long a Prober waits for an app that does not respond.
const probeAgain = 30 * time.Second

// A Prober sends one made-up login to each route of a proxy that is new or has another rule.
type Prober struct {
	found  func(name string)
	log    *slog.Logger
	newest chan config.Config
	loose  atomic.Pointer[[]string]
}

// NewProber returns a Prober. found is called for each route whose success matches the login.
func NewProber(found func(name string), log *slog.Logger) *Prober {
	return &Prober{found: found, log: log, newest: make(chan config.Config, 1)}
}

// Set sets the proxy whose routes are probed next.
func (p *Prober) Set(c config.Config) {
	select {
	case <-p.newest:
	default:
	}
	p.newest <- c
}

// Loose returns the names of the routes whose success matched the login.
func (p *Prober) Loose() []string {
	if loose := p.loose.Load(); loose != nil {
		return *loose
	}
	return nil
}

// Run probes until ctx ends.
func (p *Prober) Run(ctx context.Context) {
	probed := map[string]bool{} // by rule; a loose one stays
	var c config.Config
	for {
		err := p.probe(ctx, c, probed)
		var again <-chan time.Time
		if err != nil && ctx.Err() == nil {
			p.log.Info("the proxy's routes could not be probed", "error", err, "again_in", probeAgain)
			again = time.After(probeAgain)
		}
		select {
		case <-ctx.Done():
			return
		case c = <-p.newest:
		case <-again:
		}
	}
}

func (p *Prober) probe(ctx context.Context, c config.Config, probed map[string]bool) (err error) {
	var loose []string
	for _, one := range c.Proxy.Guarded() {
		rule := c.Proxy.Upstream + fmt.Sprintf("%+v", one.Spec)
		matches, done := probed[rule]
		if !done && c.Proxy.Probe {
			names, wrong := looseWithin(ctx, c, one.Spec)
			if wrong != nil {
				err = wrong
				continue
			}
			if matches = len(names) > 0; matches {
				p.found(one.Name)
			}
			probed[rule] = matches
		}
		if matches {
			loose = append(loose, one.Name)
		}
	}
	p.loose.Store(&loose)
	return err
}

func looseWithin(ctx context.Context, c config.Config, s route.Spec) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Proxy.Timeout)
	defer cancel()
	return Loose(ctx, c.Proxy.Upstream, c.Origin, []route.Spec{s})
}
