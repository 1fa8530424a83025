package appstest

import (
	"embed"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"authguard/internal/testing/redistest"
)

// User and Password are those of the one account that each application has.
const (
	User     = "alice"
	Password = "Correct-Horse-7"
)

// An App is an application that runs.
type App struct {
	URL     string // http://127.0.0.1:port, without a slash at the end
	folder  string
	guesses string // a file with a line for every password that was looked at
	counts  func(line string) bool
}

// Guesses are the passwords that the application was asked to look at so far,
// whoever they were for. WordPress's installer is not counted.
func (a *App) Guesses(t testing.TB) int { t.Helper(); return len(a.GuessesOf(t, "")) }

// GuessesOf are those for an account, as the application has written them down: its
// name is in each.
func (a *App) GuessesOf(t testing.TB, account string) (lines []string) {
	t.Helper()
	content, err := os.ReadFile(a.guesses)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if strings.Contains(line, account) && (a.counts == nil || a.counts(line)) {
			lines = append(lines, line)
		}
	}
	return lines
}

// TOTPSecret is that of the account where an application asks for a code.
const TOTPSecret = "JBSWY3DPEHPK3PXP"

// Codes is how many codes the application was asked to look at so far.
func (a *App) Codes(t testing.TB) int {
	t.Helper()
	content, err := os.ReadFile(a.path("codes"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(content), "\n")
}

// files are the settings of the applications, with placeholders in {{ }}.
//
//go:embed files
var files embed.FS

// newApp makes the folder of an application, that everybody may look into who
// is told its name: t.TempDir is closed to whom the servers run as.
func newApp(t testing.TB) *App {
	t.Helper()
	folder, err := os.MkdirTemp("", "app")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tmp", "www"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return &App{folder: folder, guesses: filepath.Join(folder, "guesses")}
}

// Folder is where the application's files are: Django's db.sqlite3, and mysql/socket of
// those with MariaDB.
func (a *App) Folder() string { return a.folder }

func (a *App) path(name string) string { return filepath.Join(a.folder, name) }

// write puts one of our files where the application looks for it.
func (a *App) write(t testing.TB, name, to string, values ...string) {
	t.Helper()
	content, err := fs.ReadFile(files, "files/"+name)
	if err != nil {
		t.Fatal(err)
	}
	replace := strings.NewReplacer(append([]string{"{{folder}}", a.folder, "{{guesses}}", a.guesses}, values...)...)
	to = a.path(to)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(replace.Replace(string(content))), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs a program to its end.
func (a *App) run(t testing.TB, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.SysProcAttr = a.folder, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v (make test-apps installs what is needed)\n%s", name, err, out)
	}
}

// start starts a server that ends with the test, and waits until ready says so.
func (a *App) start(t testing.TB, ready func() bool, name string, args ...string) {
	t.Helper()
	log, err := os.Create(a.path(filepath.Base(name) + ".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = a.folder, log, log
	// SIGTERM makes a server take its children along: Apache its whole group, which
	// must not be ours.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v (make test-apps installs what is needed)", name, err)
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-gone
	})
	redistest.Until(t, name+" to answer", func() bool {
		select {
		case <-gone:
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("%s has ended:\n%s", name, said)
		default:
		}
		return ready()
	})
}

// answers is a start's ready: something speaks HTTP at the application's URL.
func (a *App) answers() bool {
	client := http.Client{
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Get(a.URL + "/")
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return true
}

// listen chooses the application's port.
func (a *App) listen(t testing.TB) (port string) {
	t.Helper()
	_, port, _ = net.SplitHostPort(redistest.FreeAddress(t))
	a.URL = "http://127.0.0.1:" + port
	return port
}

// www is whom the servers run as: www-data if we are root, and otherwise nobody
// else but ourselves.
func www() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("www-data")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// own gives everything in the application's folder to whom the servers run as.
// What a server that runs already takes away meanwhile is passed over.
func (a *App) own(t testing.TB) {
	t.Helper()
	as, err := www()
	if err != nil {
		t.Fatal(err)
	}
	if as == nil {
		return
	}
	err = filepath.WalkDir(a.folder, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(path, int(as.Uid), int(as.Gid))
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
