package test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"authguard/internal/testing/doctest"
	"authguard/internal/testing/redistest"
)

// recorder is added to the copy. From SIGUSR1 to SIGUSR2 it notes the calls, with the goroutine that makes each.
const recorder = `package path

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
)

var (
	mu    sync.Mutex
	calls *bytes.Buffer
)

func init() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for s := range signals {
			mu.Lock()
			if s == syscall.SIGUSR1 {
				calls = new(bytes.Buffer)
			} else if err := os.WriteFile(os.Getenv("CALLS")+".new", calls.Bytes(), 0o600); err == nil {
				err = os.Rename(os.Getenv("CALLS")+".new", os.Getenv("CALLS"))
				calls = nil
			}
			mu.Unlock()
		}
	}()
}

// Enter notes a call.
func Enter(function string) {
	mu.Lock()
	defer mu.Unlock()
	if calls != nil {
		var stack [40]byte
		runtime.Stack(stack[:], false)
		fmt.Fprintf(calls, "%s %s\n", bytes.Fields(stack[:])[1], function)
	}
}
`

// A call is a function's, on a goroutine.
type call struct{ goroutine, file, function string }

// A path is what one login calls, in order.
type path []call

// files are those that a path enters, in order of their first call.
func (p path) files() (all []string) {
	for _, c := range p {
		if !slices.Contains(all, c.file) {
			all = append(all, c.file)
		}
	}
	return all
}

// String is the files, each with its functions in order of their first call, and how often each is called.
func (p path) String() string {
	functions, calls := map[string][]string{}, map[string]int{}
	for _, c := range p {
		if calls[c.file+" "+c.function]++; calls[c.file+" "+c.function] == 1 {
			functions[c.file] = append(functions[c.file], c.function)
		}
	}
	var out strings.Builder
	for _, file := range p.files() {
		out.WriteString(file)
		for _, f := range functions[file] {
			fmt.Fprintf(&out, " %s×%d", f, calls[file+" "+f])
		}
		out.WriteString("\n")
	}
	return out.String()
}

// figures are the files, the functions, the calls, and how often a file is entered again that was left before.
func (p path) figures() string {
	functions, entered, returns := map[string]bool{}, map[string]bool{}, 0
	for i, c := range p {
		functions[c.file+c.function] = true
		if entered[c.file] && p[i-1].file != c.file {
			returns++
		}
		entered[c.file] = true
	}
	return fmt.Sprintf("%d files, %d functions, %d calls, %d returns", len(entered), len(functions), len(p), returns)
}

// instrumented builds a copy of the tree in which each function notes its calls.
func instrumented(t *testing.T) string {
	t.Helper()
	from, to := doctest.Root(t), t.TempDir()
	skip := regexp.MustCompile(`^(\.|bench$|dist$|bin$|testdata$|authguard-data$)`)
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(from, name)
		switch {
		case err != nil || rel == ".":
			return err
		case d.IsDir() && skip.MatchString(d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		case strings.HasSuffix(name, "_test.go") || !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(name)
		if err == nil && strings.HasSuffix(name, ".go") {
			text, err = noting(rel, text)
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(to, "internal/path")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "path.go"), []byte(recorder), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(to, "authguard"), "./cmd/authguard")
	build.Dir, build.Env = to, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(to, "authguard")
}

// noting adds a call of the recorder to the head of each function of a file.
func noting(name string, text []byte) ([]byte, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	at := set.Position(file.Name.End()).Offset
	out.Write(text[:at])
	out.WriteString(`; import _path "authguard/internal/path"`)
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			begin := set.Position(f.Body.Lbrace).Offset + 1
			out.Write(text[at:begin])
			fmt.Fprintf(&out, " _path.Enter(%q);", name+" "+f.Name.Name)
			at = begin
		}
	}
	out.Write(text[at:])
	out.WriteString("\nvar _ = _path.Enter\n")
	return out.Bytes(), nil
}

// A traced server is an instrumented one.
type traced struct {
	program, folder, url string
	cmd                  *exec.Cmd
}

func serveTraced(t *testing.T, program, configuration string) *traced {
	t.Helper()
	s := &traced{program: program, folder: t.TempDir()}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	s.url = "http://" + address
	configuration += "listen: " + address + "\nadmin: {listen: 127.0.0.1:0}\ndata: " + s.folder + "/data\n"
	if err := os.WriteFile(s.folder+"/authguard.yaml", []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(program, "serve", "--config", s.folder+"/authguard.yaml")
	s.cmd.Env = append(os.Environ(), "CALLS="+s.folder+"/calls")
	var log bytes.Buffer
	s.cmd.Stdout, s.cmd.Stderr = &log, &log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		_ = s.cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	redistest.Until(t, "the server to listen", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	create := exec.Command(program, "user", "create", "ann", "--password-stdin", "--config", s.folder+"/authguard.yaml")
	create.Stdin = strings.NewReader("correct horse battery")
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return s
}

// calls are those made while something is done.
func (s *traced) calls(t *testing.T, what func()) (all path) {
	t.Helper()
	_ = os.Remove(s.folder + "/calls")
	signal := func(one os.Signal) {
		if err := s.cmd.Process.Signal(one); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // until the signal has arrived, and the event's readers are done
	}
	signal(syscall.SIGUSR1)
	what()
	signal(syscall.SIGUSR2)
	var text []byte
	redistest.Until(t, "the calls", func() bool {
		var err error
		text, err = os.ReadFile(s.folder + "/calls")
		return err == nil
	})
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		all = append(all, call{f[0], f[1], f[2]})
	}
	return all
}

// login is a login's path: what the goroutine of its connection calls. The readers of its event run later, on theirs.
func (s *traced) login(t *testing.T, client *http.Client, password string, want int) path {
	t.Helper()
	all := s.calls(t, func() {
		answer, err := client.PostForm(s.url+"/login", url.Values{"username": {"ann"}, "password": {password}})
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Fatalf("%d", answer.StatusCode)
		}
	})
	at := slices.IndexFunc(all, func(c call) bool { return c.file == "web/login.go" })
	if at < 0 {
		t.Fatal("no login")
	}
	own := all[at].goroutine
	return slices.DeleteFunc(all, func(c call) bool { return c.goroutine != own })
}

// TestThePathOfALogin prints the files that a login enters (`make path`), and keeps their number from growing.
func TestThePathOfALogin(t *testing.T) {
	if os.Getenv("FULL_SIZE") == "" {
		t.Skip("builds every package anew: make path")
	}
	program := instrumented(t)
	for _, one := range []struct {
		name, configuration string
		known, unknown      int // files at most
	}{
		{"memory", "", 35, 45},
		{"Redis", "redis: {addresses: [" + redistest.Standalone(t).Addr + "]}\n", 39, 48},
	} {
		t.Run(one.name, func(t *testing.T) {
			signsIn := func() (s *traced, second path) {
				s = serveTraced(t, program, one.configuration)
				jar, _ := cookiejar.New(nil)
				client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
				s.login(t, client, "correct horse battery", http.StatusSeeOther)
				return s, s.login(t, client, "correct horse battery", http.StatusSeeOther)
			}
			s, known := signsIn()
			for slices.Contains(known.files(), "captchamode/minutes.go") { // a minute has just ended: this work is not the login's
				s, known = signsIn()
			}
			known.within(t, "known client", one.known)
			if listed := listedPath(t); one.name == "memory" && !slices.Equal(known.files(), listed) {
				t.Errorf("CONTRIBUTING.md lists other files, or another order:\n%s", strings.Join(listed, "\n"))
			}
			from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
			unknown := s.login(t, &http.Client{Transport: &http.Transport{DialContext: from.DialContext}}, "wrong", http.StatusUnauthorized)
			unknown.within(t, "unknown client, wrong password", one.unknown)
		})
	}
}

// listedPath is CONTRIBUTING.md's list.
func listedPath(t *testing.T) (files []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(doctest.Root(t), "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "`make path`")
	table, _, _ = strings.Cut(table, "Other attempts")
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		files = append(files, row[1])
	}
	return files
}

func (p path) within(t *testing.T, name string, most int) {
	t.Helper()
	files := p.files()
	t.Logf("%s: %s\n%s", name, p.figures(), p)
	if len(files) > most {
		t.Errorf("%s: %d files, at most %d are allowed", name, len(files), most)
	}
}
