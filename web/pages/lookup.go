package pages

import (
	"cmp"

	"authguard/guard"
	"authguard/internal/control"
	"authguard/trusted"
)

// LookUpView is the page that says why somebody cannot sign in. It asks for itself
// with account and address; its forms post to /unlock, /forget and /pass.
type LookUpView struct {
	Admin
	LookUp LookUp
	// Pass is a one-time code that was just made; zero for none.
	Pass control.Code
}

// RenderLookUp draws the page.
func RenderLookUp(v LookUpView) ([]byte, error) { return render("lookup", v) }

// Frame is what surrounds the page.
func (v LookUpView) Frame() frame { return frame{Title: "Look up · Administration", Wide: true} }

// LookUp is the form that explains one account or address, and its answer.
type LookUp struct {
	// Account and Address are what was asked for, as typed.
	Account string
	Address string
	// Problem is a sentence of the handler's own, for what could not be
	// looked up.
	Problem string
	// Result is nil before anything was asked.
	Result *guard.Explanation
}

// Summary is what would happen to the next attempt, and why.
func (l LookUp) Summary() string {
	text := l.Result.Summary()
	for _, why := range l.Result.Why() {
		text += " " + Sentence(why)
	}
	return text
}

// Known reports whether the address is a known place of the account.
func (l LookUp) Known() bool { return l.Result.Status == trusted.Privileged }

// Limits are how the limits stand. The pair's delay is none of them.
func (l LookUp) Limits() (lines []limitLine) {
	for _, line := range l.Result.Lines {
		if !line.Delay {
			lines = append(lines, limitLine{line, l.Result.Whose(line.Subject)})
		}
	}
	return lines
}

// A limitLine is how one limit stands, and whose count it is.
type limitLine struct {
	guard.Line
	Name string
}

// Part is the filled part of the line's bar.
func (l limitLine) Part() string { return percent(float64(l.Used) / float64(max(l.Limit.Failures, 1))) }

// Beyond is what happens beyond the limit, in words.
func (l limitLine) Beyond() string {
	words := map[guard.Action]string{guard.Challenge: "a CAPTCHA", guard.Forget: "treated like a stranger's", guard.Wait: "told to wait"}
	return cmp.Or(words[l.Limit.Then], "refused until it frees")
}
