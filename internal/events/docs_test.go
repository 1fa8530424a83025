package events

import (
	"os"
	"strings"
	"testing"
)

func TestEveryMessageIsInTheDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/log.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, msg := range append(messages[:], "attempts not logged", "events dropped", "captcha mode switched") {
		if msg != "" && !strings.Contains(string(text), "| `"+msg+"` |") {
			t.Errorf("docs/log.md does not list %q", msg)
		}
	}
	if !strings.Contains(string(text), `msg="attempt (?:failed|refused)" address=<ADDR> door=`) {
		t.Error("the expression for fail2ban is not the one that is tested here")
	}
}
