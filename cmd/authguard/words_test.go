package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"authguard/internal/attacks"
	"authguard/internal/control"
	"authguard/internal/database"
	"authguard/internal/testing/redistest"
)

func TestVersionIsTold(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--version"}, {"serve", "--version"}} {
		if said := say(t, exec.Command(product, args...), ""); said.status != 0 || !regexp.MustCompile(`^authguard \S+, (commit [0-9a-f]{12} of \S+Z, )?built with go1\.\S+\n$`).MatchString(said.out) {
			t.Errorf("%v: %+v", args, said)
		}
	}
	if said := say(t, exec.Command(product, "--version", "--json"), ""); said.status != 0 || !strings.HasPrefix(said.out, `{"version":"`) {
		t.Errorf("%+v", said)
	}
}

// What the linker was told comes first; go build finds out the rest by itself.
func TestABuildKnowsItsCommit(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
	}}
	if b := builtFrom(info, true); b.Version != "v1.2.3" || b.from() != "commit 0123456789ab of 2026-01-02T03:04:05Z, " {
		t.Errorf("%+v %q", b, b.from())
	}
	if b := builtFrom(nil, false); b.Version != "(devel)" || b.from() != "" || b.Go == "" {
		t.Errorf("%+v %q", b, b.from())
	}
}

// It is told of the limits that were set: of the defaults nobody can mend anything.
func TestALimitThatOnlySolvesReachIsToldOf(t *testing.T) {
	t.Parallel()
	const address = "limits.address[1]: only solved challenges reach it: limits.address[0] challenges beyond 2 per 1 minute, so at most 2 × 60 = 120 in 1 hour come without one"
	const account = "limits.account[1]: only solved challenges reach it: limits.account[0] challenges beyond 5 per 24 hours, so at most 5 × 1 = 5 in 24 hours come without one"
	for _, one := range []struct {
		file, variable string
		notes          []string
	}{
		{file: ""},
		{file: "limits: {pair_delay: 4/1h delay 1s to 20s}\nrealms: [{name: shop, hosts: [shop.example.org], limits: {spray: off}}]\n"},
		{file: "limits: {address: [2/1m challenge, 300/1h block]}\n", notes: []string{address}},
		{file: "limits: {account: [5/24h challenge, 100/24h fake-failure]}\nrealms: [{name: shop, hosts: [shop.example.org]}]\n", notes: []string{account}},
		{file: "realms: [{name: shop, hosts: [shop.example.org], limits: {account: [5/24h challenge, 100/24h fake-failure]}}]\n", notes: []string{"realms.shop." + account}},
		{variable: "AUTHGUARD_LIMITS_ACCOUNT=5/24h challenge, 100/24h block", notes: []string{account}},
	} {
		file := filepath.Join(t.TempDir(), "a.yaml")
		if err := os.WriteFile(file, []byte(one.file), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"config", "validate"}, {"--json", "config", "validate"}} {
			cmd := exec.Command(product, append(args, "-c", file)...)
			cmd.Env = append(os.Environ(), one.variable)
			said := say(t, cmd, "")
			if said.status != 0 || strings.Count(said.out, "only solved challenges") != len(one.notes) {
				t.Errorf("%q %q %v: %+v", one.file, one.variable, args, said)
			}
			for _, note := range one.notes {
				if !regexp.MustCompile(`[" ]` + regexp.QuoteMeta(note)).MatchString(said.out) {
					t.Errorf("%q %q %v: %+v does not say %s", one.file, one.variable, args, said, note)
				}
			}
		}
	}
}

// reloader has a server read its configuration again, each time with other lines in
// the place of those that it was made with, and returns what it says then.
func (s *server) reloader(t *testing.T, made string) (reload func(more string) string) {
	t.Helper()
	file := filepath.Join(s.dir, "authguard.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, lines, n := strings.TrimSuffix(string(text), made), regexp.MustCompile(`(?m)^.*msg="configuration (reloaded|not reloaded: .*)" .*$`), 0
	return func(more string) string {
		t.Helper()
		if err := os.WriteFile(file, []byte(before+more), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = s.cmd.Process.Signal(syscall.SIGHUP)
		n++
		redistest.Until(t, "the reload", func() bool { return len(lines.FindAllString(s.log.String(), -1)) == n })
		return lines.FindAllString(s.log.String(), -1)[n-1]
	}
}

func TestReloadSaysWhatStillNeedsARestart(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	reload := s.reloader(t, "")
	for _, one := range []struct{ more, want string }{
		{"counters: {memory: 1GiB}\n", "changed=[] needs_restart=[counters.memory]"},
		{"counters: {memory: 1GiB}\ncaptcha_mode: {threshold: 40}\n", "changed=[captcha_mode.threshold] needs_restart=[counters.memory]"}, // it still runs with the old one
		{"captcha_mode: {threshold: 40}\n", "changed=[] needs_restart=[]"},
	} {
		if got := reload(one.more); !strings.Contains(got, one.want) {
			t.Errorf("%q: %s, want %s", one.more, got, one.want)
		}
	}
}

func TestUnlockSaysThatItKnowsNobodyOfThatName(t *testing.T) {
	t.Parallel()
	s := newServer(t, "", "alice")
	if said := s.must("unlock", "--account", "alice"); said != "The counters of \"alice\" are reset.\n" {
		t.Errorf("%q", said)
	}
	const want = "The counters of \"nosuchperson\" are reset, if there were any: authguard's own account table has no account of this name.\n"
	if said := s.must("unlock", "--account", "nosuchperson"); said != want {
		t.Errorf("%q", said)
	}
}

// setting is a key of the full example.
func setting(t *testing.T, key string) string {
	t.Helper()
	text, err := os.ReadFile("../../internal/config/testdata/good/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^  ` + key + `: (?:\|\n    )?(SELECT.*)$`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("the example has no %s", key)
	}
	return string(m[1])
}

// The documentation's own two queries: people log in by e-mail address or nickname,
// in any case, and are one account. The rest of it is somebody else's table too.
func TestTheDocumentationsQueriesLetNicknamesIn(t *testing.T) {
	t.Parallel()
	theirs := filepath.Join(t.TempDir(), "shop.db")
	db, err := database.Open(t.Context(), theirs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE users (email TEXT, nickname TEXT, password_hash TEXT, active BOOLEAN)`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`INSERT INTO users VALUES ('Kim@Example.org', 'KimTheGreat', $1, TRUE)`, rightHash); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, fmt.Sprintf("accounts: {source: query, database: %q, query: %q, canonical_query: %q}\n",
		theirs, setting(t, "query"), setting(t, "canonical_query")))
	for i, name := range []string{"kimthegreat", "KimTheGreat", "kim@example.org", "Kim@Example.ORG"} {
		if a := from(loopback(80, i)).login(t, s, name, rightPassword); a.status != http.StatusOK && a.status != http.StatusSeeOther {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		from(loopback(80, 10+i)).login(t, s, name, "wrong")
	}
	if told := s.must("explain", "--account", "KimTheGreat"); !strings.Contains(told, "account: 4 of 5 failures") {
		t.Errorf("four wrong passwords by four spellings are no four failures of one account:\n%s", told)
	}
	said := say(t, s.command("user", "create", "bob", "--generate"), "")
	if said.status != 1 || !strings.Contains(said.complaints, "accounts.source is query") || said.out != "" {
		t.Errorf("user create promises a login: %+v", said)
	}
	s.must("user", "create", "carol", "--generate", "--admin")
}

func TestTheHintOfServeNamesItsConfiguration(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ag")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "my own.yaml")
	config := "listen: 127.0.0.1:0\nadmin: {listen: '127.0.0.1:0'}\ndata: " + filepath.Join(dir, "data") + "\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(product, "serve", "-c", file)
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hint := ""
	for lines := bufio.NewScanner(out); hint == "" && lines.Scan(); {
		if words, ok := strings.CutPrefix(lines.Text(), "Create an account:  "); ok {
			hint = words
		}
	}
	added := exec.Command("sh", "-c", hint+" --generate")
	added.Dir = t.TempDir()
	if said := say(t, added, ""); said.status != 0 || !strings.Contains(said.out, "can sign in now") {
		t.Errorf("%q: %+v", hint, said)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
}

// Names below 1 % of the attempts would be a sample of a botnet: there is nothing to do about them.
func TestAttackShowNamesTheMostActiveSources(t *testing.T) {
	t.Parallel()
	var a control.AttackReport
	a.Attempts, a.Addresses, a.Accounts, a.Passwords, a.Known = 200, 2791, 3, 150, 200
	a.TopNetworks = []attacks.Named{{Name: "192.0.2.0/24", Attempts: 60}, {Name: "198.51.100.0/24", Attempts: 1}}
	var out strings.Builder
	err := printAttack(&out, a)
	for _, want := range []string{"most active networks      \"192.0.2.0/24\" (60)\n", "most active accounts      -\n",
		" about 2,791 IP addresses in ", "attacked                  3 accounts\n", " about 150 different passwords in 200 attempts; "} {
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v, no %q\n%s", err, want, out.String())
		}
	}
}
