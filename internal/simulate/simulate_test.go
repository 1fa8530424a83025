package simulate_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/replay"
	"authguard/internal/simulate"
)

func ours() []replay.Setup {
	return []replay.Setup{{Name: "authguard", Policy: guard.DefaultPolicy(), Mode: captchamode.DefaultConfig()}}
}

// happens runs a scenario of its own text; the first result is authguard's.
func happens(t *testing.T, text string, others ...string) []simulate.Result {
	t.Helper()
	s, err := simulate.Parse([]byte("name: test\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := simulate.Run(t.Context(), s, ours(), others, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Results
}

const small = "days: 2\npeople: {accounts: 300, common: 0.3, stale: 0}\n"

func TestNobodyIsStoppedWhereNobodyAttacks(t *testing.T) {
	t.Parallel()
	r := happens(t, "days: 1\npeople: {accounts: 100}\n", "none")
	ours, none := r[0], r[1]
	if ours.Logins < 300 || ours.Logins > 700 || ours.Logins != none.Logins || ours.Slips == 0 || ours.Guesses != 0 {
		t.Errorf("%+v", ours)
	}
	if ours.Stopped+ours.WaysIn+none.Stopped+none.Challenges > 0 || ours.KnownStopped > 0 || none.LongestOut > 0 {
		t.Errorf("stopped: %+v", ours)
	}
}

func TestAScenarioThatCannotBeIsSaid(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"days: 7":                       "name: must be set",
		"name: x\ndays: 0":              "days: from 1 to 366",
		"name: x\ncolour: red":          "unknown field",
		"name: x\nleaked: 2":            "leaked: from 0 to 1",
		"name: x\npeople: {typos: 2}":   "people.typos: from 0 to 1",
		"name: x\nattackers: [{}]":      "attackers[0].kind: one of",
		"name: x\npeople: {rush: 20h}":  "people.rush",
		"name: x\npeople: {stale: 9e9}": "people.stale",
		"name: x\nattackers: [{kind: spray, from: 160h, for: 24h, attempts: 1, addresses: 1}]": "within the 7 days",
		"name: x\nattackers: [{kind: spray, for: 1h, attempts: 1}]":                            "addresses: from 1",
	} {
		if _, err := simulate.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := simulate.Load(filepath.Join(t.TempDir(), "away")); err == nil || !strings.Contains(err.Error(), "botnet") {
		t.Errorf("%v", err)
	}
	path := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(path, []byte("name: mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := simulate.Load(path); err != nil || s.Name != "mine" || s.People.Accounts != 5000 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestTheReportIsForPeople(t *testing.T) {
	t.Parallel()
	s, err := simulate.Parse([]byte("name: one\nabout: <b>bold</b>\n" + small + "attackers: [{kind: walk, from: 1h, for: 1h, attempts: 100, addresses: 1}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := simulate.Run(t.Context(), s, ours(), []string{"none"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var text, page, all bytes.Buffer
	if err := r.Sheet().Text(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.Sheet().Page(&page); err != nil {
		t.Fatal(err)
	}
	if err := simulate.Overall([]*simulate.Report{r, r}).Text(&all); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"authguard", "none", "let in", "longest kept out", "2 days, 300 users", "none: checks every password"} {
		if !strings.Contains(text.String(), want) || !strings.Contains(page.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	if strings.Contains(page.String(), "<b>") || strings.Count(page.String(), "<svg") != 3 {
		t.Error(page.String())
	}
	if strings.Contains(text.String(), "pgrp") {
		t.Error("a defense that is not in the table is explained")
	}
	if n := strings.Count(all.String(), "\none "); n != 2 {
		t.Errorf("%d scenarios in\n%s", n, all.String())
	}
	// What counts is added up, and it is said where another does better.
	r.Results[1].Let, r.Results[0].Let, r.Results[0].Stopped, r.Results[0].WaysIn = 1, 2, 1, 4
	sheet := simulate.Overall([]*simulate.Report{r, r})
	var got []string
	for _, row := range sheet.Rows[len(sheet.Rows)-6:] {
		got = append(got, fmt.Sprint(row.Name, row.Cells))
	}
	right, challenges := 2*r.Results[0].Right, 2*r.Results[0].Challenges
	want := []string{
		"all together[ ]", fmt.Sprintf("  right guesses[%d %d]", right, right), "  let in[4 2]",
		fmt.Sprintf("  challenges shown to users[%d 0]", challenges), "  verification code required[8 0]", "  users stopped[2 0]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	last := strings.Join(sheet.Notes[len(sheet.Notes)-2:], "\n")
	if last != "one: none lets in fewer right guesses than authguard: 1 instead of 2.\none: none stops fewer users than authguard: 0 instead of 1." {
		t.Errorf("%q", last)
	}
}

func TestTheScenarioToCopyHasTheDefaults(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/scenario.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := simulate.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	ordinary, err := simulate.Parse([]byte("name: x\n"))
	if err != nil {
		t.Fatal(err)
	}
	ordinary.People.Accounts = s.People.Accounts
	if s.People != ordinary.People || s.Leaked != ordinary.Leaked || s.Days != ordinary.Days || s.Seed != ordinary.Seed {
		t.Errorf("what is not in a scenario is not as in deploy/scenario.yaml:\n%+v\n%+v", s, ordinary)
	}
}
