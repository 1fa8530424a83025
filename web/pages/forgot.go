package pages

// ForgotView is the page where users ask for a link to reset their password. It posts username and the challenge's
// fields to /login/forgot.
type ForgotView struct {
	GateView
	// Username is the last input. Asked is set after a request. The page never shows whether an email was sent, which
	// would reveal whether the account exists.
	Username string
	Asked    bool
}

// RenderForgot draws the page.
func RenderForgot(v ForgotView) ([]byte, error) { return render("forgot", v) }

// Subheading returns the message's title.
func (v ForgotView) Subheading() string { return v.title(v.Message) }

// Again returns the link to another image.
func (v ForgotView) Again() string { return v.Base + "/login/forgot" }

// FocusOn is the message during a wait, else the first empty field.
func (v ForgotView) FocusOn() string {
	if v.Message.Waits() {
		return "message"
	}
	return "username"
}

// Frame returns the page's title and scripts.
func (v ForgotView) Frame() frame {
	title := v.T("forgot.title")
	if v.Message.Tone() == "bad" {
		title = v.title(v.Message) + " · " + title
	}
	return frame{Page: v.Page, Title: title, Script: "login.js", PoW: v.Challenge.PoW(), Remote: v.Challenge.Remote()}
}
