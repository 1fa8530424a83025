package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/operation"
)

// greet is a new operation.
type greet struct {
	operation.OfAccount
	Words string `json:"words" help:"What to say"`
	operation.Because
}

func (greet) Do(context.Context, *accounts.Realm, operation.By) (*operation.Change, error) {
	return nil, nil
}

// The table of operations has a command's flags, help and example. (Its API: TestANewOperationIsOneEntryOfTheTable.)
func TestANewOperationHasItsCommand(t *testing.T) {
	t.Parallel()
	var line commandLine
	line.addOperations([]control.Operation{{
		Name: "greet", Route: "POST /greet", Request: func() any { return new(greet) },
		Commands: []control.Command{{Name: "user greet", Help: "Greet a user", Example: "alice --words hello"}},
	}})
	var out bytes.Buffer
	parser, err := newParser(&line, kong.Writers(&out, &out), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = parser.Parse([]string{"user", "greet", "--help"})
	for _, part := range []string{"Usage: authguard user greet <name> [flags]", "Greet a user",
		"authguard user greet alice --words hello", "--words=STRING", "What to say", "--reason=TEXT", "--realm=NAME"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is not in:\n%s", part, &out)
		}
	}
}
