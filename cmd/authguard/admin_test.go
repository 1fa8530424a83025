package main

import (
	"strings"
	"testing"
)

// The commands do what the page Administrators does, on a real server.
func TestAdministratorsAreChangedByCommand(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet, "admin")
	if text := s.must("admin", "add", "eve", "--reason", "on call"); !strings.Contains(text, `"eve" is an administrator. Temporary password`) {
		t.Error(text)
	}
	s.fails("eve is already an administrator", "admin", "add", "eve", "--reason", "again")
	if text := s.must("admin", "list"); !strings.Contains(text, `"admin"`) || !strings.Contains(text, `"eve"`) {
		t.Error(text)
	}
	if text := s.must("admin", "reset-password", "eve", "--reason", "lost it"); !strings.Contains(text, "shown once: ") {
		t.Error(text)
	}
	s.must("admin", "sign-out", "eve", "--reason", "lost a phone")
	s.must("admin", "remove", "eve", "--reason", "left")
	if text := s.must("admin", "list"); strings.Contains(text, `"eve"`) {
		t.Error(text)
	}
	for _, why := range []string{"on call", "lost it", "lost a phone", "left"} {
		if !strings.Contains(s.must("audit", "--kind", "admin", "--format", "jsonl"), why) {
			t.Errorf("%q is not on record", why)
		}
	}
	s.fails("--reason", "admin", "remove", "admin")
}
