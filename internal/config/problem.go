package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hbollon/go-edlib"
)

// Origin is where a value came from. The zero Origin is the built-in default.
type Origin struct {
	Line   int    `json:"line,omitempty"`   // of the file, from 1; 0 for a variable
	Source string `json:"source,omitempty"` // the file's name as given, or the variable's
}

// String returns "default", "authguard.yaml:12" or "AUTHGUARD_LISTEN".
func (o Origin) String() string {
	if o.Line > 0 {
		return fmt.Sprintf("%s:%d", o.Source, o.Line)
	}
	return cmp.Or(o.Source, "default")
}

// Problem is one error in the settings.
type Problem struct {
	// Path of the setting, such as "limits.account[1].failures"; empty if the problem concerns the file or variable
	// itself.
	Path   string `json:"path,omitempty"`
	Origin        // of the value to change
	// Text says what is wrong and what would be right. It never contains a secret.
	Text string `json:"text"`
}

// Error returns the problem on one line, such as "authguard.yaml:12: limits.account[1].failures: must be at least 1".
func (p Problem) Error() string {
	text := strings.TrimPrefix(p.Path+": "+p.Text, ": ")
	if p.Source == "" {
		return text
	}
	return p.Origin.String() + ": " + text
}

type invalid []Problem

const maxProblems = 100

// sorted returns the problems in the order of the report: the file's by line, then the variables' by name.
func (all invalid) sorted() invalid {
	variable := func(p Problem) int { return strings.Index(p.Source, Prefix) } // 0, or -1 for the file
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(variable(a)-variable(b), a.Line-b.Line, strings.Compare(a.Source, b.Source))
	})
	if more := len(all) - maxProblems; more > 0 {
		all = append(all[:maxProblems], Problem{Origin: Origin{Source: all[0].Source}, Text: fmt.Sprintf("and %d more",
			more)})
	}
	return all
}

// Error returns the problems, one per line.
func (all invalid) Error() string {
	lines := make([]string, len(all))
	for i, p := range all {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Problems lists what [Load] found: first in the file, then in the variables. Any other error becomes one Problem
// without an origin; nil has none.
func Problems(err error) []Problem {
	if all, ok := errors.AsType[invalid](err); ok || err == nil {
		return all
	}
	return []Problem{{Text: err.Error()}}
}

// locate returns the origin of the most specific part of path that was set. If the setting has its default, another
// setting causes the problem: the first one set at or below because.
func (l *loader) locate(path, because string) Origin {
	for p := path; p != ""; p = p[:max(0, strings.LastIndexAny(p, ".["))] {
		if o, ok := l.loaded.origins[p]; ok {
			return o
		}
	}
	for _, s := range l.settings {
		if o, ok := l.loaded.origins[s.path]; ok && partOf(s.path, because) {
			return o
		}
	}
	return Origin{}
}

// partOf reports whether path equals whole or is below it.
func partOf(path, whole string) bool {
	rest, ok := strings.CutPrefix(path, whole)
	return ok && whole != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func touches(a, b string) bool { return partOf(a, b) || partOf(b, a) }

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// suggestKey suggests a similar key in the same section, or else the only setting elsewhere with exactly this name.
func suggestKey(section, name string, known []setting) string {
	for _, key := range []string{join(section, name), name} {
		if line := synonyms[key]; line != "" {
			return "; write " + line
		}
	}
	near := didYouMean(name, below(known, section))
	elsewhere := slices.DeleteFunc(slices.Clone(known), func(s setting) bool {
		return !strings.HasSuffix(s.path, "."+name)
	})
	if near == "" && len(elsewhere) == 1 {
		near = "; did you mean " + elsewhere[0].path + "?"
	}
	return near
}

func below(known []setting, section string) []string {
	var keys []string
	in := strings.TrimPrefix(section+".", ".") // empty at the top
	for _, s := range known {
		if rest, ok := strings.CutPrefix(s.path, in); ok {
			key, _, _ := strings.Cut(rest, ".")
			keys = append(keys, key)
		}
	}
	return slices.Compact(keys)
}

// didYouMean suggests the candidate nearest to word, within an edit distance of a third of its letters. It skips words
// longer than any name.
func didYouMean(word string, candidates []string) string {
	best, least := "", max(1, len(strings.TrimPrefix(word, Prefix))/3)+1
	for _, c := range candidates {
		if len(word) > 80 {
			break
		}
		if d := edlib.OSADamerauLevenshteinDistance(word, c); d < least {
			best, least = "; did you mean "+c+"?", d
		}
	}
	return best
}
