package config

import (
	"strconv"
	"strings"
)

// An Origin is where a value came from. The zero Origin is the built-in
// default.
type Origin struct {
	Source string // the file's name as it was given, or the variable's; empty: default
	Line   int    // of the file; 0 for a variable
}

// String is "default", "authguard.yaml:12" or "AUTHGUARD_LISTEN".
func (o Origin) String() string {
	switch {
	case o.Source == "":
		return "default"
	case o.Line == 0:
		return o.Source
	default:
		return o.Source + ":" + strconv.Itoa(o.Line)
	}
}

// Origin is where the value of a key came from, such as "limits.account". The
// items of a list share one.
func (l *Loaded) Origin(path string) Origin { return l.origins[path] }

// locate finds the place for a problem at path: the line of the most specific
// part of it that the file has, else the variable; if the setting is at its
// default, that of the setting, or the first of the section, which makes it a
// problem.
func (l *Loaded) locate(path, because string) Origin {
	for p := path; p != ""; p = parent(p) {
		if o, ok := l.origins[p]; ok {
			return l.refine(o, path)
		}
	}
	for _, k := range keys(&l.Config) {
		if o, ok := l.origins[k.path]; ok && partOf(k.path, because) {
			return o
		}
	}
	return Origin{}
}

func (l *Loaded) refine(o Origin, path string) Origin {
	if o.Line == 0 {
		return o
	}
	for p := path; p != ""; p = parent(p) {
		if line, ok := l.lines[p]; ok {
			return Origin{o.Source, line}
		}
	}
	return o
}

// parent cuts the last name or index off a path.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}
