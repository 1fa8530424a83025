package alerts

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authguard/internal/testing/doctest"
)

func TestReference(t *testing.T) {
	t.Parallel()
	doctest.Generated(t, "docs/reference/alerts.md", func(string) string {
		rows := [][]string{{"kind", "when", "what to do", "runbook"}}
		for _, k := range meanings {
			urgent := map[bool]string{true: `\*`}[k.urgent]
			runbook := ""
			if k.runbook != "" {
				runbook = "[" + k.runbook + "](../runbooks/" + k.runbook + ".md)"
			}
			rows = append(rows, []string{doctest.Code(string(k.kind)) + urgent, k.when, k.todo, runbook})
		}
		return doctest.Table(rows...)
	})
}

func TestEveryKindHasAMeaning(t *testing.T) {
	t.Parallel()
	inCode, root := []Kind{"unconfigured-proxy", "proxy-names-no-client"}, os.DirFS(doctest.Root(t))
	pattern := regexp.MustCompile(`\b(?:alerts\.)?Kind += "([a-z-]+)"`)
	for _, folder := range []string{"cmd", "internal"} {
		err := fs.WalkDir(root, folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := fs.ReadFile(root, path)
			for _, m := range pattern.FindAllStringSubmatch(string(text), -1) {
				if path == "internal/alerts/kind.go" || strings.HasPrefix(m[0], "alerts.") {
					inCode = append(inCode, Kind(m[1]))
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var described []Kind
	for _, k := range meanings {
		described = append(described, k.kind)
		if k.title == "" || k.when == "" || strings.HasSuffix(k.when+k.todo, ".") {
			t.Errorf("%s: %+v", k.kind, k)
		}
	}
	slices.Sort(inCode)
	slices.Sort(described)
	if !slices.Equal(inCode, described) {
		t.Errorf("in the code: %v\ndescribed: %v", inCode, described)
	}
}
