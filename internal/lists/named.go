package lists

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"authguard/guard"
	"authguard/internal/background"
)

const (
	// MaxFile is the maximum size of an IP list's file in bytes, MaxRanges that of its ranges.
	MaxFile   = 64 << 20
	MaxRanges = 1_000_000
	// checkEvery is the interval of checks for changed files, one stat(2) each.
	checkEvery = 2 * time.Second
	// shownProblems limits the reported invalid lines.
	shownProblems = 20
	// fewRanges is the size below which a list may shrink without confirmation.
	fewRanges = 100
)

// A Source is the file of an IP list.
type Source struct {
	Name   string
	File   string
	Layout Layout
	// Actions are the list's actions in all realms. If they are unchanged, an unusable new file leaves the previous list
	// in force.
	Actions string
}

// A State is the state of an IP list.
type State struct {
	Name     string        `json:"name"`
	File     string        `json:"file"`
	Format   Format        `json:"format"`
	Ranges   int           `json:"ranges"`   // in force
	LeftOut  int           `json:"left_out"` // lines with a low score
	BadLines int           `json:"bad_lines"`
	Problems []LineProblem `json:"problems"` // of the first invalid lines
	// Changed is the modification time of the file in force, and Read when it was read; zero before the first.
	Changed time.Time `json:"changed,omitzero"`
	Read    time.Time `json:"read,omitzero"`
	// Kept is why the file's current content is not in force; empty if it is.
	Kept string `json:"kept,omitempty"`
	// Private are the first private ranges on the list. All clients behind an unconfigured proxy have such an IP address.
	Private []netip.Prefix `json:"private"`
}

// Files keeps IP lists up to date with their files. The previous version stays in force if a file is unreadable,
// incomplete, mostly invalid or has lost most of its ranges. Safe for concurrent use.
type Files struct {
	into *guard.Lists
	log  *slog.Logger
	now  func() time.Time

	mu    sync.Mutex
	files []*file
}

type file struct {
	Source
	state  State
	ranges *guard.Ranges
	seen   background.File
}

// NewFiles returns Files that update the lists in memory. It reads no file.
func NewFiles(into *guard.Lists, log *slog.Logger, now func() time.Time) *Files {
	return &Files{into: into, log: log, now: now}
}

// Configure sets the sources and reads their files. Since an administrator asked for it, it accepts a much shorter
// list. An unusable file is no error; see States.
func (f *Files) Configure(sources []Source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.files
	f.files = nil
	for _, s := range sources {
		one := &file{Source: s, state: State{Name: s.Name, File: s.File, Format: s.Layout.Format, Problems: []LineProblem{},
			Private: []netip.Prefix{}}}
		for _, old := range before {
			switch {
			case old.Source == s:
				one = old
			case old.Name == s.Name && old.Actions == s.Actions:
				one.ranges, one.state.Ranges, one.state.Private = old.ranges, old.state.Ranges, old.state.Private
			}
		}
		f.files = append(f.files, one)
		if now := background.StampOf(s.File); now != one.seen.Read || one.state.Kept != "" {
			f.reread(one, now, true)
		}
	}
	f.publish()
}

// Run reads changed files until ctx ends.
func (f *Files) Run(ctx context.Context) { background.Every(ctx, checkEvery, f.Check) }

// Check reads the changed files, except those that changed since the last Check and may still be written.
func (f *Files) Check(context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := false
	for _, one := range f.files {
		if now := background.StampOf(one.File); one.seen.Changed(now) {
			changed = f.reread(one, now, false) || changed
		}
	}
	if changed {
		f.publish()
	}
}

// States returns the states of the lists, in configured order.
func (f *Files) States() []State {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]State, 0, len(f.files))
	for _, one := range f.files {
		all = append(all, one.state)
	}
	return all
}

func (f *Files) publish() {
	all := make(map[string]*guard.Ranges, len(f.files))
	for _, one := range f.files {
		all[one.Name] = one.ranges
	}
	f.into.SetNamed(all)
}

// reread reads a file and reports whether it is now in force.
func (f *Files) reread(one *file, now background.Stamp, asked bool) bool {
	one.seen.Read = now
	c, err := Read(one.Source)
	if err == nil {
		err = c.follows(one.ranges.Len(), asked)
	}
	if errors.Is(err, errChanging) {
		one.seen.Read = background.Stamp{}
		return false
	}
	if err != nil {
		kept := err.Error()
		if one.state.Kept != kept {
			f.log.Warn("a list file cannot be used; its previous version stays in force", "list", one.Name, "file", one.File,
				"why", kept, "ranges", one.ranges.Len())
		}
		one.state.Kept = kept
		return false
	}
	c.State.Read, c.State.Changed = f.now(), now.Changed
	one.state, one.ranges = c.State, guard.NewRanges(c.Ranges)
	one.state.Ranges = one.ranges.Len()
	f.log.Info("list file read", "list", one.Name, "file", one.File, "ranges", one.state.Ranges, "bad_lines", c.BadLines)
	return true
}

// A Content is the parsed content of a file.
type Content struct {
	State
	Ranges []netip.Prefix
}

// errChanging means that the file changed during the read.
var errChanging = errors.New("it changed while it was being read")

// Read parses the file of a list. The error is why it cannot be used; invalid lines are no error if most are valid.
func Read(s Source) (c Content, err error) {
	c.State = State{Name: s.Name, File: s.File, Format: s.Layout.Format, Problems: []LineProblem{},
		Private: []netip.Prefix{}}
	f, err := os.Open(s.File)
	if err != nil {
		return c, cannotOpen(err)
	}
	defer f.Close()
	before, err := f.Stat()
	switch {
	case err != nil:
		return c, err
	case before.IsDir():
		return c, errors.New("it is a folder")
	case before.Size() > MaxFile:
		return c, fmt.Errorf("it is larger than %d MiB", MaxFile>>20)
	}
	good := 0
	err = eachLine(io.LimitReader(f, MaxFile), s.Layout, false, func(l line, problem error) {
		switch {
		case problem != nil:
			c.bad(l.number, problem)
		case l.leftOut:
			c.LeftOut++
			good++
		case len(c.Ranges) <= MaxRanges:
			good++
			c.Ranges = append(c.Ranges, l.ranges...)
			c.noteRange(l.ranges)
		}
	})
	if after, statErr := f.Stat(); statErr == nil && (after.Size() != before.Size() ||
		!after.ModTime().Equal(before.ModTime())) {
		return c, errChanging
	}
	switch {
	case err != nil:
		return c, err
	case len(c.Ranges) > MaxRanges:
		return c, fmt.Errorf("it has more than %d ranges", MaxRanges)
	case c.BadLines > good:
		return c, fmt.Errorf("%d of its lines are bad and %d good, so it is not in the format %s; line %d: %s",
			c.BadLines, good, s.Layout.Format, c.Problems[0].Line, c.Problems[0].Text)
	}
	return c, nil
}

// follows is an error if the file may not replace one with before ranges, unless an administrator asked.
func (c *Content) follows(before int, asked bool) error {
	now := len(c.Ranges)
	switch {
	case asked:
		return nil
	case now == 0 && before > 0:
		return errors.New("it is empty, and was not before; SIGHUP accepts it")
	case before >= fewRanges && now < before/2:
		return fmt.Errorf("it has lost most of its ranges: %d instead of %d; SIGHUP accepts it", now, before)
	}
	return nil
}

func (c *Content) bad(number int, problem error) {
	c.BadLines++
	if len(c.Problems) < shownProblems {
		c.Problems = append(c.Problems, LineProblem{number, Words(problem)})
	}
}

// noteRange collects private ranges.
func (c *Content) noteRange(all []netip.Prefix) {
	for _, p := range all {
		a := p.Addr()
		if len(c.Private) < 5 && (a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast()) {
			c.Private = append(c.Private, p)
		}
	}
}

func cannotOpen(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return fmt.Errorf("it cannot be opened: %w", at.Err)
	}
	return err
}
