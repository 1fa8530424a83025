package admin

import (
	"cmp"
	"reflect"
	"strings"
	"testing"

	"authguard/internal/testing/doctest"
)

func TestReference(t *testing.T) {
	t.Parallel()
	doctest.Generated(t, "docs/reference/http-api.md", func(part string) string {
		if part != "Admin API" {
			return ""
		}
		rows := [][]string{{"request", "scope", "fields", "effect"}}
		a := &API{}
		for _, i := range a.inquiries() {
			rows = append(rows, row(i.route, string(i.scope), i.query, i.about))
		}
		for _, o := range a.operations() {
			if o.Route == "" {
				continue
			}
			var fields []string
			for _, f := range fieldsOf(reflect.ValueOf(o.Request()).Elem()) {
				if !f.inPath(o.Route) {
					fields = append(fields, f.name)
				}
			}
			rows = append(rows, row(o.Route, string(o.Scope), strings.Join(fields, " "), cmp.Or(o.Did, o.Name)))
		}
		return doctest.Table(rows...)
	})
}

func row(route, scope, fields, effect string) []string {
	return []string{doctest.Code(strings.Replace(route, " ", " /api", 1)), scope, doctest.Code(strings.TrimSpace(fields)), effect}
}
