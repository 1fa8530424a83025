package deploy_test

import (
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// An image is the Dockerfile's final stage, in a folder.
type image struct {
	root  string
	user  *syscall.Credential // nil if the test may not become somebody else
	check []string            // the HEALTHCHECK
	env   map[string]string
}

const program = "usr/local/bin/authguard"

// theImage takes the Dockerfile's steps, once, from what .dockerignore lets in.
func theImage(t *testing.T) *image {
	t.Helper()
	made, err := build()
	if err != nil {
		t.Fatal(err)
	}
	// A root of its own for each test, with the same program.
	mine := *made
	mine.root = openFolder(t)
	if out, err := exec.Command("cp", "-a", made.root+"/.", mine.root).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	return &mine
}

// openFolder is a new one that other users can enter.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "deploy") // short, for the socket's sake
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

var (
	runs    = regexp.MustCompile(`(?ms)^RUN (.*?[^\\])$`)
	sets    = regexp.MustCompile(`(?m)^ENV (.+)$`)
	user    = regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`)
	healthy = regexp.MustCompile(`(?m)^HEALTHCHECK .*CMD \[(.+)\]$`)
)

// built is where build works, for TestMain to remove.
var built string

var build = sync.OnceValues(func() (*image, error) {
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		return nil, err
	}
	root, err := os.MkdirTemp("", "image")
	if err != nil {
		return nil, err
	}
	built = root
	made := &image{root: root, env: map[string]string{}}
	source, err := context(filepath.Join(root, "src"))
	if err != nil {
		return nil, err
	}
	out := filepath.Join(root, "out")
	for _, step := range runs.FindAllStringSubmatch(string(text), -1) {
		command := strings.ReplaceAll(step[1], "/out", out)
		if os.Getuid() != 0 { // only root gives files away: to whom is written down
			command = `chown() { echo "$@" >` + given(out) + "; }\n" + command
		}
		cmd := exec.Command("sh", "-ec", command)
		cmd.Dir = source
		if said, err := cmd.CombinedOutput(); err != nil {
			return nil, &failed{command, said, err}
		}
	}
	made.root = out
	for _, pair := range strings.Fields(sets.FindStringSubmatch(string(text))[1]) {
		name, value, _ := strings.Cut(pair, "=")
		made.env[name] = value
	}
	for _, word := range strings.Split(healthy.FindStringSubmatch(string(text))[1], ", ") {
		made.check = append(made.check, strings.Trim(word, `"`))
	}
	if user.MatchString(string(text)) && os.Getuid() == 0 {
		made.user = &syscall.Credential{Uid: 65532, Gid: 65532}
	}
	return made, nil
})

// given is the file that says, if the tests are not root's, what was given to whom.
func given(out string) string { return out + ".given" }

type failed struct {
	command string
	said    []byte
	err     error
}

func (f *failed) Error() string { return f.command + ": " + f.err.Error() + "\n" + string(f.said) }

// context copies what .dockerignore lets in.
func context(to string) (string, error) {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return "", err
	}
	ignore, err := os.ReadFile("../.dockerignore")
	if err != nil {
		return "", err
	}
	args := []string{"-a", "--parents", "-t", to}
	for line := range strings.Lines(string(ignore)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			args = append(args, name)
		}
	}
	cp := exec.Command("cp", args...)
	cp.Dir = ".."
	if out, err := cp.CombinedOutput(); err != nil {
		return "", &failed{"cp", out, err}
	}
	out, err := exec.Command("find", to, "(", "-name", "*_test.go", "-o", "-name", "testdata", ")", "-prune", "-exec", "rm", "-rf", "{}", "+").CombinedOutput()
	if err != nil {
		return "", &failed{"find", out, err}
	}
	return to, nil
}

// command is one in the image: in a root of nothing else, as its user, if the
// test is run by root.
func (i *image) command(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(i.root, program), args...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if i.user != nil {
		cmd.Path, cmd.Dir = "/"+program, "/data"
		cmd.SysProcAttr.Chroot, cmd.SysProcAttr.Credential = i.root, i.user
	}
	return cmd
}

// path is where the image's program finds a path of the image.
func (i *image) path(name string) string {
	if i.user != nil {
		return name
	}
	return filepath.Join(i.root, name)
}

func TestTheImageHasOneStaticProgramAndNobodysUser(t *testing.T) {
	t.Parallel()
	i := theImage(t)
	binary, err := elf.Open(filepath.Join(i.root, program))
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is not static: it has %v", p.Type)
		}
	}
	builtAnywhere(t, filepath.Join(i.root, program))
	if os.Getuid() != 0 {
		return
	}
	if i.user == nil {
		t.Fatal("the image has no numeric user")
	}
	if out, err := i.command(environ(i.env), "config", "validate").CombinedOutput(); err != nil {
		t.Errorf("in an empty root: %v\n%s", err, out)
	}
}

// builtAnywhere holds that a program says nothing of the folder that it was built in:
// elsewhere it would be other bytes.
func builtAnywhere(t *testing.T, program string) {
	t.Helper()
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(info.Settings, debug.BuildSetting{Key: "-trimpath", Value: "true"}) {
		t.Errorf("built without -trimpath: %v", info.Settings)
	}
}

func TestTheImagesFilesAreRootsButForItsVolumes(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		_ = theImage(t)
		out := filepath.Join(built, "out")
		if said, err := os.ReadFile(given(out)); err != nil || string(said) != "65532:65532 "+out+"/data "+out+"/keys\n" {
			t.Errorf("given away: %q, %v", said, err)
		}
		return
	}
	i := theImage(t)
	for _, name := range []string{"", program, "etc/passwd", "etc/ssl/certs/ca-certificates.crt", "data", "keys"} {
		info, err := os.Stat(filepath.Join(i.root, name))
		if err != nil {
			t.Error(err)
			continue
		}
		owner := info.Sys().(*syscall.Stat_t).Uid
		if volume := name == "data" || name == "keys"; volume != (owner == 65532) {
			t.Errorf("%q belongs to %d", name, owner)
		}
	}
}
