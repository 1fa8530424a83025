package test

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// A reader finds everything that a server consists of in three files: the others of cmd/authguard are commands.
func TestThreeFilesWireAServer(t *testing.T) {
	t.Parallel()
	wiring := []string{"serve.go", "site.go", "realm.go"}
	types := []string{"site", "realm", "listeners", "storage", "watch", "counting", "mode", "people", "administration"}
	product(t, func(set *token.FileSet, p listed, files []*ast.File) {
		if p.name() != "cmd/authguard" {
			return
		}
		methods := 0
		for _, f := range files {
			for _, d := range f.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Recv == nil {
					continue
				}
				of := f.Recv.List[0].Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				if name, ok := of.(*ast.Ident); !ok || !slices.Contains(types, name.Name) {
					continue
				}
				methods++
				if at := set.Position(f.Pos()); !slices.Contains(wiring, filepath.Base(at.Filename)) {
					t.Errorf("%s: the method %s belongs in one of %v", at, f.Name, wiring)
				}
			}
		}
		if methods == 0 {
			t.Error("no methods: have the types other names?")
		}
	})
}
