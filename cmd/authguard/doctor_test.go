package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authguard/internal/redistest"
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
	if out := s.must("doctor"); !strings.Contains(out, " 0 wrong.") {
		t.Errorf("%s", out)
	}
}

// TestTheRightsThatDoctorWantsAreEnoughForNodes gives the nodes' user what
// doctor's advice grants, and no more.
func TestTheRightsThatDoctorWantsAreEnoughForNodes(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t)
	settings := "addresses: ['" + redis.Addr + "'], username: nodes, password: secret-of-nodes, timeout: 5s"
	redis.Do(t, "ACL", "SETUSER", "nodes", "on", ">secret-of-nodes")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "authguard.yaml"), []byte("redis: {"+settings+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(product, "doctor", "--json")
	cmd.Dir = dir
	d, _ := diagnose(t, cmd)
	var grant []any
	for _, c := range d.Checks {
		if words, _, ok := strings.Cut(c.Mend, " (and "); ok && c.Name == "redis.acl" {
			_, words, _ = strings.Cut(words, ": ")
			for word := range strings.FieldsSeq(words) {
				grant = append(grant, word)
			}
		}
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
		!strings.Contains(said.complaints, "mend") || strings.Contains(said.out, "not-to-be-told") {
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
