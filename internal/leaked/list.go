package leaked

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"

	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/background"
)

// checkEvery is the interval of checks for a changed file, one stat(2) each.
const checkEvery = 2 * time.Second

// A List keeps a file in memory, and reads it again when it changes. A file that cannot be used leaves the previous one
// in force. The zero List has no passwords. It is safe for concurrent use.
type List struct {
	Log *slog.Logger
	// AtLogins is the list for guards.
	AtLogins guard.LeakedPasswords

	filter atomic.Pointer[Filter]
	mu     sync.Mutex // of the rest
	logins bool
	path   string
	seen   background.File
	kept   string
}

// A State is the state of a List.
type State struct {
	File      string `json:"file"` // empty: none
	Passwords uint64 `json:"passwords"`
	// Kept is why the file's current content is not in force; empty if it is.
	Kept string `json:"kept,omitempty"`
}

// Configure sets the file and reads it; empty: none. logins: the list is also AtLogins. An unusable file is no error;
// see State.
func (l *List) Configure(path string, logins bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logins = logins
	defer l.publish()
	if path != l.path {
		l.path, l.seen, l.kept = path, background.File{}, ""
		l.filter.Store(nil)
	}
	if now := background.StampOf(path); path != "" && (now != l.seen.Read || l.kept != "") {
		l.read(now)
	}
}

// Run reads a changed file until ctx ends.
func (l *List) Run(ctx context.Context) { background.Every(ctx, checkEvery, l.Check) }

// Check reads the file if it has changed, unless it changed since the last Check and may still be being written.
func (l *List) Check(context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.path == "" {
		return
	}
	if now := background.StampOf(l.path); l.seen.Changed(now) {
		l.read(now)
		l.publish()
	}
}

func (l *List) read(now background.Stamp) {
	l.seen.Read = now
	f, err := Read(l.path)
	if err != nil {
		if l.kept != err.Error() {
			l.kept = err.Error()
			l.Log.Warn("the list of leaked passwords cannot be used; its previous version stays in force", "file", l.path,
				"why", l.kept, "passwords", l.passwords())
		}
		return
	}
	l.kept = ""
	l.filter.Store(f)
	l.Log.Info("list of leaked passwords read", "file", l.path, "passwords", l.passwords())
}

func (l *List) publish() {
	var has func(string) bool
	if f := l.filter.Load(); f != nil && l.logins {
		has = f.Has
	}
	l.AtLogins.Set(has)
}

func (l *List) passwords() uint64 {
	if f := l.filter.Load(); f != nil {
		return f.Passwords()
	}
	return 0
}

// State returns the state of the list.
func (l *List) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{File: l.path, Passwords: l.passwords(), Kept: l.kept}
}

// Warnings returns a warning if the file could not be loaded.
func (s State) Warnings() (all []alerts.Warning) {
	if s.Kept != "" {
		all = append(all, alerts.Warning{Code: "leaked-passwords-file",
			Title: "The list of leaked passwords could not be loaded",
			Text: fmt.Sprintf("%s cannot be used: %s. A list of %s passwords stays in use. authguard password-list build "+
				"replaces the file atomically.", s.File, s.Kept, humanize.Comma(int64(s.Passwords)))})
	}
	return all
}

// Has is Filter.Has; false while there is no list.
func (l *List) Has(password string) bool {
	f := l.filter.Load()
	return f != nil && f.Has(password)
}

// Filter returns the list in force; nil: none.
func (l *List) Filter() *Filter { return l.filter.Load() }
