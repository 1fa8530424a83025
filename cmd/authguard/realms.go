package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/route"
	"authguard/web"
	"authguard/web/proxy"
)

// main returns the default realm, whose administrators manage all realms.
func (s *site) main() *realm { return (*s.realms.Load())[0] }

func (s *site) realm(name string) *realm {
	all := *s.realms.Load()
	if i := slices.IndexFunc(all, func(r *realm) bool { return r.name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// attacked reports whether a realm's failure rate is above its baseline.
func (s *site) attacked(name string) bool {
	if s.realms.Load() == nil {
		return false
	}
	r := s.realm(name)
	return r != nil && r.mode.State().Level != captchamode.Calm
}

func (s *site) openRealms(ctx context.Context) error {
	first, err := s.openRealm(ctx, guard.DefaultRealm, s.loaded.Config)
	if err != nil {
		return err
	}
	all := []*realm{first}
	s.realms.Store(&all)
	for _, c := range s.loaded.Realms {
		r, err := s.openRealm(ctx, c.Name, s.loaded.In(c))
		if err != nil {
			return fmt.Errorf("realm %s: %w", c.Name, err)
		}
		all = append(all, r)
	}
	s.realms.Store(&all)
	s.dispatch(s.loaded)
	return nil
}

func (s *site) startRealms(ctx context.Context) (err error) {
	for _, r := range *s.realms.Load() {
		err = errors.Join(err, r.Start(ctx))
	}
	return err
}

func (s *site) stopRealms() (err error) {
	for _, r := range s.leaving {
		err = errors.Join(err, r.leaving.Stop())
	}
	if all := s.realms.Load(); all != nil {
		for _, r := range slices.Backward(*all) {
			err = errors.Join(err, r.Stop())
		}
	}
	return err
}

func (s *site) reloadRealms(loaded *config.Loaded) (err error) {
	before := *s.realms.Load()
	all := []*realm{before[0]}
	err = before[0].reload(loaded.Config)
	for _, c := range loaded.Realms {
		r := s.realm(c.Name)
		if r == nil {
			added, failed := s.addRealm(c.Name, loaded.In(c))
			if failed != nil {
				err = errors.Join(err, fmt.Errorf("realm %s: %w", c.Name, failed))
				continue
			}
			r = added
		} else {
			err = errors.Join(err, r.reload(loaded.In(c)))
		}
		all = append(all, r)
	}
	s.realms.Store(&all)
	for _, r := range before {
		if !slices.Contains(all, r) {
			s.leave(r)
		}
	}
	s.dispatch(loaded)
	return err
}

func (s *site) addRealm(name string, c config.Config) (*realm, error) {
	ctx := context.Background()
	s.leaving = slices.DeleteFunc(s.leaving, func(r *realm) bool {
		if r.name == name { // added again: save what it has learned first
			_ = r.leaving.Stop()
		}
		return r.name == name
	})
	r, err := s.openRealm(ctx, name, c)
	if err != nil {
		return nil, err
	}
	if err = r.control.Follow(ctx); err == nil {
		err = r.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	r.log.Info("realm added")
	return r, nil
}

// leaveAfter is when a removed realm stops: no ticket is valid for longer.
const leaveAfter = time.Minute

// leave stops new attempts in a removed realm. Requests in progress and tickets continue; the learned baseline stays in
// the database.
func (s *site) leave(r *realm) {
	r.log.Info("realm removed")
	s.leaving = append(s.leaving, r)
	r.leaving = background.Run(func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-time.After(leaveAfter):
		}
		if err := r.Stop(); err != nil {
			r.log.Error("realm not stopped in full", "error", err)
		}
		s.watch.forget(r.name)
	})
	_ = r.leaving.Start(context.Background())
}

// dispatch routes requests to the realms. A realm that failed to open keeps its hosts, paths and tokens, so no other
// realm gets its requests.
func (s *site) dispatch(loaded *config.Loaded) {
	t := &web.Realms{Edge: &s.listeners.edge, Tokens: &s.tokens, Otherwise: web.Claim{Realm: guard.DefaultRealm,
		Handler: s.main().handler}}
	tokens := tokensOf(guard.DefaultRealm, loaded.Config)
	for _, r := range s.leaving {
		tokens = append(tokens, tokensOf(r.name, r.config)...)
		t.Claims = append(t.Claims, web.Claim{Realm: r.name, Handler: r.handler, Leaving: true})
	}
	for _, c := range loaded.Realms {
		written := c.Paths
		if len(written) > 0 {
			written = append(slices.Clone(written), proxy.BaseOf(c.Name)+"/*")
		}
		paths, _ := route.ParsePaths(written) // validated by the configuration
		tokens = append(tokens, tokensOf(c.Name, loaded.In(c))...)
		claim := web.Claim{Realm: c.Name, Hosts: c.Hosts, Paths: paths, Handler: http.HandlerFunc(unopened)}
		if r := s.realm(c.Name); r != nil {
			claim.Handler = r.handler
		}
		t.Claims = append(t.Claims, claim)
	}
	s.tokens.SetConfigured(tokens)
	h := t.Handler()
	s.listeners.realms.Store(&h)
}

// readTokens puts tokens created by command in force.
func (s *site) readTokens(ctx context.Context) error {
	issued, err := s.issued.All(ctx)
	if err != nil {
		return err
	}
	all := make([]web.Token, 0, len(issued))
	for _, t := range issued {
		if len(t.Scopes) > 0 {
			continue // of the admin API: the public listener must not accept it
		}
		all = append(all, web.Token{Sum: t.Sum, Realm: t.Realm})
	}
	s.tokens.SetIssued(all)
	return nil
}

func unopened(w http.ResponseWriter, r *http.Request) {
	if web.WantsJSON(r) {
		w.Header().Set("Retry-After", "10")
		_ = web.Problem{
			Type: web.OverloadedProblem, Title: "This site could not be started", Status: http.StatusServiceUnavailable,
			Detail: "See the server's log.", RetryAfter: 10,
		}.Write(w)
		return
	}
	http.Error(w, "This site could not be started. See the server's log.", http.StatusServiceUnavailable)
}

// trust records all configured proxies: blocking one may lock out all clients behind it.
func (s *site) trust(loaded *config.Loaded) {
	all := slices.Concat(loaded.TrustedProxies, loaded.ProxyProtocolFrom, loaded.Admin.TrustedProxies)
	s.proxies.Store(&all)
}

func (s *site) controls() (all []*control.Control) {
	for _, r := range *s.realms.Load() {
		all = append(all, r.control)
	}
	return all
}

func (s *site) gauges() (all []control.RealmGauges) {
	for _, r := range *s.realms.Load() {
		all = append(all, control.RealmGauges{Realm: r.name, Mode: r.mode.Mode, Held: r.guard.Held, HungUp: r.guard.HungUp,
			Checks: r.people.gate.State, Events: r.guard.Tallied, Enforced: r.control.Enforced,
			Unusable: r.people.unusable.Load})
	}
	return all
}
