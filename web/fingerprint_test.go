package web_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/testing/doctest"
	"authguard/internal/testing/world"
)

// What a back end sends as password_tag (docs/how-to/password-tags.md).
func Example_fingerprint() {
	key, password := make([]byte, 32), "correct horse"
	for i := range key {
		key[i] = byte(i) // use 32 random bytes
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(password))
	fingerprint := hex.EncodeToString(mac.Sum(nil))
	fmt.Println(fingerprint)
	// Output: e864df1a8a6cf2551c64c7a3484bfe6e157345fa1856b162659a6c7f2b6f090e
}

// The document's own code in each language, with its own key and password.
func TestEveryLanguageOfTheDocsMakesTheSameFingerprint(t *testing.T) {
	t.Parallel()
	const key, fingerprint = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "e864df1a8a6cf2551c64c7a3484bfe6e157345fa1856b162659a6c7f2b6f090e"
	// Each is begun with a key and a password, and ends with what it made.
	around := map[string]struct{ program, before, after string }{
		"sh":     {"bash", "openssl() { case $1 in rand) echo " + key + ";; *) command openssl \"$@\";; esac; }; PASSWORD='correct horse'\n", ""},
		"python": {"python3", "key, password = '" + key + "', 'correct horse'\n", "print(fingerprint)"},
		"js":     {"node", "const crypto = require('crypto'), key = '" + key + "', password = 'correct horse'\n", "console.log(fingerprint)"},
		"php":    {"php", "<?php $key = '" + key + "'; $password = 'correct horse';\n", "echo $fingerprint;"},
	}
	for _, b := range doctest.Claimed(t, "docs/how-to/password-tags.md") {
		a, known := around[b.Language]
		if !known {
			t.Errorf("how is %s run?", b.Language)
			continue
		}
		program := exec.Command(a.program)
		program.Dir, program.Stdin = t.TempDir(), strings.NewReader(a.before+b.Text+a.after)
		if out, err := program.CombinedOutput(); strings.TrimSpace(string(out)) != fingerprint {
			t.Errorf("%s (apt-get install php-cli nodejs python3 openssl): %v %s", b.Language, err, out)
		}
	}
	text, err := os.ReadFile("../docs/how-to/password-tags.md")
	if err != nil || !strings.Contains(string(text), "`"+fingerprint+"`") {
		t.Error("docs/how-to/password-tags.md has another fingerprint", err)
	}
}

// Through the decision API: a repeat counts once, and of a sprayed password the
// back end is told before it looks and when it settles.
func TestR28TheDecisionAPIRecognisesPasswordsByFingerprint(t *testing.T) {
	t.Parallel()
	b := newBackEnd(t)
	sprayed, challenged := "", 0
	try := func(account, address, fingerprint, outcome string) (suffices bool, status int) {
		t.Helper()
		type attempt struct {
			Decision, Ticket string
			PasswordSuffices *bool `json:"password_suffices"`
			Challenge        *challenge.Challenge
		}
		var out attempt
		in := map[string]any{"account": account, "address": address, "password_tag": fingerprint}
		b.post(t, "/v1/attempts", in, &out)
		if out.Decision == "challenge" && fingerprint == sprayed {
			in["challenge"] = map[string]string{"id": out.Challenge.ID, "answer": world.Answer}
			out = attempt{}
			b.post(t, "/v1/attempts", in, &out)
			challenged++
		}
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
	sprayed = "common"
	for i := range guard.SprayedPerHour {
		if suffices, status := try(fmt.Sprint("owner", i), fmt.Sprintf("203.0.%d.1", i), "common", "succeeded"); !suffices || status != http.StatusNoContent {
			t.Errorf("owner %d: suffices %v, settled with %d; want true and 204", i, suffices, status)
		}
	}
	if suffices, status := try("bob", "203.0.113.1", "common", "succeeded"); challenged != guard.SprayedPerHour+1 || suffices || status != http.StatusForbidden {
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
