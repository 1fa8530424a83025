package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"authguard/internal/testing/redistest"
)

// A diagnosis is what `authguard doctor --json` answers.
type diagnosis struct {
	OK     bool
	Checks []struct{ Name, State, Text, Mend string }
}

func (d diagnosis) state(name string) string {
	for _, c := range d.Checks {
		if c.Name == name {
			return c.State
		}
	}
	return ""
}

func diagnose(t *testing.T, cmd *exec.Cmd) (d diagnosis, status int) {
	t.Helper()
	said := say(t, cmd, "")
	if err := json.Unmarshal([]byte(said.out), &d); err != nil {
		t.Fatalf("%v: %+v", err, said)
	}
	return d, said.status
}

func TestDoctorFindsNothingWrongWithAServer(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet)
	d, status := diagnose(t, s.command("doctor", "--json"))
	if !d.OK || status != 0 || d.state("sqlite") != "ok" || d.state("migrations") != "ok" || d.state("keys") != "ok" {
		t.Errorf("status %d: %+v", status, d)
	}
	if out := s.must("doctor"); !strings.Contains(out, " 0 problems.") {
		t.Errorf("%s", out)
	}
}

func TestTheDocumentedRedisPermissionsAreEnoughForNodes(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t)
	settings := "addresses: ['" + redis.Addr + "'], username: nodes, password: secret-of-nodes, timeout: 5s"
	text, err := os.ReadFile("../../docs/how-to/several-nodes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "permissions on keys that begin with `redis.prefix`: `")
	permissions, _, _ := strings.Cut(rest, "`")
	grant := []any{"ACL", "SETUSER", "nodes", "on", ">secret-of-nodes", "~ag:*"}
	for permission := range strings.FieldsSeq(permissions) {
		grant = append(grant, permission)
	}
	redis.Do(t, grant...)
	all := newNodes(t, 2, settings, quiet, "ann")
	for _, s := range all {
		if got := from("127.0.3.1").login(t, s, "ann", "wrong"); got.status != 401 {
			t.Errorf("wrong password: %d", got.status)
		}
		if got := from("127.0.3.1").login(t, s, "ann", rightPassword); got.status != 200 && got.status != 303 {
			t.Errorf("right password: %d", got.status)
		}
		if lost := s.gauge(t, "authguard_redis_failures_total"); lost != 0 {
			t.Errorf("%d trips to Redis failed", lost)
		}
		d, status := diagnose(t, s.command("doctor", "--json"))
		if !d.OK || status != 0 || d.state("redis") != "ok" || d.state("postgres") != "ok" || d.state("keys.shared") != "ok" {
			t.Errorf("status %d: %+v", status, d)
		}
	}
}

func TestDoctorFailsAndSaysHowToMend(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), "x.yaml"
	redis := redistest.Standalone(t)
	redis.Kill()
	if err := os.WriteFile(filepath.Join(dir, file), []byte("redis: {addresses: ['"+redis.Addr+"'], password: not-to-be-told}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(product, append([]string{"-c", file, "doctor"}, args...)...)
		cmd.Dir = dir
		return cmd
	}
	d, status := diagnose(t, command("--json"))
	if d.OK || status != 1 || d.state("redis") != "problem" {
		t.Errorf("status %d: %+v", status, d)
	}
	said := say(t, command(), "")
	if said.status != 1 || !strings.Contains(said.out, "problem  Redis") || !strings.Contains(said.out, "→ Start it") ||
		!strings.Contains(said.complaints, "fix the lines") || strings.Contains(said.out, "not-to-be-told") {
		t.Errorf("%+v", said)
	}
	if left, err := os.ReadDir(dir); len(left) != 1 || err != nil {
		t.Errorf("doctor left %v behind, %v", left, err)
	}
}

func TestDoctorSaysWhatIsWrongWithTheConfiguration(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(product, "doctor", "--json")
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "AUTHGUARD_LISTEN=nowhere")
	if d, status := diagnose(t, cmd); d.OK || status != 1 || d.state("config") != "problem" {
		t.Errorf("status %d: %+v", status, d)
	}
}

func TestDoctorNoticesALowLimitOfFiles(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", `ulimit -n 1000 && exec "$0" doctor --json`, product)
	cmd.Dir = t.TempDir()
	if d, status := diagnose(t, cmd); !d.OK || status != 0 || d.state("machine.files") != "advice" {
		t.Errorf("status %d: %+v", status, d)
	}
}

func TestADeadAlertChannelIsSeenAndTested(t *testing.T) {
	long(t)
	t.Parallel()
	var got atomic.Int64
	alive := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	defer alive.Close()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := dead.Addr().String()
	dead.Close()
	s := newServer(t, fmt.Sprintf("%slimits: {pair_delay: off}\nalerts: {group_wait: 0s, private_networks: [127.0.0.0/8], to: ['generic+http://%s/secret-path#name=ops', 'generic+%s/hook']}\n", quiet, at, alive.URL), "alice")
	for i := range 6 {
		from(loopback(6, i)).login(t, s, "alice", fmt.Sprint("wrong", i))
	}
	redistest.Until(t, "the living channel to hear of the account, and of the dead one", func() bool {
		return s.log.has("kind=alert-channel-failed") && got.Load() >= 2
	})
	if n := s.gauge(t, "authguard_alert_channels_dead"); n != 1 {
		t.Errorf("%d dead channels by the metric", n)
	}
	d, status := diagnose(t, s.command("doctor", "--json"))
	if d.OK || status == 0 || d.state("server.alert-channel-failed") != "problem" || d.state("alerts") != "" {
		t.Errorf("doctor: status %d, %+v", status, d)
	}
	before := got.Load()
	said := say(t, s.command("doctor", "--alerts"), "")
	if said.status == 0 || !strings.Contains(said.out, "A test message to the channel ops was not delivered") ||
		!strings.Contains(said.out, "A test message was sent to the channel generic 127.0.0.1:") || strings.Contains(said.out, "secret-path") {
		t.Errorf("%+v", said)
	}
	if got.Load() != before+1 {
		t.Errorf("%d test messages arrived", got.Load()-before)
	}
}
