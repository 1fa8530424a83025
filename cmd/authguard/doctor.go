package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"authguard/internal/alerts"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/counters"
	"authguard/internal/doctor"
	"authguard/internal/route"
	"authguard/web"
	"authguard/web/proxy"
)

type doctorCmd struct {
	Alerts  bool   `help:"Send a test message to every alert channel"`
	Through string `placeholder:"URL" help:"Probe the public URL with forged forwarding headers"`
}

// Run checks everything that the configuration names. Problems make it fail; advice does not.
func (d doctorCmd) Run(g *globals) error {
	loaded, err := config.Load(g.configPath(), os.Environ())
	c := doctor.Config{Invalid: err}
	c.Unscripted = func(p config.Proxy, page http.Header, host string) string {
		app := proxy.App{Script: string(p.Script)}
		for _, s := range p.Specs() {
			if one, err := route.Compile(s); err == nil {
				app.Routes = append(app.Routes, one)
			}
		}
		return app.Unscripted(page, host)
	}
	if err == nil {
		c.Settings, c.Ask, c.Alerts = loaded.Config, g.warnings, d.Alerts
		c.Starts = func(ctx context.Context) ([]counters.Lack, error) { return refusal(ctx, loaded) }
	}
	checks := doctor.Examine(context.Background(), c)
	if d.Through != "" {
		checks = append(checks, doctor.Through(context.Background(), d.Through, prober{g})...)
	}
	well := doctor.Well(checks)
	if g.JSON {
		return g.judged(map[string]any{"ok": well, "checks": checks}, well, "doctor found a problem")
	}
	return tell(g, checks)
}

// refusal returns why serve would not start, and what it would start without.
func refusal(ctx context.Context, loaded *config.Loaded) ([]counters.Lack, error) {
	if err := usableFiles(loaded); err != nil {
		return nil, err
	}
	return doctor.Refusal(ctx, loaded)
}

func (g *globals) warnings(context.Context) ([]alerts.Warning, error) {
	c, err := g.client()
	if err != nil {
		return nil, err
	}
	if _, gone := os.Stat(c.socket); gone != nil {
		return g.withoutFolder()
	}
	var answer struct{ Warnings []alerts.Warning }
	err = c.ask(http.MethodGet, "/api/status", nil, nil, &answer)
	if errors.Is(err, syscall.ECONNREFUSED) { // a killed server leaves its socket
		return nil, doctor.ErrNotRunning
	}
	return answer.Warnings, err
}

// withoutFolder asks the server at admin.listen, which may have lost its data folder and socket.
func (g *globals) withoutFolder() ([]alerts.Warning, error) {
	loaded, err := config.Load(g.configPath(), os.Environ())
	if err != nil {
		return nil, err
	}
	client := http.Client{Timeout: 3 * time.Second}
	response, err := client.Get("http://" + loaded.Admin.Listen + "/readyz")
	if err != nil {
		return nil, doctor.ErrNotRunning
	}
	defer response.Body.Close()
	said := web.Problem{}
	err = json.NewDecoder(io.LimitReader(response.Body, 1<<16)).Decode(&said)
	if err != nil || said.Status != http.StatusServiceUnavailable {
		return nil, doctor.ErrNotRunning
	}
	return []alerts.Warning{{
		Code: "not-ready", Text: said.Detail,
		Title: "The server at admin.listen is not ready, and has no socket in " + loaded.Data,
	}}, nil
}

type prober struct{ g *globals }

func (p prober) Expect(_ context.Context, token string) error {
	c, err := p.g.client()
	if err != nil {
		return err
	}
	return c.ask(http.MethodPost, "/api/probe", nil, map[string]string{"token": token}, new(any))
}

func (p prober) Seen(_ context.Context, token string) (*control.Probe, error) {
	c, err := p.g.client()
	if err != nil {
		return nil, err
	}
	var answer struct{ Seen *control.Probe }
	err = c.ask(http.MethodGet, "/api/probe", url.Values{"token": {token}}, nil, &answer)
	return answer.Seen, err
}

func tell(g *globals, checks []doctor.Check) error {
	count := map[doctor.State]int{}
	for _, c := range checks {
		count[c.State]++
		fmt.Fprintf(g.out, "%-7s  %s\n", c.State, c.Text)
		if c.Mend != "" {
			fmt.Fprintf(g.out, "         → %s\n", c.Mend)
		}
	}
	fmt.Fprintf(g.out, "%d checks: %d passed, %d warnings, %d problems.\n",
		len(checks), count[doctor.OK], count[doctor.Advice], count[doctor.Problem])
	if wrong := count[doctor.Problem]; wrong > 0 {
		return fmt.Errorf("%d of %d checks found a problem: fix the lines marked problem and run doctor again", wrong,
			len(checks))
	}
	return nil
}
