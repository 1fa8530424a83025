package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authguard/internal/doctest"
	"authguard/internal/redistest"
)

func TestREADMEsNginxLetsPeopleInAfterLogin(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello %s at %s", r.Header.Get("Remote-User"), r.URL.Path)
	}))
	defer app.Close()
	s := newServer(t, "proxies: [127.0.0.1]\n", "alice")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front := free.Addr().String()
	_ = free.Close()
	dir := t.TempDir()
	inner := strings.NewReplacer("http://127.0.0.1:8080", s.base, "http://127.0.0.1:9000", app.URL).Replace(doctest.Claimed(t, "README.md")[0].Text)
	paths := ""
	for _, one := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		paths += fmt.Sprintf("%s_temp_path %s/%[1]s;\n", one, dir)
	}
	conf := fmt.Sprintf("pid %s/pid;\nerror_log stderr;\nevents {}\nhttp {\n%saccess_log off;\nserver { listen %s;\n%s}\n}\n", dir, paths, front, inner)
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	program, err := exec.LookPath("nginx")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/nginx") // not in everybody's path
	}
	if err != nil {
		t.Fatal("nginx is missing: apt-get install nginx-light")
	}
	nginx := exec.Command(program, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-g", "daemon off;")
	nginx.Stdout, nginx.Stderr = &log, &log
	if err := nginx.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = nginx.Process.Signal(os.Interrupt)
		_ = nginx.Wait()
	}()
	redistest.Until(t, "nginx to listen", func() bool {
		c, err := net.Dial("tcp", front)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	behind := &server{t: t, base: "http://" + front}
	p := from("127.0.0.9")
	get := func(path string) answer {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, behind.base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p.do(t, r)
	}
	if a := get("/shop?x=1"); a.status != http.StatusSeeOther || !strings.HasSuffix(a.header.Get("Location"), "/login?next=/shop?x=1") {
		t.Fatalf("a stranger gets %d to %q: %.200s\n%s", a.status, a.header.Get("Location"), a.body, log.String())
	}
	if a := get("/login"); a.status != http.StatusOK || !strings.Contains(a.body, "Sign in") {
		t.Fatalf("the login page is %d: %.200s", a.status, a.body)
	}
	// The page links there; whoever is kept out needs it and cannot be signed in.
	if a := get("/login/code"); a.status != http.StatusOK || !strings.Contains(a.body, "one-time code") {
		t.Errorf("the page about one-time codes is %d to %q: %.200s", a.status, a.header.Get("Location"), a.body)
	}
	if a := p.login(t, behind, "alice", rightPassword); a.status != http.StatusOK && a.status != http.StatusSeeOther {
		t.Fatalf("the login is %d: %.300s", a.status, a.body)
	}
	if a := get("/shop"); a.status != http.StatusOK || a.body != "hello alice at /shop" {
		t.Errorf("signed in: %d %q", a.status, a.body)
	}
	if told := s.must("explain", "--account", "alice", "--address", "127.0.0.9"); strings.Contains(told, "nobody has logged in") {
		t.Errorf("the address that arrived is another one: %s", told)
	}
}

// A program of somebody else's with the README's go.mod line and Go code.
func TestREADMEsGoLineImports(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for from, to := range map[string]string{"go.mod": "go.mod", "go.sum": "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.Replace(string(text), "module authguard\n", "module shop\n", 1)) // so that nothing has to be fetched
		if err := os.WriteFile(filepath.Join(dir, to), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const program = "package main\n\nimport \"authguard/guard\"\n\nfunc main() { println(guard.DefaultPolicy().PendingFor) }\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile("`go (mod edit [^`]*)=\\.\\./authguard`").FindSubmatch(readme)
	if line == nil {
		t.Fatal("the README does not say how to import it")
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run(append(strings.Fields(string(line[1])[:strings.LastIndex(string(line[1]), "authguard")]), "authguard="+root)...)
	if out := run("run", "."); !strings.Contains(out, "0") {
		t.Errorf("it printed %q", out)
	}
}
