package test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestEveryTestThatCallsTheAPIHoldsItAgainstItsDocument: a path of the API may stand
// only where the call goes through internal/testing/apitest, or through a helper that does.
func TestEveryTestThatCallsTheAPIHoldsItAgainstItsDocument(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("git", "ls-files", "*_test.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	path := regexp.MustCompile("[\"`/]v1/(attempts|events|openapi)")
	raw := regexp.MustCompile(`\bhttp\.(NewRequest|Post|Get|Head|DefaultClient)|\bhttptest\.NewRequest`)
	for file := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(file, "bench/") || file == "web/realm_test.go" { // whose handlers are no API
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if path.MatchString(line) && raw.MatchString(line) && !strings.Contains(string(text), "apitest.") {
				t.Errorf("%s calls the API by itself: ask through internal/testing/apitest, or a helper that does: %s", file, line)
			}
		}
	}
}
