package test

import (
	"os"
	"strings"
	"testing"
)

// CONTRIBUTING has a line for every package below internal.
func TestTheListOfPackagesIsWhole(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "| package | task |\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for _, p := range packages(t) {
		name, internal := strings.CutPrefix(p.name(), "internal/")
		if internal && !p.excluded() && !strings.Contains(list, "`"+name+"`") {
			t.Errorf("no line for %s", p.name())
		}
	}
}
