package test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/api as the packages are")

// public are the packages that Go programs import.
var public = []string{
	"guard", "guard/redisguard", "web/mw", "web/client", "captchamode", "captchamode/challenge",
	"captchamode/challenge/image", "captchamode/challenge/pow", "failures", "trusted",
}

// What Go programs compile against goes away on purpose only, and says what it promises.
// What is new breaks nobody, and is written with the rest: go test -run APIOf . -update
func TestAPIOfPublicPackagesBreaksOnPurpose(t *testing.T) {
	t.Parallel()
	for _, name := range public {
		golden := filepath.Join("testdata", "api", strings.ReplaceAll(name, "/", "_")+".txt")
		now := exported(t, name)
		if *update {
			if err := os.WriteFile(golden, []byte(now), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		was, err := os.ReadFile(golden)
		if err != nil {
			t.Error(err)
			continue
		}
		before, after := strings.Split(string(was), "\n"), strings.Split(now, "\n")
		for _, line := range lacking(before, after) {
			t.Errorf("%s: gone: %s (if that is meant: go test -run APIOf . -update, and a line in the changelog)", name, line)
		}
	}
}

// lacking are the lines of one that the other lacks.
func lacking(of, in []string) (lines []string) {
	has := map[string]bool{}
	for _, line := range in {
		has[line] = true
	}
	for _, line := range of {
		if !has[line] {
			lines = append(lines, line)
		}
	}
	return lines
}

// exported is everything that a package exports, without comments and bodies; what has
// no comment is an error.
func exported(t *testing.T, dir string) string {
	t.Helper()
	set := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(set, files, "authguard/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	show := func(name, comment string, node ast.Node) {
		if strings.TrimSpace(comment) == "" {
			t.Errorf("%s: %s has no comment: what does it promise?", dir, name)
		}
		if err := (&printer.Config{Mode: printer.RawFormat}).Fprint(&all, token.NewFileSet(), bare(node)); err != nil {
			t.Fatal(err)
		}
		all.WriteByte('\n')
	}
	values := func(groups []*doc.Value) {
		for _, v := range groups {
			comment := v.Doc
			for _, s := range v.Decl.Specs {
				comment += s.(*ast.ValueSpec).Doc.Text() + s.(*ast.ValueSpec).Comment.Text()
			}
			show(strings.Join(v.Names, ", "), comment, v.Decl)
		}
	}
	funcs := func(of string, list []*doc.Func) {
		for _, f := range list {
			show(of+f.Name, f.Doc, f.Decl)
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs("", p.Funcs)
	for _, one := range p.Types {
		show(one.Name, one.Doc, one.Decl)
		values(one.Consts)
		values(one.Vars)
		funcs("", one.Funcs)
		funcs(one.Name+".", one.Methods)
	}
	return all.String()
}

// bare takes comments and bodies out of a declaration.
func bare(node ast.Node) ast.Node {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			n.Doc, n.Body = nil, nil
		case *ast.GenDecl:
			n.Doc = nil
		case *ast.TypeSpec:
			n.Doc, n.Comment = nil, nil
		case *ast.ValueSpec:
			n.Doc, n.Comment = nil, nil
		case *ast.Field:
			n.Doc, n.Comment = nil, nil
		}
		return true
	})
	return node
}
