package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// model is the parser's, of every command.
func model(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := newParser(&commandLine{})
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

func TestEveryCommandHasAnExampleThatParses(t *testing.T) {
	t.Parallel()
	for _, leaf := range model(t).Leaves(true) {
		parser, err := newParser(&commandLine{}, kong.Writers(io.Discard, io.Discard))
		if err != nil {
			t.Fatal(err)
		}
		_, err = parser.Parse(words(example(leaf))[1:])
		if missing := err != nil && strings.Contains(err.Error(), "no such file"); err != nil && !missing {
			t.Errorf("%s: %v", example(leaf), err)
		}
		if !leaf.Tag.Has("example") {
			t.Errorf("%s has no example", leaf.FullPath())
		}
	}
}

// A help text is imperative, at most 60 characters long, and has no full stop.
func TestHelpLinesAreShort(t *testing.T) {
	t.Parallel()
	line := func(of, text string) {
		if n := utf8.RuneCountInString(text); n == 0 || n > 60 || strings.HasSuffix(text, ".") {
			t.Errorf("%s: %d characters: %q", of, n, text)
		}
	}
	var visit func(node *kong.Node)
	visit = func(node *kong.Node) {
		if node.Hidden {
			return
		}
		line(node.FullPath(), node.Help)
		for _, v := range node.Positional {
			line(node.FullPath()+" "+v.Name, v.OrigHelp)
		}
		for _, f := range node.Flags {
			if f.Name != "help" { // which every command has
				line(node.FullPath()+" --"+f.Name, f.OrigHelp)
			}
		}
		for _, child := range node.Children {
			visit(child)
		}
	}
	visit(model(t).Node)
}

func TestRootHelpHasALineForEachCommandByGroup(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if status := run(nil, &out, io.Discard); status != 0 {
		t.Fatal(status)
	}
	lines, groups := strings.Split(strings.TrimSpace(out.String()), "\n"), []string(nil)
	for _, line := range lines {
		if len(line) > 80 {
			t.Errorf("%q is too wide", line)
		}
		if regexp.MustCompile(`^(Run|Attack|Accounts|IP lists|Limits|Maintenance)$`).MatchString(line) {
			groups = append(groups, line)
		}
	}
	if got := strings.Join(groups, " · "); len(lines) > 40 || got != "Run · Attack · Accounts · IP lists · Limits · Maintenance" {
		t.Errorf("%d lines, groups %s:\n%s", len(lines), got, &out)
	}
	for _, command := range model(t).Children {
		if shown := strings.Contains(out.String(), "\n  "+command.Name+" "); shown == command.Hidden {
			t.Errorf("%s: hidden %t, shown %t", command.Name, command.Hidden, shown)
		}
	}
}

func TestHelpIsWhatTheFlagPrints(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{{}, {"user"}, {"user", "create"}, {"ip", "export"}, {"serve"}} {
		var one, other, complaints bytes.Buffer
		if status := run(append([]string{"help"}, words...), &one, &complaints); status != 0 {
			t.Errorf("help %v: %d %s", words, status, &complaints)
		}
		run(append(words, "--help"), &other, &complaints)
		if one.String() != other.String() || one.Len() == 0 {
			t.Errorf("help %v prints\n%s\nand --help\n%s", words, &one, &other)
		}
	}
	var complaints bytes.Buffer
	status := run([]string{"help", "captcah"}, io.Discard, &complaints)
	if status != 1 || !strings.Contains(complaints.String(), `did you mean "captcha"`) {
		t.Errorf("%d %s", status, &complaints)
	}
}

func TestAnErrorNamesTheHelpOfItsCommand(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"user create --nonsense x": "authguard user create --help", "user creat": "authguard user --help", "dance": "authguard --help",
	} {
		var complaints bytes.Buffer
		status := run(strings.Fields(words), io.Discard, &complaints)
		if status != 2 || !strings.Contains(complaints.String(), "Run `"+want+"`") {
			t.Errorf("%s: %d %s", words, status, &complaints)
		}
	}
}

// Each shell's own completion is asked, with the script as it is printed.
func TestCompletionInEveryShell(t *testing.T) {
	long(t)
	t.Parallel()
	bin := t.TempDir()
	if err := os.Symlink(product, filepath.Join(bin, "authguard")); err != nil {
		t.Fatal(err)
	}
	shells := []struct{ shell, script string }{
		{"bash", `source <(authguard completion bash)
			eval "COMP_WORDS=(authguard $LINE)"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
			$(complete -p authguard | sed -E 's/.*-F (\S+).*/\1/') authguard; printf '%s\n' "${COMPREPLY[@]}"`},
		{"zsh", `compdef() { handler=$1 }; _files() { }; _describe() { print -l -- ${(P)2%%:*} }
			source <(authguard completion zsh); eval "words=(authguard $LINE)"; CURRENT=$#words; $handler`},
		{"fish", `authguard completion fish | source; complete -C "authguard $LINE" | string replace -r '\t.*' ''`},
	}
	for _, one := range []struct {
		line, want string
		shells     int // that take this line: fish asks for values behind = in its own way
	}{
		{`user set`, "set-password set-groups", 3},
		{`-c x.yaml user --realm shop create --gen`, "--generate", 3},
		{`ip export bl`, "blocked", 3},
		{`ip export blocked --format ns`, "", 3},
		{`ip export blocked --format n`, "nft nginx nginx-map", 3},
		{`ip export blocked --format = n`, "nft nginx nginx-map", 1},
		{`completion `, "bash zsh fish", 2}, // zsh's and fish's lines end in an empty word
		{`compl`, "completion", 3},
	} {
		for _, s := range shells[:one.shells] {
			line := one.line
			if s.shell != "fish" && strings.HasSuffix(line, " ") {
				line += `""`
			}
			cmd := exec.Command(s.shell, "-c", s.script)
			cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LINE="+line, "HOME="+bin)
			out, err := cmd.CombinedOutput()
			if got := strings.Join(strings.Fields(string(out)), " "); !sameWords(got, one.want) {
				t.Errorf("%s: %s: %q, want %q (%v)", s.shell, one.line, got, one.want, err)
			}
		}
	}
}

func sameWords(a, b string) bool {
	count := map[string]int{}
	for _, word := range strings.Fields(a) {
		count[word]++
	}
	for _, word := range strings.Fields(b) {
		count[word]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

func TestTheManualPageIsCleanRoff(t *testing.T) {
	t.Parallel()
	page := say(t, exec.Command(product, "manpage"), "")
	for _, check := range [][]string{{"groff", "-man", "-Tutf8", "-ww", "-z"}, {"mandoc", "-T", "lint", "-W", "error"}} {
		cmd := exec.Command(check[0], check[1:]...)
		cmd.Stdin = strings.NewReader(page.out)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v: %v\n%s", check, err, out)
		}
	}
	for _, leaf := range model(t).Leaves(true) {
		if !strings.Contains(page.out, ".SS authguard "+roff(leaf.Summary())) {
			t.Errorf("%s is not in the manual page", leaf.FullPath())
		}
	}
}
