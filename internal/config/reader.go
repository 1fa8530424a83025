package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// A reader sets keys from a mapping and collects what is wrong with it.
type reader struct {
	keys   []key
	seen   map[string]int // the line on which a key or a section was set
	faults []fault
}

func newReader(keys []key) *reader { return &reader{keys: keys, seen: map[string]int{}} }

// read sets the keys below a prefix.
func (r *reader) read(n node, prefix string) {
	for _, f := range n.fields {
		path := join(prefix, f.name)
		switch first, again := r.seen[path]; {
		case !namePattern.MatchString(f.name):
			r.strange(f, prefix)
			continue
		case again:
			r.add(path, f.node.line, fmt.Sprintf("is already set on line %d", first))
			continue
		}
		r.seen[path] = f.node.line
		r.field(f, path, prefix)
	}
}

func (r *reader) field(f field, path, prefix string) {
	if i := slices.IndexFunc(r.keys, func(k key) bool { return k.path == path }); i >= 0 {
		r.faults = append(r.faults, under(path, r.keys[i].value.set(f.node))...)
		return
	}
	inside := r.below(path)
	switch {
	case len(inside) == 0:
		r.add(path, f.node.line, "unknown key"+r.suggest(f.name, prefix))
	case f.node.kind == mapKind:
		r.read(f.node, path)
	case f.node.kind != null: // a section whose keys are all comments is fine
		r.add(path, f.node.line, fmt.Sprintf("must hold keys such as %s, not %s", inside[0], f.node.kind))
	}
}

// strange refuses a key that cannot be one, and does not repeat it: a list
// item with its dash forgotten may be a secret.
func (r *reader) strange(f field, prefix string) {
	text := "has a key that is not a name"
	if strings.Contains(f.name, ".") && slices.ContainsFunc(r.keys, func(k key) bool { return k.path == join(prefix, f.name) }) {
		text = fmt.Sprintf("write %s as keys inside each other", f.name)
	}
	r.add(prefix, f.node.line, text)
}

// below is the names that may follow a path.
func (r *reader) below(path string) []string {
	var names []string
	for _, k := range r.keys {
		rest, ok := strings.CutPrefix(k.path, path+".")
		if path == "" {
			rest, ok = k.path, true
		}
		if name, _, _ := strings.Cut(rest, "."); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// suggest names the key that was probably meant: a neighbour with nearly this
// name, else the only key elsewhere with exactly this one.
func (r *reader) suggest(name, prefix string) string {
	if best := nearest(name, r.below(prefix)); best != "" {
		return "; did you mean " + best + "?"
	}
	var elsewhere []string
	for _, k := range r.keys {
		if strings.HasSuffix(k.path, "."+name) {
			elsewhere = append(elsewhere, k.path)
		}
	}
	if len(elsewhere) == 1 {
		return "; did you mean " + elsewhere[0] + "?"
	}
	return ""
}

// require adds a fault for each name that the mapping does not have.
func (r *reader) require(n node, names ...string) {
	for _, name := range names {
		if _, ok := r.seen[name]; !ok {
			r.add(name, n.line, "must be set")
		}
	}
}

func (r *reader) add(path string, line int, text string) {
	r.faults = append(r.faults, fault{path: path, line: line, text: text})
}
