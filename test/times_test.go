package test

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// formats are the files outside of internal/times that format times, with the reason.
var formats = map[string]string{
	"internal/attacks/recorder.go": "the ID of an attack starts with its time",
	"web/admin/audit.go":           "the name of an export contains its time",
}

// TestTimesAreFormattedByOnePackage finds calls of time.Time's methods Format and AppendFormat, by syntax alone: calls
// of any method with these names.
func TestTimesAreFormattedByOnePackage(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	product(t, func(set *token.FileSet, p listed, files []*ast.File) {
		for _, f := range files {
			for _, at := range formatted(f) {
				file := p.name() + "/" + filepath.Base(set.Position(at).Filename)
				if found[file] = true; formats[file] == "" && p.name() != "internal/times" {
					t.Errorf("%s: use internal/times", set.Position(at))
				}
			}
		}
	})
	for file := range formats {
		if !found[file] {
			t.Errorf("%s formats no time: remove it from the list", file)
		}
	}
	for path := range files(t) {
		if text, _ := os.ReadFile(path); filepath.Ext(path) == ".html" && strings.Contains(string(text), `.Format "`) {
			t.Errorf("%s: use the functions of internal/times", path)
		}
	}
}

func formatted(f *ast.File) (all []token.Pos) {
	imports := importsOf(f)
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			method, ok := call.Fun.(*ast.SelectorExpr)
			if ok && (method.Sel.Name == "Format" || method.Sel.Name == "AppendFormat") {
				if of, ok := method.X.(*ast.Ident); !ok || of.Obj != nil || !imports[of.Name] {
					all = append(all, method.Sel.Pos())
				}
			}
		}
		return true
	})
	return all
}
