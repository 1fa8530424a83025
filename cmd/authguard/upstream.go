package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/learn"
	"authguard/internal/redisstore"
	"authguard/internal/route"
	"authguard/web/proxy"
)

func (r *realm) openProxy(ctx context.Context) (err error) {
	d := r.site.listeners
	login := r.login(d, "login", &d.edge, r.config.Session.Lifetime, r.people.source)
	base := proxy.Base
	if r.name != guard.DefaultRealm {
		base = proxy.BaseOf(r.name)
	}
	login.Look = r.look.Below(base)
	var claims challenge.Spent
	if s := r.site.counting.shared; s != nil {
		claims = redisstore.NewSpent(s.client, s.prefix+"p:")
	}
	r.proxy, err = proxy.New(proxy.Config{
		Base: base, Edge: &d.edge, Guard: r.guardOf, Login: login, Look: r.look, Challenges: r.mode.challenges,
		Widget: &r.mode.widget, Hold: &r.hold, Identity: &r.clients, Secure: r.secure(d), Origin: r.config.Origin,
		Rivals: d.rivals, Claims: claims,
		Secret: slices.Concat(r.site.storage.keys.Challenges, []byte(r.name)), Now: r.site.storage.clock.Now, Log: r.log,
	})
	if err != nil {
		return err
	}
	return r.setProxy(ctx)
}

// setProxy puts the configured app and routes in force. The route named login shares the site's counters; every other
// route has its own.
func (r *realm) setProxy(ctx context.Context) error {
	c := r.config.Proxy
	if c.Upstream == "" {
		r.app.Store(nil)
		r.proxy.Off()
		return nil
	}
	upstream, err := url.Parse(c.Upstream)
	if err != nil {
		return err
	}
	app := proxy.App{Upstream: upstream, Timeout: c.Timeout, Patience: c.ResponseTimeout, MaxBody: int64(c.MaxBody),
		Script: string(c.Script)}
	before, guards := r.routes.Load(), map[string]*guard.Guard{}
	for _, one := range c.Guarded() {
		compiled, err := route.Compile(one.Spec)
		if err != nil {
			return err
		}
		app.Routes = append(app.Routes, compiled)
		if one.Name == loginRoute || guards[one.Name] != nil {
			continue
		}
		policy := r.overridden(r.config.PolicyOf(one))
		if before != nil && (*before)[one.Name] != nil {
			g := (*before)[one.Name]
			policy.KnownClients = g.Policy().KnownClients
			err, guards[one.Name] = g.SetPolicy(policy), g
		} else {
			guards[one.Name], err = r.newGuard(ctx, r.name+"/"+one.Name, policy)
		}
		if err != nil {
			return err
		}
	}
	r.routes.Store(&guards)
	r.proxy.Set(app)
	r.app.Store(r.proxy)
	select {
	case <-r.routed:
	default:
	}
	r.routed <- r.config
	return nil
}

// probeAgain is how long the probe of the routes waits for an app that does not respond.
const probeAgain = 30 * time.Second

const looseRoute alerts.Kind = "route-matches-every-login"

// probeRoutes sends one made-up login to each route that is new or has another rule.
func (r *realm) probeRoutes(ctx context.Context) {
	probed := map[string]bool{} // by rule; a loose one stays
	var c config.Config
	for {
		err := r.probe(ctx, c, probed)
		var again <-chan time.Time
		if err != nil && ctx.Err() == nil {
			r.log.Info("the proxy's routes could not be probed", "error", err, "again_in", probeAgain)
			again = time.After(probeAgain)
		}
		select {
		case <-ctx.Done():
			return
		case c = <-r.routed:
		case <-again:
		}
	}
}

func (r *realm) probe(ctx context.Context, c config.Config, probed map[string]bool) (err error) {
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
				r.raise(looseRoute, "", looseWarning(r.name, one.Name).Text)
			}
			probed[rule] = matches
		}
		if matches {
			loose = append(loose, one.Name)
		}
	}
	r.loose.Store(&loose)
	return err
}

func looseWithin(ctx context.Context, c config.Config, s route.Spec) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Proxy.Timeout)
	defer cancel()
	return learn.Loose(ctx, c.Proxy.Upstream, c.Origin, []route.Spec{s})
}

func looseWarning(realm, name string) control.Warning {
	return control.Warning{Code: string(looseRoute), Title: "A proxy route matches every login", Text: alerts.InRealm(realm,
		"A login with a made-up account and password matches success of the proxy's route "+name+". It cannot tell a right "+
			"password from a wrong one: every login from an unknown client counts as failed, and none from a known client "+
			"does. Correct success: authguard proxy detect proposes one.")}
}

func (r *realm) guardedPaths() string {
	var paths []string
	for _, one := range r.config.Proxy.Guarded() {
		if !slices.Contains(paths, one.Path) { // several routes may share one path
			paths = append(paths, one.Path)
		}
	}
	return strings.Join(paths, ", ")
}

// loginRoute is the name of the route that shares the site's counters.
const loginRoute = "login"

// guardOf returns the guard of a route's counters.
func (r *realm) guardOf(name string) *guard.Guard {
	if guards := r.routes.Load(); guards != nil && (*guards)[name] != nil {
		return (*guards)[name]
	}
	return r.guard
}

func (r *realm) others() []*guard.Guard {
	if guards := r.routes.Load(); guards != nil {
		return slices.Collect(maps.Values(*guards))
	}
	return nil
}

// directoryOf returns where an account logs in. Only the app behind the proxy knows its accounts.
func (r *realm) directoryOf(ctx context.Context, name string) (string, error) {
	directory, err := r.people.directoryOf(ctx, name)
	if errors.Is(err, accounts.ErrUnknown) && r.app.Load() != nil {
		return "", nil
	}
	return directory, err
}

// inApp reports whether an app keeps the accounts: one behind the proxy, or a client of the decision API without
// accounts here.
func (r *realm) inApp(ctx context.Context) (bool, error) {
	behind := r.app.Load() != nil
	if behind || !r.api.On() || r.people.elsewhere() != "" {
		return behind, nil
	}
	own, err := r.people.accounts.HasUsers(ctx)
	return !own, err
}

// before serves the proxy if the realm has an app, or else authguard's own pages. Beside an app, the decision API is
// available if a token for it exists.
func (r *realm) before(doors http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch app := r.app.Load(); {
		case app == nil, r.api.Owns(req.URL.Path) && r.api.On():
			doors.ServeHTTP(w, req)
		case r.site.listeners.edge.Probed(&r.site.listeners.probes, req):
			w.WriteHeader(http.StatusNoContent)
		default:
			app.ServeHTTP(w, req)
		}
	})
}
