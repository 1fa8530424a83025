package doctor

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Servers this old are not at hand.

func TestOldServersAreAProblem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]State{
		"5.0.14": Problem, "6.0.20": Problem, "6.2.0": OK, "7.0.15": OK, "8.2.1": OK, "10.0.0": OK, "unstable": Advice, "": Advice,
	} {
		n := new(notes)
		redisVersion(n, text)
		if got := n.checks()[0]; got.State != want {
			t.Errorf("Redis %q: %+v", text, got)
		}
	}
	for number, want := range map[int]State{110022: Problem, 120000: OK, 150018: OK} {
		n := new(notes)
		postgresVersion(n, number, "x")
		if got := n.checks()[0]; got.State != want {
			t.Errorf("PostgreSQL %d: %+v", number, got)
		}
	}
}

func TestWhatAServerSaysSteersNoTerminal(t *testing.T) {
	t.Parallel()
	n := &notes{about: "Redis"}
	n.ok("x", "%s", "\x1b[2J\r\nok       All is well.")
	if got := n.checks()[0].Text; got != "Redis  [2J  ok       All is well." {
		t.Errorf("%q", got)
	}
}

var called = regexp.MustCompile(`\bcall\(['"]([A-Za-z]+)['"]`)

func TestTheDocumentedPermissionsCoverEveryCommandOfTheScripts(t *testing.T) {
	t.Parallel()
	root, found := os.DirFS("../.."), 0
	documented, err := fs.ReadFile(root, "docs/how-to/several-nodes.md")
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(root, "internal/redisstore", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(root, path)
		for _, match := range called.FindAllStringSubmatch(string(text), -1) {
			found++
			if !regexp.MustCompile(`\+` + strings.ToLower(match[1]) + `\b`).Match(documented) {
				t.Errorf("%s runs %s, which docs/how-to/several-nodes.md does not grant", path, match[1])
			}
		}
		return err
	})
	if err != nil || found < 20 {
		t.Errorf("%d commands, %v", found, err)
	}
}
