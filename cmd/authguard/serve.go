package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/gofrs/flock"

	"authguard/internal/background"
	"authguard/internal/config"
)

type serveCmd struct {
	Upstream  string     `help:"Protect the app at this base URL as its reverse proxy" placeholder:"URL"`
	Preset    presetName `help:"App behind --upstream: ${presets}" placeholder:"NAME"`
	BeginAnew bool       `name:"allow-data-loss" help:"Start with empty state: give up missing keys or data"`
}

type presetName string

// Decode implements kong.MapperValue: its error lists the presets.
func (p *presetName) Decode(c *kong.DecodeContext) error {
	value, err := c.Scan.PopValue("NAME")
	name, _ := value.Value.(string)
	if err != nil || name == "" {
		return fmt.Errorf("must be one of %s", presetNames())
	}
	*p = presetName(name)
	return nil
}

func presetNames() string { return strings.Join(config.Presets(), ", ") }

// Run serves until SIGINT or SIGTERM. SIGHUP reloads the configuration.
func (c serveCmd) Run(g *globals) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	return serve(ctx, g.configPath(), opening{anew: c.BeginAnew, flags: c.settings()}, hangup, os.Stdout, os.Stderr)
}

func (c serveCmd) settings() (all []string) {
	for name, value := range map[string]string{"AUTHGUARD_PROXY_UPSTREAM": c.Upstream,
		"AUTHGUARD_PROXY_PRESET": string(c.Preset)} {
		if value != "" {
			all = append(all, name+"="+value)
		}
	}
	return all
}

// serve runs a server until ctx ends. Messages go to out, the log to logTo.
func serve(ctx context.Context, path string, how opening, hangup <-chan os.Signal, out, logTo io.Writer) error {
	loaded, err := config.Load(path, how.environment())
	if err != nil {
		return fmt.Errorf("the configuration is invalid:\n%w", err)
	}
	level := new(slog.LevelVar)
	log := newLog(loaded.Config, level, logTo)
	slog.SetDefault(log)
	limitMemory(int64(loaded.Counters.Memory))
	if err := usable(ctx, loaded); err != nil {
		return err
	}
	s, err := openSite(ctx, loaded, level, log, how)
	if err != nil {
		return err
	}
	return s.serve(ctx, path, hangup, out)
}

// serve starts the parts, and stops them when ctx ends or a listener fails.
func (s *site) serve(ctx context.Context, path string, hangup <-chan os.Signal, out io.Writer) error {
	s.parts.Add(
		s.listeners,
		background.Ready(func(ctx context.Context) error { return s.welcome(ctx, out, path, s.listeners.open) }),
		background.Ready(s.listeners.serve),
		background.Run(func(ctx context.Context) { s.reloadOn(ctx, path, hangup) }),
	)
	err := s.parts.Start(ctx)
	if err == nil {
		select {
		case err = <-s.listeners.failed:
		case <-ctx.Done():
			s.linger(time.Duration(s.listeners.delay.Load()))
			s.log.Info("stopping")
		}
	}
	return errors.Join(err, s.parts.Stop())
}

func newLog(c config.Config, level *slog.LevelVar, to io.Writer) *slog.Logger {
	level.Set(c.Log.Level.Slog())
	options := &slog.HandlerOptions{Level: level}
	if c.Log.Format == config.FormatJSON {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// limitMemory makes the garbage collector run more often once tables grown by a flood, with their old copies, approach
// twice the bound.
func limitMemory(counters int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(counters + counters/4 + 256<<20)
	}
}

const lockName = "lock"

// lockData locks the data folder for this process: two servers on one folder would each count half. A second lock on
// the folder itself survives the deletion of the file; not every file system supports it.
func lockData(folder string) (unlock func(), err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("the data folder cannot be created: %w", err)
	}
	file, whole := flock.New(filepath.Join(folder, lockName)), flock.New(folder, flock.SetFlag(os.O_RDONLY))
	unlock = func() { _, _ = file.Close(), whole.Close() }
	mine, err := file.TryLock()
	if err == nil && mine {
		if alone, failed := whole.TryLock(); failed == nil {
			mine = alone
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the data folder cannot be used: %w", err)
	case !mine:
		unlock()
		return nil, fmt.Errorf("another server is running from %s: stop it, or set data: to another folder", folder)
	}
	return unlock, nil
}

// linger serves for shutdown.delay without being ready, so that load balancers switch to another node before the
// listeners close. Closing resets connections that the kernel has accepted but the server has not, and a proxy must not
// resend their logins.
func (s *site) linger(delay time.Duration) {
	s.stopping.Store(true)
	if delay == 0 {
		return
	}
	s.log.Info("shutting down: not ready, closing connections", "for", delay)
	select {
	case <-s.listeners.failed:
	case <-time.After(delay):
	}
}

// reloadOn reloads the configuration at each SIGHUP. An invalid file changes nothing.
func (s *site) reloadOn(ctx context.Context, path string, hangup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			loaded, err := config.Load(path, s.how.environment())
			if err != nil {
				s.log.Error("configuration not reloaded: the previous one stays in force", "error", err)
				continue
			}
			if err := s.reload(loaded); err != nil {
				s.log.Error("configuration reloaded in part: some settings need a restart", "error", err)
			}
		}
	}
}
