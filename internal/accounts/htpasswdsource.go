package accounts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"authguard/internal/passwords"
)

// HtpasswdSource is a Source in an Apache htpasswd file, bcrypt only. It looks at
// the file's time and size at every look-up and reads it again when they change;
// a broken file is logged once and changes nothing. It is safe for concurrent
// use.
type HtpasswdSource struct {
	path      string
	normalise func(string) (string, error)
	saw       func(cost int)
	log       *slog.Logger

	mu      sync.Mutex
	changed func(names []string)
	seen    stamp // also of a file that was broken
	people  map[string]string
	broken  error
}

var _ Source = (*HtpasswdSource)(nil)

type stamp struct {
	changed time.Time
	size    int64
}

// NewHtpasswdSource reads the file for the first time; only here is a broken one
// an error: an *ImportError for bad lines. normalise is guard's. saw is told the
// bcrypt costs in the file: passwords.Checker.Saw.
func NewHtpasswdSource(path string, normalise func(string) (string, error), saw func(cost int), log *slog.Logger) (*HtpasswdSource, error) {
	h := &HtpasswdSource{path: path, normalise: normalise, saw: saw, log: log}
	h.refresh()
	return h, h.broken
}

// FindForLogin implements Source. It never fails: the last good content counts.
func (h *HtpasswdSource) FindForLogin(_ context.Context, name string) (Login, bool, error) {
	name, err := h.normalise(name)
	if err != nil {
		return Login{}, false, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refresh()
	hash, found := h.people[name]
	if !found {
		return Login{}, false, nil
	}
	return Login{
		Account:  name,
		Password: passwords.Stored{Hash: hash, Usable: true},
		Role:     User,
		Version:  versionOf(hash),
	}, true, nil
}

// OnChange sets a function that is told, whenever the file has changed, of the
// accounts that are gone or have another password. It is called in a goroutine
// of its own.
func (h *HtpasswdSource) OnChange(changed func(names []string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = changed
}

// tell reports the difference between what was read before and now.
func (h *HtpasswdSource) tell(now map[string]string) {
	var names []string
	for name, hash := range h.people {
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
	now := stamp{info.ModTime(), info.Size()}
	if now == h.seen {
		return
	}
	people, err := h.read()
	if err != nil {
		h.fail(now, err)
		return
	}
	h.tell(people)
	h.seen, h.people, h.broken = now, people, nil
}

func (h *HtpasswdSource) fail(now stamp, err error) {
	if h.broken == nil || now != h.seen {
		h.log.Error("htpasswd file cannot be read; its last good content counts", "path", h.path, "err", err)
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
		if problem == nil {
			e.username, problem = h.normalise(e.username)
		}
		if _, twice := people[e.username]; twice && problem == nil {
			problem = fmt.Errorf("%.60q is there twice", e.username)
		}
		if problem != nil {
			bad.add(e.line, problem)
			return nil
		}
		cost, err := passwords.CostOf(e.hash)
		h.saw(cost)
		people[e.username] = e.hash
		return err
	})
	return people, errors.Join(err, bad.err())
}
