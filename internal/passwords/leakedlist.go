package passwords

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"authguard/guard"
	"authguard/internal/background"
)

// checkEvery is the interval of checks for a changed file, one stat(2) each.
const checkEvery = 2 * time.Second

// A LeakedList keeps a file in memory, and reads it again when it changes. A file that cannot be used leaves the
// previous one in force. The zero LeakedList has no passwords. It is safe for concurrent use.
type LeakedList struct {
	Log *slog.Logger
	// AtLogins is the list for guards.
	AtLogins guard.LeakedPasswords

	filter atomic.Pointer[LeakedFilter]
	mu     sync.Mutex // of the rest
	logins bool
	path   string
	seen   background.File
	kept   string
}

// A LeakedState is the state of a LeakedList.
type LeakedState struct {
	File      string `json:"file"` // empty: none
	Passwords uint64 `json:"passwords"`
	// Kept is why the file's current content is not in force; empty if it is.
	Kept string `json:"kept,omitempty"`
}

// Configure sets the file and reads it; empty: none. logins: the list is also AtLogins. An unusable file is no error;
// see State.
func (l *LeakedList) Configure(path string, logins bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logins = logins
	defer l.publish()
	if path != l.path {
		l.path, l.seen, l.kept = path, background.File{}, ""
	}
	if path == "" {
		l.filter.Store(nil)
	}
	if now := background.StampOf(path); path != "" && (now != l.seen.Read || l.kept != "") {
		l.read(now)
	}
}

// Run reads a changed file until ctx ends.
func (l *LeakedList) Run(ctx context.Context) { background.Every(ctx, checkEvery, l.Check) }

// Check reads the file if it has changed, unless it changed since the last Check and may still be being written.
func (l *LeakedList) Check(context.Context) {
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

func (l *LeakedList) read(now background.Stamp) {
	l.seen.Read = now
	f, err := ReadLeaked(l.path)
	if err != nil {
		if l.kept != err.Error() {
			l.kept = err.Error()
			text := "the list of leaked passwords cannot be used; the previous one stays in force"
			if l.filter.Load() == nil {
				text = "the list of leaked passwords cannot be used; logins are not checked for leaked passwords"
			}
			l.Log.Warn(text, "file", l.path, "why", l.kept, "passwords", l.passwords())
		}
		return
	}
	l.kept = ""
	l.filter.Store(f)
	l.Log.Info("list of leaked passwords read", "file", l.path, "passwords", l.passwords())
}

func (l *LeakedList) publish() {
	var has func(string) bool
	if f := l.filter.Load(); f != nil && l.logins {
		has = f.Has
	}
	l.AtLogins.Set(has)
}

func (l *LeakedList) passwords() uint64 {
	if f := l.filter.Load(); f != nil {
		return f.Passwords()
	}
	return 0
}

// State returns the state of the list.
func (l *LeakedList) State() LeakedState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return LeakedState{File: l.path, Passwords: l.passwords(), Kept: l.kept}
}

// Has is LeakedFilter.Has; false while there is no list.
func (l *LeakedList) Has(password string) bool {
	f := l.filter.Load()
	return f != nil && f.Has(password)
}

// Filter returns the list in force; nil: none.
func (l *LeakedList) Filter() *LeakedFilter { return l.filter.Load() }
