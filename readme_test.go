package authguard_test

import (
	"os"
	"strings"
	"testing"
)

// The README's Go is a part of an Example, which is compiled and run.
func TestTheReadmesGoIsAnExample(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("guard/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, snippet, found := strings.Cut(string(readme), "```go\n")
	snippet, _, _ = strings.Cut(snippet, "```")
	if !found || snippet == "" {
		t.Fatal("the README has no Go")
	}
	for line := range strings.Lines(snippet) {
		if !strings.Contains(string(example), strings.TrimSpace(line)) {
			t.Errorf("not in an example: %s", line)
		}
	}
}
