package guard

import (
	"cmp"
	"testing"

	"authguard/internal/testing/doctest"
)

func TestReference(t *testing.T) {
	t.Parallel()
	doctest.Generated(t, "docs/reference/reasons.md", func(part string) string {
		if part != "Reason codes" {
			return ""
		}
		rows := [][]string{{"code", "meaning"}}
		for _, one := range causes {
			rows = append(rows, []string{doctest.Code(one.code), cmp.Or(one.words, "a limit of the subject is reached")})
		}
		return doctest.Table(rows...)
	})
}
