package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authguard/internal/testing/doctest"
)

// tiny is a scenario that takes no time.
const tiny = "name: tiny\ndays: 1\npeople: {accounts: 50}\nattackers: [{kind: walk, from: 1h, for: 1h, attempts: 200, addresses: 1}]\n"

func TestSimulateTellsWhatBecameOfEverybody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	scenario, strict := filepath.Join(dir, "tiny.yaml"), filepath.Join(dir, "strict.yaml")
	for path, text := range map[string]string{scenario: tiny, strict: "limits:\n  address: [1/24h block]\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, complaints strings.Builder
	if status := run([]string{"limit", "simulate", scenario, "--policy", strict, "--against", "none", "--json"}, &out, &complaints); status != 0 {
		t.Fatalf("%d %s", status, complaints.String())
	}
	var all []struct {
		Results []struct {
			Name    string
			Checked int
		}
	}
	if err := json.Unmarshal([]byte(out.String()), &all); err != nil {
		t.Fatal(err)
	}
	r := all[0].Results
	if len(r) != 3 || r[0].Name != "authguard" || r[1].Checked != 1 || r[0].Checked <= 1 || r[2].Checked != 200 {
		t.Errorf("%+v", all)
	}
	for want, args := range map[string][]string{
		"missing scenario":                  {},
		"neither a scenario":                {"away.yaml"},
		"--against: must be none, windows,": {scenario, "--against", "magic"},
		"no scenario \"x\"":                 {"--show", "x"},
	} {
		var out, complaints strings.Builder
		if status := run(append([]string{"limit", "simulate"}, args...), &out, &complaints); status == 0 || !strings.Contains(complaints.String(), want) {
			t.Errorf("%q: %d %s", args, status, complaints.String())
		}
	}
}

func TestSimulateOfTheDocuments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "stricter.yaml"), []byte("limits:\n  address: [7/1h challenge]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(doctest.Claimed(t, "docs/how-to/choose-limits.md")[0].Text) {
		words := strings.Fields(line)[1:]
		if n := len(words); words[n-2] == ">" { // as a shell does
			words = words[:n-2]
		}
		for i, word := range words { // one that takes no time in its place
			switch word {
			case "walk", "hammer", "mine.yaml":
				words[i] = filepath.Join(dir, "tiny.yaml")
			case "report.html", "stricter.yaml":
				words[i] = filepath.Join(dir, word)
			}
		}
		if words[2] == "--show" {
			words[3] = "walk"
		}
		if err := os.WriteFile(filepath.Join(dir, "tiny.yaml"), []byte(tiny), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, complaints strings.Builder
		if status := run(words, &out, &complaints); status != 0 || out.Len() < 100 {
			t.Errorf("%s: %d\n%s%s", line, status, out.String(), complaints.String())
		}
	}
}
