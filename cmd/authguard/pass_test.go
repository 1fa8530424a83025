package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"authguard/internal/testing/redistest"
)

// closed is the part of a configuration in which a hundred failures close an
// account to strangers, and nothing else gets in the way of a test.
const closed = quiet + "limits: {account: [100/24h block]}\n"

// closeToStrangers fails a hundred times at an account, from as many addresses.
func closeToStrangers(t *testing.T, s *server, account string) {
	t.Helper()
	tally(100, 4, func(i int) int { return from(loopback(90, i)).login(t, s, account, "wrong").status })
	if a := from("127.91.0.1").login(t, s, account, rightPassword); a.status != http.StatusTooManyRequests {
		t.Fatalf("the account is not closed to strangers: %d", a.status)
	}
}

// run runs a command of the product and returns what it printed.
func (s *server) run(args ...string) string {
	s.t.Helper()
	out, err := s.command(args...).Output()
	if err != nil {
		failed, _ := err.(*exec.ExitError)
		s.t.Fatalf("%v: %v: %s", args, err, failed.Stderr)
	}
	return string(out)
}

var codePattern = regexp.MustCompile(`[A-Z2-7]{4}(-[A-Z2-7]{4}){3}`)

func TestR29TheOwnerGetsIntoAClosedAccountWithACode(t *testing.T) {
	long(t)
	t.Parallel()
	s := newServer(t, closed, "alice")
	closeToStrangers(t, s, "alice")
	owner := from("127.91.0.2")
	refused := owner.login(t, s, "alice", rightPassword)
	if refused.status != http.StatusTooManyRequests || !strings.Contains(refused.body, "/login/code") {
		t.Errorf("the owner at a new place: %d %s", refused.status, refused.body)
	}
	if a := owner.login(t, s, "alice", rightPassword, "code", "AAAA-BBBB-CCCC-DDDD"); a.status != http.StatusTooManyRequests || !strings.Contains(a.body, "The verification code is not valid") {
		t.Errorf("a made-up code: %d %s", a.status, a.body)
	}
	var made struct{ Account, Code string }
	if err := json.Unmarshal([]byte(s.run("user", "create-code", "alice", "--for", "1h", "--json")), &made); err != nil || !codePattern.MatchString(made.Code) {
		t.Fatalf("%+v, %v", made, err)
	}
	if a := owner.login(t, s, "alice", "wrong", "code", made.Code); a.status != http.StatusUnauthorized {
		t.Errorf("the code and a wrong password: %d", a.status)
	}
	if a := owner.login(t, s, "alice", rightPassword, "code", strings.ToLower(made.Code)); a.status != http.StatusOK {
		t.Fatalf("the code and the right password: %d %s", a.status, a.body)
	}
	owner.jar = map[string]string{}
	if a := owner.login(t, s, "alice", rightPassword); a.status != http.StatusOK {
		t.Errorf("from there without the code: %d", a.status)
	}
	for _, who := range []string{loopback(90, 3), "127.91.0.3"} {
		if a := from(who).login(t, s, "alice", rightPassword, "code", made.Code); a.status != http.StatusTooManyRequests {
			t.Errorf("the code again from %s: %d", who, a.status)
		}
	}
	if text := s.run("user", "create-code", "alice"); !codePattern.MatchString(text) || !strings.Contains(text, "shown once") {
		t.Error(text)
	}
	if out, err := s.command("user", "create-code", "nobody").CombinedOutput(); err == nil || !strings.Contains(string(out), "no such account") {
		t.Errorf("%v %s", err, out)
	}
	if out, err := s.command("user", "create-code", "alice", "--for", "25h").CombinedOutput(); err == nil || !strings.Contains(string(out), "24 hours") {
		t.Errorf("%v %s", err, out)
	}
}

// A postbox is a mail server: it hands over every letter, or takes connections
// and never says a word.
type postbox struct {
	net.Listener
	letters chan string
}

func openPostbox(t *testing.T, silent bool) *postbox {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &postbox{l, make(chan string, 100)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if silent {
				t.Cleanup(func() { _ = c.Close() })
				continue
			}
			go p.serve(c)
		}
	}()
	return p
}

// serve speaks as much of SMTP (RFC 5321) as a client asks for.
func (p *postbox) serve(c net.Conn) {
	defer c.Close()
	fmt.Fprint(c, "220 postbox\r\n")
	var letter *strings.Builder
	for lines := bufio.NewScanner(c); lines.Scan(); {
		line := lines.Text()
		switch {
		case letter != nil && line == ".":
			p.letters <- letter.String()
			letter = nil
			fmt.Fprint(c, "250 taken\r\n")
		case letter != nil:
			letter.WriteString(line + "\n")
		case line == "DATA":
			letter = new(strings.Builder)
			fmt.Fprint(c, "354 go on\r\n")
		case line == "QUIT":
			fmt.Fprint(c, "221 bye\r\n")
			return
		default:
			fmt.Fprint(c, "250 well\r\n")
		}
	}
}

// ask asks for a code to be sent.
func (p *person) ask(t *testing.T, s *server, name string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/login/code", strings.NewReader(url.Values{"username": {name}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return p.do(t, r)
}

func TestR29TheOwnerIsSentACodeAndNobodyLearnsWhoHasAnAccount(t *testing.T) {
	long(t)
	t.Parallel()
	mail := openPostbox(t, false)
	s := newServer(t, closed+"origin: https://login.example.org\nmail: {server: 'smtp://"+mail.Addr().String()+"', from: 'Example <login@example.org>'}\n",
		"alice@example.org", "bob-without-email")
	closeToStrangers(t, s, "alice@example.org")
	owner := from("127.92.0.1")
	known := owner.ask(t, s, "Alice@Example.org")
	for i, name := range []string{"nobody@example.org", "bob-without-email"} { // a long name has a tooltip
		unknown := from(fmt.Sprintf("127.92.1.%d", i)).ask(t, s, name)
		if unknown.status != known.status || strings.ReplaceAll(unknown.body, name, "") != strings.ReplaceAll(known.body, "Alice@Example.org", "") {
			t.Errorf("%s: %d %s\nthe owner: %d %s", name, unknown.status, unknown.body, known.status, known.body)
		}
	}
	letter := <-mail.letters
	code := codePattern.FindString(letter)
	for _, part := range []string{"<alice@example.org>", "\"Example\" <login@example.org>", "https://login.example.org/login", code} {
		if part == "" || !strings.Contains(letter, part) {
			t.Errorf("%q is not in the letter:\n%s", part, letter)
		}
	}
	if a := owner.login(t, s, "alice@example.org", rightPassword, "code", code); a.status != http.StatusOK {
		t.Errorf("with the code that was sent: %d %s", a.status, a.body)
	}
	select {
	case letter := <-mail.letters:
		t.Errorf("a second letter: %s", letter)
	default:
	}
	redistest.Until(t, "the record", func() bool {
		return strings.Contains(s.adminAPI(t, "/api/audit?kind=admin"), `"who":"mail"`)
	})
}

// adminAPI asks the running server over its socket, as commands do.
func (s *server) adminAPI(t *testing.T, path string) string {
	t.Helper()
	c := http.Client{Transport: &http.Transport{Dial: func(string, string) (net.Conn, error) {
		return net.Dial("unix", s.dir+"/data/"+socketName)
	}}}
	response, err := c.Get("http://authguard" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text strings.Builder
	_, _ = bufio.NewReader(response.Body).WriteTo(&text)
	return text.String()
}

func TestADeadMailServerDelaysNobody(t *testing.T) {
	t.Parallel()
	mail := openPostbox(t, true)
	s := newServer(t, quiet+"mail: {server: 'smtp://"+mail.Addr().String()+"', from: login@example.org}\n", "alice@example.org")
	counts := tally(400, 20, func(i int) int { return from(loopback(93, i)).ask(t, s, "alice@example.org").status })
	if counts[http.StatusAccepted] != 400 {
		t.Errorf("asked 400 times: %v", counts)
	}
	began := time.Now()
	if a := from("127.93.200.1").login(t, s, "alice@example.org", rightPassword); a.status != http.StatusOK || time.Since(began) > time.Minute {
		t.Errorf("a login meanwhile: %d after %v", a.status, time.Since(began))
	}
	began = time.Now()
	if s.stop(); time.Since(began) > time.Minute {
		t.Errorf("stopping took %v: it waits for the mail server", time.Since(began))
	}
}

// tabTo presses the tab key until the focus is on what an expression says.
func (b *tab) tabTo(what, selector string) {
	b.t.Helper()
	for range 30 {
		if b.eval(fmt.Sprintf("String(document.activeElement === document.querySelector(%q))", selector)) == "true" {
			return
		}
		b.do("tab", chromedp.KeyEvent(kb.Tab))
	}
	b.t.Fatalf("the keyboard does not get to %s:\n%s", what, b.text())
}

func TestR29TheWayInByKeyboardInABrowser(t *testing.T) {
	long(t)
	t.Parallel()
	s := newServer(t, closed, "alice")
	closeToStrangers(t, s, "alice")
	b := openTab(t)
	b.goTo(s.base + "/login")
	b.picture("login")
	b.tabTo("the user name", "#username")
	b.do("typing", chromedp.KeyEvent("alice\t"+rightPassword+kb.Enter))
	b.until("being refused", `document.querySelector("form[data-retry-after]")`)
	b.picture("refused")
	b.tabTo("how to get a code", "#code_hint a")
	b.do("the link", chromedp.KeyEvent(kb.Enter))
	b.until("the page about codes", `location.pathname === "/login/code"`)
	b.picture("code")
	b.tabTo("the way back", ".after a")
	b.do("the link", chromedp.KeyEvent(kb.Enter))
	b.until("the login page", `location.pathname === "/login"`)
	b.tabTo("the user name", "#username")
	b.do("typing", chromedp.KeyEvent("alice\t"+rightPassword))
	b.tabTo("the field for a code", "details.code summary")
	b.do("opening it", chromedp.KeyEvent(" "))
	b.tabTo("the field for a code", "#code")
	b.do("typing", chromedp.KeyEvent("aaaa bbbb cccc dddd"+kb.Enter))
	b.until("the code to be refused", `document.querySelector("#message")?.innerText.includes("The verification code is not valid")`)
	b.picture("code-wrong")
	b.tabTo("the password", "#password")
	b.do("typing", chromedp.KeyEvent(rightPassword))
	b.tabTo("the field for a code", "#code")
	b.do("typing", chromedp.KeyEvent(strings.ToLower(codePattern.FindString(s.run("user", "create-code", "alice")))+kb.Enter))
	b.until("being signed in", `document.body.innerText.toLowerCase().includes("you are signed in")`)
}

func TestTheAdministratorMakesACodeInABrowser(t *testing.T) {
	long(t)
	t.Parallel()
	s := newServer(t, closed, "alice", "admin")
	closeToStrangers(t, s, "alice")
	b := openTab(t)
	b.goTo(s.admin + "/lookup?account=alice")
	b.send("admin", rightPassword)
	b.do("the look-up", chromedp.WaitVisible("form[action='/pass'] button"))
	b.picture("admin-lookup")
	b.do("making a code", chromedp.Click("form[action='/pass'] button"), chromedp.WaitVisible("code.secret"))
	b.picture("admin-code")
	code := b.eval(`document.querySelector(".one-time-code code").textContent`)
	if a := from("127.94.0.1").login(t, s, "alice", rightPassword, "code", code); a.status != http.StatusOK {
		t.Errorf("with the code %q: %d", code, a.status)
	}
	b.goTo(s.admin + "/lookup?account=alice")
	if strings.Contains(b.text(), code) {
		t.Error("the code is shown again")
	}
}

// A picture of digits keeps no browser from sending a code without its answer, with
// JavaScript or without, on the sign-in page or before an app's own form.
func TestR29ACodeAloneIsSentByABrowserThatIsAskedForDigits(t *testing.T) {
	long(t)
	t.Parallel()
	for name, door := range map[string]struct{ path, proxy, inside string }{
		"sign-in": {"/login", "", "you are signed in"},
		"gate":    {"/form", proxied(newLegacy(t, "shop")), "the page of shop at /home"},
	} {
		s := newServer(t, quiet+"challenge: {kind: image}\nlimits: {account: [5/1h challenge]}\n"+door.proxy, "alice", "bob")
		for user, scripts := range map[string]bool{"alice": true, "bob": false} {
			for i := range 5 {
				from(loopback(95, i)).guess(t, s.base, user, fmt.Sprint("wrong", i))
			}
			b := openTab(t)
			if !scripts {
				b.withoutScripts()
			}
			b.goTo(s.base + door.path)
			b.send(user, rightPassword)
			b.do("the challenge", chromedp.WaitVisible("#captcha_answer"))
			if door.proxy == "" {
				b.do("the password again", chromedp.SendKeys("#password", rightPassword))
			}
			const sendable = `document.querySelector("main form").checkValidity()`
			if scripts {
				b.until(name+": the digits being asked for", "!"+sendable)
			}
			b.do("the code", chromedp.Click("details.code summary"), chromedp.SendKeys("#code", codePattern.FindString(s.run("user", "create-code", user))))
			b.until(fmt.Sprintf("%s, scripts %v: the code being enough", name, scripts), sendable)
			b.picture(fmt.Sprintf("code-alone-%s-%v", name, scripts))
			b.do("sending", chromedp.Click("main form button[type=submit]"))
			b.until("being let in", `document.body.innerText.toLowerCase().includes("`+door.inside+`")`)
		}
	}
}
