package pages

import (
	"strconv"
	"time"
)

// LoginView is the sign-in page, of the site and of the administration.
type LoginView struct {
	Page
	// Admin puts "Admin console" above the heading.
	Admin bool
	// Username is what was typed last, so that nobody types it twice.
	Username string
	// Next is where to go afterwards. The handler must have checked that it is
	// a path of this site: here it becomes a hidden field and a link.
	Next string
	// SignedInAs is the account of the running session. When it is set, the
	// page offers to continue or to sign out (POST /logout) instead of a form.
	SignedInAs string
	Message    Message
	// Challenge is zero where none is asked for.
	Challenge Challenge
	// Passkeys says that one signs in without name and password (POST /login/passkey),
	// and PasskeysAt where, if that is not here and is known.
	Passkeys   bool
	PasskeysAt string

	marked bool // marks stand for what differs between attempts, see LoginPages
}

// A ChallengeKind says how a challenge is solved.
type ChallengeKind string

const (
	// ChallengeImage is a picture of digits, or their sound.
	ChallengeImage ChallengeKind = "image"
	// ChallengePoW is arithmetic done by /static/pow.js, with a picture for
	// browsers without JavaScript.
	ChallengePoW ChallengeKind = "pow"
	// ChallengeBoth is the arithmetic and the picture.
	ChallengeBoth ChallengeKind = "both"
	// ChallengeRemote is a provider's widget, drawn by /static/remote.js, with a
	// picture for browsers without JavaScript.
	ChallengeRemote ChallengeKind = "remote"
)

// A Challenge is one issued challenge. The zero Challenge is none.
type Challenge struct {
	// ID comes back as captcha_id, the digits as captcha_answer, and what pow.js
	// has found as captcha_work.
	ID   string
	Kind ChallengeKind
	// Image and Audio are paths of this site; an empty one is left out.
	Image string
	Audio string
	// PoWJSON is what pow.js reads from the attribute data-pow.
	PoWJSON string
	// Of a provider's widget: see challenge.Remote. Bound is its Data.
	Service, Script, Class, SiteKey, Action, Bound string
}

// PoW reports whether the browser has something to work at.
func (c Challenge) PoW() bool { return c.Kind == ChallengePoW || c.Kind == ChallengeBoth }

// Remote reports whether the challenge is a provider's widget.
func (c Challenge) Remote() bool { return c.Kind == ChallengeRemote }

// Both reports whether the picture is asked for as well.
func (c Challenge) Both() bool { return c.Kind == ChallengeBoth }

// A wait is how long to wait: in seconds for the browser's countdown, in words,
// and its end for programs and for people.
type wait struct{ Seconds, Words, ISO, Clock string }

// Wait is the message's wait.
func (v LoginView) Wait() wait {
	if v.marked {
		return wait{slotSeconds.mark(), slotWords.mark(), slotISO.mark(), slotClock.mark()}
	}
	return v.wait(v.Message)
}

func (p Page) wait(m Message) wait {
	return wait{
		strconv.Itoa(int((max(m.RetryAfter, 0) + time.Second - 1) / time.Second)), p.language().Spell(m.RetryAfter),
		m.RetryAt.UTC().Format("2006-01-02T15:04:05Z"), m.RetryAt.Format("15:04:05 MST"),
	}
}

// FocusOn is the field that the page starts in: the message when the form
// cannot be used yet, else the first field that is empty.
func (v LoginView) FocusOn() string {
	switch {
	case v.Message.Waits():
		return "message"
	case v.Username == "":
		return "username"
	}
	return "password"
}

// AskCode reports that there is a field for a one-time code, which stands in for the
// digits: then they are required by login.js alone, and only while it is empty.
func (v LoginView) AskCode() bool { return true }

// AsksForCode reports whether the field for a one-time code is open: where it is
// the quickest way in, and where one did not count.
func (v LoginView) AsksForCode() bool { return v.Message.AsksForCode() }

// Lines are what the message says here.
func (v LoginView) Lines() []string { return v.lines(v.Message, false) }

// Subheading stands above the message.
func (v LoginView) Subheading() string { return v.title(v.Message) }

// TypeMeanwhile is the key of what may be done while the browser works.
func (v LoginView) TypeMeanwhile() string {
	if v.Challenge.Both() {
		return "work.type"
	}
	return "work.type-name"
}

// Again is the link to another picture.
func (v LoginView) Again() string { return v.Base + loginPath(v.Next) }

// CodeView is the page that says how to get a one-time code.
type CodeView struct {
	Page
	Admin bool
	// Mail says that a code can be sent to the account's owner.
	Mail bool
	// Username is what was typed last. Asked says that a code was asked for;
	// whether one is on its way is told to nobody.
	Username string
	Asked    bool
	// Problem is a sentence of the handler's own in the page's language, for a form
	// that was incomplete.
	Problem string
	// Back is the sign-in page; empty where that is an application's.
	Back string
}

// RenderCode draws the page.
func RenderCode(v CodeView) ([]byte, error) { return render("code", v) }

// Frame is what surrounds the page.
func (v CodeView) Frame() frame {
	title := v.T("code.label")
	if v.Admin {
		title += " · Admin console"
	}
	return frame{Page: v.Page, Title: title, Script: "login.js"}
}

// Frame is what surrounds the page.
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
	return frame{Page: v.Page, Title: title, Script: "login.js", PoW: v.Challenge.PoW(), Remote: v.Challenge.Remote(), Passkey: v.Passkeys}
}

// SecondView is the page that asks for a second factor, after the password. It posts csrf,
// next, otp or assertion and state, and what a challenge asks for, to /login/second.
type SecondView struct {
	LoginView
	CSRF string
	// Code is the one-time code that came with the password, if it is needed again.
	Code string
	// App, Passkey and Recovery say what the account has. PasskeyHost is where another
	// passkey of it is good.
	App, Passkey, Recovery bool
	PasskeyHost            string
}

// RenderSecond draws the page.
func RenderSecond(v SecondView) ([]byte, error) { return render("second", v) }

// Frame is what surrounds the page.
func (v SecondView) Frame() frame {
	f := v.LoginView.Frame()
	f.Passkey = v.Passkey
	return f
}

// AskCode is of the other page: here is no field for a one-time code.
func (v SecondView) AskCode() bool { return false }

// Again is the link to another picture.
func (v SecondView) Again() string { return "/login/second" }

// Label is what the field is for.
func (v SecondView) Label() string {
	switch {
	case v.App && v.Recovery:
		return "Code from your app, or a recovery code"
	case v.App:
		return "Code from your app"
	}
	return "Recovery code"
}
