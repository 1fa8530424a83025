package pow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"authguard/captchamode/challenge"
)

const policy = "default-src 'none'; script-src 'self'; form-action 'self'"

// page serves a login form with one task in it, under the policy of the real
// pages, and tells what was sent.
func page(t *testing.T, task string) (url string, sent <-chan http.Header) {
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
<div data-image-part><input id="typed" name="captcha_answer" required></div>
<div data-pow="%s"><p role="status"></p></div>
<button type="submit">Log in</button></form>`, html.EscapeString(task))
	})
	mux.HandleFunc("POST /", func(_ http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		answers <- http.Header(r.PostForm)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, answers
}

func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("pow.js is tried in a browser, and there is no chromium: ", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WSURLReadTimeout(time.Hour))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx
}

func asAttribute(t *testing.T, task challenge.PoW) string {
	t.Helper()
	raw, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// The form is sent at once: the script holds it back until it has the answer.
func TestTheScriptSolvesTheTaskBeforeTheFormIsSent(t *testing.T) {
	t.Parallel()
	p := provider(t, 0)
	seed := challenge.Seed{9}
	url, sent := page(t, asAttribute(t, issue(t, p, seed)))
	err := chromedp.Do(browser(t), chromedp.Navigate(url), chromedp.Click("button"))
	if err != nil {
		t.Fatal(err)
	}
	answers := (<-sent)["captcha_answer"]
	if len(answers) != 1 || !check(t, p, seed, answers[0]) {
		t.Errorf("the form was sent with %q", answers)
	}
}

func TestTheScriptHidesThePictureAndSaysSo(t *testing.T) {
	t.Parallel()
	p := provider(t, 1000)
	url, _ := page(t, asAttribute(t, issue(t, p, challenge.Seed{9})))
	ctx := browser(t)
	err := chromedp.Do(ctx, chromedp.Navigate(url),
		chromedp.WaitReady("[data-pow] [name=captcha_answer]"),
		chromedp.WaitNotVisible("[data-image-part]"))
	if err != nil {
		t.Fatal(err)
	}
	status, err := chromedp.Run(ctx, chromedp.Poll[string](
		`document.querySelector("[role=status]").textContent.includes("solved") &&
		 document.querySelector("[role=status]").textContent`))
	if err != nil {
		t.Fatal(err)
	}
	disabled, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`document.getElementById("typed").disabled`))
	if err != nil {
		t.Fatal(err)
	}
	if !disabled {
		t.Errorf("picture's field disabled: %t, status %q", disabled, status)
	}
}

func TestThePictureIsThereWhenTheScriptFails(t *testing.T) {
	t.Parallel()
	for name, task := range map[string]string{
		"no JSON":           "{",
		"another algorithm": `{"algorithm":"SHA-1","challenge":"00","maxnumber":1,"salt":"x","signature":""}`,
		"no solution":       `{"algorithm":"SHA-256","challenge":"00","maxnumber":1,"salt":"x","signature":""}`,
	} {
		url, sent := page(t, task)
		err := chromedp.Do(browser(t), chromedp.Navigate(url),
			chromedp.WaitVisible("#typed"),
			chromedp.SendKeys("#typed", "123456"), chromedp.Click("button"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := (<-sent)["captcha_answer"]; len(got) != 1 || got[0] != "123456" {
			t.Errorf("%s: sent %q", name, got)
		}
	}
}
