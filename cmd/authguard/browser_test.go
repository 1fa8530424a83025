package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/image"
	"authguard/internal/config"
	"authguard/internal/testing/browsertest"
	"authguard/internal/testing/redistest"
)

// A tab is one page of a real Chromium with an empty profile.
type tab struct {
	t          *testing.T
	ctx        context.Context
	scriptless bool // the pages run no JavaScript
}

func openTab(t *testing.T, more ...chromedp.ExecAllocatorOption) *tab {
	t.Helper()
	return &tab{t: t, ctx: browsertest.Open(t, more...)}
}

// do carries out steps.
func (b *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	// A step waits for its element for ever. The bound is far beyond the slowest machine.
	ctx, stop := context.WithTimeout(b.ctx, 5*time.Minute)
	defer stop()
	for _, step := range steps {
		redistest.Until(b.t, what, func() bool {
			err := chromedp.Do(ctx, step)
			if gone, ok := errors.AsType[*cdproto.Error](err); ok && strings.Contains(gone.Message, "node with given id") {
				return false // the page was left before the step found its element, and did nothing
			}
			if err != nil && strings.Contains(err.Error(), "net::ERR_ABORTED") {
				return false // a navigation of the page's own was still under way
			}
			if err != nil {
				b.t.Fatalf("%s: %v\nthe page says:\n%s", what, err, b.text())
			}
			return true
		})
	}
}

func (b *tab) goTo(url string) { b.t.Helper(); b.do("going to "+url, chromedp.Navigate(url)) }

// eval is the value of a JavaScript expression, as text: in the next page if this one is being left.
func (b *tab) eval(expression string) (value string) {
	b.t.Helper()
	redistest.Until(b.t, "a page", func() bool {
		var err error
		value, err = chromedp.Run(b.ctx, chromedp.Evaluate[string](expression))
		if browsertest.Left(err) {
			return false
		}
		if err != nil {
			b.t.Fatalf("%s: %v", expression, err)
		}
		return true
	})
	return value
}

func (b *tab) text() string { return b.eval(`document.body ? document.body.innerText : ""`) }

// until waits for something to be true in the page, which may not have all of its parts yet.
func (b *tab) until(what, condition string) {
	b.t.Helper()
	redistest.Until(b.t, what, func() bool {
		return b.eval(`(() => { try { return String(Boolean(`+condition+`)) } catch { return "" } })()`) == "true"
	})
}

// send types into the login form and sends it.
func (b *tab) send(user, password string) {
	b.t.Helper()
	b.do("typing", chromedp.WaitVisible("#password"), chromedp.SetValue("#username", user),
		chromedp.SendKeys("#password", password), chromedp.Click("form[data-sign-in] button[type=submit]"))
}

// withoutScripts has the pages run no JavaScript.
func (b *tab) withoutScripts() {
	b.t.Helper()
	b.scriptless = true
	b.do("no scripts", browsertest.Scripts(false))
}

// picture keeps what the browser shows, by day, by night and at a phone's width, and has
// axe-core look at each: if PICTURES names a folder. The tests of package pages look at
// every page always.
func (b *tab) picture(name string) {
	b.t.Helper()
	if os.Getenv("PICTURES") == "" {
		return
	}
	if b.scriptless { // axe-core is a script
		b.do("scripts", browsertest.Scripts(true))
		defer b.do("no scripts", browsertest.Scripts(false))
	}
	browsertest.Look(b.t, b.ctx, name)
	b.do("a screen", chromedp.ResetViewport())
}

func TestAdministratorWatchesAnAttackInABrowser(t *testing.T) {
	long(t)
	t.Parallel()
	told := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told <- r.URL.Path }))
	defer receiver.Close()
	s := newServer(t, "captcha_mode: {threshold: 60}\nalerts: {private_networks: [127.0.0.0/8], to: ['generic+"+receiver.URL+"/hook', 'generic+http://127.0.0.1:1/']}\n")
	s.must("user", "create", "someone1", "--generate") // later: the first administrator comes into an empty table
	b := openTab(t)
	const fresh = "a new long password"
	b.goTo(s.admin + "/")
	b.send("admin", s.password)
	b.do("the new password", chromedp.WaitVisible("input[name=new_password]"))
	b.picture("password")
	b.do("the new password",
		chromedp.SendKeys("input[name=new_password]", fresh), // the temporary password was typed just now
		chromedp.SendKeys("input[name=repeat_password]", fresh), chromedp.Click("main form button[type=submit]"),
		chromedp.WaitVisible("#live"))
	b.until("the page to be live", `document.querySelector("[data-freshness]").innerText.startsWith("Live, as of")`)
	plots := `[...document.querySelectorAll("#live-plot svg")].map(s => s.outerHTML).join("")`
	before := b.eval(plots)
	counts := tally(200, 10, func(i int) int {
		return from(loopback(60, i)).login(t, s, fmt.Sprintf("someone%d", i), "wrong").status
	})
	if counts[http.StatusForbidden] == 0 {
		t.Fatalf("the attack met no challenge: %v", counts)
	}
	b.until("the attack to show by itself", `document.querySelector("#live").innerText.toLowerCase().includes("under attack")`)
	for i := range 20 { // each from its own IP address: only the network stands out
		from(fmt.Sprintf("127.62.0.%d", 1+i)).login(t, s, fmt.Sprintf("someone%d", 200+i), "wrong")
	}
	b.until("all of it to be counted", `document.querySelector("#live-address").innerText.includes("220 other IP addresses, 1 try each: nothing to block")`)
	b.goTo(s.admin + "/") // the plot follows once a minute
	b.until("all of it to be drawn", `document.querySelector("#live-plot svg.strips desc").textContent.includes("Attempts: 222 total")`)
	if after := b.eval(plots); after == before {
		t.Error("the plots did not grow")
	}
	b.until("the botnet to be called one", `document.querySelector(".attack-line").innerText.includes("botnet") && !document.querySelector("#live-address tbody")`)
	b.picture("now-attacked")
	b.do("the last day", chromedp.Click(".spans a[href='/?span=day']"), chromedp.WaitVisible("#live"))
	b.until("the last day", `document.querySelector(".spans a[aria-current]").innerText === "24 h" && document.querySelector("#live-plot svg.strips desc").textContent.includes("Attempts: 222 total")`)
	b.picture("now-day")
	b.do("a network", chromedp.Click("#live-network .act a"), chromedp.WaitVisible("#act_why"))
	network := b.eval(`document.querySelector("form[method=post] input[name=cidr]").value`)
	b.do("blocking a network", chromedp.SendKeys("#act_why", "a botnet"), chromedp.Click(".buttons button[type=submit]"))
	b.until("the page to say so", `document.body.innerText.includes("Blocked until") && document.body.innerText.includes("`+network+`")`)
	b.goTo(s.admin + "/")
	redistest.Until(t, "the network to be blocked", func() bool {
		return from(strings.Replace(network, ".0/24", ".9", 1)).login(t, s, "somebody else", "wrong").status == http.StatusTooManyRequests
	})
	force := func(mode, reason string) {
		t.Helper()
		// The notice's Undo has a field mode, too.
		b.do("forcing "+mode, chromedp.Click("#switch summary"), chromedp.Click("#switch input[name=mode][value="+mode+"]"), chromedp.SendKeys("#reason", reason),
			chromedp.Click("#switch button[type=submit]"), chromedp.WaitNotPresent("#switch[open]"), chromedp.WaitVisible("#live"))
	}
	force("off", "a drill")
	redistest.Until(t, "the mode to be off", func() bool {
		return from("127.61.0.1").login(t, s, "nobody", "wrong").status != http.StatusForbidden
	})
	force("auto", "the drill is over")
	redistest.Until(t, "the mode to be automatic again", func() bool {
		return from("127.61.0.2").login(t, s, "nobody else", "wrong").status == http.StatusForbidden
	})
	b.do("clearing", chromedp.Click("#switch summary"), chromedp.Click("form.clear button"))
	b.until("the page to say so", `document.body.innerText.toLowerCase().includes("captcha mode was reset")`)
	redistest.Until(t, "the mode to be off", func() bool {
		return from("127.61.0.3").login(t, s, "nobody at all", "wrong").status != http.StatusForbidden
	})
	for i := range 5 { // with these, the network stands out as well
		from(fmt.Sprintf("127.61.0.%d", 4+i)).login(t, s, "nobody at all", "wrong")
	}
	b.picture("cleared")
	b.goTo(s.admin + "/alerts")
	b.do("a test message", chromedp.Click("form[action='/alerts/test'] button"))
	b.until("what came of it", `document.body.innerText.includes("The test message could not be sent to generic 127.0.0.1 (2)")`)
	if path := <-told; path != "/hook" {
		t.Errorf("it went to %s", path)
	}
	b.picture("alerts")
	b.goTo(s.admin + "/policy")
	b.picture("policy")
	b.do("about to watch", chromedp.Click("#on-account .switches a[href*='to=monitor']"), chromedp.WaitVisible("#confirm"))
	b.picture("policy-confirm")
	b.do("watching", chromedp.SendKeys("#policy_reason", "to see whom it would stop"), chromedp.Click("#confirm button"))
	b.until("the page to say so", `document.body.innerText.includes("Some limits are in monitoring mode") && document.body.innerText.includes("Account limits: monitoring by admin:admin")`)
	b.picture("limits-monitored")
	b.goTo(s.admin + "/lookup?account=someone1&address=127.60.1.1")
	b.picture("look-up")
	b.do("unlocking", chromedp.Click(".acts a[href*='what=unlock']"), chromedp.SendKeys("#act_why", "the caller asked"), chromedp.Click("form[action='/unlock'] button"))
	b.until("the page to say so", `document.body.innerText.toLowerCase().includes("failure counters reset") && document.querySelector(".recent").innerText.includes("the caller asked")`)

	// On a phone the header leaves most of the screen, and from far down one can jump.
	b.do("a phone", chromedp.EmulateViewport(360, 844))
	b.goTo(s.admin + "/")
	b.until("a header of less than a quarter of the screen", `document.querySelector("header.bar").offsetHeight < 211`)
	b.eval(`scrollTo(0, document.body.scrollHeight); ""`)
	b.until("the jumps to be there", `Math.abs(document.querySelector(".jumps").getBoundingClientRect().top) < 2`)
	b.do("a screen", chromedp.ResetViewport())

	// Without JavaScript the numbers are those of a link, and every form works.
	b.withoutScripts()
	b.goTo(s.admin + "/")
	b.until("the link and the numbers", `!document.querySelector("[data-refresh]").hidden && document.querySelector("[data-pause]").hidden &&
		document.querySelector("svg.strips desc").textContent.includes("Attempts: ")`)
	force("on", "without scripts")
	b.until("the mode to be on", `document.querySelector("#status").innerText.includes("without scripts")`)
	b.do("a network", chromedp.Click("#live-network .act a"), chromedp.WaitVisible("#act_why"))
	b.do("blocking", chromedp.Click(".buttons button[type=submit]"))
	b.until("the page to say so", `document.body.innerText.includes("Blocked")`)
	b.goTo(s.admin + "/")
	b.do("the day", chromedp.Click(".spans a[href='/?span=day']"))
	b.until("the day", `document.querySelector(".spans a[aria-current]").innerText === "24 h"`)
	b.do("looking up", chromedp.SetValue(".find input[type=search]", "someone1"), chromedp.Click(".find button"))
	b.until("the answer", `document.querySelector("#account")?.value === "someone1" && document.querySelector("main .verdict")`)
}

// A person calls: they cannot sign in. Support finds out why and lets them in by a one-time
// code, without JavaScript.
func TestSupportLetsACallerInInABrowser(t *testing.T) {
	long(t)
	t.Parallel()
	s := newServer(t, "limits: {account: [5/24h block]}\n", "alice", "admin")
	for i := range 5 {
		from(loopback(80, i)).login(t, s, "alice", "wrong")
	}
	caller := from("127.81.0.1")
	if got := caller.login(t, s, "alice", rightPassword).status; got != http.StatusTooManyRequests {
		t.Fatalf("the caller is not refused: %d", got)
	}
	b := openTab(t)
	b.goTo(s.admin + "/lookup?account=alice")
	b.send("admin", rightPassword)
	b.do("signing in", chromedp.WaitVisible(".verdict"))
	redistest.Until(t, "the refusal to be in the audit log", func() bool {
		b.goTo(s.admin + "/lookup?account=alice")
		return strings.Contains(b.text(), "127.81.0.1")
	})
	b.picture("look-up-refused")
	b.goTo(s.admin + "/lists")
	b.picture("lists-empty")
	b.imports(s, "127.90.0.0/24 scanner =cmd()\n300.1.2.3 <img src=x onerror=alert(1)>\n2001:db8::/48 \u202eexe.gpj\n", "lists-plan")
	b.picture("lists")
	b.withoutScripts()
	b.goTo(s.admin + "/")
	b.do("looking up", chromedp.SendKeys(".find input[name=q]", "alice"), chromedp.Click(".find button"), chromedp.WaitVisible(".verdict"))
	for _, words := range []string{"too many wrong passwords for your account", "Verify the owner's identity", "127.81.0.1", "blocked"} {
		if page := b.text(); !strings.Contains(page, words) {
			t.Errorf("the page does not say %q:\n%s", words, page)
		}
	}
	b.do("the code", chromedp.Click("form[action='/pass'] button"), chromedp.WaitVisible("code.secret"))
	b.picture("look-up-code")
	code := b.eval(`document.querySelector(".one-time-code code").textContent`)
	if got := caller.login(t, s, "alice", rightPassword, "code", code).status; got != http.StatusOK {
		t.Errorf("with the code: %d", got)
	}
	b.do("blocking", chromedp.Navigate(s.admin+"/lookup?address=127.80.0.1"), chromedp.Click("a[href*='what=block']"), chromedp.WaitVisible("#act_why"),
		chromedp.Click(".buttons button[type=submit]"), chromedp.WaitVisible("a[href*='what=remove']"))
	if page := b.text(); !strings.Contains(page, "Blocked until") || !strings.Contains(page, "An administrator has blocked your IP address") {
		t.Errorf("it is not blocked:\n%s", page)
	}
	b.do("taking it off", chromedp.Click("a[href*='what=remove']"), chromedp.WaitVisible("#act_why"), chromedp.Click(".buttons button[type=submit]"))
	b.until("it to be off the list", `document.body.innerText.includes("Removed from the list: 127.80.0.1")`)
	b.imports(s, "127.91.0.0/24\nnobody's range\n", "")
	if got := from("127.91.0.9").login(t, s, "bob", "wrong").status; got != http.StatusTooManyRequests {
		t.Errorf("from a range that was imported: %d", got)
	}
}

// imports has the page of the lists import a file with a bad line, which it names first.
func (b *tab) imports(s *server, lines, picture string) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "ranges.txt")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.goTo(s.admin + "/lists")
	b.do("importing a file", chromedp.SetUploadFiles("#file", []string{file}), chromedp.Click("#add button[type=submit]"), chromedp.WaitVisible("#plan"))
	if page := b.text(); !strings.Contains(page, "1 invalid line") || !strings.Contains(page, "Line 2") {
		b.t.Errorf("the bad line is not named:\n%s", page)
	}
	if picture != "" {
		b.picture(picture)
	}
	first, _, _ := strings.Cut(lines, "\n")
	first, _, _ = strings.Cut(first, " ")
	b.do("leaving it out", chromedp.Click("#plan form.go button"))
	b.until("the range to be among the entries", `!document.querySelector("#plan") && document.querySelector("table.entries").innerText.includes("`+first+`")`)
}

func TestLoginThroughProofOfWorkInABrowser(t *testing.T) {
	t.Parallel()
	s := newServer(t, "challenge: {kind: pow, pow_cost: 500}\ncaptcha_mode: {threshold: 1, address_share: 1}\n", "alice")
	for i := range 3 {
		from(loopback(70, i)).login(t, s, "nobody", "wrong")
	}
	b := openTab(t)
	b.goTo(s.base + "/login")
	b.picture("login-pow")
	b.send("alice", rightPassword)
	b.until("being signed in", `document.body.innerText.toLowerCase().includes("you are signed in")`)
	b.picture("signed-in")
}

// A reader draws pictures as the product does, and knows what the last one
// says.
type reader struct {
	*image.Provider
	last atomic.Pointer[string]
}

func (r *reader) Render(w io.Writer, seed challenge.Seed, ext string) error {
	digits := r.Solution(seed)
	r.last.Store(&digits)
	return r.Provider.Render(w, seed, ext)
}

// pictured runs a server in this process, to know what its pictures say. It stops
// when the test ends.
func pictured(t *testing.T, yaml string, users ...string) (*server, *reader) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ag")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &server{t: t, dir: dir}
	s.addUsers(filepath.Join(dir, "data", "authguard.db"), users)
	yaml = "listen: 127.0.0.1:0\nadmin: {listen: ''}\npasswords: {cost: 10}\ndata: " + filepath.Join(dir, "data") + "\n" + yaml
	loaded, err := config.Parse("test", []byte(yaml), []string{noProbe})
	if err != nil {
		t.Fatal(err)
	}
	pictures, err := image.New(image.Config{})
	if err != nil {
		t.Fatal(err)
	}
	known := &reader{Provider: pictures}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	out, in := io.Pipe()
	done := make(chan error, 1)
	product, err := openSite(ctx, loaded, new(slog.LevelVar), slog.New(slog.DiscardHandler), opening{builtIn: known})
	if err != nil {
		t.Fatal(err)
	}
	go func() { done <- product.serve(ctx, "", nil, in) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	s.read(out)
	return s, known
}

func wrongDigits(right string) string {
	if right[0] == '1' {
		return "2" + right[1:]
	}
	return "1" + right[1:]
}

func TestLoginThroughAPictureInABrowser(t *testing.T) {
	long(t)
	t.Parallel()
	s, known := pictured(t, "limits: {check_timeout: 1m}\ncaptcha_mode: {threshold: 1, address_share: 1, throttle_delay: 0s}\n", "alice", "bob")
	for i := range 3 {
		from(loopback(71, i)).login(t, s, "nobody", "wrong")
	}
	b := openTab(t)
	b.goTo(s.base + "/login")
	b.until("the picture", `document.querySelector(".captcha-image").complete`)
	b.picture("login-image")
	b.until("the picture", `document.querySelector(".captcha-image").complete`)
	b.do("a user name", chromedp.SendKeys("#username", "alice"))
	b.eval(`document.querySelector("#code").value = "ABCD", document.querySelector("#code").dispatchEvent(new Event("input")), ""`)
	b.until("the challenge to be folded away", `document.querySelector("fieldset.challenge").hidden && document.body.innerText.includes("do not need to solve")`)
	b.eval(`document.querySelector("#code").value = "", document.querySelector("#code").dispatchEvent(new Event("input")), ""`)
	b.eval(`window.first = document.querySelector(".captcha-image").src, ""`)
	b.do("another image", chromedp.Click("[data-another]"))
	b.until("another image, and what was typed", `document.querySelector(".captcha-image").src !== window.first &&
		document.querySelector(".captcha-image").complete && document.querySelector("#username").value === "alice"`)
	b.eval(`document.querySelector("#username").value = ""`)
	b.do("wrong digits", chromedp.SendKeys("#captcha_answer", wrongDigits(*known.last.Load())))
	b.send("alice", rightPassword)
	b.until("another image, and the password to stay", `document.body.innerText.includes("The challenge was not solved") &&
		document.querySelector(".captcha-image").complete && document.activeElement.id === "captcha_answer" &&
		document.querySelector("#username").value === "alice" && document.querySelector("#password").value`)
	b.do("the digits", chromedp.SendKeys("#captcha_answer", *known.last.Load()+kb.Enter))
	b.until("being signed in", `document.body.innerText.toLowerCase().includes("you are signed in")`)

	// Without JavaScript the picture alone does, ten times an hour.
	for try, user := range []string{"bob", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"} {
		if try <= 1 { // bob's browser has a cookie that it is known by
			b = openTab(t)
			b.withoutScripts()
		}
		b.goTo(s.base + "/login")
		b.do("the digits", chromedp.SendKeys("#captcha_answer", *known.last.Load()))
		if try == 0 {
			b.picture("login-no-script")
		}
		b.send(user, rightPassword)
		switch try {
		case 0:
			b.until("being signed in", `document.body.innerText.toLowerCase().includes("you are signed in")`)
		case 10:
			b.until("being told how long to wait", `document.body.innerText.includes("Enable JavaScript") && document.querySelector("[data-wait-for]").textContent.match(/hour|minutes/)`)
			b.picture("login-no-script-wait")
		default:
			b.until("the password to be looked at", `document.body.innerText.includes("Wrong user name or password")`)
		}
	}
}
