package pages

import (
	"strconv"
	"time"

	"authguard/captchamode/challenge/image"
	"authguard/internal/times"
)

// LoginView is the sign-in page of the site and of the admin console.
type LoginView struct {
	Page
	Admin bool
	// Username is the last input, so that the user need not type it twice.
	Username string
	// Next is the page after the login. The handler must check that it is a path of this site (open redirect).
	Next string
	// SignedInAs is the account of the running session. The page then offers to continue or to sign out (POST /logout).
	SignedInAs string
	// Account and Password offer links to the account's page and to its password.
	Account, Password bool
	Message           Message
	// Resets offers the page /login/forgot, in place of the look's URL.
	Resets bool
	// Challenge is zero if none is required.
	Challenge Challenge
	// Passkeys offers a sign-in without user name and password (POST /login/passkey), to every visitor. PasskeysAt is the
	// host where passkeys work if this one does not; empty if unknown.
	Passkeys   bool
	PasskeysAt string

	marked bool // marks stand in for the parts that differ between attempts, see LoginPages
}

// A ChallengeKind says how to solve a challenge.
type ChallengeKind string

const (
	// ChallengeImage is an image CAPTCHA with an audio CAPTCHA.
	ChallengeImage ChallengeKind = "image"
	// ChallengePoW is a proof of work by /static/pow.js; without JavaScript it is an image CAPTCHA.
	ChallengePoW ChallengeKind = "pow"
	// ChallengeBoth is a proof of work and an image CAPTCHA.
	ChallengeBoth ChallengeKind = "both"
	// ChallengeRemote is a provider's widget by /static/remote.js; without JavaScript it is an image CAPTCHA.
	ChallengeRemote ChallengeKind = "remote"
)

// A Challenge is one issued challenge. The zero Challenge is none.
type Challenge struct {
	// ID is posted as captcha_id, the digits as captcha_answer, and the result of pow.js as captcha_work.
	ID   string
	Kind ChallengeKind
	// Image and Audio are paths of this site; an empty one is left out.
	Image string
	Audio string
	// PoWJSON is the attribute data-pow, which pow.js reads.
	PoWJSON string
	// The fields of a provider's widget, see challenge.Remote. Bound is its Data.
	Service, Script, Class, SiteKey, Action, Bound string
}

// Digits is how many digits the image has.
func (c Challenge) Digits() string { return strconv.Itoa(image.DefaultDigits) }

// PoW reports whether the browser has to compute a proof of work.
func (c Challenge) PoW() bool { return c.Kind == ChallengePoW || c.Kind == ChallengeBoth }

// Remote reports whether the challenge is a provider's widget.
func (c Challenge) Remote() bool { return c.Kind == ChallengeRemote }

// Both reports whether the image CAPTCHA is required as well.
func (c Challenge) Both() bool { return c.Kind == ChallengeBoth }

// A wait is a delay: in seconds for the browser's countdown, in words, and its end for programs and for users. Client
// is what a blocked user can tell the administrator.
type wait struct{ Seconds, Words, ISO, Clock, Client string }

// Wait returns the message's wait.
func (v LoginView) Wait() wait {
	if v.marked {
		return wait{slotSeconds.mark(), slotWords.mark(), slotISO.mark(), slotClock.mark(), slotClient.mark()}
	}
	return v.wait(v.Message)
}

func (p Page) wait(m Message) wait {
	return wait{
		strconv.Itoa(int((max(m.RetryAfter, 0) + time.Second - 1) / time.Second)), p.language().Spell(m.RetryAfter),
		times.RFC3339(m.RetryAt), times.Text(m.RetryAt), m.Client + ", " + times.Text(m.RetryAt.Add(-m.RetryAfter).UTC()),
	}
}

// FocusOn returns the element that has the focus: the message during a wait, else the first empty field.
func (v LoginView) FocusOn() string {
	switch {
	case v.Message.Waits():
		return "message"
	case v.Username == "":
		return "username"
	}
	return "password"
}

// AskCode offers a field for a verification code. The code replaces the CAPTCHA digits, so only login.js makes those
// required, while the code is empty.
func (v LoginView) AskCode() bool { return true }

// AsksForCode opens the field for a verification code if it is the quickest way in, or a code was wrong.
func (v LoginView) AsksForCode() bool { return v.Message.AsksForCode() }

// Lines returns the message's text.
func (v LoginView) Lines() []string { return v.lines(v.Message, false) }

// Subheading returns the message's title.
func (v LoginView) Subheading() string { return v.title(v.Message) }

// TypeMeanwhile returns the key of what the user can do during the proof of work.
func (v LoginView) TypeMeanwhile() string {
	if v.Challenge.Both() {
		return "work.type"
	}
	return "work.type-name"
}

// Again returns the link to another image.
func (v LoginView) Again() string { return v.Base + loginPath(v.Next) }

// ForgotLink returns the target of "Forgot your password?"; empty for no link.
func (v LoginView) ForgotLink() string {
	switch {
	case v.Admin:
		return ""
	case v.Resets:
		return v.Base + "/login/forgot"
	}
	return v.Forgot()
}

// CodeView is the page that says how to get a verification code.
type CodeView struct {
	Page
	Admin bool
	// Mail offers to send a code to the account's owner.
	Mail bool
	// Username is the last input. Asked is set after a request for a code. The page never shows whether a code was sent,
	// which would reveal whether the account exists.
	Username string
	Asked    bool
	// Problem is the handler's sentence in the page's language about an incomplete form.
	Problem string
	// Back is the sign-in page; empty if the app has it.
	Back string
}

// RenderCode draws the page.
func RenderCode(v CodeView) ([]byte, error) { return render("code", v) }

// Frame returns the page's title and script.
func (v CodeView) Frame() frame {
	title := v.T("code.label")
	if v.Admin {
		title += " · Admin console"
	}
	return frame{Page: v.Page, Title: title, Script: "login.js"}
}

// Frame returns the page's title and scripts.
func (v LoginView) Frame() frame {
	title := v.T("login.title")
	switch {
	case v.SignedInAs != "":
		title = v.T("login.signed-in")
	case v.Message.Tone() == "bad":
		title = v.title(v.Message) + " · " + title
	}
	if v.Admin {
		title += " · Admin console"
	}
	return frame{Page: v.Page, Title: title, Script: "login.js", PoW: v.Challenge.PoW(), Remote: v.Challenge.Remote(),
		Passkey: v.Passkeys}
}

// SecondView asks for MFA. It posts csrf, next, otp or assertion and state, and the challenge's fields to
// /login/second.
type SecondView struct {
	LoginView
	CSRF string
	// Code is the verification code that came with the password, if it is needed again.
	Code string
	// App, Passkey and Recovery are the account's MFA methods. PasskeyHost is the host where its other passkeys work.
	App, Passkey, Recovery bool
	PasskeyHost            string
}

// RenderSecond draws the page.
func RenderSecond(v SecondView) ([]byte, error) { return render("second", v) }

// Frame returns the page's title and scripts.
func (v SecondView) Frame() frame {
	f := v.LoginView.Frame()
	f.Passkey = v.Passkey
	return f
}

// AskCode is false: only the sign-in page has the field for a verification code.
func (v SecondView) AskCode() bool { return false }

// Again returns the link to another image.
func (v SecondView) Again() string { return "/login/second?challenge" }

// Label returns the label of the input.
func (v SecondView) Label() string {
	switch {
	case v.App && v.Recovery:
		return "Code from your app, or a recovery code"
	case v.App:
		return "Code from your app"
	}
	return "Recovery code"
}
