package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"authguard/internal/lists"
	"authguard/internal/testing/doctest"
	"authguard/internal/testing/redistest"
)

// What an administrator, or whoever told them what to write, typed is in no format.
func TestR23AnExportHoldsAddressesAndNothingThatWasTyped(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet)
	s.must("ip", "block", "127.7.7.0/24", "--for", "1h", "--reason", "hostile\n0.0.0.0/0 1;\r\n}; flush ruleset #\u2028add")
	s.must("ip", "allow", "127.7.7.0/25", "--reason", "hostile")
	for _, f := range lists.ExportFormats() {
		said := s.must("ip", "export", "blocked", "--format", f.Name)
		if !strings.Contains(said, "127.7.7.128") || strings.Contains(said, "127.7.7.0") || strings.Contains(said, "hostile") ||
			strings.Contains(said, "0.0.0.0/0") || strings.ContainsAny(said, "\r\u2028") {
			t.Errorf("%s: %s", f.Name, said)
		}
	}
	if said := s.must("ip", "export", "allowed", "--format", "nginx"); !strings.Contains(said, "\nallow 127.7.7.0/25;\n") || strings.Contains(said, "hostile") {
		t.Error(said)
	}
	if out := s.must("ip", "export", "blocked", "--json"); !json.Valid([]byte(out)) {
		t.Error(out)
	}
	s.fails("begin with a letter", "ip", "export", "blocked", "--name", "x; flush ruleset")
	s.fails("needs --output FILE", "ip", "export", "blocked", "--follow")
	s.fails("works with blocked only", "ip", "export", "allowed", "--limited")
}

func TestEverybodyIsLeftOutUnlessAskedFor(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet)
	s.must("ip", "block", "0.0.0.0/0", "--for", "forever", "--force")
	s.must("ip", "block", "::/1", "--for", "forever")
	s.must("ip", "block", "8000::/1", "--for", "forever")
	said := say(t, s.command("ip", "export", "blocked", "--format", "pf"), "")
	if said.status != 0 || strings.Contains(said.out, "/0") || !strings.Contains(said.complaints, "[0.0.0.0/0 ::/0] holds every IP address") {
		t.Errorf("%+v", said)
	}
	if said := s.must("ip", "export", "blocked", "--format", "pf", "--everything"); !strings.Contains(said, "\n0.0.0.0/0\n::/0\n") {
		t.Error(said)
	}
}

// R14: a firewall would stop the known places that a limit lets pass.
func TestRefusedAddressesAreExportedButForKnownPlaces(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"direct_clients: [127.0.0.0/8]\nlimits: {address: [2/1d block], network: [], pair_delay: off}\n", "ann")
	const stranger, home, fine = "127.9.1.1", "127.9.2.1", "127.9.3.1"
	from(home).login(t, s, "ann", rightPassword)
	for _, at := range []string{stranger, home} {
		for _, want := range []int{401, 401, 429} {
			if got := from(at).login(t, s, "bob", "wrong"); got.status != want {
				t.Fatalf("%s: %d, want %d", at, got.status, want)
			}
		}
	}
	from(fine).login(t, s, "bob", "wrong")
	exported := func(more ...string) (text string) {
		return s.must(append([]string{"ip", "export", "blocked", "--format", "pf"}, more...)...)
	}
	redistest.Until(t, "the stranger to be exported", func() bool { return strings.Contains(exported("--limited"), "\n"+stranger+"/32\n") })
	if said := exported("--limited"); strings.Contains(said, home) || strings.Contains(said, fine) || strings.Contains(exported(), stranger) {
		t.Error(said)
	}
	if said := s.must("ip", "export", "blocked", "--limited"); !strings.Contains(said, `"expires"`) {
		t.Error("it never ends: ", said)
	}
	s.must("unlock", "--address", stranger)
	if said := exported("--limited"); strings.Contains(said, stranger) {
		t.Errorf("unlocked: %s", said)
	}
}

func TestAnExportReplacesItsFileAsAWhole(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet)
	file := filepath.Join(s.dir, "blocked")
	link := filepath.Join(s.dir, "link")
	if err := errors.Join(os.WriteFile(file, nil, 0o644), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	told := func(want string, more ...string) os.FileInfo {
		t.Helper()
		if said := s.must(append([]string{"ip", "export", "blocked", "--format", "pf", "--output", link}, more...)...); !strings.Contains(said, want) {
			t.Errorf("%q, not %s", said, want)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := told("0 ranges are blocked: wrote ")
	if first.Mode() != 0o644 {
		t.Errorf("mode %v", first.Mode())
	}
	if second := told("unchanged"); !os.SameFile(first, second) {
		t.Error("it was written though nothing has changed")
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("ip", "block", "192.0.2.7")
	third := told("1 range is blocked, the first until 2", "--run", "cat >>"+filepath.Join(s.dir, "got"))
	if os.SameFile(first, third) || third.Mode() != 0o600 {
		t.Errorf("written over, or with another mode: %v", third.Mode())
	}
	text, _ := os.ReadFile(file)
	if got, _ := os.ReadFile(filepath.Join(s.dir, "got")); string(got) != string(text) || !strings.Contains(string(got), "\n192.0.2.7/32\n") {
		t.Errorf("the command got %q", got)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, ".blocked*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	s.fails(`"exit 3" failed: exit status 3`, "ip", "export", "blocked", "--run", "exit 3")
	s.fails("was not written", "ip", "export", "blocked", "--output", "/no/such/folder/file")
}

// The commands of the document, with a real nginx and the kernel's sets: they learn of
// a block, of its end, and of what happened while the server or they themselves were away.
func TestTheEdgeIsKeptUpToDate(t *testing.T) {
	long(t)
	t.Parallel()
	if !doctest.Alone(t) {
		return
	}
	s := doctest.NewShell(t, product)
	s.Write("/etc/nginx/authguard.deny", "")
	s.Write("/etc/nginx/nginx.conf", "events {}\nhttp {\n"+strings.Replace(nginxOfTheEdge(t), "/var/www/html", "/srv/www", 1)+"}\n")
	s.Write("/srv/www/index.html", "hello")
	types(t, s, "chmod -R a+rX /srv; nginx; authguard serve")
	for command := range strings.Lines(doctest.Claimed(t, "docs/how-to/firewall.md")[0].Text) {
		types(t, s, "command "+strings.TrimSpace(command)+" --every 1s >>/mnt/follow 2>&1 & followers=\"${followers-} $!\"")
	}
	is := func(what string, blocked bool) {
		t.Helper()
		redistest.Until(t, what, func() bool {
			inSet := s.Try("nft get element inet authguard blocked4 '{ 127.0.2.1 }' >/dev/null 2>&1 && echo yes")
			return (statusFrom(t, "127.0.2.1") == http.StatusForbidden) == blocked && strings.Contains(inSet, "yes") == blocked
		})
	}
	is("nothing to be blocked", false)
	types(t, s, "authguard ip block 127.0.2.0/24")
	is("the block", true)
	types(t, s, "authguard ip remove 127.0.2.0/24; authguard ip block 127.0.2.0/25 --for 2s")
	is("the second block", true)
	is("its end", false)
	types(t, s, "authguard ip block 127.0.2.0/24; end")
	redistest.Until(t, "the followers to miss the server", func() bool { return strings.Count(s.Try("cat /mnt/follow"), "stays unchanged") >= 2 })
	types(t, s, "authguard serve")
	is("the block after a restart", true)
	if statusFrom(t, "127.0.3.1") != http.StatusOK {
		t.Error("others are blocked, too")
	}
	redistest.Until(t, "the other follower", func() bool { return strings.Count(s.Try("cat /mnt/follow"), "the export works again") == 2 })
	types(t, s, "kill $followers; wait $followers; nginx -s stop; end")
	if said := s.Try("cat /mnt/follow"); strings.Contains(said, "failed") {
		t.Error(said)
	}
}

// nginxOfTheEdge is the server that the document denies with.
func nginxOfTheEdge(t *testing.T) string {
	t.Helper()
	for _, b := range doctest.Read(t, "docs/how-to/firewall.md").Blocks {
		if b.Language == "nginx" && strings.Contains(b.Text, "authguard.deny") {
			return b.Text
		}
	}
	t.Fatal("docs/how-to/firewall.md has no nginx that denies")
	return ""
}

// statusFrom is what an address gets from port 80; 0 for nothing.
func statusFrom(t *testing.T, address string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := from(address).http.Do(r)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func TestIptablesDropsWhatIsBlocked(t *testing.T) {
	t.Parallel()
	if !doctest.Alone(t) {
		return
	}
	s := doctest.NewShell(t, product)
	types(t, s, "authguard serve; authguard ip block 127.0.2.0/24; authguard ip block 2001:db8::/32\n"+doctest.Claimed(t, "docs/how-to/firewall.md")[0].Text)
	const ask = "command curl -s -o /dev/null --interface %s --connect-timeout %s http://127.0.0.1/; echo $?"
	for from, want := range map[string]string{"127.0.2.1": "28", "127.0.3.1": "7"} { // dropped; refused, since nobody listens
		limit := map[string]string{"28": "0.3", "7": "300"}[want]
		if got := s.Try(strings.NewReplacer("--interface %s", "--interface "+from, "%s", limit).Replace(ask)); got != want+"\n" {
			t.Errorf("%s: curl says %s, want %s", from, got, want)
		}
	}
}

// Every metric that an alert, the dashboard or the document names is one that there is, and
// the document names each.
func TestAlertsAndDashboardAskForMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"events: {reset: [1/1h block by account]}\nredis: {addresses: ['"+redistest.Standalone(t).Addr+"']}\n", "ann")
	from("127.0.6.1").login(t, s, "ann", rightPassword)
	metrics := ""
	redistest.Until(t, "the login to be counted", func() bool {
		metrics = from("127.0.0.1").get(t, s.admin+"/metrics").body
		return strings.Contains(metrics, "\nauthguard_attempts_total{")
	})
	there := make(map[string]bool)
	for _, help := range regexp.MustCompile(`(?m)^# HELP (\w+)`).FindAllStringSubmatch(metrics, -1) {
		there[help[1]] = true
	}
	// What nothing has brought about here.
	there["authguard_events_total"], there["authguard_captcha_mode_switches_total"] = true, true
	there["authguard_alerts_waiting"], there["authguard_alerts_delivered_total"] = true, true
	for _, file := range []string{"deploy/prometheus/authguard.rules.yml", "deploy/grafana/authguard.json", "docs/reference/metrics.md"} {
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\bauthguard_[a-z_]*[a-z]`).FindAllString(string(text), -1)
		for i, name := range names {
			names[i] = strings.TrimSuffix(name, "_bucket")
			if !there[names[i]] && names[i] != "authguard_redis" {
				t.Errorf("%s: there is no %s", file, name)
			}
		}
		if len(names) < 8 {
			t.Errorf("%s names %d metrics", file, len(names))
		}
		for name := range there {
			short := strings.TrimPrefix(name, "authguard_checks_waiting") // which are listed together
			if strings.HasPrefix(name, "authguard_") && file != "deploy/prometheus/authguard.rules.yml" && !slices.Contains(names, name) && !strings.Contains(string(text), "`"+short+"`") {
				t.Errorf("%s does not name %s", file, name)
			}
		}
		for _, label := range regexp.MustCompile(`(?:ending|cause)="[\w-]+"`).FindAllString(string(text), -1) {
			if !strings.Contains(metrics, label) && !slices.Contains([]string{`cause="store-failed"`, `ending="failed"`}, label) {
				t.Errorf("%s: no attempt has %s", file, label)
			}
		}
	}
	for _, name := range []string{"authguard_decision_seconds", "authguard_check_seconds", "authguard_redis_trip_seconds"} {
		if n := regexp.MustCompile(`(?m)^` + name + `_count ([1-9]\d*)$`); !n.MatchString(metrics) {
			t.Errorf("nothing took any %s", name)
		}
	}
	if !strings.Contains(metrics, `authguard_answer_seconds_count{code="200",listener="public",route="/login"} 1`) {
		t.Error("the login's answer is not timed")
	}
}

// The last traces are sent when the server is told to stop.
func TestTheTraceOfALoginReachesTheCollector(t *testing.T) {
	t.Parallel()
	var sent bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(&sent, r.Body) }))
	s := newServer(t, quiet+"tracing: {endpoint: '"+collector.URL+"'}\n", "ann")
	from("127.0.6.1").login(t, s, "ann", rightPassword)
	s.stop()
	collector.Close() // all requests have ended
	for _, part := range []string{"POST /login", "decide", "check the password", "service.version"} {
		if !bytes.Contains(sent.Bytes(), []byte(part)) {
			t.Errorf("no %q in what the collector got", part)
		}
	}
	if bytes.Contains(sent.Bytes(), []byte("127.0.6.1")) {
		t.Error("the traces have the client's address")
	}
}

// What the document has CrowdSec read is a line of JSON for each attempt, with what its
// parser is told to look for.
func TestTheDocsCrowdSecAcquisitionReadsOurLog(t *testing.T) {
	t.Parallel()
	var reads struct {
		Filenames []string
		Labels    struct{ Type string }
	}
	if err := yaml.Unmarshal([]byte(doctest.Claimed(t, "docs/how-to/firewall.md")[0].Text), &reads); err != nil || len(reads.Filenames) != 1 || reads.Labels.Type != "authguard" {
		t.Errorf("%+v, %v", reads, err)
	}
	s := newServer(t, quiet+"log: {format: json}\n")
	from("127.0.6.2").login(t, s, "ann", "wrong")
	redistest.Until(t, "the log", func() bool { return s.log.has("attempt failed") })
	for line := range strings.Lines(s.log.String()) {
		var one struct{ Time, Msg, Address string }
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Time == "" || one.Msg == "attempt failed" && one.Address != "127.0.6.2" {
			t.Errorf("%s: %v", line, err)
		}
	}
}
