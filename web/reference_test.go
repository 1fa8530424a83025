package web_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"authguard/internal/testing/apitest"
	"authguard/internal/testing/doctest"
)

func TestReference(t *testing.T) {
	t.Parallel()
	document := apitest.Document(t)
	doctest.Generated(t, "docs/reference/http-api.md", func(part string) string {
		switch part {
		case "Decision API":
			return requests(document)
		case "Fields of requests":
			return fields(document, true)
		case "Fields of responses":
			return fields(document, false)
		}
		return ""
	})
}

// requests is the table of all requests with their statuses.
func requests(document *openapi3.T) string {
	rows := [][]string{{"request", "effect", "statuses"}}
	for _, path := range slices.Sorted(maps.Keys(document.Paths.Map())) {
		for method, operation := range document.Paths.Value(path).Operations() {
			statuses := slices.Sorted(maps.Keys(operation.Responses.Map()))
			rows = append(rows, []string{doctest.Code(method + " " + path), operation.Summary + ". " + operation.Description,
				strings.Join(statuses, " ")})
		}
	}
	return doctest.Table(rows...)
}

// fields is the table of all fields of requests or responses. A field that several have is described once.
func fields(document *openapi3.T, sent bool) string {
	f := fieldTable{rows: [][]string{{"field", "kind", "meaning"}}, seen: map[string]bool{}}
	for _, path := range slices.Sorted(maps.Keys(document.Paths.Map())) {
		if f.only = ""; strings.Contains(path, "/events/") {
			f.only = " (events)"
		}
		for _, operation := range document.Paths.Value(path).Operations() {
			if sent && operation.RequestBody != nil {
				f.add("", operation.RequestBody.Value.Content["application/json"].Schema.Value)
			}
			for _, response := range operation.Responses.Map() {
				for name, header := range response.Value.Headers {
					if words := header.Value.Description; !sent && words != "" {
						f.rows = append(f.rows, []string{"header " + doctest.Code(name), "text", words})
					}
				}
				if body := response.Value.Content["application/json"]; !sent && body != nil {
					f.add("", body.Schema.Value)
				}
			}
		}
	}
	return doctest.Table(f.rows...)
}

type fieldTable struct {
	rows [][]string
	seen map[string]bool
	only string // which requests have the field, if the page has another one of its name
}

// add adds the fields of an object, and of the objects in it.
func (f *fieldTable) add(within string, s *openapi3.Schema) {
	for _, one := range s.OneOf {
		f.add(within, one.Value)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		of := s.Properties[name].Value
		kind := among(of)
		if kind == "" && of.Type != nil {
			kind = strings.Join(slices.DeleteFunc(slices.Clone(of.Type.Slice()), func(k string) bool { return k == "null" }), ", ")
		}
		if slices.Contains(s.Required, name) {
			kind += `\*`
		}
		row := []string{doctest.Code(within+name) + f.only, kind, of.Description}
		if id := name + of.Description; !f.seen[id] && of.Description != "" {
			f.seen[id] = true
			f.rows = append(f.rows, row)
		}
		if of.Items != nil {
			f.add(within+name+"[].", of.Items.Value)
		}
		f.add(within+name+".", of)
	}
}

// among are the values that something may have.
func among(s *openapi3.Schema) string {
	all := s.Enum
	if s.Const != nil {
		all = []any{s.Const}
	}
	var words []string
	for _, one := range all {
		words = append(words, fmt.Sprintf("`%v`", one))
	}
	return strings.Join(words, ", ")
}
