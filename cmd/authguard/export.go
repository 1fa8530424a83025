package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"authguard/internal/lists"
	"authguard/internal/times"
)

type exportCmd struct {
	realmFlag
	What      string        `arg:"" enum:"blocked,allowed" help:"Blocklist or allowlist"`
	Format    string        `default:"json" enum:"${formats}" help:"Output format"`
	Refused   bool          `name:"limited" help:"With blocked: include IP addresses that a limit blocks"`
	Everybody bool          `name:"everything" help:"Include a range that holds every IP address"`
	Name      string        `default:"authguard" help:"Name of the nft table, ipset or access list"`
	Output    string        `placeholder:"FILE" help:"Write to this file, atomically and only if changed"`
	Hook      string        `name:"run" placeholder:"COMMAND" help:"Run this afterwards, with the list on standard input"`
	Follow    bool          `help:"Keep running and export every change"`
	Every     time.Duration `default:"5s" help:"Interval of --follow"`
}

func formatNames() string {
	var names []string
	for _, f := range lists.ExportFormats() {
		names = append(names, f.Name)
	}
	return strings.Join(names, ",")
}

// Validate implements kong.Validatable.
func (c exportCmd) Validate() error {
	switch {
	case !lists.ExportName.MatchString(c.Name):
		return errors.New("--name: must begin with a letter and have at most 16 letters, digits, - and _")
	case c.Refused && c.What != "blocked":
		return errors.New("--limited works with blocked only")
	case c.Follow && c.Output == "" && c.Hook == "":
		return errors.New("--follow needs --output FILE, --run COMMAND or both")
	case c.Every < time.Second:
		return errors.New("--every: must be at least 1s")
	}
	return nil
}

// Run exports the list, once or until a signal.
func (c exportCmd) Run(g *globals) error {
	client, err := g.client()
	if err != nil {
		return err
	}
	client.http.Timeout = answersWithin
	to := &follower{exportCmd: c, client: client, g: g}
	for _, f := range lists.ExportFormats() {
		if f.Name == c.Format {
			to.format = f
		}
	}
	if !c.Follow {
		return to.once(context.Background())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ticks := time.NewTicker(c.Every)
	defer ticks.Stop()
	to.follow(ctx, ticks.C)
	return nil
}

// answersWithin is the timeout of a request. With --limited the server reads a thousand counters.
const answersWithin = 30 * time.Second

type follower struct {
	exportCmd
	client *client
	g      *globals
	format lists.ExportFormat

	told    bool // ranges were exported, at
	ranges  []lists.Range
	at      time.Time
	trouble string // last reported error
	warned  string
}

// follow exports at every tick. It reports an error once and retries.
func (f *follower) follow(ctx context.Context, ticks <-chan time.Time) {
	for {
		err := f.once(ctx)
		switch trouble := fmt.Sprint(err); {
		case ctx.Err() != nil:
			return
		case err != nil && trouble != f.trouble:
			fmt.Fprintf(f.g.complaints, "authguard: %v\nThe exported list stays unchanged; retrying every %v.\n", err, f.Every)
			f.trouble = trouble
		case err == nil && f.trouble != "":
			fmt.Fprintln(f.g.complaints, "authguard: the export works again.")
			f.trouble = ""
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
	}
}

func (f *follower) once(ctx context.Context) error {
	var now lists.Edge
	query := f.query("verdict", f.What, "limited", fmt.Sprint(f.Refused), "everything", fmt.Sprint(f.Everybody))
	if err := f.client.ask(http.MethodGet, "/api/edge", query, nil, &now); err != nil {
		return err
	}
	f.warn(now)
	if f.told && !f.stale(now) {
		return nil
	}
	e := lists.Export{Verdict: f.What, At: now.Now, Ranges: now.Ranges, Name: f.Name}
	if err := f.tell(ctx, e); err != nil {
		return err
	}
	f.told, f.ranges, f.at = true, now.Ranges, now.Now
	return nil
}

// stale reports whether the exported list is outdated. Entries that last longer than a format's maximum are exported
// again before they expire.
func (f *follower) stale(now lists.Edge) bool {
	same := slices.EqualFunc(f.ranges, now.Ranges, func(a, b lists.Range) bool {
		return a.Prefix == b.Prefix && a.Until.Equal(b.Until)
	})
	return !same || f.format.Longest > 0 && now.Now.Sub(f.at) > f.format.Longest/2
}

func (f *follower) warn(now lists.Edge) {
	left := fmt.Sprint(now.Everybody)
	if len(now.Everybody) > 0 && left != f.warned {
		fmt.Fprintf(f.g.complaints, "authguard: %s holds every IP address and is left out, because blocking it would lock "+
			"you out, too. Include it with --everything.\n", left)
	}
	f.warned = left
}

func (f *follower) tell(ctx context.Context, e lists.Export) error {
	text := f.format.Text(e)
	if f.Output == "" && f.Hook == "" {
		_, err := f.g.out.Write(text)
		return err
	}
	var did []string
	if f.Output != "" {
		written, err := replace(f.Output, text)
		if err != nil {
			return fmt.Errorf("%s was not written: %w", f.Output, err)
		}
		did = append(did, map[bool]string{true: "wrote ", false: "unchanged: "}[written]+f.Output)
	}
	if f.Hook != "" {
		if err := execute(ctx, f.Hook, text); err != nil {
			return err
		}
		did = append(did, "ran "+f.Hook)
	}
	return f.say(e, strings.Join(did, "; "))
}

func (f *follower) say(e lists.Export, did string) error {
	if f.g.JSON {
		return printJSON(f.g, map[string]any{"verdict": e.Verdict, "ranges": len(e.Ranges), "did": did})
	}
	until := ""
	if first := e.First(); !first.IsZero() {
		until = ", the first until " + times.Text(first.UTC())
	}
	_, err := fmt.Fprintf(f.g.out, "%s%s: %s\n", e.Count(), until, did)
	return err
}

const runFor = time.Minute

// execute runs a shell command line. Its output appears in errors only.
func execute(ctx context.Context, line string, input []byte) error {
	ctx, cancel := context.WithTimeout(ctx, runFor)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.Stdin, cmd.WaitDelay = bytes.NewReader(input), time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // kills its children, too
	said, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return fmt.Errorf("%q failed: %w: %s", line, err, bytes.TrimSpace(said[:min(len(said), 2000)]))
}

// replace writes a file atomically, so readers see the old or the new text. It keeps the file's mode, and replaces a
// link's target, not the link.
func replace(path string, text []byte) (written bool, err error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	old, err := os.ReadFile(path)
	if err == nil && bytes.Equal(old, text) {
		return false, nil
	}
	mode := os.FileMode(0o644) // not secret; daemons of other users read it
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	// "include *.conf" must not match the name.
	next, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err != nil {
		return false, err
	}
	defer os.Remove(next.Name())
	_, err = next.Write(text)
	if err = errors.Join(err, next.Chmod(mode), next.Sync(), next.Close()); err != nil {
		return false, err
	}
	return true, os.Rename(next.Name(), path)
}
