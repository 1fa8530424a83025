package doctor

import (
	"cmp"
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

// State is the severity of a finding.
type State string

// OK needs no action. Advice may cause trouble one day. A Problem causes trouble now, or at the next attack, restart or
// failover.
const (
	OK      State = "ok"
	Advice  State = "advice"
	Problem State = "problem"
)

// Check is one finding.
type Check struct {
	// Name is the subject of the check, such as "redis.version"; several servers share it. It is stable for programs.
	Name  string `json:"name"`
	State State  `json:"state"`
	Text  string `json:"text"` // one line
	Mend  string `json:"mend"` // what to do; empty if OK
}

// Well reports whether there is no problem; advice does not count.
func Well(checks []Check) bool {
	return !slices.ContainsFunc(checks, func(c Check) bool { return c.State == Problem })
}

// notes are the findings about one subject. The lock is for abandoned checks, which may still write.
type notes struct {
	about string // prefix of every text; may be empty
	mu    sync.Mutex
	all   []Check
}

// fault is a possible finding. found says whether it applies.
type fault struct {
	found bool
	Check
}

func problem(found bool, mend, text string, args ...any) fault {
	return fault{found, Check{State: Problem, Mend: mend, Text: fmt.Sprintf(text, args...)}}
}

func advice(found bool, mend, text string, args ...any) fault {
	return fault{found, Check{State: Advice, Mend: mend, Text: fmt.Sprintf(text, args...)}}
}

// as gives the finding its own name.
func (f fault) as(name string) fault {
	f.Name = name
	return f
}

// check records the first fault found, or the text well unless it is empty. It reports whether no fault was found.
func (n *notes) check(name, well string, faults ...fault) bool {
	made := Check{State: OK, Text: well}
	if i := slices.IndexFunc(faults, func(f fault) bool { return f.found }); i >= 0 {
		made = faults[i].Check
	}
	if made.Text == "" {
		return true
	}
	made.Name = cmp.Or(made.Name, name)
	made.Text = clean(strings.TrimSpace(n.about + " " + made.Text))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, made)
	return made.State == OK
}

func (n *notes) add(found ...Check) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, found...)
}

func (n *notes) ok(name, text string, args ...any) { n.check(name, fmt.Sprintf(text, args...)) }

func (n *notes) checks() []Check {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// clean returns text on one line, of limited length and without control characters: part of it may come from a hostile
// server.
func clean(text string) string {
	const longest = 600
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

func why(err error) string {
	var timeout net.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there (connection refused)"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer in time"
	case errors.Is(err, fs.ErrPermission):
		return err.Error() + " (run doctor as the user that runs authguard serve)"
	default:
		return err.Error()
	}
}
