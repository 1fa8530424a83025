// Package doctest reads out of the documents what they tell people to paste, so that
// tests run what is printed and not a copy of it. The file snippets_test.go in the
// root holds every block to that; CONTRIBUTING.md says how. For tests only.
package doctest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// A Document is one Markdown file. Paths are from the repository's root, with slashes.
type Document struct {
	Path    string
	Blocks  []Block
	Spans   []Span // `code` within a sentence
	Links   []Span // where links and pictures lead
	Anchors []string
}

// A Block is a code block, without the indentation of the list that it is in.
type Block struct {
	Doc      string
	Line     int      // of its first line, from 1
	Heading  string   // the nearest above, "" without one
	Language string   // "" without one, and of a block that is only indented
	Text     string   // ends with a new line
	Tests    []string // that it says it is run by: <!-- test: TestName --> above it
}

// A Span is a piece of a line.
type Span struct {
	Line int
	Text string
}

var claim = regexp.MustCompile(`^<!-- test: ((?:(?:Test|Example)\w+ ?)+)-->\s*$`)

// Root is the repository's folder.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		var mod []byte
		if mod, err = os.ReadFile(filepath.Join(dir, "go.mod")); err == nil &&
			bytes.HasPrefix(mod, []byte("module authguard\n")) {
			return dir
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir, err = parent, nil
		}
	}
	t.Fatal("doctest: no go.mod of authguard above this folder")
	return ""
}

// All are the documents for people: those beside the README, and those below the folders that have some.
func All(t testing.TB) (all []*Document) {
	t.Helper()
	root := os.DirFS(Root(t))
	paths, err := fs.Glob(root, "*.md")
	for _, dir := range []string{"docs", "deploy", "test", "bench"} {
		if err == nil {
			err = fs.WalkDir(root, dir, func(path string, _ fs.DirEntry, err error) error {
				if strings.HasSuffix(path, ".md") {
					paths = append(paths, path)
				}
				return err
			})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		all = append(all, Read(t, path))
	}
	return all
}

// Tells reports whether a document names a path of ours, or what follows a folder, with
// what it is asked with if method is not empty: `GET /api/lists`.
func Tells(all []*Document, method, path string) bool {
	if method != "" {
		method += " "
	}
	end := `($|[^\w/-])`
	if strings.HasSuffix(path, "/") {
		end = `\w`
	}
	named := regexp.MustCompile(regexp.QuoteMeta(method+path) + end)
	return slices.ContainsFunc(all, func(d *Document) bool {
		return slices.ContainsFunc(d.Spans, func(s Span) bool { return named.MatchString(s.Text) })
	})
}

// Claimed are the blocks of a document that say they are run by this test: at least one.
func Claimed(t testing.TB, path string) (mine []Block) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	for _, b := range Read(t, path).Blocks {
		if slices.Contains(b.Tests, name) {
			mine = append(mine, b)
		}
	}
	if len(mine) == 0 {
		t.Fatalf("%s has no block with <!-- test: %s --> above it", path, name)
	}
	return mine
}

// Unclaimed are the blocks of a language that name no test, of all documents.
func Unclaimed(t testing.TB, language string) (all []Block) {
	t.Helper()
	for _, d := range All(t) {
		for _, b := range d.Blocks {
			if b.Language == language && len(b.Tests) == 0 {
				all = append(all, b)
			}
		}
	}
	return all
}

// Read reads one document.
func Read(t testing.TB, path string) *Document {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(Root(t), filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	r := reader{source: source, doc: &Document{Path: path}}
	tree := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(source))
	if err := ast.Walk(tree, r.enter); err != nil {
		t.Fatal(err)
	}
	return r.doc
}

type reader struct {
	source  []byte
	doc     *Document
	heading string
	at      int // the offset of what was read last: inline nodes do not know theirs
}

func (r *reader) enter(node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	if node.Type() == ast.TypeBlock && node.Lines().Len() > 0 {
		r.at = node.Lines().At(0).Start
	}
	switch n := node.(type) {
	case *ast.Heading:
		r.heading = r.inline(n)
		r.doc.Anchors = append(r.doc.Anchors, r.anchor())
	case *ast.FencedCodeBlock:
		r.block(n, string(n.Language(r.source)))
	case *ast.CodeBlock:
		r.block(n, "")
	case *ast.Text:
		r.at = n.Segment.Start
	case *ast.CodeSpan:
		r.doc.Spans = append(r.doc.Spans, Span{r.line(), r.inline(n)})
	case *ast.Link:
		r.doc.Links = append(r.doc.Links, Span{r.line(), string(n.Destination)})
	case *ast.Image:
		r.doc.Links = append(r.doc.Links, Span{r.line(), string(n.Destination)})
	}
	return ast.WalkContinue, nil
}

// inline is the text of everything in a node, new lines as spaces.
func (r *reader) inline(node ast.Node) string {
	var all strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if one, ok := n.(*ast.Text); ok && entering {
			r.at = one.Segment.Start
			all.Write(one.Segment.Value(r.source))
			if one.SoftLineBreak() {
				all.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.ReplaceAll(all.String(), "\n", " ")
}

func (r *reader) line() int { return 1 + bytes.Count(r.source[:r.at], []byte("\n")) }

func (r *reader) block(n ast.Node, language string) {
	b := Block{
		Doc:      r.doc.Path,
		Heading:  r.heading,
		Language: language,
		Text:     string(n.Lines().Value(r.source)),
		Line:     r.line(),
	}
	if above, ok := n.PreviousSibling().(*ast.HTMLBlock); ok {
		if named := claim.FindSubmatch(above.Lines().Value(r.source)); named != nil {
			b.Tests = strings.Fields(string(named[1]))
		}
	}
	r.doc.Blocks = append(r.doc.Blocks, b)
}

// anchor is what GitHub makes of the heading, so that links find it.
func (r *reader) anchor() string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case unicode.IsLetter(c), unicode.IsDigit(c), c == '-', c == '_':
			return unicode.ToLower(c)
		}
		return -1
	}, r.heading)
}
