package pages

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

func loginDoc(t *testing.T, v LoginView) *html.Node {
	t.Helper()
	return parse(t, func() ([]byte, error) { return new(LoginPages).Render(v) })
}

func named(doc *html.Node, name string) []*html.Node {
	var out []*html.Node
	for _, in := range elements(doc, "input") {
		if attr(in, "name") == name {
			out = append(out, in)
		}
	}
	return out
}

func TestTheNameIsKeptAndThePasswordIsNot(t *testing.T) {
	t.Parallel()
	doc := loginDoc(t, LoginView{Username: "alice", Message: Message{Kind: WrongCredentials}})
	if v := attr(named(doc, "username")[0], "value"); v != "alice" {
		t.Errorf("username = %q", v)
	}
	password := named(doc, "password")[0]
	if has(password, "value") || !has(password, "autofocus") || attr(password, "autocomplete") != "current-password" {
		t.Errorf("password input: %v", password.Attr)
	}
}

func TestWithoutScriptOneAnswerIsSent(t *testing.T) {
	t.Parallel()
	for _, c := range []Challenge{digits(), work()} {
		doc := loginDoc(t, LoginView{Challenge: c})
		if n := len(named(doc, "captcha_answer")); n != 1 {
			t.Errorf("%s: %d inputs named captcha_answer", c.Kind, n)
		}
		if v := attr(named(doc, "captcha_id")[0], "value"); v != c.ID {
			t.Errorf("%s: captcha_id = %q", c.Kind, v)
		}
	}
}

func TestWorkIsHandedToTheScriptUnchanged(t *testing.T) {
	t.Parallel()
	doc := loginDoc(t, LoginView{Challenge: work()})
	for _, n := range elements(doc, "div") {
		if has(n, "data-pow") {
			if attr(n, "data-pow") != work().PoWJSON {
				t.Errorf("data-pow = %q", attr(n, "data-pow"))
			}
			return
		}
	}
	t.Error("no element has data-pow")
}

func TestWaitingIsSaidInWordsAndInSeconds(t *testing.T) {
	t.Parallel()
	v := LoginView{Username: "alice", Message: Message{Kind: SlowDown, RetryAfter: 1500 * time.Millisecond, RetryAt: noon}}
	page := text(t, func() ([]byte, error) { return new(LoginPages).Render(v) })
	for _, want := range []string{`data-retry-after="2"`, "2 seconds", "2026-03-14 12:00:30 UTC", `datetime="2026-03-14T12:00:30.000Z"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
}

func TestEveryMessageSaysWhatHappenedAndWhatItMeans(t *testing.T) {
	t.Parallel()
	for kind := NoMessage + 1; kind <= SignedOut; kind++ {
		v := LoginView{Message: Message{Kind: kind}}
		if v.Message.Tone() == "" || v.Subheading() == "" || len(v.Lines()) == 0 || v.Lines()[0] == "" {
			t.Errorf("kind %d: %q %q %q", kind, v.Message.Tone(), v.Subheading(), v.Lines())
		}
	}
}

func TestWrongNeverSaysWhich(t *testing.T) {
	t.Parallel()
	known := text(t, func() ([]byte, error) {
		return new(LoginPages).Render(LoginView{Username: "alice", Message: Message{Kind: WrongCredentials}})
	})
	for _, word := range []string{"exist", "unknown", "no such", "not found"} {
		if strings.Contains(strings.ToLower(known), word) {
			t.Errorf("the page says %q", word)
		}
	}
}

func TestSignedInOffersNoForm(t *testing.T) {
	t.Parallel()
	doc := loginDoc(t, LoginView{SignedInAs: "alice", Next: "/account"})
	if len(named(doc, "password")) != 0 {
		t.Error("somebody who is signed in is asked for a password")
	}
	forms := elements(doc, "form")
	if len(forms) != 1 || attr(forms[0], "action") != "/logout" || attr(forms[0], "method") != "post" {
		t.Errorf("%d forms", len(forms))
	}
}

func TestAScriptIsNoWayOn(t *testing.T) {
	t.Parallel()
	page := text(t, func() ([]byte, error) {
		return new(LoginPages).Render(LoginView{SignedInAs: "alice", Next: "javascript:alert(1)"})
	})
	if strings.Contains(page, `href="javascript:`) {
		t.Error("a link runs a script")
	}
}

func TestAProblemIsTiedToItsField(t *testing.T) {
	t.Parallel()
	doc := parse(t, func() ([]byte, error) { return RenderPassword(refusedPassword()) })
	in := named(doc, "repeat_password")[0]
	if attr(in, "aria-invalid") != "true" || !strings.Contains(attr(in, "aria-describedby"), "repeat_password_problem") {
		t.Errorf("repeat_password: %v", in.Attr)
	}
	if !has(named(doc, "current_password")[0], "autofocus") {
		t.Error("the first problem does not have the focus")
	}
}

// A field that is required keeps the browser from sending a code alone, which the
// server takes (R29). login.js asks for the digits while there is no code.
func TestWhereACodeCanBeTypedTheDigitsAreNotRequired(t *testing.T) {
	t.Parallel()
	required := Message{Kind: ChallengeRequired}
	for name, tc := range map[string]struct {
		doc                *html.Node
		required, byScript bool
	}{
		"sign-in":             {loginDoc(t, LoginView{Challenge: digits(), Message: required}), false, true},
		"sign-in, ahead":      {loginDoc(t, LoginView{Challenge: digits(), Message: Message{Kind: ChallengeAhead}}), false, false},
		"gate":                {gateDoc(t, GateView{AskCode: true, Sealed: "x", Challenge: digits(), Message: required}), false, true},
		"gate without a code": {gateDoc(t, GateView{Sealed: "x", Challenge: digits(), Message: required}), true, false},
	} {
		in := named(tc.doc, "captcha_answer")[0]
		if has(in, "required") != tc.required || has(in, "data-unless-code") != tc.byScript {
			t.Errorf("%s: %v", name, in.Attr)
		}
		if tc.byScript && len(named(tc.doc, "code")) != 1 {
			t.Errorf("%s: there is no field for a code", name)
		}
	}
}
