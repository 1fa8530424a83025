package pages

import (
	"net/http"
	"net/url"
	"strconv"
)

// GateView stands between a client and the login form of an app that cannot be changed. It shows a challenge, a wait or
// an error, and asks for no password. It posts authguard_form, captcha_id, captcha_answer, captcha_work and, with
// AskCode, code. The first is always there: it distinguishes its posts from those of the app's form.
type GateView struct {
	Page
	// Action is the form's target, a path of the app that the handler has checked to be on this site.
	Action string
	// Sealed is the submitted form, encrypted; empty if there was none, as with Basic.
	Sealed string
	// Account is the user name as typed; empty shows none.
	Account string
	// AskCode offers a field for a verification code, and the page /login/code.
	AskCode bool
	// Message is never WrongCredentials: the app reports that.
	Message Message
	// Challenge is zero if none is required. Its paths include Base.
	Challenge Challenge
}

// RenderGate draws the page.
func RenderGate(v GateView) ([]byte, error) { return render("gate", v) }

// Lines returns the message's text for a form whose input is kept.
func (v GateView) Lines() []string { return v.lines(v.Message, true) }

// Subheading is empty: the message's title is the heading of the page.
func (v GateView) Subheading() string { return "" }

// Wait returns the message's wait.
func (v GateView) Wait() wait { return v.wait(v.Message) }

// FocusOn is the message: screen readers must read it before the field, since the user did not expect this page.
func (v GateView) FocusOn() string { return "message" }

// AsksForCode reports whether the field for a verification code is open.
func (v GateView) AsksForCode() bool { return v.Message.AsksForCode() }

// Again is empty: following a link to another image would lose the form. A button stands there instead.
func (v GateView) Again() string { return "" }

// TypeMeanwhile returns the key of what the user can do during the proof of work.
func (v GateView) TypeMeanwhile() string { return "work.type" }

// Frame returns the page's title and scripts.
func (v GateView) Frame() frame {
	return frame{Page: v.Page, Title: v.title(v.Message), Script: "login.js", PoW: v.Challenge.PoW(),
		Remote: v.Challenge.Remote()}
}

// SolveView asks for a solution before an app's login that cannot show a challenge. It posts username, route, with a
// challenge captcha_id, captcha_answer and captcha_work, and with AskCode code.
type SolveView struct {
	// GateView has the form's target and account, the challenge and a message.
	GateView
	// Routes are the names to choose from. Route is the chosen one.
	Routes []string
	Route  string
	// Solved confirms the solution.
	Solved bool
}

// RenderSolve draws the page.
func RenderSolve(v SolveView) ([]byte, error) { return render("solve", v) }

// Lines returns the message's text.
func (v SolveView) Lines() []string { return v.lines(v.Message, false) }

// Subheading returns the message's title.
func (v SolveView) Subheading() string { return v.title(v.Message) }

// FocusOn is the message, if there is one.
func (v SolveView) FocusOn() string {
	if v.Message.Tone() != "" {
		return "message"
	}
	return ""
}

// Frame returns the page's title and scripts.
func (v SolveView) Frame() frame {
	f := v.GateView.Frame()
	f.Title = v.T("solve.title")
	if v.Solved {
		f.Title = v.T("solve.done")
	}
	return f
}

// DownView is the page for an app that does not answer.
type DownView struct {
	Page
	// Status is 502, or 504 for a timeout.
	Status int
	// Retry is the path to try again; empty, as after a form, for no link.
	Retry string
}

// RenderDown draws the page.
func RenderDown(v DownView) ([]byte, error) { return render("down", v) }

// Code returns the status.
func (v DownView) Code() string { return strconv.Itoa(v.Status) }

// Late reports a timeout: the app may have processed the request.
func (v DownView) Late() bool { return v.Status == http.StatusGatewayTimeout }

// Frame returns the page's title.
func (v DownView) Frame() frame { return frame{Page: v.Page, Title: v.T("down.title")} }

func loginPath(next string) string {
	if next == "" {
		return "/login"
	}
	return "/login?next=" + url.QueryEscape(next)
}
