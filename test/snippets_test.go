package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	pathpkg "path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"authguard/internal/testing/doctest"
)

// runs is the test that runs every block of a language that names no test of its own.
// Text is what somebody sees, and nothing to paste.
var runs = map[string]string{
	"console": "TestTheDocsCommandsRun",
	"js":      "TestTheDocsCodeIsThatOfItsLanguage",
	"json":    "TestTheDocsCodeIsThatOfItsLanguage",
	"php":     "TestTheDocsCodeIsThatOfItsLanguage",
	"python":  "TestTheDocsCodeIsThatOfItsLanguage",
	"sh":      "TestTheDocsCommandsRun",
	"text":    "TestTextInTheDocsIsNothingToPaste",
	"yaml":    "TestTheDocsConfigurationsLoad",
}

// placeholder is an … outside of a comment: no program takes it.
var placeholder = regexp.MustCompile(`(?m)^[^#\n]*?…`)

// Whatever a document gives people to paste is read out of it and run by a test.
func TestReadmeAndDocsHoldNothingThatNobodyRuns(t *testing.T) {
	t.Parallel()
	tests := testsHere(t)
	for language, test := range runs {
		if tests.dirs[test] == "" {
			t.Errorf("%s, which runs %s, is not there", test, language)
		}
	}
	for _, d := range doctest.All(t) {
		claims := 0
		for _, b := range d.Blocks {
			if problem := unrun(t, tests, b); problem != "" {
				t.Errorf("%s:%d: %s", b.Doc, b.Line, problem)
			}
			claims += min(1, len(b.Tests))
		}
		source, err := os.ReadFile(d.Path)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(regexp.MustCompile(`(?m)^\s*<!-- test:`).FindAll(source, -1)); n != claims {
			t.Errorf("%s: %d comments name tests, %d stand right above a block", d.Path, n, claims)
		}
	}
}

// unrun is what is wrong with a block, "" if a test runs it as it is.
func unrun(t *testing.T, tests testTree, b doctest.Block) string {
	t.Helper()
	shown := b.Language == "text" || b.Language == "console" || b.Language == "json"
	switch {
	case b.Language == "":
		return "a block without a language: put ``` and its name around it"
	case len(b.Tests) == 0 && runs[b.Language] == "":
		return "nobody runs this " + b.Language + ": write a test and <!-- test: TestName --> above the block"
	case !shown && placeholder.MatchString(b.Text):
		return "what the reader puts in is in capitals, and no …"
	}
	for _, name := range b.Tests {
		if dir := tests.dirs[name]; dir == "" {
			return "there is no " + name
		} else if !tests.reads(t, name, b.Doc) {
			return name + " in " + dir + " does not read " + b.Doc
		}
	}
	return ""
}

// A testTree is every test and example of the module, whatever its build tag.
type testTree struct {
	dirs   map[string]string                // of each test
	bodies map[string]map[string][]ast.Node // of each folder's functions, once somebody asked
}

func testsHere(t *testing.T) testTree {
	t.Helper()
	found, name := map[string]string{}, regexp.MustCompile(`(?m)^func ((?:Test|Example)\w+)\(`)
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && slices.Contains([]string{"bench", ".git"}, file) {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, match := range name.FindAllSubmatch(text, -1) {
			found[string(match[1])] = pathpkg.Dir(file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return testTree{found, map[string]map[string][]ast.Node{}}
}

// reads tells whether a test, or what it calls in its own package, reads by doctest,
// and has a document's path written in it, or that of its folder.
func (tests testTree) reads(t *testing.T, test, doc string) bool {
	t.Helper()
	bodies := tests.parsed(t, tests.dirs[test])
	seen, found, reads := map[string]bool{}, false, false
	var look func(name string)
	look = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		for _, body := range bodies[name] {
			ast.Inspect(body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					reads = reads || n.Name == "doctest"
					look(n.Name)
				case *ast.BasicLit:
					found = found || n.Value == `"`+doc+`"` || n.Value == `"`+pathpkg.Dir(doc)+`/"`
				}
				return true
			})
		}
	}
	look(test)
	return found && reads
}

func (tests testTree) parsed(t *testing.T, dir string) map[string][]ast.Node {
	t.Helper()
	if known := tests.bodies[dir]; known != nil {
		return known
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string][]ast.Node{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if one, ok := d.(*ast.FuncDecl); ok {
				bodies[one.Name.Name] = append(bodies[one.Name.Name], one)
			}
		}
	}
	tests.bodies[dir] = bodies
	return bodies
}

// What takes minutes and rivals' code to run is there, flags and all.
func TestTheDocsGoRunsAreThere(t *testing.T) {
	t.Parallel()
	const doc = "docs/contributing/benchmarks.md"
	dir := "."
	for line := range strings.Lines(doctest.Claimed(t, doc)[0].Text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		switch {
		case words[0] == "cd":
			dir = words[1]
		case words[0] == "make":
			runsWith(t, line, "Makefile", `(?m)^`+words[1]+`:`)
		case words[0] == "go" && words[1] == "run":
			for _, flag := range words[3:] {
				if name, ok := strings.CutPrefix(flag, "-"); ok {
					runsWith(t, line, pathpkg.Join(dir, words[2], "*.go"), `flag\.\w+\("`+name+`"`)
				}
			}
		case words[0] == "go" && words[1] == "test":
			at := slices.Index(words, "-bench") + 1
			for part := range strings.SplitSeq(strings.Trim(words[at], "/'$"), "/") {
				if _, err := strconv.Atoi(part); err != nil {
					runsWith(t, line, pathpkg.Join(dir, "*.go"), `"[^"\n]*`+part+`\b`)
				}
			}
		default:
			t.Errorf("%s: how is %q looked at?", doc, line)
		}
	}
}

// runsWith tells of a command that needs something which none of these files has.
func runsWith(t *testing.T, command, files, pattern string) {
	t.Helper()
	names, err := filepath.Glob(files)
	for _, name := range names {
		if text, _ := os.ReadFile(name); regexp.MustCompile(pattern).Match(text) {
			return
		}
	}
	t.Errorf("%s: nothing in %s is %s (%v)", command, files, pattern, err)
}

func TestTextInTheDocsIsNothingToPaste(t *testing.T) {
	t.Parallel()
	command := regexp.MustCompile(`(?m)^(?:[$#>] |(?:sudo |bin/|\./)*(?:apt|apt-get|authguard|cd|cp|curl|docker|dpkg|gh|git|go|jq|make|nginx|node|npm|openssl|php|pip|psql|python3?|redis-cli|sqlite3|ssh|systemctl|wget) )`)
	for _, d := range doctest.All(t) {
		for _, b := range d.Blocks {
			if found := command.FindString(b.Text); b.Language == "text" && len(b.Tests) == 0 && found != "" {
				t.Errorf("%s:%d: %q is a command: sh, or console with what it answers", b.Doc, b.Line, found)
			}
		}
	}
}

// A line for somebody's own code, which no test of ours can run, is compiled.
func TestTheDocsCodeIsThatOfItsLanguage(t *testing.T) {
	t.Parallel()
	for language, check := range map[string][]string{
		"js":     {"node", "--check", "-"},
		"json":   {"jq", "empty"},
		"php":    {"sh", "-c", "(echo '<?php'; cat) | php -l"},
		"python": {"python3", "-c", "import ast, sys; ast.parse(sys.stdin.read())"},
	} {
		for _, b := range doctest.Unclaimed(t, language) {
			compiler := exec.Command(check[0], check[1:]...)
			compiler.Stdin = strings.NewReader(strings.TrimPrefix(b.Text, "<?php"))
			if out, err := compiler.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v %s", b.Doc, b.Line, err, out)
			}
		}
	}
}
