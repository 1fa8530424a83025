package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unicode"
)

// A State is how bad a finding is.
type State string

// OK needs nothing. Advice may hurt one day. A Problem hurts now, or at the
// next attack, restart or failover.
const (
	OK      State = "ok"
	Advice  State = "advice"
	Problem State = "problem"
)

// A Check is one thing that was looked at.
type Check struct {
	// Name is what was looked at, such as "redis.version": several servers
	// share it. Programs may rely on it.
	Name  string `json:"name"`
	State State  `json:"state"`
	Text  string `json:"text"` // one line
	Mend  string `json:"mend"` // what to do; empty if OK
}

// Well reports whether nothing is wrong: advice is not.
func Well(checks []Check) bool {
	return !slices.ContainsFunc(checks, func(c Check) bool { return c.State == Problem })
}

// notes are the findings about one thing. What hangs may still write when
// nobody waits for it any more.
type notes struct {
	about string // in front of every text; may be empty
	mu    sync.Mutex
	all   []Check
}

func (n *notes) add(c Check) {
	if n.about != "" {
		c.Text = n.about + " " + c.Text
	}
	c.Text = clean(c.Text)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, c)
}

func (n *notes) ok(name, text string, args ...any) {
	n.add(Check{Name: name, State: OK, Text: fmt.Sprintf(text, args...)})
}

func (n *notes) advice(name, mend, text string, args ...any) {
	n.add(Check{Name: name, State: Advice, Mend: mend, Text: fmt.Sprintf(text, args...)})
}

func (n *notes) problem(name, mend, text string, args ...any) {
	n.add(Check{Name: name, State: Problem, Mend: mend, Text: fmt.Sprintf(text, args...)})
}

func (n *notes) checks() []Check {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// longest is how much of a text is shown: part of it may come from a server
// that is not what it should be.
const longest = 600

// clean is a text on one line, without what steers a terminal.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if r := []rune(text); len(r) > longest {
		text = string(r[:longest]) + "…"
	}
	return text
}

// why is an error in words.
func why(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there (connection refused)"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer in time"
	case errors.Is(err, fs.ErrPermission):
		return err.Error() + " (run this as the user who runs authguard serve)"
	default:
		return err.Error()
	}
}
