//go:build apps

package deploy_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authguard/internal/doctest"
)

// packaged is a package of this version, made from the sources in a folder.
func packaged(t *testing.T, root, version, to string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(root, "deploy/package/build"), "amd64", to)
	cmd.Env = append(os.Environ(), "VERSION="+version, "COMMIT=0123456789abcdef", "DATE=2026-01-02T03:04:05Z")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(to, "authguard_"+version+"_amd64.deb")
}

// copied is what git knows of the sources, as they are now, in a new folder that is a
// repository of its own.
func copied(t *testing.T) string {
	t.Helper()
	to := openFolder(t)
	script := `cd "$1"; git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$2"
cd "$2"; git init -q; git add -A; git -c user.name=x -c user.email=x@localhost commit -qm x`
	if out, err := exec.Command("bash", "-euc", script, "bash", doctest.Root(t), to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return to
}

func TestAppsThePackageIsTheSameBytesWhoeverBuildsIt(t *testing.T) {
	root := copied(t)
	here, there := packaged(t, doctest.Root(t), "1.2.3", t.TempDir()), packaged(t, root, "1.2.3", filepath.Join(root, "dist"))
	one, err := os.ReadFile(here)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := os.ReadFile(there); err != nil || !bytes.Equal(one, other) {
		t.Errorf("%d and %d bytes, which are not the same: %v", len(one), len(other), err)
	}
	if err := os.RemoveAll(filepath.Join(root, "dist")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-euc", doctest.Claimed(t, "docs/install.md")[0].Text+"root-amd64/authguard --version")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=") // it is no part of the make that runs the tests
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`authguard_0\.0\.0~git\d{14}\.[0-9a-f]{12}_amd64\.deb: OK\nauthguard 0\.0\.0~git\S+, commit [0-9a-f]{12} of \d{4}-\S+Z, built with go1\.\S+\n$`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := exec.Command("lintian", here).CombinedOutput(); err != nil || regexp.MustCompile(`(?m)^[EW]: `).Match(out) {
		t.Errorf("lintian: %v\n%s", err, out)
	}
}

// With the real apt and dpkg, on a machine that is gone afterwards.
func TestAppsThePackageInstallsUpgradesAndGoes(t *testing.T) {
	const made = "TEST_PACKAGES"
	if os.Getenv(made) == "" { // there is no network later
		dir := openFolder(t)
		packaged(t, doctest.Root(t), "1.2.3", dir)
		packaged(t, doctest.Root(t), "1.3.0~rc1", dir)
		t.Setenv(made, dir)
	}
	if !doctest.Alone(t) {
		return
	}
	s := doctest.NewShell(t, "/usr/bin/authguard")
	run := func(lines string) string {
		t.Helper()
		said, ok := s.Run(lines)
		if !ok {
			t.Fatalf("%s\n%s", lines, said)
		}
		return said
	}
	blocks := doctest.Claimed(t, "docs/install.md")
	// A systemd that is this machine's is nobody to talk to.
	run("mount -t tmpfs tmpfs /run; hash -r; mkdir dist; cp " + os.Getenv(made) + "/authguard_1.2.3_amd64.deb dist/")
	if said := run("export DEBIAN_FRONTEND=noninteractive\n" + blocks[0].Text); !strings.Contains(said, "is installed and not started") {
		t.Error(said)
	}
	want := "750 root authguard /etc/authguard\n640 root authguard /etc/authguard/authguard.yaml\n600 root root /etc/authguard/environment\n755 root root /usr/bin/authguard\n"
	if got := run("cd /; stat -c '%a %U %G %n' /etc/authguard /etc/authguard/* /usr/bin/authguard"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if said := run("systemd-analyze verify --man=no /usr/lib/systemd/system/authguard.service"); said != "" {
		t.Error(said)
	}
	if said := run("! pgrep -u authguard; ! ls /etc/systemd/system/*.wants/authguard.service /var/lib/authguard 2>/dev/null; command authguard --version"); !strings.HasPrefix(said, "authguard 1.2.3, commit 0123456789ab of 2026-01-02T03:04:05Z, built with go1.") {
		t.Error(said)
	}
	unit, err := os.ReadFile("/usr/lib/systemd/system/authguard.service")
	if err != nil {
		t.Fatal(err)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=(/usr/bin/authguard serve .+)$`).FindSubmatch(unit)
	if start == nil {
		t.Fatalf("%s", unit)
	}
	// What systemd does first: StateDirectory and WorkingDirectory, User and Group.
	serve := "install -d -m 700 -o authguard -g authguard /var/lib/authguard; cd /var/lib/authguard; serve setpriv --reuid authguard --regid authguard --clear-groups " + string(start[1]) + "; cd /\n"
	works := func() {
		t.Helper()
		if a, err := http.Get("http://127.0.0.1:8080/login"); err != nil || a.StatusCode != http.StatusOK {
			t.Errorf("the login page: %v", err)
		}
	}
	if said := run(serve); !strings.Contains(said, "one-time password") {
		t.Error(said)
	}
	works()
	// The last line of the document, and a command, as root: who has the package has sudo.
	lines := strings.Split(strings.TrimSpace(blocks[1].Text), "\n")
	if said := run(lines[len(lines)-1] + "; command authguard --config /etc/authguard/authguard.yaml user add alice --generate"); !strings.Contains(said, "1 wrong") && !strings.Contains(said, "0 wrong") {
		t.Error(said)
	}
	for _, line := range lines[:len(lines)-1] { // which systemd answers
		if !regexp.MustCompile(`^sudo (systemctl enable --now authguard|journalctl -u authguard \| grep one-time)$`).MatchString(line) {
			t.Errorf("%q", line)
		}
	}
	run("end; echo '# mine' >>/etc/authguard/authguard.yaml; echo AUTHGUARD_LOG_LEVEL=info >/etc/authguard/environment; dpkg -i " + os.Getenv(made) + "/authguard_1.3.0~rc1_amd64.deb")
	if said := run("tail -n 1 /etc/authguard/authguard.yaml; cat /etc/authguard/environment; command authguard --version | cut -c -20"); said != "# mine\nAUTHGUARD_LOG_LEVEL=info\nauthguard 1.3.0~rc1,\n" {
		t.Error(said)
	}
	if got := run("stat -c '%a %U %G %n' /etc/authguard /etc/authguard/* /usr/bin/authguard"); got != want {
		t.Errorf("after the upgrade\n%s", got)
	}
	if said := run(serve); strings.Contains(said, "one-time password") {
		t.Errorf("the upgraded one begins anew: %s", said)
	}
	works()
	if said := run("command authguard --config /etc/authguard/authguard.yaml user list; end"); !strings.Contains(said, `"alice"`) {
		t.Error(said)
	}
	run("apt-get remove -y authguard; ls /var/lib/authguard/authguard.db /etc/authguard/authguard.yaml; ! ls /usr/bin/authguard 2>/dev/null")
	if said := run("apt-get purge -y authguard >/dev/null; ls -d /var/lib/authguard /etc/authguard /usr/lib/systemd/system/authguard.service 2>/dev/null || true"); said != "" {
		t.Errorf("left behind: %s", said)
	}
}
