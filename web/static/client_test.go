package static

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"authguard/web/texts"
)

// Every text that client.js names is served with it, in every language.
func TestTheScriptHasItsTexts(t *testing.T) {
	t.Parallel()
	script, err := client(texts.Standard())
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^  const texts = (\{.*\});`).FindSubmatch(script)
	if found == nil {
		t.Fatal("the gap for the texts is not filled")
	}
	var by map[string]map[string]any
	if err := json.Unmarshal(found[1], &by); err != nil {
		t.Fatal(err)
	}
	for _, language := range texts.Standard().All() {
		for _, key := range append([]string{"lang", "dir", "work"}, clientTexts...) {
			if by[language.Tag()][key] == nil {
				t.Errorf("%s lacks %s", language.Tag(), key)
			}
		}
	}
	for _, m := range regexp.MustCompile(`t\["([a-z.-]+)"\]`).FindAllSubmatch(script, -1) {
		if by["en"][string(m[1])] == nil {
			t.Errorf("the script names %s, which is not served", m[1])
		}
	}
	for _, said := range []string{"required", "failed", "slow"} {
		if by["en"]["message."+said+".title"] == nil || by["en"]["gate."+said] == nil {
			t.Errorf("no words for %s", said)
		}
	}
	if !bytes.Contains(script, []byte("data-pow")) {
		t.Error("pow.js is missing")
	}
}
