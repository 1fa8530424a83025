package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authguard/internal/testing/doctest"
)

// The log is a short one, and the scenario too: what is looked at here are the words.
func TestTuneOfTheDocuments(t *testing.T) {
	long(t)
	t.Parallel()
	dir := t.TempDir()
	ssh, err := os.ReadFile("../../testdata/ssh.log")
	if err != nil {
		t.Fatal(err)
	}
	few := strings.Join(strings.SplitAfter(string(ssh), "\n")[:60], "")
	for name, text := range map[string]string{"auth.log": few, "tiny.yaml": tiny} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(doctest.Claimed(t, "docs/how-to/choose-limits.md")[0].Text) {
		words := strings.Fields(line)[1:]
		for i, word := range words {
			switch word {
			case "/var/log/auth.log", "found.html":
				words[i] = filepath.Join(dir, filepath.Base(word))
			case "walk":
				words[i] = filepath.Join(dir, "tiny.yaml")
			}
		}
		var out, complaints strings.Builder
		if status := run(words, &out, &complaints); status != 0 || !strings.Contains(out.String(), "limits:\n  address: [") {
			t.Errorf("%s: %d\n%s%s", line, status, out.String(), complaints.String())
		}
	}
	for want, args := range map[string][]string{
		"give logs, or a scenario": {},
		"give a file":              {"-"},
		"--friction":               {"--friction", "7", "x"},
		"neither a scenario":       {"--scenario", "away"},
		"no such file":             {filepath.Join(dir, "away")},
	} {
		var out, complaints strings.Builder
		if status := run(append([]string{"limit", "suggest"}, args...), &out, &complaints); status == 0 || !strings.Contains(complaints.String(), want) {
			t.Errorf("%q: %d %s", args, status, complaints.String())
		}
	}
}
