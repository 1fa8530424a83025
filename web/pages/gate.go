package pages

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
)

// GateView is the page between a visitor and the form of an application that
// cannot be changed: a challenge, a wait, or why it does not go on. It asks for
// no password. It posts authguard_form, authguard_next, captcha_id,
// captcha_answer, captcha_work and, with AskCode, code; the first two always,
// so that a post from here is told from one of the application's form.
type GateView struct {
	Page
	// Action is where the form goes: a path of the application's, which the
	// handler has checked to be one of this site.
	Action string
	// Sealed is the form that was sent, sealed; empty before there was one.
	Sealed string
	// Next is where the visitor was going, a path of this site.
	Next string
	// Account is whom the form is for, as it was typed; empty shows nobody.
	Account string
	// AskCode offers a field for a one-time code, and the page /login/code.
	AskCode bool
	// Message is ChallengeAhead before a form was sent, and never
	// WrongCredentials: the application says that.
	Message Message
	// Challenge is zero where none is asked for. Its paths are whole.
	Challenge Challenge
}

// RenderGate draws the page.
func RenderGate(v GateView) ([]byte, error) { return render("gate", v) }

// Lines are what the message says here, where what was typed is kept.
func (v GateView) Lines() []string { return v.lines(v.Message, true) }

// Subheading is none: what the message says first is the heading of the page.
func (v GateView) Subheading() string { return "" }

// Wait is the message's wait.
func (v GateView) Wait() wait { return v.wait(v.Message) }

// FocusOn is the message: the field comes after it, and whoever hears the page
// did not ask for it.
func (v GateView) FocusOn() string { return "message" }

// AsksForCode reports whether the field for a one-time code is open.
func (v GateView) AsksForCode() bool { return v.Message.AsksForCode() }

// Again is the link to another picture. Where a form was sent it is none, since
// following a link would lose the form: there a button asks for it.
func (v GateView) Again() string {
	if v.Sealed != "" {
		return ""
	}
	return cmp.Or(v.Next, v.Action)
}

// TypeMeanwhile is the key of what may be done while the browser works.
func (v GateView) TypeMeanwhile() string { return "work.type" }

// Frame is what surrounds the page.
func (v GateView) Frame() frame {
	return frame{Page: v.Page, Title: v.title(v.Message), Script: "login.js", PoW: v.Challenge.PoW(), Remote: v.Challenge.Remote()}
}

// DownView is the page for when the application does not answer.
type DownView struct {
	Page
	// Status is 502, or 504 when it took too long.
	Status int
	// Retry is where to try again, a path of this site; empty, as after a
	// form, leaves the link out.
	Retry string
}

// RenderDown draws the page.
func RenderDown(v DownView) ([]byte, error) { return render("down", v) }

// Code is the status.
func (v DownView) Code() string { return strconv.Itoa(v.Status) }

// Late reports whether it took too long, so that the application may have done
// what it was asked all the same.
func (v DownView) Late() bool { return v.Status == http.StatusGatewayTimeout }

// Frame is what surrounds the page.
func (v DownView) Frame() frame { return frame{Page: v.Page, Title: v.T("down.title")} }

// loginPath is the sign-in page that leads to next.
func loginPath(next string) string {
	if next == "" {
		return "/login"
	}
	return "/login?next=" + url.QueryEscape(next)
}
