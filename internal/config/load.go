package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// maxProblems is how many problems are told at once; who has more has one.
const maxProblems = 100

// Loaded is a Config that is known to be right, and where it came from.
type Loaded struct {
	Config
	origins map[string]Origin // of the keys that are not at their default
	lines   map[string]int    // of everything in the file
}

// Load reads the settings: defaults, over them the file at path, over that the
// variables of environ, which are like [os.Environ]. An empty path is no file;
// a file that is named must be there.
//
// The error joins everything that is wrong, each a [Problem] unless the file
// could not be read; see [Problems].
func Load(path string, environ []string) (*Loaded, error) {
	if path == "" {
		return Parse("", nil, environ)
	}
	data, err := readFile(path)
	if err != nil {
		_, other := Parse("", nil, environ)
		return nil, errors.Join(err, other)
	}
	return Parse(path, data, environ)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return data, nil
}

// Parse is Load for a file's content; name stands for it in messages.
func Parse(name string, data []byte, environ []string) (*Loaded, error) {
	l := newLoading(name)
	l.applyFile(data)
	l.applyEnvironment(environ)
	l.check()
	if len(l.problems) > 0 {
		return nil, l.err()
	}
	return l.loaded, nil
}

// loading is a Loaded on its way.
type loading struct {
	name     string
	loaded   *Loaded
	keys     []key
	problems []Problem
}

func newLoading(name string) *loading {
	l := &Loaded{Config: Default(), origins: map[string]Origin{}, lines: map[string]int{}}
	return &loading{name: name, loaded: l, keys: keys(&l.Config)}
}

func (l *loading) problem(p Problem) { l.problems = append(l.problems, p) }

func (l *loading) applyFile(data []byte) {
	tree, faults := parseTree(data)
	if len(faults) == 0 {
		tree.index("", l.loaded.lines)
		r := newReader(l.keys)
		r.read(tree, "")
		faults = r.faults
		l.note(r.seen)
	}
	for _, f := range faults {
		l.problem(Problem{Source: l.name, Line: f.line, Path: f.path, Text: f.text})
	}
}

// note keeps the origin of the keys that the file set.
func (l *loading) note(seen map[string]int) {
	for _, k := range l.keys {
		if line, ok := seen[k.path]; ok {
			l.loaded.origins[k.path] = Origin{l.name, line}
		}
	}
}

// err joins the problems: the file's by line, then the variables' by name.
func (l *loading) err() error {
	slices.SortStableFunc(l.problems, func(a, b Problem) int {
		return cmp.Or(l.rank(a)-l.rank(b), cmp.Compare(a.Line, b.Line), strings.Compare(a.Source, b.Source))
	})
	var errs []error
	for i, p := range l.problems {
		if i == maxProblems {
			errs = append(errs, Problem{Source: l.name, Text: fmt.Sprintf("and %d more", len(l.problems)-i)})
			break
		}
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

func (l *loading) rank(p Problem) int {
	if p.Source == l.name {
		return 0
	}
	return 1
}
