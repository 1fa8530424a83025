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
	log       *slog.Logger

	mu      sync.Mutex
	changed func(names []string)
	seen    stamp // also of a file that was broken
	people  map[string]string
	cost    int
	broken  error
}

var _ Source = (*HtpasswdSource)(nil)

type stamp struct {
	changed time.Time
	size    int64
}

// NewHtpasswdSource reads the file for the first time; only here is a broken one
// an error. normalise is guard's; a nil log is slog.Default().
func NewHtpasswdSource(path string, normalise func(string) (string, error), log *slog.Logger) (*HtpasswdSource, error) {
	if normalise == nil {
		return nil, errors.New("accounts: htpasswd: the normaliser is missing")
	}
	if log == nil {
		log = slog.Default()
	}
	h := &HtpasswdSource{path: path, normalise: normalise, log: log}
	if err := h.Reload(); err != nil {
		return nil, err
	}
	return h, nil
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

// Reload reads the file if it has changed and says what is wrong with it: an
// *ImportError for bad lines. The error stays until the file is mended.
func (h *HtpasswdSource) Reload() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refresh()
	return h.broken
}

// HighestCost is the highest bcrypt cost in the file: for
// passwords.Checker.Saw.
func (h *HtpasswdSource) HighestCost() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cost
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
	people, cost, err := h.read()
	if err != nil {
		h.fail(now, err)
		return
	}
	h.tell(people)
	h.seen, h.people, h.cost, h.broken = now, people, cost, nil
}

func (h *HtpasswdSource) fail(now stamp, err error) {
	if h.broken == nil || now != h.seen {
		h.log.Error("htpasswd file cannot be read; its last good content counts", "path", h.path, "err", err)
	}
	h.seen, h.broken = now, fmt.Errorf("accounts: htpasswd: %s: %w", h.path, err)
}

func (h *HtpasswdSource) read() (people map[string]string, cost int, err error) {
	file, err := os.Open(h.path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	people = make(map[string]string)
	var bad ImportError
	err = eachHtpasswd(file, func(e entry, problem error) bool {
		if problem == nil {
			e.username, problem = h.normalise(e.username)
		}
		if _, twice := people[e.username]; twice && problem == nil {
			problem = fmt.Errorf("%.60q is there twice", e.username)
		}
		if problem != nil {
			bad.add(e.line, problem)
			return true
		}
		c, _ := passwords.CostOf(e.hash)
		people[e.username], cost = e.hash, max(cost, c)
		return true
	})
	return people, cost, errors.Join(err, bad.err())
}
