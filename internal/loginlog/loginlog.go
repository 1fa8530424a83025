// Package loginlog reads login attempts from logs: access logs of web servers,
// OpenSSH's auth log, JSON lines, CSV and authguard's own audit log, plain or
// compressed with gzip or zstd, larger than memory, several files as one.
//
// Nothing is dropped in silence: every line is an attempt, or is counted as another
// one ([Stats.Others]) or as one that cannot be read ([Stats.Bad]), with the first few
// of those kept.
package loginlog

import (
	"container/heap"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// An Attempt is one login attempt of a log.
type Attempt struct {
	At      time.Time // UTC
	Account string    // as the log has it
	Named   bool      // the log says which account, if only that it was none
	Address netip.Addr
	Outcome Outcome
	Device  string // what the log tells a client apart by; usually empty
	Client  string // what it looks like: its identity or User-Agent
}

// An Outcome is what the log says came of an attempt.
type Outcome uint8

const (
	// Failed: the password was wrong.
	Failed Outcome = iota
	// Succeeded: somebody was let in.
	Succeeded
	// Stopped: nobody looked at the password, so that the log cannot say whether it was
	// right.
	Stopped
)

// Config says how to read the logs.
type Config struct {
	// Format is the name of one of Formats; empty: each file's is found out.
	Format string
	// Logins are the requests of access logs that are login attempts; none: POST /login.
	Logins []Request
	// Success and Failure are the statuses, or an outcome's words, that mean so. None:
	// those of DefaultSuccess and DefaultFailure, and common words.
	Success, Failure []string
	// Fields says which field of JSON lines, or column of CSV, is the "time", "account",
	// "address", "outcome", "device", "fingerprint" or "count", where its name does not tell.
	Fields map[string]string
	// Year is that of the first line, where lines have none. Zero: that of the file's
	// last change.
	Year int
	// Zone is that of times without one; nil: the machine's.
	Zone *time.Location
}

// DefaultSuccess and DefaultFailure are what the statuses of a login mean unless
// somebody says otherwise: a form that redirects whom it lets in.
var (
	DefaultSuccess = []string{"302", "303"}
	DefaultFailure = []string{"200", "400", "401", "403", "422"}
)

// A Request is a method and a path without its query.
type Request struct{ Method, Path string }

// ParseRequest reads "POST /login", or "/login" for a POST.
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

// A Log is the attempts of several files, as one. It is not safe for concurrent use,
// but for [Log.Progress].
type Log struct {
	files  []*file
	heads  heads // of files that have another attempt, the earliest first
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

// Close closes the files.
func (l *Log) Close() {
	for _, f := range l.files {
		f.close()
	}
}

// Next is the next attempt in time, or false after the last. Attempts that stand in a
// file after a later one are told as happening at the same moment, and counted.
func (l *Log) Next(a *Attempt) (bool, error) {
	if l.heads == nil {
		l.heads = heads{}
		for _, f := range l.files {
			if err := l.push(f); err != nil {
				return false, err
			}
		}
	}
	if len(l.heads) == 0 {
		return false, l.backwards(few)
	}
	f := l.heads[0]
	*a = f.head
	if more, err := f.next(); err != nil {
		return false, err
	} else if more {
		heap.Fix(&l.heads, 0)
	} else {
		heap.Pop(&l.heads)
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

// few attempts that are late tell at the end of a log that its newest lines stand first,
// and many before.
const few, many = 20, 1000

// backwards is an error if nearly all attempts of at least so many were late.
func (l *Log) backwards(least int64) error {
	if l.stats.Late > least && l.stats.Late > l.stats.Attempts*9/10 {
		return errBackwards
	}
	return nil
}

var errBackwards = errors.New("loginlog: the newest lines come first: reverse the file with tac FILE | authguard " +
	"limit replay -, or export with authguard audit --oldest-first")

func (l *Log) push(f *file) error {
	more, err := f.next()
	if more {
		heap.Push(&l.heads, f)
	}
	return err
}

// Progress is how many bytes have been read, of how many. It may be called at any time.
func (l *Log) Progress() (read, of int64) {
	for _, f := range l.files {
		read, of = read+f.read.Load(), of+f.size
	}
	return read, of
}

// Stats is what was read so far.
func (l *Log) Stats() Stats {
	s := l.stats
	for _, f := range l.files {
		s.add(f)
	}
	return s
}

// heads are files by their next attempt.
type heads []*file

func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return h[i].head.At.Before(h[j].head.At) }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)        { *h = append(*h, x.(*file)) }
func (h *heads) Pop() any {
	old := *h
	f := old[len(old)-1]
	*h = old[:len(old)-1]
	return f
}
