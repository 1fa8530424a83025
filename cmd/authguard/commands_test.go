package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"authguard/internal/config"
	"authguard/internal/passwords"
	"authguard/internal/testing/redistest"
)

// spoken is what a command printed, and how it ended.
type spoken struct {
	out, complaints string
	status          int
}

// say runs a command with something on its standard input.
func say(t *testing.T, cmd *exec.Cmd, input string) (s spoken) {
	t.Helper()
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &complaints
	err := cmd.Run()
	exit := new(exec.ExitError)
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return spoken{out.String(), complaints.String(), cmd.ProcessState.ExitCode()}
}

// must runs a command that has to work and returns what it printed.
func (s *server) must(args ...string) string {
	s.t.Helper()
	said := say(s.t, s.command(args...), "")
	if said.status != 0 {
		s.t.Fatalf("%q: status %d: %s", args, said.status, said.complaints)
	}
	if regexp.MustCompile(`0001-01-01|": ?\d+0{9}\b`).MatchString(said.out) {
		s.t.Errorf("%q prints a zero time or nanoseconds: %s", args, said.out)
	}
	return said.out
}

// fails runs a command that has to fail, and say this of it.
func (s *server) fails(says string, args ...string) {
	s.t.Helper()
	said := say(s.t, s.command(args...), "")
	if said.status == 0 || !strings.Contains(said.complaints, says) || said.out != "" {
		s.t.Errorf("%q: status %d, %q and %q; want %q", args, said.status, said.out, said.complaints, says)
	}
}

func TestWithoutAServerCommandsSayWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"status"}, {"captcha", "enable", "--reason", "x"}, {"user", "list"}, {"user", "create", "ann", "--generate"},
		{"ip", "block", "192.0.2.7"}, {"explain", "--account", "ann"}, {"unlock", "--account", "ann"},
	} {
		cmd := exec.Command(product, args...)
		cmd.Dir = dir
		said := say(t, cmd, "")
		if said.status != 1 || !strings.Contains(said.complaints, "authguard serve") || said.out != "" {
			t.Errorf("%q: %+v", args, said)
		}
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("commands left %v behind, %v", left, err)
	}
}

func TestAFailureIsToldToProgramsToo(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(product, "--json", "status")
	cmd.Dir = t.TempDir()
	said := say(t, cmd, "")
	var answer struct{ Error string }
	if err := json.Unmarshal([]byte(said.out), &answer); err != nil || said.status != 1 || !strings.Contains(answer.Error, "authguard serve") {
		t.Errorf("%+v: %v", said, err)
	}
}

func TestADataFolderTooDeepForASocketSaysSo(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(product, "status")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "AUTHGUARD_DATA=/tmp/"+strings.Repeat("x", 110))
	if said := say(t, cmd, ""); said.status != 1 || !strings.Contains(said.complaints, "too long") {
		t.Errorf("%+v", said)
	}
}

func TestWhatIsNoCommandIsAnErrorOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"dance"}, {"captcha"}, {"captcha", "enable", "--for", "soon", "--reason", "x"}, {"user", "import", "/no/such/file"}, {"block"},
	} {
		if said := say(t, exec.Command(product, args...), ""); said.status != 2 || said.complaints == "" {
			t.Errorf("%q: %+v", args, said)
		}
	}
	for _, args := range [][]string{{"--help"}, {}, {"captcha", "--help"}, {"user", "create", "--help"}} {
		if said := say(t, exec.Command(product, args...), ""); said.status != 0 || !strings.Contains(said.out, "Usage: authguard") {
			t.Errorf("%q: %+v", args, said)
		}
	}
}

func TestCaptchaOnAsksStrangersUntilAuto(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet, "ann")
	s.must("captcha", "enable", "--for", "10m", "--reason", "drill")
	if got := from("127.0.1.1").login(t, s, "ann", rightPassword); got.status != 403 {
		t.Errorf("while on: %d", got.status)
	}
	until := regexp.MustCompile(`CAPTCHA mode is on until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [A-Z+\d]+\.`)
	if said := s.must("captcha", "enable", "--for", "10m", "--reason", "drill"); !until.MatchString(said) {
		t.Errorf("the answer says no end: %s", said)
	}
	for _, args := range [][]string{{"status"}, {"status"}} {
		if status := s.must(args...); !strings.Contains(status, `"drill"`) || !strings.Contains(status, "last minute") {
			t.Errorf("%v: %s", args, status)
		}
		if status := s.must(append(args, "--json")...); !strings.Contains(status, `"cool_down": "2h"`) {
			t.Errorf("%v: %s", args, status)
		}
	}
	if status := s.must("status"); !strings.Contains(status, "Attacks: none") || !strings.Contains(status, "Warnings: none") || strings.Count(status, "\n") > 24 {
		t.Errorf("status: %s", status)
	}
	if status := s.must("status"); !strings.Contains(status, `"drill"`) || !strings.Contains(status, "cli:") {
		t.Errorf("status: %s", status)
	}
	s.must("captcha", "auto")
	if said := s.must("captcha", "reset", "--reason", "our own load test"); !strings.Contains(said, "reset on all nodes") {
		t.Errorf("%s", said)
	}
	if got := from("127.0.1.1").login(t, s, "ann", rightPassword); got.status != 200 {
		t.Errorf("after: %d", got.status)
	}
	s.fails("missing --reason", "captcha", "enable")
	s.fails("missing --reason", "captcha", "disable", "--for", "1d")
	s.fails("at most", "captcha", "disable", "--for", "8d", "--reason", "x")
	if status := s.must("status"); !strings.Contains(status, "the failure rate") {
		t.Errorf("status: %s", status)
	}
}

func TestBlockRefusesUntilUnlist(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet, "ann")
	s.must("ip", "block", "127.7.7.0/24", "--reason", "scan")
	if got := from("127.7.7.7").login(t, s, "ann", rightPassword); got.status != 429 {
		t.Errorf("blocked: %d", got.status)
	}
	s.must("ip", "allow", "127.7.7.7", "--for", "2w")
	if got := from("127.7.7.7").login(t, s, "ann", rightPassword); got.status != 200 {
		t.Errorf("allowed within the block: %d", got.status)
	}
	s.fails("127.7.7.0/24", "ip", "remove", "127.7.7.8")
	s.must("ip", "remove", "127.7.7.0/24")
	if got := from("127.7.7.8").login(t, s, "ann", rightPassword); got.status != 200 {
		t.Errorf("unlisted: %d", got.status)
	}
	s.fails("not an address or range", "ip", "block", "everybody")
	s.fails("switch authguard off", "ip", "allow", "0.0.0.0/0", "--force")
}

func TestExplainSaysWhyAndUnlockOpens(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"limits: {pair_delay: off}\n", "ann")
	for range 5 {
		from("127.0.2.1").login(t, s, "ann", "wrong")
	}
	if why := s.must("explain", "--account", "ann"); !strings.Contains(why, "CAPTCHA") || !strings.Contains(why, "account: 5 of 5 failures in any 24 hours") {
		t.Errorf("explained: %s", why)
	}
	s.must("unlock", "--account", "ann")
	if got := from("127.0.2.2").login(t, s, "ann", rightPassword); got.status != 200 {
		t.Errorf("unlocked: %d", got.status)
	}
	if why := s.must("explain", "--account", "ann", "--address", "127.0.2.2"); !strings.Contains(why, "is a known client of this account") {
		t.Errorf("explained: %s", why)
	}
	s.must("unlock", "--account", "ann", "--known-clients")
	if why := s.must("explain", "--account", "ann", "--address", "127.0.2.2"); !strings.Contains(why, "the address is an unknown client") {
		t.Errorf("explained: %s", why)
	}
	s.fails("missing subject", "explain")
	s.fails("is not an IP address", "explain", "--address", "localhost")
	s.fails("missing subject", "unlock")
	s.fails("--known-clients needs --account", "unlock", "--address", "127.0.2.2", "--known-clients")
}

var shownOnce = regexp.MustCompile(`shown once: (\S+)`)

func TestUsersAreMadeChangedAndDisabled(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet)
	try := func(password string, want int) {
		t.Helper()
		if got := from("127.0.3.1").login(t, s, "ann", password); got.status != want {
			t.Errorf("login with %q: %d, want %d", password, got.status, want)
		}
	}
	made := shownOnce.FindStringSubmatch(s.must("user", "create", "Ann", "--email", "ann@example.org", "--generate"))
	if made == nil {
		t.Fatal("no password was printed")
	}
	try(made[1], 200)
	if said := say(t, s.command("user", "set-password", "ann@example.org", "--password-stdin"), "correct horse\nbattery"); said.status != 0 {
		t.Fatalf("%+v", said)
	}
	try(made[1], 401)
	try(rightPassword, 200)
	s.must("user", "disable", "ann")
	try(rightPassword, 401)
	s.must("user", "enable", "ann")
	try(rightPassword, 200)
	if all := s.must("user", "list"); !strings.Contains(all, `"ann@example.org"`) || !strings.Contains(all, "admin") {
		t.Errorf("list: %s", all)
	}
	s.fails("already", "user", "create", "ann@example.org", "--generate")
	s.fails("no such account", "user", "disable", "bob")
	s.fails("no terminal", "user", "create", "bob")
}

func TestImportSaysWhichLinesAreBad(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet, "ann")
	file := filepath.Join(s.dir, "people")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const hash = "$2a$10$abcdefghijklmnopqrstuuC7rGJ3WZ0V5n0pGdN8o2m4x6y8z0A2O"
	write(fmt.Sprintf("bob:%s\nann:%[1]s\ncid:plain\n", hash))
	s.fails("line 2: ", "user", "import", file)
	s.fails("line 3: ", "user", "import", file)
	write("username,password\nbob,correct horse\n")
	if out := s.must("user", "import", file, "--format", "csv"); !strings.Contains(out, "1 accounts imported") {
		t.Errorf("imported: %s", out)
	}
	if got := from("127.0.4.1").login(t, s, "bob", rightPassword); got.status != 200 {
		t.Errorf("an imported account: %d", got.status)
	}
	pipe := filepath.Join(s.dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(pipe, []byte("username,password\ncid,correct horse\n"), 0o600) }()
	if out := s.must("user", "import", pipe, "--format", "csv"); !strings.Contains(out, "1 accounts imported") {
		t.Errorf("imported from a pipe: %s", out)
	}
}

func TestEveryCommandAnswersJSON(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet)
	file := filepath.Join(s.dir, "people")
	if err := os.WriteFile(file, []byte("username,password\nbob,correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"status"}, {"captcha", "enable", "--reason", "x"}, {"captcha", "disable", "--reason", "x"}, {"captcha", "auto"},
		{"user", "create", "ann", "--generate"}, {"user", "set-password", "ann", "--generate"}, {"user", "disable", "ann"}, {"user", "list"},
		{"user", "import", file, "--format", "csv"},
		{"ip", "allow", "192.0.2.7"}, {"ip", "block", "192.0.2.8"}, {"ip", "remove", "192.0.2.8"},
		{"explain", "--account", "ann"}, {"unlock", "--account", "ann"},
		{"token", "create", "shop"}, {"token", "list"}, {"token", "revoke", "shop"},
		{"config", "validate"}, {"config", "show"}, {"migrate"},
	} {
		if out := s.must(append(args, "--json")...); !json.Valid([]byte(out)) {
			t.Errorf("%q: %s", args, out)
		}
	}
}

// Whoever changes a password outside of authguard wants what it opened closed.
func TestR14AnotherHashInTheHtpasswdFileEndsKnownPlaces(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "htpasswd")
	write := func(password string) {
		checker, err := passwords.NewChecker(10, nil)
		if err != nil {
			t.Fatal(err)
		}
		hash, err := checker.Hash(password)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("alice:"+hash+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		settled(t, file)
	}
	write(rightPassword)
	s := newServer(t, "accounts: {source: htpasswd, htpasswd: "+file+"}\n")
	alice := from("127.5.5.5")
	if got := alice.login(t, s, "alice", rightPassword); got.status != http.StatusOK {
		t.Fatalf("alice: %d %s", got.status, got.body)
	}
	s.must("captcha", "enable", "--for", "10m", "--reason", "test")
	write("another horse")
	alice.login(t, s, "alice", "wrong") // the file is looked at
	redistest.Until(t, "the place to be forgotten", func() bool {
		return from("127.5.5.5").login(t, s, "alice", "another horse").status == http.StatusForbidden
	})
}

// A temporary password opens nothing but the page on which it is changed.
func TestOneTimePasswordOfAnAdministratorOpensNoPublicSession(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet)
	if got := from("127.5.5.6").login(t, s, "admin", s.password); got.status != http.StatusUnauthorized {
		t.Errorf("at the public door: %d %s", got.status, got.body)
	}
}

func TestServeSaysWhichPresetsThereAre(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args   []string
		status int
	}{{[]string{"serve", "--preset"}, 2}, {[]string{"serve", "--preset="}, 2}, {[]string{"serve", "--preset", "--upstream", "http://127.0.0.1:1"}, 2}, {[]string{"serve", "--help"}, 0}} {
		var out, complaints bytes.Buffer
		status := run(tc.args, &out, &complaints)
		said := strings.Join(strings.Fields(out.String()+complaints.String()), " ")
		if all := strings.Join(config.Presets(), ", "); status != tc.status || !strings.Contains(said, all) {
			t.Errorf("%v: %d, without %q: %s", tc.args, status, all, said)
		}
	}
}
