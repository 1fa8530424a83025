package pages

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func gateDoc(t *testing.T, v GateView) *html.Node {
	t.Helper()
	return parse(t, func() ([]byte, error) { return RenderGate(v) })
}

func TestTheGateKeepsTheFormAndAsksForNoPassword(t *testing.T) {
	t.Parallel()
	sealed := strings.Repeat("A-_9", 5<<10)
	doc := gateDoc(t, GateView{Action: "/wp-login.php", Sealed: sealed, Account: "alice", Challenge: digits(), Message: Message{Kind: ChallengeRequired}})
	form := elements(doc, "form")[0]
	if attr(form, "action") != "/wp-login.php" || attr(form, "method") != "post" {
		t.Errorf("the form: %v", form.Attr)
	}
	for name, want := range map[string]string{"authguard_form": sealed, "captcha_id": "c1"} {
		if fields := named(form, name); len(fields) != 1 || attr(fields[0], "value") != want || attr(fields[0], "type") != "hidden" {
			t.Errorf("the field %s is not as it was given", name)
		}
	}
	if len(named(doc, "password")) != 0 || len(named(doc, "code")) != 0 {
		t.Error("the page asks for what nobody asked it to")
	}
	if !strings.Contains(inner(doc), "alice") {
		t.Error("the page does not say whom it is for")
	}
}

// A form that was typed must survive the wish for another picture, and the enter
// key must not be that wish: browsers press the first button.
func TestAnotherPictureLosesNoForm(t *testing.T) {
	t.Parallel()
	doc := gateDoc(t, GateView{Action: "/login/", Sealed: "c2VhbGVk", Challenge: digits(), Message: Message{Kind: ChallengeRequired}})
	buttons := elements(doc, "button")
	if len(buttons) != 2 || !has(buttons[0], "data-busy") || !has(buttons[1], "formnovalidate") {
		t.Errorf("%d buttons, the first %v", len(buttons), buttons[0].Attr)
	}
	for _, a := range elements(doc, "a") {
		if attr(a, "href") == "/login/" {
			t.Error("a link leads away from the form")
		}
	}
}

func TestOurPathsMove(t *testing.T) {
	t.Parallel()
	page := Page{Base: "/.authguard"}
	for _, draw := range []func() ([]byte, error){
		func() ([]byte, error) {
			return RenderGate(GateView{Page: page, Action: "/login/", AskCode: true, Challenge: work(), Message: Message{Kind: SlowDown}})
		},
		func() ([]byte, error) { return RenderDown(DownView{Page: page, Status: http.StatusBadGateway}) },
	} {
		for _, n := range elements(parse(t, draw)) {
			for _, key := range []string{"href", "src"} {
				v := attr(n, key)
				if strings.HasPrefix(v, "/") && !strings.HasPrefix(v, "/.authguard/") && !strings.HasPrefix(v, "/captcha/c1") && v != "/login/" {
					t.Errorf("<%s %s=%q> is a path of the application", n.Data, key, v)
				}
			}
		}
	}
}
