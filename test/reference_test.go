package test

import (
	"io/fs"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"authguard/internal/testing/doctest"
)

var (
	problemPattern = regexp.MustCompile(
		`Problem\{\s*Type: (?:web\.)?("[\w-]+"|\w+),\s+Title: "([^"]+)",\s+Status: http\.Status(\w+)`)
	refusedPattern  = regexp.MustCompile(`Refused\{(?:Type: )?("[\w-]+"|\w+), (?:Title: )?"([^"]+)"`)
	constantPattern = regexp.MustCompile(`(?m)^(?:const |\t)(\w+) += ("[a-z-]+")`)
)

// The types of problems are read where the code makes them. Types with a status that varies are in the page's text.
func TestReference(t *testing.T) {
	t.Parallel()
	constants, titles, statuses := map[string]string{}, map[string][]string{}, map[string][]string{}
	add := func(kind, title string, status int) {
		if name, ok := constants[kind]; ok {
			kind = name
		}
		kind = strings.Trim(kind, `"`)
		if !slices.Contains(titles[kind], title) {
			titles[kind] = append(titles[kind], title)
		}
		if code := strconv.Itoa(status); !slices.Contains(statuses[kind], code) {
			statuses[kind] = append(statuses[kind], code)
		}
	}
	texts := sourcesOf(t, "web", "internal")
	for _, text := range texts {
		for _, m := range constantPattern.FindAllStringSubmatch(text, -1) {
			constants[m[1]] = m[2]
		}
	}
	codes := map[string]int{}
	for code := range 600 {
		codes[strings.ReplaceAll(http.StatusText(code), " ", "")] = code
	}
	for _, text := range texts {
		for _, m := range problemPattern.FindAllStringSubmatch(text, -1) {
			add(m[1], m[2], codes[m[3]])
		}
		for _, m := range refusedPattern.FindAllStringSubmatch(text, -1) {
			add(m[1], m[2], http.StatusForbidden)
		}
	}
	doctest.Generated(t, "docs/reference/reasons.md", func(part string) string {
		if part != "Problem types" {
			return ""
		}
		rows := [][]string{{"type", "status", "title"}}
		for _, kind := range slices.Sorted(maps.Keys(titles)) {
			rows = append(rows, []string{doctest.Code(kind), strings.Join(statuses[kind], ", "), strings.Join(titles[kind], "; ")})
		}
		return doctest.Table(rows...)
	})
}

// sourcesOf returns the Go files of the product in some folders, in their order.
func sourcesOf(t *testing.T, folders ...string) (texts []string) {
	t.Helper()
	root := os.DirFS(doctest.Root(t))
	for _, folder := range folders {
		err := fs.WalkDir(root, folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := fs.ReadFile(root, path)
			texts = append(texts, string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

// Every type of problem in OpenAPI is one of the page, whose table is made from the code.
func TestTheProblemTypesOfOpenAPIAreThoseOfThePage(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page, found := read("docs/reference/reasons.md"), 0
	types := regexp.MustCompile(`"type": \{"(?:const|enum)": ("[^"]+"|\[[^\]]+\])`)
	for _, m := range types.FindAllStringSubmatch(read("web/openapi.json"), -1) {
		for _, kind := range regexp.MustCompile(`[a-z][\w:-]+`).FindAllString(m[1], -1) {
			if found++; !strings.Contains(page, doctest.Code(kind)) {
				t.Errorf("OpenAPI has the problem type %s, and docs/reference/reasons.md lacks it", kind)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d problem types", found)
	}
}
