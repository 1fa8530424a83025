package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authguard/internal/replay"
	"authguard/internal/testing/doctest"
)

// replayed runs authguard limit replay in a folder of its own.
func replayed(t *testing.T, args ...string) (status int, out, complaints string) {
	t.Helper()
	var said, wrong strings.Builder
	status = run(append([]string{"limit", "replay", "--config", os.DevNull}, args...), &said, &wrong)
	return status, said.String(), wrong.String()
}

func TestReplaySaysWhatLimitsWouldHaveDone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	strict, page := filepath.Join(dir, "strict.yaml"), filepath.Join(dir, "report.html")
	if err := os.WriteFile(strict, []byte("limits:\n  address: [1/1h block]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--year", "2026", "--zone", "UTC", "--policy", strict, "--html", page, "../../testdata/ssh.log"}
	status, out, complaints := replayed(t, args...)
	if status != 0 || complaints != "" || !strings.Contains(out, "strict.yaml") || !strings.Contains(out, "0 unreadable") {
		t.Fatalf("%d\n%s\n%s", status, out, complaints)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "<svg") || !strings.HasSuffix(string(text), "</html>\n") {
		t.Errorf("%v\n%.200s", err, text)
	}
	_, out, _ = replayed(t, append(args, "--json")...)
	var r replay.Report
	if err := json.Unmarshal(regexp.MustCompile(`": "([0-9]+(\.[0-9]+)?(ms|s|m|h))+"`).ReplaceAll([]byte(out), []byte(`": 1`)), &r); err != nil {
		t.Fatal(err)
	}
	in, stricter := r.Policies[0], r.Policies[1]
	if in.Guesses.All+in.Logins.All != r.Log.Attempts || stricter.Guesses.Stopped == in.Guesses.Stopped || stricter.Guesses.All != in.Guesses.All || in.Logins.KeptOut != 0 {
		t.Errorf("%+v %+v\n%+v %+v", in.Guesses, in.Logins, stricter.Guesses, stricter.Logins)
	}
}

func TestReplayThatCannotBeSaysWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	access := write("access.log", strings.Repeat(`203.0.113.9 - - [10/Oct/2026:13:55:36 +0200] "POST /wp-login.php HTTP/1.1" 302 0`+"\n", 3))
	for want, args := range map[string][]string{
		"Set the login's path with --login PATH. Most POST requests went to /wp-login.php (3)": {access},
		"no such file":                   {filepath.Join(dir, "away")},
		"set it with --format":           {write("x", "hello\n")},
		"the configuration":              {"--policy", write("bad.yaml", "limits: 7\n"), access},
		"--login: \"x\" must be":         {"--login", "x", access},
		"--zone":                         {"--zone", "Mars", access},
		"has no realm \"shop\"":          {"--realm", "shop", access},
		"--cases":                        {"--cases", "5000", access},
		"must be one of \"users\"":       {"--solving", "cats", access},
		"expected \"<log> ...\"":         {},
		"unknown field \"colour\"":       {"--field", "colour=x", access},
		"cannot be both a success and a": {"--success", "200", access},
	} {
		status, out, complaints := replayed(t, args...)
		if status == 0 || out != "" || !strings.Contains(complaints, want) {
			t.Errorf("%q: %d %s\n%s", args, status, out, complaints)
		}
	}
	status, out, _ := replayed(t, "--login", "/wp-login.php", access)
	if status != 0 || !strings.Contains(out, "3 attempts") {
		t.Errorf("%d %s", status, out)
	}
}

func TestReplayOfTheDocuments(t *testing.T) { // it changes the folder in a process of its own
	if !doctest.Alone(t) {
		return
	}
	ssh, err := os.ReadFile("../../testdata/ssh.log")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		"/var/log/auth.log":           string(ssh),
		"/var/log/nginx/access.log":   `203.0.113.9 - - [10/Oct/2026:13:55:36 +0200] "POST /wp-login.php HTTP/1.1" 302 0` + "\n",
		"/var/log/nginx/access.log.1": `203.0.113.9 - - [09/Oct/2026:13:55:36 +0200] "POST /wp-login.php HTTP/1.1" 200 0` + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	typed := doctest.Claimed(t, "docs/how-to/choose-limits.md")[0].Text
	t.Chdir(t.TempDir())
	for _, name := range []string{"stricter.yaml", "looser.yaml"} {
		if err := os.WriteFile(name, []byte("limits:\n  address: [7/1h challenge]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(typed) {
		words := strings.Fields(line)
		if strings.HasSuffix(words[len(words)-1], "*") { // as a shell does
			found, err := filepath.Glob(words[len(words)-1])
			if err != nil {
				t.Fatal(err)
			}
			words = append(words[:len(words)-1], found...)
		}
		var out, complaints strings.Builder
		if status := run(words[1:], &out, &complaints); status != 0 || !strings.Contains(out.String(), "wrong passwords checked") {
			t.Errorf("%s: %d\n%s%s", line, status, out.String(), complaints.String())
		}
	}
	if _, err := os.Stat("report.html"); err != nil {
		t.Error(err)
	}
}
