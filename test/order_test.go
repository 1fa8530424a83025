package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authguard/internal/testing/doctest"
)

// TestGuardsFilesUseOnlyEarlierOnes reads the files of package guard in the order of CONTRIBUTING.md. Fields and methods
// are not checked: they belong to types, which are.
func TestGuardsFilesUseOnlyEarlierOnes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(doctest.Root(t), "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "**The files of `guard`**")
	list, _, _ = strings.Cut(list, "\n\n")
	var order []string
	for _, m := range regexp.MustCompile("`([a-z]+\\.go)`").FindAllStringSubmatch(list, -1) {
		order = append(order, m[1])
	}
	all, _ := filepath.Glob(filepath.Join(doctest.Root(t), "guard/*.go"))
	all = slices.DeleteFunc(all, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	if len(order) != len(all) {
		t.Errorf("CONTRIBUTING.md lists %d files of guard, there are %d", len(order), len(all))
	}
	declared := map[string]int{}
	var files []*ast.File
	for i, name := range order {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(doctest.Root(t), "guard", name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		for name := range file.Scope.Objects {
			declared[name] = i
		}
	}
	for i, file := range files {
		for _, use := range file.Unresolved { // names of other files, receivers included
			if at, ok := declared[use.Name]; ok && at > i {
				t.Errorf("%s uses %s of %s, which comes later", order[i], use.Name, order[at])
			}
		}
	}
}
