package accounts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"authguard/internal/passwords"
)

// HtpasswdSource is a Source over an Apache htpasswd file. Each lookup checks the file's time and size, and rereads a
// file that changed at least half a second ago. An invalid file is logged once, and the last valid content stays in
// use. It is safe for concurrent use.
type HtpasswdSource struct {
	path      string
	normalise func(string) (string, error)
	log       *slog.Logger

	// settled is how old a change must be. htpasswd empties the file and writes it line by line: an account that is
	// missing meanwhile would lose its known clients.
	settled time.Duration

	mu       sync.Mutex
	changed  func(names []string)
	seen     stamp // set for an invalid file, too
	accounts map[string]string
	broken   error
}

var _ Source = (*HtpasswdSource)(nil)

type stamp struct {
	changed time.Time
	size    int64
}

// NewHtpasswdSource reads the file. Only here an invalid file is an error (*ImportError for bad lines). normalise is
// package guard's.
func NewHtpasswdSource(path string, normalise func(string) (string, error), log *slog.Logger) (*HtpasswdSource, error) {
	h := &HtpasswdSource{path: path, normalise: normalise, log: log, settled: 500 * time.Millisecond}
	h.refresh()
	return h, h.broken
}

// FindForLogin implements Source. It never fails: it falls back on the last valid content.
func (h *HtpasswdSource) FindForLogin(_ context.Context, name string) (Login, bool, error) {
	name, err := h.normalise(name)
	if err != nil {
		return Login{}, false, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refresh()
	hash, found := h.accounts[name]
	if !found {
		return Login{}, false, nil
	}
	return foreign(name, hash), true, nil
}

// OnChange sets a function to call after the file changed, with the accounts that were removed or have another
// password. Each call runs in a new goroutine.
func (h *HtpasswdSource) OnChange(changed func(names []string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = changed
}

// Hashes returns the file's hashes, in random order.
func (h *HtpasswdSource) Hashes() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.accounts))
}

func (h *HtpasswdSource) report(now map[string]string) {
	var names []string
	for name, hash := range h.accounts {
		if now[name] != hash {
			names = append(names, name)
		}
	}
	if h.changed != nil && len(names) > 0 {
		slices.Sort(names)
		go h.changed(names)
	}
}

func (h *HtpasswdSource) refresh() {
	info, err := os.Stat(h.path)
	if err != nil {
		h.fail(stamp{}, err)
		return
	}
	now, age := stamp{info.ModTime(), info.Size()}, time.Since(info.ModTime())
	if now == h.seen || h.accounts != nil && age >= 0 && age < h.settled {
		return
	}
	people, err := h.read()
	if err != nil {
		h.fail(now, err)
		return
	}
	h.report(people)
	h.seen, h.accounts, h.broken = now, people, nil
}

func (h *HtpasswdSource) fail(now stamp, err error) {
	// At start there is no valid content, and NewHtpasswdSource returns the error.
	if h.accounts != nil && (h.broken == nil || now != h.seen) {
		h.log.Error("htpasswd file cannot be read; its last valid content is used", "path", h.path, "err", err)
	}
	h.seen, h.broken = now, fmt.Errorf("accounts: htpasswd: %s: %w", h.path, err)
}

func (h *HtpasswdSource) read() (map[string]string, error) {
	file, err := os.Open(h.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	people := make(map[string]string)
	var bad ImportError
	err = eachHtpasswd(file, func(e entry, problem error) error {
		if errors.Is(problem, passwords.ErrHash) {
			problem = nil // only this account cannot log in; doctor reports it
		}
		if problem == nil {
			e.username, problem = h.normalise(e.username)
		}
		if _, twice := people[e.username]; twice && problem == nil {
			problem = fmt.Errorf("%.60q is a duplicate", e.username)
		}
		if problem != nil {
			bad.add(e.line, problem)
			return nil
		}
		people[e.username] = e.hash
		return nil
	})
	return people, errors.Join(err, bad.err())
}
