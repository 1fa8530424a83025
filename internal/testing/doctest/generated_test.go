package doctest

import "testing"

// A table has no outer pipes, so an empty cell at a row's end may be missing, but one at its start needs its pipe.
func TestTableKeepsEveryCell(t *testing.T) {
	got := Table([]string{"a", "b", "c"}, []string{"", "x", ""}, []string{"x", "", Escaped("y|z")})
	want := "a | b | c\n---|---|---\n| | x |\nx | | y\\|z\n"
	if got != want {
		t.Errorf("got\n%s, not\n%s", got, want)
	}
}
