//go:build apps

package deploy_test

import (
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authguard/internal/testing/doctest"
	"authguard/internal/testing/redistest"
)

// packaged is a package of this version, made from the sources in a folder.
func packaged(t *testing.T, root, version, to string) string {
	t.Helper()
	return made(t, root, "deb", version, to)
}

// made is a .deb, or an image.tar.
func made(t *testing.T, root, kind, version, to string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(root, "deploy/package/build"), kind, "amd64", to)
	cmd.Env = append(os.Environ(), "VERSION="+version, "COMMIT=0123456789abcdef", "DATE=2026-01-02T03:04:05Z")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(to, "authguard_"+version+"_amd64."+map[string]string{"deb": "deb", "image": "image.tar"}[kind])
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

// In two clones of one tag, a release is the same bytes. The snapshot before it is a package, too.
func TestAppsThePackageIsTheSameBytesWhoeverBuildsIt(t *testing.T) {
	root, other := copied(t), filepath.Join(openFolder(t), "other")
	run := func(script string) string {
		t.Helper()
		cmd := exec.Command("bash", "-euc", script, "bash", other)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=") // it is no part of the make that runs the tests
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	said := run(doctest.Claimed(t, "docs/how-to/install.md")[0].Text + "root-amd64/authguard --version")
	if !regexp.MustCompile(`authguard_0\.0\.0~git\d{14}\.[0-9a-f]{12}_amd64\.deb: OK\nauthguard 0\.0\.0~git\S+, commit [0-9a-f]{12} of \d{4}-\S+Z, built with go1\.\S+\n$`).MatchString(said) {
		t.Error(said)
	}
	run(`sed -i 's/^## Unreleased$/## 1.2.3 (2026-12-01)/' CHANGELOG.md; git -c user.name=x -c user.email=x@localhost commit -qam x`)
	said = run(doctest.Claimed(t, "docs/how-to/release.md")[0].Text)
	for _, file := range []string{"linux_amd64", "linux_arm64", "amd64.deb", "arm64.deb", "amd64.image.tar", "arm64.image.tar", "amd64.cdx.json", "arm64.cdx.json"} {
		if !strings.Contains(said, "\nauthguard_1.2.3_"+file+": OK\n") {
			t.Errorf("%s is not in\n%s", file, said)
		}
	}
	run(`git clone -q . "$1"; CDPATH= cd "$1"; make release; cmp dist/SHA256SUMS "$OLDPWD/dist/SHA256SUMS"`)
	if notes, err := os.ReadFile(filepath.Join(root, "dist/RELEASE-NOTES.md")); err != nil || !strings.HasPrefix(string(notes), "\nFirst version.") {
		t.Errorf("%v %s", err, notes)
	}
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		program := filepath.Join(root, "dist/authguard_1.2.3_linux_"+arch)
		builtAnywhere(t, program)
		if binary, err := elf.Open(program); err != nil || binary.Machine != machine {
			t.Errorf("%s: %v", arch, err)
		}
		listsModules(t, program, filepath.Join(root, "dist/authguard_1.2.3_"+arch+".cdx.json"))
	}
	if out, err := exec.Command("lintian", filepath.Join(root, "dist/authguard_1.2.3_amd64.deb")).CombinedOutput(); err != nil || regexp.MustCompile(`(?m)^[EW]: `).Match(out) {
		t.Errorf("lintian: %v\n%s", err, out)
	}
}

// listsModules holds that an SBOM has Go's library and each module of a program.
func listsModules(t *testing.T, program, sbom string) {
	t.Helper()
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
	for _, d := range info.Deps {
		want = append(want, "pkg:golang/"+d.Path+"@"+strings.ReplaceAll(d.Version, "+", "%2B"))
	}
	text, err := os.ReadFile(sbom)
	if err != nil {
		t.Fatal(err)
	}
	var listed struct {
		BOMFormat, SpecVersion string
		Components             []struct{ PURL string }
	}
	if err := json.Unmarshal(text, &listed); err != nil || listed.BOMFormat != "CycloneDX" || listed.SpecVersion != "1.5" {
		t.Errorf("%s: %v %+v", sbom, err, listed)
	}
	var got []string
	for _, c := range listed.Components {
		got = append(got, c.PURL)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s has\n%v\nwant\n%v", sbom, got, want)
	}
}

// With the real apt and dpkg, on a machine that is gone afterwards.
func TestAppsThePackageInstallsUpgradesAndGoes(t *testing.T) {
	const where = "TEST_PACKAGES"
	if os.Getenv(where) == "" { // there is no network later
		dir := openFolder(t)
		packaged(t, doctest.Root(t), "1.2.3", dir)
		packaged(t, doctest.Root(t), "1.3.0~rc1", dir)
		t.Setenv(where, dir)
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
	blocks := doctest.Claimed(t, "docs/how-to/install.md")
	// A systemd that is this machine's is nobody to talk to.
	run("mount -t tmpfs tmpfs /run; hash -r; mkdir dist; cp " + os.Getenv(where) + "/authguard_1.2.3_amd64.deb dist/")
	if said := run("export DEBIAN_FRONTEND=noninteractive\n" + blocks[0].Text); !strings.Contains(said, "is installed but not started") {
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
	if said := run(serve); !strings.Contains(said, "temporary password") {
		t.Error(said)
	}
	works()
	// The last line of the document, and a command, as root: who has the package has sudo.
	lines := strings.Split(strings.TrimSpace(blocks[1].Text), "\n")
	if said := run(lines[len(lines)-1] + "; command authguard --config /etc/authguard/authguard.yaml user create alice --generate"); !strings.Contains(said, "1 problems") && !strings.Contains(said, "0 problems") {
		t.Error(said)
	}
	for _, line := range lines[:len(lines)-1] { // which systemd answers
		if !regexp.MustCompile(`^sudo (systemctl enable --now authguard|journalctl -u authguard \| grep temporary)$`).MatchString(line) {
			t.Errorf("%q", line)
		}
	}
	run("end; echo '# mine' >>/etc/authguard/authguard.yaml; echo AUTHGUARD_LOG_LEVEL=info >/etc/authguard/environment; dpkg -i " + os.Getenv(where) + "/authguard_1.3.0~rc1_amd64.deb")
	if said := run("tail -n 1 /etc/authguard/authguard.yaml; cat /etc/authguard/environment; command authguard --version | cut -c -20"); said != "# mine\nAUTHGUARD_LOG_LEVEL=info\nauthguard 1.3.0~rc1,\n" {
		t.Error(said)
	}
	if got := run("stat -c '%a %U %G %n' /etc/authguard /etc/authguard/* /usr/bin/authguard"); got != want {
		t.Errorf("after the upgrade\n%s", got)
	}
	if said := run(serve); strings.Contains(said, "temporary password") {
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

// The image that is built without an engine has the files of the Dockerfile's steps, and
// runs: as its user, with its environment and nothing else in its root. skopeo, which
// reads archives as podman does, takes it apart.
func TestAppsTheImageIsTheDockerfiles(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("only root can give files away: run make test-apps as root, in a container or on CI")
	}
	archive := made(t, doctest.Root(t), "image", "1.2.3", t.TempDir())
	load := exec.Command("bash", "-euc", `docker() { [ "$1 $2" = "load -i" ] && skopeo inspect docker-archive:"$3" >/dev/null; }`+"\n"+doctest.Claimed(t, "docs/how-to/install.md")[0].Text)
	load.Dir, load.Env = copied(t), append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	if out, err := load.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	root, apart := openFolder(t), t.TempDir()
	script := `skopeo --insecure-policy copy -q docker-archive:"$1" dir:"$2"
tar -xpf "$2/$(jq -er '.layers | if length == 1 then .[0].digest[7:] else error end' "$2/manifest.json")" -C "$3"
skopeo inspect --config --raw docker-archive:"$1"`
	out, err := exec.Command("bash", "-euc", script, "bash", archive, apart, root).Output()
	if err != nil {
		t.Fatalf("apt-get install skopeo jq: %v\n%s", err, out)
	}
	var said struct {
		Config struct {
			User, WorkingDir     string
			Env, Entrypoint, Cmd []string
			Volumes              map[string]any
			Healthcheck          struct{ Test []string }
		}
	}
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatal(err)
	}
	c, docker := said.Config, theImage(t)
	list := func(dir string) string {
		text, err := exec.Command("bash", "-euc", `cd "$1"; find . -mindepth 1 -printf '%P %y %m %U %G\n' | LC_ALL=C sort; sha256sum etc/passwd etc/ssl/certs/ca-certificates.crt`, "bash", dir).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got, want := list(root), list(docker.root); got != want {
		t.Errorf("the image has\n%s\nthe Dockerfile makes\n%s", got, want)
	}
	env := map[string]string{}
	for _, pair := range c.Env {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	for name, value := range docker.env {
		if env[name] != value {
			t.Errorf("%s is %q, not %q", name, env[name], value)
		}
	}
	if c.User != "65532:65532" || c.WorkingDir != "/data" || c.Volumes["/data"] == nil || !slices.Equal(c.Healthcheck.Test, append([]string{"CMD"}, docker.check...)) ||
		!slices.Equal(c.Entrypoint, []string{"/" + program}) || !slices.Equal(c.Cmd, []string{"serve"}) {
		t.Errorf("%+v", c)
	}
	it := &image{root: root, user: docker.user}
	env["AUTHGUARD_LISTEN"], env["AUTHGUARD_ADMIN_LISTEN"] = redistest.FreeAddress(t), redistest.FreeAddress(t)
	log := new(output)
	run(t, it.command(environ(env), c.Cmd...), log)
	redistest.Until(t, "the health check", func() bool { return it.command(environ(env), c.Healthcheck.Test[2:]...).Run() == nil })
	if out, err := it.command(environ(env), "--version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "authguard 1.2.3, commit 0123456789ab ") {
		t.Errorf("%v %s", err, out)
	}
}
