package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

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
