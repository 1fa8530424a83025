package learn

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"authguard/internal/config"
	"authguard/internal/route"
)

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
