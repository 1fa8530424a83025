package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"authguard/internal/testing/browsertest"
)

// A spa is an app whose login is a script, under a strict policy. It knows nothing of authguard.
type spa struct {
	*httptest.Server
	policy atomic.Pointer[string]
}

const spaPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>An app</title><script src="/app.js"></script></head>
<body><main><h1>An app</h1><form id="form"><label>User <input id="user"></label><label>Password <input id="pass" type="password"></label>
<button id="in">Sign in</button></form><p id="said" role="status"></p></main></body></html>`

const spaScript = `const fetched = window.fetch; // a copy that the app keeps
const login = {
  async fetch(body) {
    const r = await fetched("/api/login", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    return [r.status, await r.text()];
  },
  async request(body) {
    const r = await fetched(new Request("/api/login", { method: "POST", headers: { "Content-Type": "application/json" }, body }));
    return [r.status, await r.text()];
  },
  xhr: (body) => new Promise((done) => {
    const x = new XMLHttpRequest();
    let ready = 0;
    x.onreadystatechange = () => { if (x.readyState === 4) ready++; };
    x.onload = () => done([x.status, x.responseText + " ready " + ready]);
    x.open("POST", "/api/login");
    x.setRequestHeader("Content-Type", "application/json");
    x.send(body);
  }),
};
addEventListener("DOMContentLoaded", () => {
  const say = (text) => { document.getElementById("said").textContent = text; };
  document.getElementById("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    say("");
    const body = JSON.stringify({ username: document.getElementById("user").value, password: document.getElementById("pass").value });
    const [status, text] = await login[location.hash.slice(1)](body);
    say((status === 200 ? "Welcome" : "Login failed: " + status) + " " + text);
  });
});`

func newSPA(t *testing.T) *spa {
	t.Helper()
	a := new(spa)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", *a.policy.Load())
		switch {
		case r.URL.Path == "/app.js":
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, spaScript)
		case r.URL.Path == "/stored": // by an attacker
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"type": "slow-down", "solve": "javascript:document.title='x'//solve"}`)
		case r.URL.Path == "/" && r.Method == http.MethodGet:
			fmt.Fprint(w, spaPage)
		case r.URL.Path == "/api/login":
			var sent struct{ Username, Password string }
			_ = json.NewDecoder(r.Body).Decode(&sent)
			w.Header().Set("Content-Type", "application/json")
			if (sent.Username != "alice" && sent.Username != "bob" && sent.Username != "carol") || sent.Password != rightPassword {
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprint(w, `{"error": "wrong"}`)
				return
			}
			fmt.Fprint(w, `{"token": "t"}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(a.Close)
	a.under("default-src 'self'")
	return a
}

func (a *spa) under(policy string) { a.policy.Store(&policy) }

func (a *spa) proxied(script string) string {
	return "proxy: {upstream: '" + a.URL + "', preset: json, script: " + script + "}\n"
}

// guesses attack an account from addresses of their own, so that it alone asks for a challenge.
func (s *server) guesses(t *testing.T, account string, n int) {
	t.Helper()
	for i := range n {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/api/login",
			strings.NewReader(fmt.Sprintf(`{"username": %q, "password": "guess-%d"}`, account, i)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		from(loopback(int(account[0]), i)).do(t, r)
	}
}

// A problem document of the app puts no script into the dialog: the app gets it as it is.
func TestAProblemOfTheAppIsNoDialogInABrowser(t *testing.T) {
	t.Parallel()
	a := newSPA(t)
	s := newServer(t, a.proxied("always"))
	b := openTab(t)
	b.goTo(s.base + "/")
	b.eval(`fetch("/stored").then(r => { document.title = "got " + r.status; }), ""`)
	b.until("the answer", `document.title === "got 403"`)
}

// inDialog is an expression in the dialog of client.js.
func inDialog(expression string) string {
	return `((dialog) => ` + expression + `)(document.querySelector("authguard-challenge").shadowRoot.querySelector("dialog[open]"))`
}

// signIn types into the app's form, by keyboard alone.
func (b *tab) signIn(user, password string) {
	b.t.Helper()
	b.eval(`document.getElementById("user").focus(), document.getElementById("user").value = document.getElementById("pass").value = ""`)
	b.do("typing", chromedp.KeyEvent(user+kb.Tab+password+kb.Enter))
}

const quietSPA = "limits: {pair_delay: off, check_timeout: 1m}\nchallenge: {kind: both, pow_cost: 100}\n"

// An owner at a new client is let in to an app that nobody changed, in the app's own page, with one challenge.
func TestAChallengeInTheAppsOwnPageInABrowser(t *testing.T) {
	long(t)
	t.Parallel()
	app := newSPA(t)
	s, known := pictured(t, app.proxied("auto")+quietSPA)
	for i, way := range []string{"fetch", "xhr", "request"} {
		account := []string{"alice", "bob", "carol"}[i]
		s.guesses(t, account, 5)
		app.under([]string{"default-src 'self'", "default-src 'none'; script-src 'nonce-abc' 'self'; connect-src 'self'; img-src 'self'", "default-src 'self'; script-src 'self'; style-src 'none'"}[i])
		b := openTab(t)
		b.goTo(s.base + "/#" + way)
		b.signIn(account, rightPassword)
		b.until("the dialog", inDialog(`dialog.querySelector("img").complete && dialog.querySelector("[role=status]").textContent.includes("complete. Please")`))
		if i == 0 {
			browsertest.Look(t, b.ctx, "client-challenge")
			b.do("a screen", chromedp.ResetViewport())
		}
		if said := b.eval(`document.getElementById("said").textContent`); said != "" {
			t.Errorf("%s: the app was told %q", way, said)
		}
		b.do("wrong digits", chromedp.KeyEvent("000000"+kb.Enter))
		b.until("another challenge", inDialog(`dialog.innerText.includes("was not solved") && dialog.querySelector("img").complete && dialog.querySelector("[role=status]").textContent.includes("complete. Please")`))
		b.do("the digits", chromedp.KeyEvent(*known.last.Load()+kb.Enter))
		b.until(way+" to succeed", `document.getElementById("said").textContent.startsWith("Welcome")`)
		if said := b.eval(`document.getElementById("said").textContent`); way == "xhr" && !strings.HasSuffix(said, "ready 1") {
			t.Errorf("the app heard more than one response: %q", said)
		}
	}
	// Escape gives the app the response that it would have got.
	s.guesses(t, "dave", 5)
	for _, way := range []string{"fetch", "xhr"} {
		b := openTab(t)
		b.goTo(s.base + "/#" + way)
		b.signIn("dave", "wrong")
		b.until("the dialog", inDialog(`dialog.querySelector("img").complete`))
		b.do("escape", chromedp.KeyEvent(kb.Escape))
		b.until(way+" to fail", `document.getElementById("said").textContent.startsWith("Login failed: 403") && document.getElementById("said").textContent.includes("challenge-required") && !document.querySelector("authguard-challenge")`)
	}
}

// Whoever has to wait hears until when, and may have a code. The app gets its response after that.
func TestAWaitInTheAppsOwnPageInABrowser(t *testing.T) {
	t.Parallel()
	app := newSPA(t)
	s, _ := pictured(t, app.proxied("auto")+"limits: {pair_delay: off, account: [5/1d block], check_timeout: 1m}\n")
	s.guesses(t, "alice", 5)
	b := openTab(t)
	b.goTo(s.base + "/#fetch")
	b.signIn("alice", rightPassword)
	b.until("the dialog", inDialog(`dialog.innerText.includes("Please wait") && dialog.querySelector("#code").checkVisibility()`))
	browsertest.Look(t, b.ctx, "client-wait")
	b.do("a screen", chromedp.ResetViewport())
	b.do("a wrong code", chromedp.KeyEvent(kb.Tab+"ABCD"+kb.Enter))
	b.until("the dialog again", inDialog(`dialog.innerText.includes("Please wait") && !dialog.querySelector("#code").value`))
	b.do("escape", chromedp.KeyEvent(kb.Escape))
	b.until("the app to hear of it", `document.getElementById("said").textContent.startsWith("Login failed: 429")`)
}

// In CAPTCHA mode, proof of work alone asks for nothing.
func TestProofOfWorkInTheAppsOwnPageInABrowser(t *testing.T) {
	t.Parallel()
	app := newSPA(t)
	s, _ := pictured(t, app.proxied("auto")+"limits: {pair_delay: off, check_timeout: 1m}\nchallenge: {kind: pow, pow_cost: 100}\ncaptcha_mode: {threshold: 1, address_share: 1, throttle_delay: 0s}\n")
	s.guesses(t, "nobody", 3)
	b := openTab(t)
	b.goTo(s.base + "/#fetch")
	b.signIn("alice", rightPassword)
	b.until("to succeed", `document.getElementById("said").textContent.startsWith("Welcome")`)
}

// Without the script, or in a native client, the owner solves a challenge on our page, and then signs in.
func TestAChallengeOnOurPageForAnAppInABrowser(t *testing.T) {
	t.Parallel()
	app := newSPA(t)
	s, known := pictured(t, app.proxied("never")+quietSPA)
	s.guesses(t, "alice", 5)
	b := openTab(t)
	b.goTo(s.base + "/#fetch")
	b.signIn("alice", rightPassword)
	b.until("the app to say where", `document.getElementById("said").textContent.includes("`+s.base+`/.authguard/solve")`)
	b.goTo(s.base + "/.authguard/solve")
	b.until("the field", `document.activeElement.id === "username"`)
	b.do("the account", chromedp.KeyEvent("alice"+kb.Enter))
	b.until("the image", `document.querySelector(".captcha-image").complete && document.querySelector("[role=status]")`)
	b.do("the digits", chromedp.SendKeys("#captcha_answer", *known.last.Load()), chromedp.KeyEvent(kb.Enter))
	b.until("to be solved", `document.body.innerText.includes("You can sign in now")`)
	b.goTo(s.base + "/#fetch")
	b.signIn("alice", rightPassword)
	b.until("to succeed", `document.getElementById("said").textContent.startsWith("Welcome")`)
}
