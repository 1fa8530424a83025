//go:build apps

package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"authguard/internal/testing/appstest"
)

// A scriptApp logs in by a script of its own, with JSON.
type scriptApp struct {
	start          func(testing.TB) *appstest.App
	form           string // clicked to see the login; empty: it is there
	user, password string // selectors
	failed, inside string // expressions of JavaScript
	variants       []variant
	passes         func(t *testing.T, base string) // the app's other clients do what they do
}

var scriptApps = map[string]scriptApp{
	"verdaccio": {
		start: appstest.Verdaccio, form: `[data-testid="header--button-login"]`,
		user: "#login--dialog-username", password: "#login--dialog-password",
		failed: `document.body.innerText.includes("Unable to sign in")`,
		inside: `document.querySelector('[data-testid="logInDialogIcon"]')`,
		variants: []variant{
			{"POST", "/-/verdaccio/sec/login", "application/json", `{"username":"{user}","password":"{password}"}`},
			{"POST", "/-/verdaccio/sec/login/", "application/json", `{"username":"{user}","password":"{password}"}`},
			{"POST", "/-/Verdaccio/SEC/login", "application/json", `{"username":"{user}","password":"{password}"}`},
			{"POST", "/-/verdaccio/sec/%6cogin", "application/json", `{"username":"{user}","password":"{password}"}`},
			{"POST", "/-/verdaccio/sec/login", "application/json", `{"username":["{user}"],"password":"{password}"}`},
			{"POST", "/-/verdaccio/sec/login", "application/vnd.api+json", `{"username":"{user}","password":"{password}"}`},
			{"POST", "/-/verdaccio/sec/login", formType, "username={user}&password={password}"},
			{"PUT", "/-/user/org.couchdb.user:{user}", "application/json", `{"name":"{user}","password":"{password}"}`},
			{"PUT", "/-/user/org.couchdb.user:nobody/-rev/x", "application/json", `{"name":"{user}","password":"{password}"}`},
			{"PUT", "/-/USER/org.couchdb.user:nobody/", "application/json", `{"_id":"x","name":"{user}","password":"{password}","email":"x@example.org"}`},
			{"GET", "/-/whoami", "basic", ""},
			{"GET", "/some-package", "BASIC", ""},
			{"PUT", "/some-package", "basic", "{}"},
			{"GET", "/-/user/org.couchdb.user:{user}?write=true", "basic", ""},
			{"PUT", "/-/user/org.couchdb.user:{user}/-rev/x", "basic", `{"name":"{user}","password":"{password}"}`},
		},
		passes: publishes,
	},
	"syncthing": {
		start: appstest.Syncthing, user: "#user.ng-pristine", password: "#password.ng-pristine", // of Angular, not of its template
		failed: `document.body.innerText.includes("Incorrect user name or password")`,
		inside: `document.body.innerText.includes("This Device") && document.querySelector("#folders")?.checkVisibility()`,
		variants: []variant{
			{"POST", "/rest/noauth/auth/password", "application/json", `{"username":"{user}","password":"{password}"}`},
			{"POST", "/rest/noauth/auth/password", "application/json", `{"Username":"{user}","Password":"{password}"}`},
			{"POST", "/rest/noauth/auth/password", "text/plain", `{"username":"{user}","password":"{password}"}`},
			{"POST", "/rest/noauth/auth/password/", "application/json", `{"username":"{user}","password":"{password}"}`},
			{"POST", "//rest/noauth/auth/password", "application/json", `{"username":"{user}","password":"{password}"}`},
			{"POST", "/rest/noauth/auth/%70assword", "application/json", `{"username":"{user}","password":"{password}"}`},
			{"PUT", "/rest/noauth/auth/password", "application/json", `{"username":"{user}","password":"{password}"}`},
			{"GET", "/", "basic", ""},
			{"GET", "/rest/system/status", "BASIC", ""},
			{"POST", "/rest/noauth/auth/logout", "basic", ""},
		},
		passes: polls,
	},
}

// logIn types into the app's own form, by keyboard. A selector is that of CSS alone.
func (a scriptApp) logIn(b *tab, base, password string) {
	b.t.Helper()
	b.goTo(base + "/")
	if a.form != "" {
		b.until("the form's button", `document.querySelector('`+a.form+`').click() ?? true`)
	}
	for _, field := range [][2]string{{a.user, appstest.User}, {a.password, password + kb.Enter}} {
		b.until("the field "+field[0], `document.querySelector('`+field[0]+`').focus() ?? document.activeElement.matches('`+field[0]+`')`)
		b.do("typing", chromedp.KeyEvent(field[1]))
	}
}

// before is the configuration, as the app's page has it.
func (a scriptApp) before(t *testing.T, name string, app *appstest.App) string {
	return realApp{preset: name}.before(t, app)
}

// meetings are what an owner meets who signs in from a new client.
var meetings = map[string]struct {
	settings string
	guesses  int // at the account, from as many addresses
	others   int // at made-up accounts
}{
	"quiet":                   {settings: quiet},
	"account under attack":    {settings: quiet, guesses: 100},
	"CAPTCHA mode":            {settings: captchaMode, others: 3},
	"account in CAPTCHA mode": {settings: captchaMode, guesses: 100},
	"without the script":      {settings: quiet, guesses: 6},
}

const captchaMode = "captcha_mode: {threshold: 1, address_share: 1, throttle_delay: 0s}\n"

// The owner signs in with the app's own form through one challenge, in the app's page or, without
// the script, on ours. The app checks five guesses of 100.
func TestAppsWhoseScriptsLogIn(t *testing.T) {
	for name, a := range scriptApps {
		for attack, of := range meetings {
			t.Run(name+" "+attack, func(t *testing.T) {
				t.Parallel()
				app := a.start(t)
				settings := a.before(t, name, app) + "limits: {pair_delay: off, check_timeout: 1m}\n" + of.settings
				if attack == "without the script" {
					settings = strings.Replace(settings, "proxy:\n", "proxy:\n  script: never\n", 1)
				}
				s, known := pictured(t, settings)
				for i := range of.others {
					realApp{}.send(t, s.base, loopback(61, i), a.variants[0], fmt.Sprint("nobody", i), "wrong")
				}
				tally(of.guesses, 20, func(i int) int {
					realApp{}.send(t, s.base, loopback(60, i), a.variants[0], appstest.User, fmt.Sprint("guess ", i))
					return 0
				})
				if n := len(app.GuessesOf(t, appstest.User)); n > 5 || n != min(of.guesses, 5) && of.settings == quiet {
					t.Errorf("the app has checked %d of %d guesses", n, of.guesses)
				}
				b := openTab(t)
				switch attack {
				case "quiet":
					a.logIn(b, s.base, "wrong")
					b.until("the app to say that it was wrong", a.failed)
					a.logIn(b, s.base, appstest.Password)
					b.until("being logged in", a.inside)
				case "without the script":
					a.logIn(b, s.base, appstest.Password)
					b.until("the app to say that it failed", a.failed)
					b.goTo(s.base + "/.authguard/solve")
					b.until("the field", `document.activeElement.id === "username"`)
					b.do("the account", chromedp.KeyEvent(appstest.User+kb.Enter))
					b.until("the image", `document.querySelector(".captcha-image").complete && document.querySelector("[role=status]")`)
					b.do("the digits", chromedp.SendKeys("#captcha_answer", *known.last.Load()), chromedp.KeyEvent(kb.Enter))
					b.until("to be solved", `document.body.innerText.includes("You can sign in now")`)
					a.logIn(b, s.base, appstest.Password)
					b.until("being logged in", a.inside)
				default:
					a.solves(b, s, known, app)
				}
				a.passes(t, s.base) // from an IP address that is known now
			})
		}
	}
}

// solves logs in from a new client through one challenge in the app's page.
func (a scriptApp) solves(b *tab, s *server, known *reader, app *appstest.App) {
	b.t.Helper()
	seen := app.Guesses(b.t)
	a.logIn(b, s.base, appstest.Password)
	began := time.Now()
	b.until("the dialog", inDialog(`dialog.querySelector("img").complete && dialog.querySelector("[role=status]").textContent.includes("complete. Please")`))
	waited := time.Since(began)
	b.do("the digits", chromedp.KeyEvent(*known.last.Load()+kb.Enter))
	began = time.Now()
	b.until("being logged in", a.inside) // a second challenge has no answer here
	b.t.Logf("the owner waits %s for the challenge and %s after it", waited.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	if n := app.Guesses(b.t) - seen; n != 3 {
		b.t.Errorf("the app has checked %d passwords, want the right one and the two that confirm it", n)
	}
}

// However a password is offered, the app checks no more of them than the limit.
func TestAppsWhoseScriptsLogInSeeNoMorePasswordsThanTheLimit(t *testing.T) {
	for name, a := range scriptApps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := a.start(t)
			s := newServer(t, a.before(t, name, app)+noDelay+quiet)
			for i, v := range a.variants {
				alone, behind := fmt.Sprintf("alone%dx", i), fmt.Sprintf("behind%dx", i)
				realApp{}.send(t, app.URL, "127.0.0.1", v, alone, "wrong")
				for j := range 8 {
					realApp{}.send(t, s.base, loopback(80+i, j), v, behind, fmt.Sprintf("wrong %d %d", i, j)) // else it is sprayed
				}
				direct, seen := len(app.GuessesOf(t, alone)), len(app.GuessesOf(t, behind))
				t.Logf("%d of 8 reach the application, %d of 1 without us: %s", seen, direct, v)
				if seen > 5 || direct == 0 && seen > 0 {
					t.Errorf("the application saw %d passwords: %s", seen, v)
				}
			}
		})
	}
}

// restful sends a request to the app's API, as its own clients do.
func restful(t *testing.T, method, url, body string, header ...string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(all)
}

// publishes logs in by npm's requests, and has npm publish a package of three megabytes.
func publishes(t *testing.T, base string) {
	dir, big := t.TempDir(), strings.Repeat(rand.Text(), 3<<20/26)
	user := base + "/-/user/org.couchdb.user:" + appstest.User
	login := fmt.Sprintf(`{"_id":"org.couchdb.user:%s","name":"%[1]s","password":"%s","type":"user","roles":[]}`, appstest.User, appstest.Password)
	ofJSON := []string{"Content-Type", "application/json"}
	if status, said := restful(t, http.MethodPut, user, login, ofJSON...); status != http.StatusConflict {
		t.Errorf("npm's first request: %d %s", status, said)
	}
	if status, said := restful(t, http.MethodGet, user+"?write=true", ""); status != http.StatusOK {
		t.Errorf("npm's second request: %d %s", status, said)
	}
	both := append(ofJSON, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(appstest.User+":"+appstest.Password)))
	status, said := restful(t, http.MethodPut, user+"/-rev/x", login, both...)
	token := matched(said, `"token":\s*"([^"]+)"`)
	if status != http.StatusCreated || token == "" {
		t.Fatalf("npm's third request: %d %s", status, said)
	}
	for name, text := range map[string]string{
		"package.json": `{"name": "a-package", "version": "1.0.0"}`, "big.js": "// " + big,
		".npmrc": fmt.Sprintf("registry=%s/\n//%s/:_authToken=%s\n", base, strings.TrimPrefix(base, "http://"), token),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"publish"}, {"pack", "a-package"}} {
		cmd := exec.Command("npm", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "npm_config_cache="+dir+"/cache", "npm_config_update_notifier=false")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("npm %s: %v\n%s", args, err, out)
		}
	}
}

// polls changes Syncthing's configuration, which a long poll hears of.
func polls(t *testing.T, base string) {
	key := []string{"X-API-Key", appstest.SyncthingKey, "Content-Type", "application/json"}
	_, was := restful(t, http.MethodGet, base+"/rest/config", "", key...)
	heard := make(chan string)
	go func() {
		_, events := restful(t, http.MethodGet, base+"/rest/events?events=ConfigSaved&timeout=60", "", key...)
		heard <- events
	}()
	if status, said := restful(t, http.MethodPut, base+"/rest/config", strings.Replace(was, `"maxSendKbps": 0`, `"maxSendKbps": 7`, 1), key...); status != http.StatusOK {
		t.Errorf("configuration: %d %s", status, said)
	}
	if events := <-heard; !strings.Contains(events, "ConfigSaved") {
		t.Errorf("the poll heard %q", events)
	}
}
