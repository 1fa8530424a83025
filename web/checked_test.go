package web_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"authguard/guard"
	"authguard/internal/passwords"
	"authguard/internal/testing/world"
)

// leakedList writes a list of one leaked password, and returns its path.
func leakedList(t *testing.T, password string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&passwords.ListBuild{From: []string{file}, Output: file + ".bin"}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return file + ".bin"
}

// A back end looks a hash up, and says that the password is leaked: an unknown client then needs a code.
func TestABackEndChecksForLeakedPasswords(t *testing.T) {
	t.Parallel()
	b := newBackEndOf(t, world.Options{})
	check := func(in map[string]string) (status int, answer struct {
		Leaked *bool
		Type   string
	}) {
		t.Helper()
		return b.post(t, "/v1/passwords/check", in, &answer), answer
	}
	const sha1, ntlm = "5baa61e4c9b93f3f0682250b6cf8331b7ee68fd8", "8846f7eaee8fb117ad06bdd830b7586c"
	if status, answer := check(map[string]string{"sha1": sha1}); status != http.StatusNotFound || answer.Type != "no-password-list" {
		t.Errorf("without a list: %d %+v", status, answer)
	}
	b.leaked.Configure(leakedList(t, "password"), true)
	for hash, want := range map[string]bool{sha1: true, "0000000000000000000000000000000000000000": false} {
		if status, answer := check(map[string]string{"sha1": hash}); status != http.StatusOK || answer.Leaked == nil || *answer.Leaked != want {
			t.Errorf("%s: %d %+v", hash, status, answer)
		}
	}
	for key, hash := range map[string]string{"sha1": ntlm, "ntlm": ntlm} {
		if status, answer := check(map[string]string{key: hash}); status != http.StatusBadRequest || answer.Type != "invalid-request" {
			t.Errorf("%s: %d %+v", key, status, answer)
		}
	}
	for _, said := range []bool{true, false} {
		var d struct {
			Ticket           string
			PasswordSuffices bool `json:"password_suffices"`
		}
		in := map[string]any{"account": "alice", "address": "203.0.113.7", "password_leaked": said, "sends_code": true}
		if status := b.post(t, "/v1/attempts", in, &d); status != http.StatusOK || d.PasswordSuffices == said {
			t.Errorf("leaked %v: %d %+v", said, status, d)
		}
		var settled struct{ Type, Code string }
		out := any(&settled)
		if !said {
			out = nil
		}
		status := b.post(t, "/v1/attempts/settle", map[string]string{"ticket": d.Ticket, "outcome": "succeeded"}, out)
		if (status == http.StatusForbidden && settled.Type == "code-required" && settled.Code != "") != said {
			t.Errorf("leaked %v: %d %+v", said, status, settled)
		}
		events := b.Events()
		if e := events[len(events)-1]; e.Reasons.Has(guard.PasswordLeaked) != said {
			t.Errorf("leaked %v: %v", said, e.Reasons.Codes())
		}
	}
}
