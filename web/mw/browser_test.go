package mw_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/image"
	"authguard/captchamode/challenge/pow"
	"authguard/guard"
	"authguard/internal/testing/browsertest"
	"authguard/internal/testing/redistest"
	"authguard/internal/testing/world"
	"authguard/web/client"
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
	tab := open(t)
	send := func(name, password string) {
		t.Helper()
		tab.do(chromedp.Navigate(server.URL), chromedp.SendKeys("input[name=username]", name), chromedp.SendKeys("input[name=password]", password+"\n"))
	}
	for _, name := range []string{"alice", "bob"} { // each is guessed at once
		send(name, "a guess")
		tab.until("wrong")
	}
	send("alice", right)
	tab.until("Browser check complete. Please enter the digits as well.")
	if got := tab.eval(`getComputedStyle(document.querySelector("main")).maxWidth + document.querySelector("img").naturalWidth`); got != "416px240" {
		t.Errorf("the style or the picture is not there: %s", got)
	}
	tab.picture("mw")
	tab.do(chromedp.SendKeys("#captcha_answer", world.Answer+"\n"))
	tab.until("welcome alice")

	tab.do(browsertest.Scripts(false))
	send("bob", right)
	tab.until("challenge") // scripts of ours still run here
	tab.do(chromedp.SendKeys("#captcha_answer", world.Answer+"\n"))
	tab.until("welcome bob")
}

// A tab is a browser's.
type tab struct {
	t  *testing.T
	in context.Context
}

func open(t *testing.T) tab {
	t.Helper()
	return tab{t, browsertest.Open(t, chromedp.WindowSize(420, 820))}
}

func (b tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for _, step := range steps {
		if err := chromedp.Do(b.in, step); err != nil {
			b.t.Fatal(err)
		}
	}
}

// eval is the value of an expression: in the next page if this one is being left.
func (b tab) eval(expression string) (value string) {
	b.t.Helper()
	redistest.Until(b.t, "a page", func() (there bool) {
		var err error
		if value, err = chromedp.Run(b.in, chromedp.Evaluate[string](expression)); err != nil && !browsertest.Left(err) {
			b.t.Fatalf("%s: %v", expression, err)
		}
		return err == nil
	})
	return value
}

func (b tab) until(words string) {
	b.t.Helper()
	redistest.Until(b.t, words, func() bool {
		return strings.Contains(b.eval(`document.body ? document.body.innerText : ""`), words)
	})
}

func (b tab) picture(name string) {
	b.t.Helper()
	if folder := os.Getenv("PICTURES"); folder != "" {
		png, err := chromedp.Run(b.in, chromedp.FullScreenshot(100))
		if err != nil || os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600) != nil {
			b.t.Error(err)
		}
	}
}

// In an attack, the owner gets in with the code, in a form without JavaScript and in a JavaScript login.
func TestR32ThePageAsksForTheCodeInABrowser(t *testing.T) {
	t.Parallel()
	codes := make(chan string, 1)
	g, err := guard.Default([]byte("sixteen bytes or more"), func(d *guard.Defaults) {
		d.Policy.ThrottleDelay = time.Millisecond
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	app := http.NewServeMux()
	app.Handle("GET /authguard.js", mw.Script())
	app.HandleFunc("GET /form", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<form method="post" action="/login"><input name="username">
			<input name="password" type="password"><button>go</button></form>`)
	})
	app.HandleFunc("GET /spa", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<script src="/authguard.js"></script><p>idle</p><script>
			const login = () => fetch("/login", {method: "POST", headers: {"Content-Type": "application/json"},
				body: JSON.stringify({username: "carol", password: "`+right+`"})}).then((r) => r.text())
				.then((text) => { document.querySelector("p").textContent = text; })</script>`)
	})
	app.Handle("POST /login", mw.Protect(g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := struct{ Username, Password string }{r.FormValue("username"), r.FormValue("password")}
		if r.Header.Get("Content-Type") == "application/json" {
			_ = json.NewDecoder(r.Body).Decode(&in)
		}
		if in.Password != right || mw.Succeeded(r) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, "welcome "+in.Username)
	}), mw.OnVerificationCode(func(_ context.Context, _, code string) { codes <- code }),
		mw.Client(func(r *http.Request) client.Client {
			address, err := netip.ParseAddr(r.Header.Get("X-Test"))
			if err != nil {
				address = netip.MustParseAddr("203.0.113.9")
			}
			return client.Client{Address: address}
		})))
	server := httptest.NewServer(app)
	t.Cleanup(server.Close)
	for i := range 11 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/login",
			strings.NewReader(fmt.Sprintf("username=user%d&password=guess%d", i, i)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Test", fmt.Sprintf("198.51.%d.1", i))
		if a, err := server.Client().Do(r); err != nil || a.Body.Close() != nil {
			t.Fatal(err)
		}
	}

	tab := open(t)
	tab.do(browsertest.Scripts(false), chromedp.Navigate(server.URL+"/form"),
		chromedp.SendKeys("input[name=username]", "alice"), chromedp.SendKeys("input[name=password]", right+"\n"))
	tab.until("Verification code required")
	tab.picture("mw-code")
	tab.do(chromedp.SendKeys("#code", <-codes+"\n"))
	tab.until("welcome alice")

	const dialog = `document.querySelector("authguard-challenge")?.shadowRoot.querySelector("dialog[open]")`
	tab.do(browsertest.Scripts(true), chromedp.Navigate(server.URL+"/spa"))
	tab.eval(`login(), ""`)
	redistest.Until(t, "the dialog", func() bool {
		return strings.Contains(tab.eval(`String(`+dialog+`?.innerText)`), "Verification code required")
	})
	tab.picture("script-code")
	tab.eval(`((d) => { d.querySelector("#code").value = "` + <-codes + `"; d.querySelector("button.main").click(); return "" })(` + dialog + `)`)
	tab.until("welcome carol")
}
