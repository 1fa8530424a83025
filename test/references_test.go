package test

import (
	"fmt"
	"io/fs"
	"os"
	pathpkg "path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authguard/internal/testing/doctest"
)

// What a sentence calls a make target or a test is one. What follows -run or -bench is a
// part of a name, and … the rest of one.
func TestReadmeAndDocsNameTargetsAndTestsThatAreThere(t *testing.T) {
	t.Parallel()
	var tests strings.Builder
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, "_test.go") {
			text, failed := os.ReadFile(file)
			tests.Write(text)
			err = failed
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range doctest.All(t) {
		if d.Path == "CHANGELOG.md" {
			continue // what was
		}
		for _, span := range d.Spans {
			at := fmt.Sprintf("%s:%d: `%s`", d.Path, span.Line, span.Text)
			if m := regexp.MustCompile(`^make ([a-z-]+)`).FindStringSubmatch(span.Text); m != nil {
				runsWith(t, at, "Makefile", `(?m)^`+m[1]+`:`)
			}
			if name := testNamed(span.Text); name != "" && !regexp.MustCompile(name).MatchString(tests.String()) {
				t.Errorf("%s: there is no such test", at)
			}
		}
	}
}

// testNamed is the pattern of the test that a piece of code names, "" if it names none.
func testNamed(code string) string {
	if m := regexp.MustCompile(`^go test .*-(?:run|bench) '?(?:Test)?([A-Z]\w+)`).FindStringSubmatch(code); m != nil {
		return `func (?:Test|Fuzz|Benchmark)\w*` + m[1]
	}
	if m := regexp.MustCompile(`^((?:Test|Fuzz|Benchmark)[A-Z]\w+)(…?)$`).FindStringSubmatch(code); m != nil {
		return `func ` + m[1] + map[string]string{"": `\(`}[m[2]]
	}
	return ""
}

// Links within the documents lead to a page and a heading that are there.
func TestTheReadmesAndDocsLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	anchors := map[string][]string{}
	all := doctest.All(t)
	for _, d := range all {
		anchors[d.Path] = d.Anchors
	}
	for _, d := range all {
		for _, link := range d.Links {
			file, anchor, _ := strings.Cut(link.Text, "#")
			if strings.Contains(file, ":") {
				continue
			}
			to := d.Path
			if file != "" {
				to = pathpkg.Join(pathpkg.Dir(d.Path), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s:%d: %s is not there", d.Path, link.Line, link.Text)
			} else if anchor != "" && !slices.Contains(anchors[to], anchor) {
				t.Errorf("%s:%d: %s has no heading %s", d.Path, link.Line, to, anchor)
			}
		}
	}
}
