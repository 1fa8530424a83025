package browsertest_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"authguard/internal/testing/browsertest"
)

// Ensure that axe-core is the one that was published, and that it finds what is wrong, past a
// Content-Security-Policy, and also where pages run no scripts once they may.
func TestAxeFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	text, err := browsertest.AxeText()
	if sum := sha256.Sum256([]byte(text)); err != nil || hex.EncodeToString(sum[:]) != "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c" {
		t.Fatalf("another axe-core: %x %v", sum, err)
	}
	tab := browsertest.Open(t)
	page := "data:text/html,<!doctype html><html lang=en><meta http-equiv=Content-Security-Policy content=\"default-src 'none'\"><title>x</title><main><h1>x</h1><img src=x></main>"
	if err := chromedp.Do(tab, browsertest.Scripts(false)); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(tab, chromedp.Navigate(page)); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(tab, browsertest.Scripts(true)); err != nil {
		t.Fatal(err)
	}
	if found, err := browsertest.Axe(tab); err != nil || !strings.HasPrefix(found, "image-alt: ") {
		t.Errorf("%q %v", found, err)
	}
}
