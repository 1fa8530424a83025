package pow_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/pow"
	"authguard/internal/testing/browsertest"
	"authguard/internal/testing/redistest"
)

const policy = "default-src 'none'; script-src 'self'; form-action 'self'"

// page serves a login form with one task in it, under the policy of the real
// pages, and tells what was sent.
func page(t *testing.T, task, more string) (url string, sent <-chan http.Header) {
	t.Helper()
	answers := make(chan http.Header, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pow.js", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, "../../../web/static/pow.js")
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		fmt.Fprintf(w, `<!doctype html><script defer src="/pow.js"></script>
<form method="post"><input type="hidden" name="captcha_id" value="x">
<input name="code"><div data-image-part><input id="typed" name="captcha_answer" required></div>
<div data-pow="%s"%s data-texts='{"doing":"Working.","part":"{n} %% of the work is done.","long":"It takes {n} minutes.","held":"Held.","done":"The work is done.","digits":"The work is done. The digits are needed.","failed":"It failed."}' data-meanwhile="Type."><p role="status"></p></div>
<button type="submit">Log in</button></form>`, html.EscapeString(task), more)
	})
	mux.HandleFunc("POST /", func(_ http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		answers <- http.Header(r.PostForm)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, answers
}

func TestMain(m *testing.M) {
	browsertest.Share()
	code := m.Run()
	browsertest.Close()
	os.Exit(code)
}

func asAttribute(t *testing.T, task *challenge.PoW) string {
	t.Helper()
	raw, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// The form is sent at once: the script holds it back until it has the answer.
func TestTheScriptDoesTheWorkBeforeTheFormIsSent(t *testing.T) {
	t.Parallel()
	p := provider(t, 100)
	c, task := issue(t, p, challenge.Task{Seed: challenge.Seed{9}})
	url, sent := page(t, asAttribute(t, c), "")
	if err := chromedp.Do(browsertest.Open(t), chromedp.Navigate(url), chromedp.Click("button")); err != nil {
		t.Fatal(err)
	}
	form := <-sent
	if work := form["captcha_work"]; len(work) != 1 || !check(t, p, task, work[0]) || form["captcha_answer"] != nil {
		t.Errorf("the form was sent with %v", form)
	}
}

func TestTheScriptHidesThePictureUnlessBothAreAskedFor(t *testing.T) {
	t.Parallel()
	c, _ := issue(t, provider(t, 100), challenge.Task{})
	ctx := browsertest.Open(t)
	for more, hidden := range map[string]bool{"": true, " data-with-picture": false} {
		url, _ := page(t, asAttribute(t, c), more)
		if err := chromedp.Do(ctx, chromedp.Navigate(url), chromedp.WaitReady("[data-pow] [name=captcha_work]")); err != nil {
			t.Fatal(err)
		}
		said, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector("[role=status]").textContent`))
		if err != nil || !strings.Contains(said, "The work is done") {
			t.Errorf("a screen reader hears %q: %v", said, err)
		}
		got, err := chromedp.Run(ctx, chromedp.Evaluate[bool](
			`document.getElementById("typed").disabled && document.querySelector("[data-image-part]").hidden`))
		if err != nil || got != hidden {
			t.Errorf("%q: the picture is hidden: %t, %v", more, got, err)
		}
	}
}

// A verification code stands in for the challenge, and the page says that it spares the wait.
func TestTheScriptHoldsNoFormWithACode(t *testing.T) {
	t.Parallel()
	url, sent := page(t, `{"algorithm":"PBKDF2-SHA-256","iterations":5000,"parts":8,"below":1,"salt":"x"}`, "")
	ctx := browsertest.Open(t)
	err := chromedp.Do(ctx, chromedp.Navigate(url), chromedp.SendKeys("[name=code]", "ABCD-EFGH"), chromedp.Click("button"))
	if err != nil {
		t.Fatal(err)
	}
	// The click itself says that the form is held. Once it is sent there is no such text.
	said, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector("[role=status]")?.textContent ?? ""`))
	if err == nil && strings.HasPrefix(said, "Held.") {
		t.Fatal("a form with a code waits for the work")
	}
	if got := <-sent; len(got["code"]) != 1 || got["code"][0] != "ABCD-EFGH" || got["captcha_work"] != nil {
		t.Errorf("sent %v", got)
	}
}

// The owner of an account under attack learns early how long it takes.
func TestTheScriptSaysHowManyMinutesALongWorkTakes(t *testing.T) {
	t.Parallel()
	c, _ := issue(t, provider(t, pow.DefaultWork), challenge.Task{Level: 8})
	c.Iterations *= 10 // a slow device
	ctx := browsertest.Open(t)
	url, _ := page(t, asAttribute(t, c), "")
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	heard := func() (said string) {
		said, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector("[role=status]").textContent`))
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	minutes := regexp.MustCompile(`^Working\. It takes \d+ minutes\. Type\.$`)
	redistest.Until(t, "the minutes", func() bool { return minutes.MatchString(heard()) })
	if err := chromedp.Do(ctx, chromedp.Click("button")); err != nil {
		t.Fatal(err)
	}
	if said := heard(); !strings.HasPrefix(said, "Held. It takes ") {
		t.Errorf("a form that is held back says %q", said)
	}
}

func TestThePictureIsThereWhenTheScriptFails(t *testing.T) {
	t.Parallel()
	whole := browsertest.Open(t)
	if err := chromedp.Do(whole); err != nil {
		t.Fatal(err)
	}
	for name, task := range map[string]string{
		"no JSON":           "{",
		"another algorithm": `{"algorithm":"SHA-1","iterations":1,"parts":1,"below":1,"salt":"x"}`,
		"no derivation":     `{"algorithm":"PBKDF2-SHA-256","iterations":0,"parts":1,"below":1,"salt":"x"}`,
	} {
		url, sent := page(t, task, "")
		ctx, closeTab := chromedp.NewContext(whole)
		defer closeTab()
		err := chromedp.Do(ctx, chromedp.Navigate(url),
			chromedp.WaitVisible("#typed"),
			chromedp.SendKeys("#typed", "123456"), chromedp.Click("button"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := <-sent; got.Get("captcha_answer") != "" || len(got["captcha_answer"]) != 1 || got["captcha_answer"][0] != "123456" || got["captcha_work"] != nil {
			t.Errorf("%s: sent %v", name, got)
		}
	}
}

// inBrowser derives keys one after the other, as pow.js does, and says how many
// milliseconds that took.
const inBrowser = `(async () => {
  const text = new TextEncoder();
  const salt = text.encode("0123456789abcdef0123456789abcdef");
  const began = performance.now();
  for (let n = 0; n < %d; n++) {
    const password = await crypto.subtle.importKey("raw", text.encode("0123456789abcdef0123456789abcdef:0:" + n), "PBKDF2", false, ["deriveBits"]);
    await crypto.subtle.deriveBits({ name: "PBKDF2", hash: "SHA-256", salt, iterations: %d }, password, 32);
  }
  window.took = performance.now() - began;
})()`

// Native code on one core needs at least 0.3 of the browser's time for the same
// keys: with work that a script has to hash by itself it was 0.065. Both take
// turns, so that a busy machine slows both.
func TestNativeCodeIsHardlyFasterThanTheBrowser(t *testing.T) {
	if os.Getenv("FULL_SIZE") == "" {
		t.Skip("in the long form: it compares times")
	}
	const keys, rounds = 40, 9
	c, _ := issue(t, provider(t, 0), challenge.Task{})
	url, _ := page(t, "{", "")
	ctx := browsertest.Open(t)
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	var natives, browsers, ratios []float64
	for range rounds {
		began := time.Now()
		for n := range keys {
			derive(t, c, 0, n)
		}
		native := time.Since(began).Seconds()
		_, err := chromedp.Run(ctx, chromedp.Evaluate[any](`window.took = 0, `+fmt.Sprintf(inBrowser, keys, c.Iterations)+`, 0`))
		if err != nil {
			t.Fatal(err)
		}
		took, err := chromedp.Run(ctx, chromedp.Poll[float64](`window.took`))
		if err != nil {
			t.Fatal(err)
		}
		natives, browsers, ratios = append(natives, native/keys), append(browsers, took/1000/keys), append(ratios, native/(took/1000))
	}
	median := func(of []float64) float64 { slices.Sort(of); return of[len(of)/2] }
	t.Logf("one key of %d iterations: native %.2f ms, Chromium %.2f ms; native needs %.2f of the browser's time (from %.2f to %.2f), medians of %d rounds",
		c.Iterations, 1000*median(natives), 1000*median(browsers), median(ratios), ratios[0], ratios[rounds-1], rounds)
	if median(ratios) < 0.3 {
		t.Errorf("native code needs only %.2f of the browser's time, want at least 0.3", median(ratios))
	}
}
