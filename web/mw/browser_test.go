package mw_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/image"
	"authguard/captchamode/challenge/pow"
	"authguard/guard"
	"authguard/internal/testing/browsertest"
	"authguard/internal/testing/redistest"
	"authguard/internal/testing/world"
	"authguard/web/mw"
)

// known is the built-in picture, with an answer that the test knows.
type known struct{ *image.Provider }

func (known) Check(_ context.Context, _ challenge.Task, answer string) (bool, error) {
	return answer == world.Answer, nil
}

// Ensure that the page in between works in a browser under its own policy: with
// JavaScript it does the work and sends digits, without it the digits alone do.
// PICTURES=FOLDER keeps a picture of it.
func TestThePageInBetweenInABrowser(t *testing.T) {
	t.Parallel()
	pictures, err := image.New(image.Config{})
	if err != nil {
		t.Fatal(err)
	}
	both, err := pow.WithPicture(pow.MinWork)
	if err != nil {
		t.Fatal(err)
	}
	desk, err := challenge.New(challenge.Config{
		Secret: []byte(strings.Repeat("s", 32)), Spent: challenge.NewMemorySpent(0, nil), BuiltIn: known{pictures},
		Others: []challenge.Provider{both}, Preferred: challenge.KindBoth,
	})
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.Default([]byte("sixteen bytes or more"), func(d *guard.Defaults) {
		d.Challenges, d.Policy.PairDelay = desk, guard.PairDelay{}
		d.Policy.Account[0].Failures = 1
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	server := httptest.NewServer(mw.Protect(g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch {
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, `<form method="post"><input name="username"><input name="password" type="password"><button>go</button></form>`)
		case r.FormValue("password") == right:
			_, _ = io.WriteString(w, "welcome "+r.FormValue("username"))
		default:
			_, _ = io.WriteString(w, "wrong")
		}
	})))
	t.Cleanup(server.Close)
	tab := browsertest.Open(t, chromedp.WindowSize(420, 820))
	do := func(steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		for _, step := range steps {
			if err := chromedp.Do(tab, step); err != nil {
				t.Fatal(err)
			}
		}
	}
	eval := func(expression string) string {
		t.Helper()
		value, err := chromedp.Run(tab, chromedp.Evaluate[string](expression))
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		return value
	}
	until := func(words string) {
		t.Helper()
		redistest.Until(t, words, func() bool { return strings.Contains(eval(`document.body ? document.body.innerText : ""`), words) })
	}
	send := func(name, password string) {
		t.Helper()
		do(chromedp.Navigate(server.URL), chromedp.SendKeys("input[name=username]", name), chromedp.SendKeys("input[name=password]", password+"\n"))
	}
	for _, name := range []string{"alice", "bob"} { // each is guessed at once
		send(name, "a guess")
		until("wrong")
	}
	send("alice", right)
	until("Browser check complete. Please enter the digits as well.")
	if got := eval(`getComputedStyle(document.querySelector("main")).maxWidth + document.querySelector("img").naturalWidth`); got != "416px240" {
		t.Errorf("the style or the picture is not there: %s", got)
	}
	if folder := os.Getenv("PICTURES"); folder != "" {
		png, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
		if err != nil || os.WriteFile(filepath.Join(folder, "mw.png"), png, 0o600) != nil {
			t.Error(err)
		}
	}
	do(chromedp.SendKeys("#captcha_answer", world.Answer+"\n"))
	until("welcome alice")

	do(browsertest.Scripts(false))
	send("bob", right)
	until("challenge") // scripts of ours still run here
	do(chromedp.SendKeys("#captcha_answer", world.Answer+"\n"))
	until("welcome bob")
}
