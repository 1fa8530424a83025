package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"authguard/internal/config"
)

// worst is the most that systemd may say against the unit: 10 is nothing
// locked, 0 is a unit that can do nothing.
const worst = 2.0

func TestSystemdAcceptsTheUnit(t *testing.T) {
	t.Parallel()
	text := read(t, "authguard.service")
	i := theImage(t)
	unit := filepath.Join(openFolder(t), "authguard.service")
	here := strings.ReplaceAll(text, "=/usr/local/bin/authguard", "="+filepath.Join(i.root, program))
	if err := os.WriteFile(unit, []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", unit).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said := regexp.MustCompile(`exposure level for \S+ ([0-9.]+)`).FindSubmatch(out)
	if said == nil {
		t.Fatalf("no verdict in\n%s", out)
	}
	if exposure, _ := strconv.ParseFloat(string(said[1]), 64); exposure > worst {
		t.Errorf("an exposure of %v, want at most %v", exposure, worst)
	}
}

func TestTheExampleConfigurationIsGood(t *testing.T) {
	t.Parallel()
	loaded, err := config.Load("authguard.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if state := "/var/lib/" + setting(t, "StateDirectory"); loaded.Data != state || setting(t, "WorkingDirectory") != state {
		t.Errorf("the data are in %s, systemd makes %s", loaded.Data, state)
	}
}

// The unit that keeps a firewall up to date.
func TestTheEdgeUnitIsGood(t *testing.T) {
	t.Parallel()
	text := read(t, "authguard-edge.service")
	unit := filepath.Join(openFolder(t), "authguard-edge.service")
	here := strings.ReplaceAll(text, "=/usr/bin/authguard", "="+filepath.Join(theImage(t).root, program))
	if err := os.WriteFile(unit, []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// setting is one of the unit's.
func setting(t *testing.T, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + `=(.+)$`).FindStringSubmatch(read(t, "authguard.service"))
	if found == nil {
		t.Fatalf("the unit has no %s", name)
	}
	return found[1]
}
