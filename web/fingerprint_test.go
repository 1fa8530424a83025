package web_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"authguard/guard"
)

// What a back end sends as password_fingerprint (docs/fingerprints.md).
func Example_fingerprint() {
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(i) // use 32 random bytes
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("correct horse"))
	fmt.Println(hex.EncodeToString(mac.Sum(nil)))
	// Output: e864df1a8a6cf2551c64c7a3484bfe6e157345fa1856b162659a6c7f2b6f090e
}

func TestTheFingerprintOfTheDocsIsThatOfTheExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/fingerprints.md")
	if err != nil || !strings.Contains(string(text), "e864df1a8a6cf2551c64c7a3484bfe6e157345fa1856b162659a6c7f2b6f090e") {
		t.Error("docs/fingerprints.md has another fingerprint", err)
	}
}

// Through the decision API: a repeat counts once, and of a sprayed password the
// back end is told before it looks and when it settles.
func TestR28TheDecisionAPIRecognisesPasswordsByFingerprint(t *testing.T) {
	t.Parallel()
	b := newBackEnd(t)
	try := func(account, address, fingerprint, outcome string) (suffices bool, status int) {
		t.Helper()
		var out struct {
			Decision, Ticket string
			PasswordSuffices *bool `json:"password_suffices"`
		}
		b.post(t, "/v1/attempts", map[string]string{"account": account, "address": address, "password_fingerprint": fingerprint}, &out)
		if out.Decision != "proceed" || out.PasswordSuffices == nil {
			t.Fatalf("answered %q, %v", out.Decision, out.PasswordSuffices)
		}
		defer b.Clock.Advance(time.Minute)
		return *out.PasswordSuffices, b.post(t, "/v1/attempts/settle", map[string]string{"ticket": out.Ticket, "outcome": outcome}, nil)
	}
	for range 20 {
		try("alice", "192.0.2.1", "stale", "failed")
	}
	for i := range 10 {
		if suffices, _ := try(fmt.Sprint("victim", i), fmt.Sprintf("198.51.%d.1", i), "common", "failed"); !suffices {
			t.Fatalf("account %d: recognised too early", i)
		}
	}
	if suffices, status := try("bob", "203.0.113.1", "common", "succeeded"); suffices || status != http.StatusForbidden {
		t.Errorf("suffices %v, settled with %d; want false and 403", suffices, status)
	}
	if suffices, status := try("bob", "203.0.113.1", "his own", "succeeded"); !suffices || status != http.StatusNoContent {
		t.Errorf("suffices %v, settled with %d; want true and 204", suffices, status)
	}
	events := b.Events()
	if last := events[len(events)-2]; last.Outcome != guard.Insufficient {
		t.Errorf("the event says %v", last.Outcome)
	}
}
