package replay

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Attempt is one login attempt of a log.
type Attempt struct {
	At      time.Time // UTC
	Account string    // as written in the log
	Named   bool      // the log names the account, even if it is empty
	Address netip.Addr
	Outcome Outcome
	Device  string // the log's own client ID; usually empty
	Client  string // client fingerprint or User-Agent
}

// Outcome is the result of an attempt according to the log.
type Outcome uint8

const (
	// Failed: the password was wrong.
	Failed Outcome = iota
	// Succeeded: the login succeeded.
	Succeeded
	// Stopped: the password was not checked, so the log does not say whether it was right.
	Stopped
)

// Config configures how the logs are parsed.
type Config struct {
	// Format is one of Formats; empty: detected for each file.
	Format string
	// Logins are the requests of access logs that are login attempts; none: POST /login.
	Logins []Request
	// Success and Failure are the statuses or words of each outcome. None: DefaultSuccess, DefaultFailure and common
	// words.
	Success, Failure []string
	// Fields maps "time", "account", "address", "outcome", "device", "fingerprint" or "count" to the JSON field or CSV
	// column with an unusual name.
	Fields map[string]string
	// Year is the year of the first line, for logs whose times have none. Zero: the year of the file's modification time.
	Year int
	// Zone applies to times without one; nil: the machine's.
	Zone *time.Location
}

// DefaultSuccess and DefaultFailure are the statuses of a form that redirects after a successful login.
var (
	DefaultSuccess = []string{"302", "303"}
	DefaultFailure = []string{"200", "400", "401", "403", "422"}
)

// Request is a method and a path without its query.
type Request struct{ Method, Path string }

// ParseRequest parses "POST /login", or "/login" for a POST.
func ParseRequest(text string) (Request, error) {
	method, path, two := strings.Cut(strings.TrimSpace(text), " ")
	if !two {
		method, path = "POST", method
	}
	path = strings.TrimSpace(path)
	if method == "" || !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "? \t") {
		return Request{}, fmt.Errorf("%q must be a path such as /login, or a method and a path such as POST /login", text)
	}
	return Request{strings.ToUpper(method), path}, nil
}

func (c *Config) setDefaults() {
	if len(c.Logins) == 0 {
		c.Logins = []Request{{"POST", "/login"}}
	}
	if len(c.Success) == 0 {
		c.Success = DefaultSuccess
	}
	if len(c.Failure) == 0 {
		c.Failure = DefaultFailure
	}
	if c.Zone == nil {
		c.Zone = time.Local
	}
}

func (c *Config) validate() error {
	var errs []error
	for _, word := range c.Success {
		if slices.Contains(c.Failure, word) {
			errs = append(errs, fmt.Errorf("%q cannot be both a success and a failure", word))
		}
	}
	for name := range c.Fields {
		if !slices.Contains(fieldNames(), name) {
			errs = append(errs, fmt.Errorf("unknown field %q: use %s", name, strings.Join(fieldNames(), ", ")))
		}
	}
	if c.Format != "" && formatOf(c.Format) == nil {
		errs = append(errs, fmt.Errorf("unknown format %q: use %s", c.Format, strings.Join(Formats(), ", ")))
	}
	return errors.Join(errs...)
}

// Log merges the attempts of several files. Only [Log.Progress] is safe for concurrent use.
type Log struct {
	files  []*file
	heads  *Heap[*file] // files with further attempts, the earliest first
	newest time.Time
	stats  Stats
}

// Open opens the files. The caller closes the Log.
func Open(paths []string, c Config) (*Log, error) {
	c.setDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	l := &Log{}
	for _, path := range paths {
		f, err := openFile(path, c)
		if err != nil {
			l.Close()
			return nil, err
		}
		l.files = append(l.files, f)
	}
	return l, nil
}

// Read is Open for one log that is read from a stream in this format, such as "audit".
func Read(name string, from io.Reader, c Config) (*Log, error) {
	c.setDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	f := &file{source: source{path: name, close: func() {}}, posts: posts{}, open: NewHeap(earlier)}
	if err := f.start(from, time.Time{}, c); err != nil {
		return nil, fmt.Errorf("replay: %s: %w", name, err)
	}
	return &Log{files: []*file{f}}, nil
}

// Close closes the files.
func (l *Log) Close() {
	for _, f := range l.files {
		f.close()
	}
}

// Next returns the next attempt in time, or false after the last. An attempt that appears after a later one gets the
// later one's time and counts as late.
func (l *Log) Next(a *Attempt) (bool, error) {
	if l.heads == nil {
		l.heads = NewHeap(func(a, b **file) bool { return (*a).head.At.Before((*b).head.At) })
		for _, f := range l.files {
			if more, err := f.next(); err != nil {
				return false, err
			} else if more {
				l.heads.Push(f)
			}
		}
	}
	if l.heads.Len() == 0 {
		return false, l.backwards(few)
	}
	f := *l.heads.First()
	*a = f.head
	if more, err := f.next(); err != nil {
		return false, err
	} else if more {
		l.heads.Fix()
	} else {
		l.heads.Pop()
	}
	if a.At.Before(l.newest) {
		l.stats.Late++
		l.stats.Latest = max(l.stats.Latest, l.newest.Sub(a.At))
		a.At = l.newest
		if err := l.backwards(many); err != nil {
			return false, err
		}
	}
	l.newest = a.At
	l.stats.count(a)
	return true, nil
}

// few is the number of late attempts that proves reverse order at the end of a log, many the number before.
const few, many = 20, 1000

// backwards returns an error if more than least attempts, and nine tenths of all, were late.
func (l *Log) backwards(least int64) error {
	if l.stats.Late > least && l.stats.Late > l.stats.Attempts*9/10 {
		return errBackwards
	}
	return nil
}

var errBackwards = errors.New("replay: the newest lines come first: reverse the file with tac FILE | authguard " +
	"limit replay -, or export with authguard audit --oldest-first")

// Progress returns the bytes read and the total. It is safe for concurrent use.
func (l *Log) Progress() (read, of int64) {
	for _, f := range l.files {
		read, of = read+f.read.Load(), of+f.size
	}
	return read, of
}

// Stats returns the statistics so far.
func (l *Log) Stats() Stats {
	s := l.stats
	for _, f := range l.files {
		s.add(f)
	}
	return s
}
