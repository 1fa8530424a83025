package web_test

//go:generate env GENERATE=1 go test -count=1 -run ^TestTheAPIsPageIsMadeFromItsDocument$ .

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"authguard/internal/testing/apitest"
)

// apiPage is the page of the API. What stands below the mark is made from its document.
const (
	apiPage = "../docs/reference/http-api.md"
	mark    = "<!-- made from web/openapi.json by `go generate ./web`; do not edit below -->\n"
)

func TestTheAPIsPageIsMadeFromItsDocument(t *testing.T) {
	t.Parallel()
	before, err := os.ReadFile(apiPage)
	if err != nil {
		t.Fatal(err)
	}
	written, _, found := strings.Cut(string(before), mark)
	page := written + mark + reference(apitest.Document(t))
	switch {
	case !found:
		t.Fatalf("%s has no line %s", apiPage, mark)
	case page == string(before):
	case os.Getenv("GENERATE") == "":
		t.Errorf("%s is stale: go generate ./web", apiPage)
	default:
		if err := os.WriteFile(apiPage, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// reference is the part of the page that is made.
func reference(doc *openapi3.T) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Reference\n\nThis reference is also available as OpenAPI 3.1: `GET /v1/openapi.json`, without a token. %s\n", doc.Info.Description)
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		for method, operation := range doc.Paths.Value(path).Operations() {
			fmt.Fprintf(&b, "\n### %s %s\n\n%s\n", method, path, strings.TrimSpace("**"+operation.Summary+".** "+operation.Description))
			if body := operation.RequestBody; body != nil {
				b.WriteString("\n" + body.Value.Description + "\n\n| field | type or values | description |\n|---|---|---|\n")
				fields(&b, "", body.Value.Content["application/json"].Schema.Value, true)
			}
			answers(&b, operation)
		}
	}
	return b.String()
}

// answers are the statuses of an operation, and the fields of what is no problem.
func answers(b *strings.Builder, operation *openapi3.Operation) {
	b.WriteString("\n| status | `type` | when |\n|---|---|---|\n")
	var good *openapi3.Schema
	for _, status := range slices.Sorted(maps.Keys(operation.Responses.Map())) {
		response, kinds := operation.Responses.Value(status).Value, ""
		if problem := response.Content["application/problem+json"]; problem != nil {
			kind := problem.Schema.Value.AllOf[1].Value.Properties["type"].Value
			kinds = among(kind)
		} else if body := response.Content["application/json"]; body != nil {
			good = body.Schema.Value
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", status, kinds, *response.Description)
		for _, name := range slices.Sorted(maps.Keys(response.Headers)) {
			if words := response.Headers[name].Value.Description; words != "" {
				fmt.Fprintf(b, "| | header `%s` | %s |\n", name, words)
			}
		}
	}
	if good == nil || len(good.Properties)+len(good.OneOf) == 0 {
		return
	}
	b.WriteString("\n| response field | type or values | description |\n|---|---|---|\n")
	if len(good.OneOf) == 0 {
		fields(b, "", good, false)
	}
	for _, one := range good.OneOf {
		of := one.Value.Properties["decision"].Value
		fmt.Fprintf(b, "| `decision` | %s | %s |\n", among(of), of.Description)
		fields(b, "", one.Value, false, "decision")
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

// fields are the rows of an object, and of the objects in it.
func fields(b *strings.Builder, within string, s *openapi3.Schema, asked bool, but ...string) {
	required := func(name string) int { return slices.Index(append(slices.Clone(s.Required), name), name) }
	for _, name := range slices.SortedFunc(maps.Keys(s.Properties), func(one, other string) int {
		if d := required(one) - required(other); d != 0 {
			return d
		}
		return strings.Compare(one, other)
	}) {
		if slices.Contains(but, name) {
			continue
		}
		of := s.Properties[name].Value
		kind := among(of)
		if kind == "" && of.Type != nil {
			kind = strings.Join(slices.DeleteFunc(slices.Clone(of.Type.Slice()), func(k string) bool { return k == "null" }), ", ")
		}
		if slices.Contains(s.Required, name) {
			if asked {
				kind += ", required"
			}
		} else if !asked {
			kind += ", or absent"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", within+name, kind, of.Description)
		if of.Items != nil && of.Items.Value.Properties != nil {
			fields(b, within+name+"[].", of.Items.Value, asked)
		}
		fields(b, within+name+".", of, asked)
	}
}
