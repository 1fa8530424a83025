package pages

import (
	"strings"
	"testing"
)

func TestSessionsHaveTheSameNamesAsOnTheAccountPage(t *testing.T) {
	t.Parallel()
	page, err := RenderSecurity(secured())
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	if !strings.Contains(text, "Chrome, Linux") || strings.Contains(text, "Mozilla/5.0") {
		t.Error("the browser is a User-Agent")
	}
	if strings.Contains(text, "<table") {
		t.Error("a table, which is wider than a phone")
	}
}
