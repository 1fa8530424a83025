package test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// product calls do with every package that the product consists of, parsed.
func product(t *testing.T, do func(*token.FileSet, listed, []*ast.File)) {
	t.Helper()
	for _, p := range packages(t) {
		if p.excluded() {
			continue
		}
		set := token.NewFileSet()
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		do(set, p, files)
	}
}

func TestScriptsAreFiles(t *testing.T) {
	t.Parallel()
	product(t, func(set *token.FileSet, _ listed, files []*ast.File) {
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING &&
					(strings.Contains(text.Value, "redis.call") || strings.Contains(text.Value, "redis.pcall")) {
					t.Errorf("%s: Lua in a Go string: a script is a .lua file", set.Position(n.Pos()))
				}
				return true
			})
		}
	})
}

func TestNoPackageHasStateOfItsOwn(t *testing.T) {
	t.Parallel()
	product(t, func(set *token.FileSet, p listed, files []*ast.File) {
		s := stateful{variables: map[string]bool{}, specs: map[any]bool{}}
		for _, f := range files {
			s.declared(f)
		}
		for _, f := range files {
			s.written(f)
		}
		for _, one := range s.found {
			t.Errorf("%s: %s", set.Position(one.at), one.what)
		}
	})
}

// A stateful finds package-level variables that change, by syntax alone: a
// variable that is assigned, incremented, cleared or has its address taken in a
// function, or whose value is made to change, such as a lock or a channel.
// Variables of other packages must not be assigned either. What it cannot see
// is a method that changes its receiver.
type stateful struct {
	variables map[string]bool // by name, in all files of the package
	specs     map[any]bool    // their declarations
	imports   map[string]bool // names of the packages that this file imports
	found     []finding
}

type finding struct {
	at   token.Pos
	what string
}

func (s *stateful) declared(f *ast.File) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			s.specs[v] = true
			for _, name := range v.Names {
				s.variables[name.Name] = name.Name != "_"
			}
			s.made(v)
		}
	}
}

// made finds what is made to change: sync.Pool, atomic.Int64, make(chan int).
func (s *stateful) made(v *ast.ValueSpec) {
	ast.Inspect(v, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && (x.Name == "sync" || x.Name == "atomic") &&
				n.Sel.Name != "OnceValue" { // a constant that is computed when it is needed
				s.note(n, "a package-level %s.%s", x.Name, n.Sel.Name)
			}
		case *ast.CallExpr:
			if x, ok := n.Fun.(*ast.Ident); ok && (x.Name == "make" || x.Name == "new") {
				s.note(n, "a package-level variable made by %s", x.Name)
			}
		}
		return true
	})
}

// importsOf returns the names of the packages that a file imports.
func importsOf(f *ast.File) map[string]bool {
	all := map[string]bool{}
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		all[filepath.Base(path)] = true
		if i.Name != nil {
			all[i.Name.Name] = true
		}
	}
	return all
}

func (s *stateful) written(f *ast.File) {
	s.imports = importsOf(f)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				s.write(left, "assigned")
			}
		case *ast.IncDecStmt:
			s.write(n.X, "incremented")
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				s.write(n.X, "has its address taken")
			}
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				s.write(n.Key, "assigned")
				s.write(n.Value, "assigned")
			}
		case *ast.CallExpr:
			if x, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 && slices.Contains([]string{"delete", "clear", "copy"}, x.Name) {
				s.write(n.Args[0], "changed by "+x.Name)
			}
		}
		return true
	})
}

// write notes a write to an expression that begins with a variable of a
// package.
func (s *stateful) write(e ast.Expr, how string) {
	var field string
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.SelectorExpr:
			e, field = x.X, x.Sel.Name
		case *ast.Ident:
			switch {
			case x.Name != "_" && x.Obj == nil && s.imports[x.Name] && !s.variables[x.Name]:
				s.note(x, "%s.%s, of another package, is %s", x.Name, field, how)
			case x.Obj == nil && s.variables[x.Name], x.Obj != nil && s.specs[x.Obj.Decl]:
				s.note(x, "the package-level variable %s is %s", x.Name, how)
			}
			return
		default:
			return
		}
	}
}

func (s *stateful) note(n ast.Node, what string, args ...any) {
	s.found = append(s.found, finding{n.Pos(), fmt.Sprintf(what, args...)})
}

func TestWhatPackageStateLooksLikeIsFound(t *testing.T) {
	t.Parallel()
	const source = `package p
import ("sync"; "net/http")
var ( a int; b = map[string]int{}; c struct{ d int }; e = []int{1}; fine = []string{"x"}; pool = sync.Pool{}; wires = make(chan int) )
func f(local int) { a = 1; a++; b["x"] = 2; c.d = 3; g(&c); delete(b, "x"); clear(e); http.DefaultClient = nil; for a = range e {} }
func g(any) { a := 1; a = 2; local := fine; local[0] = "y"; _ = local; a++; _ = &http.Server{} }
`
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := stateful{variables: map[string]bool{}, specs: map[any]bool{}}
	s.declared(f)
	s.written(f)
	for _, one := range s.found {
		t.Log(set.Position(one.at), one.what)
	}
	if len(s.found) != 11 {
		t.Errorf("%d findings, want 11", len(s.found))
	}
}
