package authguard_test

import (
	"os"
	"strings"
	"testing"

	"authguard/internal/doctest"
)

// The README's Go is a part of an Example, which is compiled and run.
func TestTheReadmesGoIsAnExample(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("guard/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range doctest.Claimed(t, "README.md") {
		for line := range strings.Lines(b.Text) {
			if !strings.Contains(string(example), strings.TrimSpace(line)) {
				t.Errorf("not in an example: %s", line)
			}
		}
	}
}
