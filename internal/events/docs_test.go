package events

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authguard/guard"
	"authguard/internal/testing/doctest"
)

// The log of an attack, in JSON, and what each query of the document makes of it.
func TestTheDocsQueriesOfTheLogAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "authguard.log"))
	if err != nil {
		t.Fatal(err)
	}
	log := NewLog(slog.New(slog.NewJSONHandler(file, nil)))
	guess, success := failure("alice"), failure("alice")
	guess.Outcome, success.Outcome, success.AccountFailures, success.NewClient = guard.Failed, guard.Succeeded, 5, true
	log.Handle([]guard.Event{guess, guess, success})
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	answers := []string{
		"      2 192.0.2.7\n",
		`{"time":"2026-11-21T12:00:00Z","account":"alice","address":"192.0.2.7"}` + "\n",
	}
	for i, b := range doctest.Claimed(t, "docs/reference/log.md") {
		query := exec.Command("bash", "-eu", "-o", "pipefail", "-c", b.Text)
		query.Dir, query.Env = dir, append(os.Environ(), "LC_ALL=C")
		if out, err := query.CombinedOutput(); err != nil || string(out) != answers[i] {
			t.Errorf("%s (apt-get install jq): %v\n%swant\n%s", b.Text, err, out, answers[i])
		}
	}
}

func TestEveryMessageIsInTheDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/log.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, msg := range append(messages[:], "attempts not logged", "events dropped", "captcha mode switched") {
		if msg != "" && !strings.Contains(string(text), "`"+msg+"` |") {
			t.Errorf("docs/reference/log.md does not list %q", msg)
		}
	}
	filter, err := os.ReadFile("../../deploy/fail2ban/filter.d/authguard.conf")
	if err != nil || !strings.Contains(string(filter), `msg="attempt (?:failed|blocked)" address=<ADDR> integration=`) {
		t.Errorf("the expression for fail2ban is not the one that is tested here: %v", err)
	}
}
