package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"authguard/internal/config"
	"authguard/internal/counters"
	"authguard/internal/database"
	"authguard/internal/learn"
	"authguard/internal/times"
	"authguard/web/pages"
)

type configCmd struct {
	Validate configValidateCmd `cmd:"" help:"Report every problem in the configuration" example:""`
	Show     configShowCmd     `cmd:"" help:"Show every setting and where it comes from" example:""`
	Schema   configSchemaCmd   `cmd:"" help:"Print a JSON Schema of the configuration" example:""`
}

type configValidateCmd struct {
	Probe bool `help:"Also test each proxy route with one made-up login"`
}

// Run prints every problem, including reasons why serve would not start, or else the notes.
func (c configValidateCmd) Run(g *globals) error {
	loaded, err := config.Load(g.configPath(), os.Environ())
	notes, wrong := []string{}, "the configuration is invalid"
	if err == nil {
		var missing []string
		missing, err = pages.CheckFiles(loaded.Config)
		err = errors.Join(err, usableList(loaded.Config))
		notes = slices.Concat(notes, loaded.Notes(), missing)
		if err == nil {
			var lacks []counters.Lack
			lacks, err = refusal(context.Background(), loaded)
			wrong = "authguard serve would not start"
			for _, one := range lacks {
				notes = append(notes, one.String())
			}
			if err == nil && c.Probe {
				wrong = "the routes did not pass the probe"
				err = probed(context.Background(), loaded.Config)
			}
		}
	}
	if g.JSON {
		problems := append([]config.Problem{}, config.Problems(err)...)
		return g.judged(map[string]any{"ok": err == nil, "problems": problems, "notes": notes}, err == nil, wrong)
	}
	if err != nil {
		return fmt.Errorf("%s:\n%w", wrong, err)
	}
	fmt.Fprintln(g.out, "The configuration is valid.")
	for _, note := range notes {
		fmt.Fprintln(g.out, " ", note)
	}
	return nil
}

// probed returns an error for each proxy route whose success matches a made-up login.
func probed(ctx context.Context, c config.Config) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	sites := []config.Config{c}
	for _, r := range c.Realms {
		sites = append(sites, c.In(r))
	}
	for _, one := range sites {
		if one.Proxy.Upstream == "" {
			continue
		}
		loose, failed := learn.Loose(ctx, one.Proxy.Upstream, one.Origin, one.Proxy.Specs())
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("proxy.upstream: %s could not be probed: %w", one.Proxy.Upstream, failed))
		}
		for _, name := range loose {
			err = errors.Join(err, fmt.Errorf("proxy.routes: success of %s matches a login with a made-up account and password. "+
				"Correct it: authguard proxy detect proposes one", name))
		}
	}
	return err
}

type configShowCmd struct{}

// Run prints every setting; secrets are masked.
func (configShowCmd) Run(g *globals) error {
	loaded, err := config.Load(g.configPath(), os.Environ())
	if err != nil {
		return fmt.Errorf("the configuration is invalid:\n%w", err)
	}
	if g.JSON {
		return printJSON(g, loaded.Effective())
	}
	w := tabwriter.NewWriter(g.out, 0, 8, 2, ' ', 0)
	for _, s := range loaded.Effective() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Path, s.Value, s.Origin)
	}
	return w.Flush()
}

type configSchemaCmd struct{}

// Run prints the schema.
func (configSchemaCmd) Run(g *globals) error { return printJSON(g, config.Schema()) }

type migrateCmd struct{}

// Run migrates the database.
func (migrateCmd) Run(g *globals) error {
	loaded, err := config.Load(g.configPath(), os.Environ())
	if err != nil {
		return fmt.Errorf("the configuration is invalid:\n%w", err)
	}
	ctx := context.Background()
	db, err := database.Open(ctx, loaded.DSN())
	if err != nil {
		return err
	}
	defer db.Close()
	applied, err := database.Migrate(ctx, db)
	if err != nil {
		return err
	}
	if g.JSON {
		return printJSON(g, map[string]any{"applied": append([]string{}, applied...)})
	}
	for _, name := range applied {
		fmt.Fprintln(g.out, "applied", name)
	}
	fmt.Fprintf(g.out, "The database is up to date (%d applied now).\n", len(applied))
	return nil
}

// printJSON writes durations like the settings: 1m30s, not nanoseconds.
func printJSON(g *globals, v any) error {
	durations := json.MarshalToFunc(func(e *jsontext.Encoder, d time.Duration) error {
		return e.WriteToken(jsontext.String(times.FormatDuration(d.Round(time.Millisecond))))
	})
	err := json.MarshalWrite(g.out, v, jsonv1.DefaultOptionsV1(), jsontext.WithIndent("  "),
		json.WithMarshalers(durations))
	return errors.Join(err, tells(g.out, ""))
}

// judged prints JSON, and fails with words unless well.
func (g *globals) judged(v any, well bool, words string) error {
	err := printJSON(g, v)
	if !well {
		err = errors.Join(err, answered{errors.New(words)})
	}
	return err
}
