package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"authguard/internal/database"
	"authguard/internal/lists"
	"authguard/internal/testing/redistest"
)

// expiring adds entries that end tomorrow to a data folder.
func expiring(t *testing.T, data string) {
	t.Helper()
	db, err := database.Open(t.Context(), filepath.Join(data, "authguard.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err = database.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	var all []lists.Request
	for i := range 30 {
		all = append(all, lists.Request{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}), 32), Verdict: lists.Block, Note: "from\nan attack", For: 7 * 24 * time.Hour})
	}
	if _, err := lists.New(db).AddAll(t.Context(), all, time.Now().Add(-6*24*time.Hour-time.Hour)); err != nil {
		t.Fatal(err)
	}
}

func TestListsAreShownImportedAndReadFromFiles(t *testing.T) {
	long(t)
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tor := write("tor", "127.71.0.0/16\nnonsense\n")
	yaml := fmt.Sprintf("%slists:\n  - {name: tor, file: %s, limits: [0 challenge]}\n  - {name: bad, file: %s, action: block}\n", quiet, tor, write("bad", "127.73.0.1\n"))
	s := newServerIn(t, func(data string) { expiring(t, data) }, yaml, "ann", "bob")
	answers := func(address, problem string) bool {
		return strings.Contains(fmt.Sprint(from(address).login(t, s, "ann", "wrong").problem), problem)
	}
	onTor := func(address string) func() bool {
		return func() bool {
			return strings.Contains(s.must("explain", "--address", address), "the address is on the list tor")
		}
	}
	if !answers("127.71.0.1", "challenge-required") || !answers("127.72.0.1", "wrong-credentials") {
		t.Error("the list asks nobody, or everybody")
	}
	if got := from("127.73.0.1").login(t, s, "bob", rightPassword); got.status != http.StatusTooManyRequests {
		t.Errorf("from a blocked list: %d %s", got.status, got.body)
	}
	redistest.Until(t, "the list as the reason in the log", func() bool { return s.log.has("reasons=list:tor") && s.log.has("reasons=blocklist:bad") })
	write("tor", "127.72.0.0/16\n")
	redistest.Until(t, "the file that was moved there", onTor("127.72.0.1"))
	if onTor("127.71.0.1")() || !answers("127.71.0.1", "wrong-credentials") || !answers("127.72.0.1", "challenge-required") {
		t.Error("it is not what is in the file that is asked")
	}
	if err := os.Remove(tor); err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "the warning", func() bool { return s.log.has("a list file cannot be used") })
	if !answers("127.72.0.2", "challenge-required") {
		t.Error("a file that is gone takes the list with it")
	}
	if said := say(t, s.command("doctor"), ""); !strings.Contains(said.out, "The list tor: "+tor+" cannot be used: it cannot be opened") || !strings.Contains(said.out, "The file of the list tor could not be loaded") {
		t.Errorf("doctor says %s", said.out)
	}
	if text := s.must("ip", "list", "127.72.0.2"); !strings.Contains(text, "tor: the file could not be loaded, so its previous version is used: it cannot be opened: no such file") || !strings.Contains(text, "127.72.0.2 is on these list files: tor") {
		t.Errorf("list says %s", text)
	}
	config, _ := os.ReadFile(filepath.Join(s.dir, "authguard.yaml"))
	without, _, _ := strings.Cut(string(config), "lists:")
	if err := os.WriteFile(filepath.Join(s.dir, "authguard.yaml"), []byte(without), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Process.Signal(syscall.SIGHUP)
	redistest.Until(t, "a list that is no more", func() bool { return !onTor("127.72.0.3")() })
	s.imports(t, write)
	if !s.log.has("kind=list-expiring") || !s.log.has("30 entries expire within two days") || strings.Count(s.log.String(), "kind=list-expiring") != 1 {
		t.Errorf("one alert of what is about to expire:\n%s", s.log)
	}
}

// imports lists what stands in files.
func (s *server) imports(t *testing.T, write func(name, text string) string) {
	t.Helper()
	file := write("import", "127.81.0.0/24 from the SOC\n<img src=x onerror=alert(1)>\n127.81.0.7\x1b[31m\n127.82.0.1\n127.82.0.1\n")
	bad := []string{"ip", "block", "--file", file}
	s.fails("nothing was imported; fix these lines, or skip them with --skip-bad:\n  line 2: not an address or range: \"<img\"", bad...)
	said := say(t, s.command(append([]string{"--json"}, bad...)...), "")
	var plan lists.Plan
	if err := json.Unmarshal([]byte(said.out), &plan); err != nil || said.status != 1 || plan.Imported || plan.Bad != 2 || plan.Problems[1].Line != 3 {
		t.Errorf("--json: %+v, %+v, %v", said, plan, err)
	}
	if text := s.must(append(bad, "--skip-bad", "--dry-run")...); !strings.Contains(text, "2 ranges would be imported: 2 new") {
		t.Errorf("--dry-run says %s", text)
	}
	if text := s.must("ip", "list"); strings.Contains(text, "127.8") {
		t.Errorf("what was not imported is listed: %s", text)
	}
	if text := s.must(append(bad, "--skip-bad")...); !strings.Contains(text, "2 ranges are imported: 2 new, 0 replace") || !strings.Contains(text, "2 bad lines were skipped:\n  line 2:") {
		t.Errorf("the import says %s", text)
	}
	if got := from("127.82.0.1").login(t, s, "bob", rightPassword); got.status != http.StatusTooManyRequests {
		t.Errorf("from an imported address: %d", got.status)
	}
	cmd := s.command("ip", "allow", "--file", "-", "--for", "forever")
	if said := say(t, cmd, "127.82.0.0/24"); said.status != 0 || !strings.Contains(said.out, "line 1: 127.82.0.0/24 contains 127.82.0.1/32, which stays on the other list (block)") {
		t.Errorf("from standard input: %+v", said)
	}
	text := s.must("ip", "list", "127.82.0.1")
	if first, second := strings.Index(text, "127.82.0.1/32"), strings.Index(text, "127.82.0.0/24"); first < 0 || second < first || !strings.Contains(text, "with no expiry") {
		t.Errorf("list says %s", text)
	}
	var all lists.Listed
	if err := json.Unmarshal([]byte(s.must("--json", "ip", "list", "--blocked", "SOC")), &all); err != nil || len(all.Entries) != 1 || all.Entries[0].Note != "from the SOC" {
		t.Errorf("--json: %+v, %v", all, err)
	}
	s.fails("missing IP address or range", "ip", "allow")
	s.fails("--force works for a single range only", "ip", "block", "--file", file, "--force")
}
