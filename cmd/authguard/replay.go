package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"

	"authguard/guard"
	"authguard/internal/config"
	"authguard/internal/lists"
	"authguard/internal/replay"
	"authguard/internal/times"
)

type logFlags struct {
	Format  string            `placeholder:"NAME" help:"Log format (default: detect per file): ${logs}"`
	Login   []string          `placeholder:"REQUEST" help:"In access logs: the login request (default: POST /login)"`
	Success []string          `placeholder:"WORD" help:"Status or word of a success (default: 302, 303)"`
	Failure []string          `placeholder:"WORD" help:"Status of a failure (default: 200, 400, 401, 403, 422)"`
	Field   map[string]string `placeholder:"FIELD=NAME" help:"Field names in JSON and CSV: time, account, address, …"`
	Year    int               `help:"Year of the first line (default: the file's last change)"`
	Zone    string            `placeholder:"NAME" help:"Time zone of times without one (default: this machine's)"`
}

type policyFlags struct {
	Policy []string `placeholder:"FILE" help:"Configuration file with limits to test; repeatable"`
	Realm  string   `placeholder:"NAME" help:"Realm whose limits are tested"`
}

type replayCmd struct {
	logFlags
	policyFlags
	Logs    []string `arg:"" name:"log" help:"Logs, plain, gzip or zstd; - is standard input"`
	Solving string   `enum:"users,none,all" default:"users" help:"Clients that solve challenges which the log omits"`
	Cases   int      `default:"10" help:"Number of worst cases to show"`
	HTML    string   `name:"html" placeholder:"FILE" help:"Write an HTML report to this file"`
}

func logFormats() string { return strings.Join(replay.Formats(), ", ") }

// Run tests the policies on the logs and prints a report.
func (c replayCmd) Run(g *globals) error {
	how, err := c.reading()
	if err != nil {
		return err
	}
	setups, err := c.setups(g)
	if err != nil {
		return err
	}
	logs, err := replay.Open(c.Logs, how)
	if err != nil {
		return err
	}
	defer logs.Close()
	ctx, stop := untilInterrupted()
	defer stop()
	done := g.progress(logs)
	solving := map[string]replay.Solving{"users": replay.UsersSolve, "none": replay.NoneSolve,
		"all": replay.AllSolve}[c.Solving]
	found, err := replay.Run(ctx, logs, setups, replay.Options{Solving: solving, Cases: c.Cases})
	done()
	if err != nil {
		return err
	}
	if found.Log.Attempts == 0 {
		return noAttempts(logs, found)
	}
	return g.printSheet(found.Sheet(), found, c.HTML)
}

// Validate implements kong.Validatable.
func (c replayCmd) Validate() error {
	if c.Cases < 0 || c.Cases > 1000 {
		return errors.New("--cases: must be from 0 to 1000")
	}
	return nil
}

func (c logFlags) reading() (replay.Config, error) {
	how := replay.Config{Format: c.Format, Success: c.Success, Failure: c.Failure, Fields: c.Field, Year: c.Year}
	for _, text := range c.Login {
		request, err := replay.ParseRequest(text)
		if err != nil {
			return how, fmt.Errorf("--login: %w", err)
		}
		how.Logins = append(how.Logins, request)
	}
	if c.Year != 0 && (c.Year < 1970 || c.Year > 2200) {
		return how, errors.New("--year: must be from 1970 to 2200")
	}
	var err error
	if how.Zone, err = time.LoadLocation(cmp.Or(c.Zone, "Local")); err != nil {
		return how, fmt.Errorf("--zone: %w", err)
	}
	return how, nil
}

// setups returns the policy in force and those of --policy.
func (c policyFlags) setups(g *globals) (all []replay.Setup, err error) {
	for i, path := range append([]string{g.configPath()}, c.Policy...) {
		environ := os.Environ()
		if i > 0 {
			environ = nil // the variables belong to the policy in force
		}
		setup, err := setupOf(path, c.Realm, environ)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			setup.Name = filepath.Base(path)
		}
		all = append(all, setup)
	}
	return all, nil
}

func setupOf(path, realm string, environ []string) (setup replay.Setup, err error) {
	loaded, err := config.Load(path, environ)
	if err != nil {
		return setup, fmt.Errorf("the configuration %s is invalid:\n%w", path, err)
	}
	c := loaded.Config
	if realm != "" && realm != guard.DefaultRealm {
		r, err := realmNamed(c, realm)
		if err != nil {
			return setup, err
		}
		c = c.In(r)
	}
	setup = replay.Setup{Name: "in force", Policy: c.Policy(), Mode: c.CAPTCHAMode.Mode(), Lists: new(guard.Lists)}
	if path == "" {
		setup.Name = "defaults"
	}
	named := map[string]*guard.Ranges{}
	for _, source := range c.Sources() {
		content, err := lists.Read(source)
		if err != nil {
			return setup, err
		}
		named[source.Name] = guard.NewRanges(content.Ranges)
	}
	setup.Lists.SetNamed(named)
	return setup, nil
}

func realmNamed(c config.Config, name string) (config.Realm, error) {
	for _, r := range c.Realms {
		if r.Name == name {
			return r, nil
		}
	}
	return config.Realm{}, fmt.Errorf("the configuration has no realm %q", name)
}

func noAttempts(logs *replay.Log, r *replay.Report) error {
	text := fmt.Sprintf("no login attempt in %d lines (%d lines cannot be parsed)", r.Log.Lines, r.Log.Bad)
	if others := logs.OtherPosts(); len(others) > 0 {
		text += ".\nSet the login's path with --login PATH. Most POST requests went to " + strings.Join(others, ", ")
	}
	for _, bad := range r.Log.First {
		text += fmt.Sprintf("\n  %s:%d: %s: %.80q", bad.Path, bad.Line, bad.Why, bad.Text)
	}
	return errors.New(text)
}

// A reading has read some of its bytes.
type reading interface{ Progress() (read, of int64) }

// progress shows how much is read, on a terminal, until done.
func (g *globals) progress(of reading) (done func()) {
	file, ok := g.complaints.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return func() {}
	}
	began, stop, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(200 * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-stop:
				fmt.Fprint(file, "\r\033[K")
				return
			case <-ticks.C:
				fmt.Fprint(file, "\r\033[K", progressText(of, time.Since(began)))
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}

func progressText(r reading, took time.Duration) string {
	read, of := r.Progress()
	if read == 0 || of == 0 {
		return fmt.Sprintf("%s read", humanize.Bytes(uint64(read)))
	}
	left := time.Duration(float64(took) * float64(of-read) / float64(read)).Round(time.Second)
	return fmt.Sprintf("%3d %% of %s, %s left", 100*read/of, humanize.Bytes(uint64(of)), times.FormatDuration(left))
}

func untilInterrupted() (ctx context.Context, stop context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

// printSheet prints a report as text or JSON, and writes it to a page unless the path is empty.
func (g *globals) printSheet(s *replay.Sheet, report any, page string) error {
	if page != "" {
		if err := writePage(page, s); err != nil {
			return err
		}
	}
	if g.JSON {
		return printJSON(g, report)
	}
	return s.Text(g.out)
}

// writePage writes the report atomically as one page.
func writePage(path string, s *replay.Sheet) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".authguard-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // has no effect after the rename
	w := bufio.NewWriter(f)
	if err := errors.Join(s.Page(w), w.Flush(), f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
