package main

import (
	"os/exec"
	"strings"
	"testing"

	"authguard/internal/doctest"
)

func TestTheDocsCommandsRun(t *testing.T) {
	t.Parallel()
	for _, b := range doctest.Unclaimed(t, "sh") {
		check := exec.Command("bash", "-n")
		check.Stdin = strings.NewReader(b.Text)
		if said := say(t, check, b.Text); said.status != 0 {
			t.Errorf("%s:%d: %+v", b.Doc, b.Line, said)
		}
	}
}
