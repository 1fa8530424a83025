// Package test holds tests of the whole tree.
package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// private are words that this product used for things that have a name in the field. Those
// that have another sense as well are left to readers.
var private = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(no|some|every)body\b`),
	regexp.MustCompile(`(?i)\bwhoever\b`),
	regexp.MustCompile(`(?i)\bstrangers?\b`),
	regexp.MustCompile(`(?i)\b(known|privileged|new) places?\b`),
	regexp.MustCompile(`(?i)\bone-time (code|password)s?\b`),
	regexp.MustCompile(`(?i)\b(rung|ladder)s?\b`),
	regexp.MustCompile(`(?i)\b(is|are|was|were|be|been) told\b`),
	regexp.MustCompile(`(?i)\bforgotten prox(y|ies)\b`),
	regexp.MustCompile(`(?i)\bsecond factors?\b`),
	regexp.MustCompile(`(?i)\bbegins? anew\b`),
	regexp.MustCompile(`(?i)\bonly watch(es|ed)?\b`),
	regexp.MustCompile(`(?i)\bthe doors?\b`),
	regexp.MustCompile(`(?i)\bprivileged pairs?\b`),
	regexp.MustCompile(`(?i)\be-mails?\b`),
	regexp.MustCompile(`(?i)\bcolours?\b`),
	regexp.MustCompile(`(?i)\brecognis`),
	regexp.MustCompile(`(?i)\bnormalis`),
	regexp.MustCompile(`(?i)\bclients? that look alike\b`),
}

// TestTextsSpeakTheFieldsLanguage reads what users read: the documents, the pages' texts and
// templates, and every text of more than one word in the programs.
func TestTextsSpeakTheFieldsLanguage(t *testing.T) {
	t.Parallel()
	for path := range files(t) {
		for where, text := range texts(t, path) {
			for _, word := range private {
				if found := word.FindString(names.ReplaceAllString(text, " ")); found != "" {
					t.Errorf("%s:%d: %q: %.120s", path, where, found, strings.TrimSpace(text))
				}
			}
		}
	}
}

// names are in use by programs: a key is derived with this one.
var names = regexp.MustCompile(`^authguard second factors`)

// unread are documents that are records, and what others wrote.
var unread = regexp.MustCompile(`^(bench/|dist/|\.git/)|test/|/readrate/`)

// files are the paths of what users read, from the root of the tree.
func files(t *testing.T) func(yield func(string) bool) {
	t.Helper()
	root := os.DirFS(".")
	var all []string
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "testdata"):
			return errorOr(err, fs.SkipDir)
		case unread.MatchString(path) || strings.HasSuffix(path, "_test.go"):
		case slices.Contains([]string{".go", ".md", ".html"}, filepath.Ext(path)),
			strings.HasPrefix(path, "deploy/"), path == "web/texts/en.yaml", path == "web/openapi.json":
			if !d.IsDir() {
				all = append(all, path)
			}
		}
		return nil
	})
	if err != nil || len(all) < 100 {
		t.Fatalf("%d files: %v", len(all), err)
	}
	return slices.Values(all)
}

func errorOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// texts are the texts of a file by their lines.
func texts(t *testing.T, path string) map[int]string {
	t.Helper()
	if filepath.Ext(path) == ".go" {
		return literals(t, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[int]string{}
	for i, line := range strings.Split(string(b), "\n") {
		all[i+1] = unseen.ReplaceAllString(line, " ")
	}
	return all
}

// unseen is where a link leads, a template's action or tag, and the key of a text.
var unseen = regexp.MustCompile(`\]\([^)]*\)|\{\{[^}]*\}\}|<[a-z/][^>]*>|^[a-z-]+(\.[a-z-]+)+:`)

var sql = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE) `)

// literals are the strings and struct tags in a Go file that have a space in them.
func literals(t *testing.T, path string) map[int]string {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[int]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		l, ok := n.(*ast.BasicLit)
		if !ok || l.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(l.Value); err == nil && strings.Contains(text, " ") && !sql.MatchString(text) {
			all[set.Position(l.Pos()).Line] += text + " "
		}
		return true
	})
	return all
}
