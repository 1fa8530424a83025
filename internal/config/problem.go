package config

import (
	"errors"
	"fmt"
	"strings"
)

// A Problem is one thing that is wrong with the settings.
type Problem struct {
	// Path of the setting, such as "limits.account[1].failures"; empty if the
	// problem is with the file or the variable as such.
	Path string `json:"path,omitempty"`
	// Line of the file, from 1; 0 if it did not come from the file.
	Line int `json:"line,omitempty"`
	// Source is the file's name as it was given, or the variable's.
	Source string `json:"source,omitempty"`
	// Text says what is wrong and what would be right. It never repeats a
	// secret.
	Text string `json:"text"`
}

// Error is the problem on one line:
// "authguard.yaml:12: limits.account[1].failures: must be at least 1".
func (p Problem) Error() string {
	var b strings.Builder
	if p.Source != "" {
		b.WriteString(Origin{p.Source, p.Line}.String() + ": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	return b.String() + p.Text
}

// Problems lists what [Load] found wrong, in the order of the file and then of
// the variables. An error of another kind becomes a Problem without a place;
// nil has none.
func Problems(err error) []Problem {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []Problem
		for _, e := range joined.Unwrap() {
			all = append(all, Problems(e)...)
		}
		return all
	}
	if p, ok := errors.AsType[Problem](err); ok {
		return []Problem{p}
	}
	return []Problem{{Text: err.Error()}}
}

// A fault is a Problem of which the file or variable is not known yet.
type fault struct {
	path string // relative to whoever receives it: "", "[1]", "[1].failures"
	line int
	text string
}

// under moves faults below a path.
func under(prefix string, faults []fault) []fault {
	for i := range faults {
		faults[i].path = join(prefix, faults[i].path)
	}
	return faults
}

// join appends a path that may begin with an index.
func join(prefix, path string) string {
	if prefix == "" || path == "" || path[0] == '[' {
		return prefix + path
	}
	return prefix + "." + path
}

// quote shows a mistyped value: short, on one line, without control
// characters (rule R23).
func quote(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", text)
}
