package accounts

import (
	"fmt"
	"strings"
)

// maxProblems is how many bad lines are told one by one.
const maxProblems = 100

// A LineProblem is what is wrong with one line of a file. It holds no password
// and no hash.
type LineProblem struct {
	Line int // from 1
	Text string
}

// An ImportError is a file of which nothing was taken: all its bad lines, but at
// most a hundred, in order.
type ImportError struct {
	Problems []LineProblem
	More     int // bad lines beyond those
}

// Error implements error, one line per problem.
func (e *ImportError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "accounts: nothing was imported: %d bad line(s)", len(e.Problems)+e.More)
	for _, p := range e.Problems {
		fmt.Fprintf(&b, "\nline %d: %s", p.Line, p.Text)
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\nand %d more", e.More)
	}
	return b.String()
}

func (e *ImportError) add(line int, problem error) {
	if len(e.Problems) == maxProblems {
		e.More++
		return
	}
	text := strings.TrimPrefix(problem.Error(), "accounts: ")
	e.Problems = append(e.Problems, LineProblem{line, strings.ReplaceAll(text, "\n", "; ")})
}

// err is e, or nil if nothing is wrong.
func (e *ImportError) err() error {
	if len(e.Problems) == 0 {
		return nil
	}
	return e
}
