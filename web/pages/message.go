package pages

import (
	"cmp"
	"time"
)

// A MessageKind is what the sign-in page has to say.
type MessageKind uint8

const (
	NoMessage MessageKind = iota
	// WrongCredentials says that name and password do not match, and not
	// which of them is wrong.
	WrongCredentials
	// ChallengeRequired asks for a challenge; Message.Why says why.
	ChallengeRequired
	// ChallengeAhead announces a challenge before any password was sent, on
	// GET /login in CAPTCHA mode; Message.Why says why.
	ChallengeAhead
	// ChallengeFailed says that the last answer was wrong or too old.
	ChallengeFailed
	// Blocked says that an administrator has blocked the address (429). Waiting
	// is no advice.
	Blocked
	// SlowDown asks to wait for Message.RetryAfter (429).
	SlowDown
	// Overloaded says that the machine is busy (503).
	Overloaded
	// PicturesWait asks to wait those who run no JavaScript (429).
	PicturesWait
	// InvalidInput says that the form was incomplete (400); Message.Detail
	// says what to mend.
	InvalidInput
	// SignedOut confirms the end of a session.
	SignedOut
)

// A ChallengeWhy is the reason of a challenge.
type ChallengeWhy uint8

const (
	// WhyUnusual gives no particular reason.
	WhyUnusual ChallengeWhy = iota
	// WhyAccount: too many failures on this account.
	WhyAccount
	// WhyNetwork: too many failures from this address or the network around it.
	WhyNetwork
	// WhySite: CAPTCHA mode.
	WhySite
	// WhyWork: the picture alone does not do for this account.
	WhyWork
	// WhyElsewhere: one was solved, but for something else.
	WhyElsewhere
)

// A Message is one thing said above the form. The zero Message says nothing.
type Message struct {
	Kind MessageKind
	Why  ChallengeWhy
	// RetryAfter is how long to wait, for SlowDown and Overloaded.
	RetryAfter time.Duration
	// RetryAt is the same as a moment, for those without JavaScript; the zero
	// time leaves it out.
	RetryAt time.Time
	// CodeFailed says that the one-time code that came along was none.
	CodeFailed bool
	// Detail replaces the text of InvalidInput. It is the handler's own
	// sentence, never a copy of what was typed.
	Detail string

	gate bool // said on the page before an application's form
}

// said is what each kind of message says: its tone, what happened, and what it
// means and what to do next.
var said = [...]struct{ tone, title, text string }{
	NoMessage:         {},
	WrongCredentials:  {"bad", "That did not match", "The user name or the password is wrong. Check both, and Caps Lock, then try again."},
	ChallengeAhead:    {"calm", "One more step", "If you have signed in from here before, you may leave it empty."},
	ChallengeRequired: {"calm", "One more step", "Solve the challenge below and enter your password again: it was not looked at."},
	ChallengeFailed:   {"bad", "The digits did not match", "Your password was not looked at. Here is a new challenge: each one works once, for a few minutes."},
	SlowDown: {"calm", "Please wait before you try again", "There were several failed sign-ins, so the next one has to wait. Your password was not looked at. " +
		"Trying earlier does no harm, but it does not help."},
	Blocked: {"bad", "Sign-ins from your network are blocked", "Whoever runs this site has blocked the address that you come from, for everybody who has it. " +
		"Your password was not looked at. Use another connection, or ask them to lift the block."},
	Overloaded: {"calm", "Too busy at the moment", "Very many people are signing in, and we check only so many passwords at once. Yours was not looked at."},
	PicturesWait: {"calm", "Please wait before you try again", "Without JavaScript only a few sign-ins an hour are possible from one network, and a few a minute " +
		"on the whole site while it is attacked. Your password was not looked at. Turn JavaScript on and load the sign-in page again, and you need not wait."},
	InvalidInput: {"bad", "Something is missing", "Enter your user name and your password, then try again."},
	SignedOut:    {"good", "You are signed out", "This browser no longer acts for your account. On a computer that others use, close the window too."},
}

var whySaid = [...]string{
	WhyUnusual:   "Something about this sign-in is unusual.",
	WhyAccount:   "There were too many failed sign-ins for this account. Somebody may be guessing its password.",
	WhyNetwork:   "There were too many failed sign-ins from your network. It may not have been you.",
	WhyWork:      "There were too many failed sign-ins for this account, so the digits alone do not do: your browser has to do some work as well. Turn JavaScript on, or sign in from where you have signed in before.",
	WhyElsewhere: "The challenge that you solved does not count for this sign-in: it was for another user name or network, or the account asks for one of its own, or for more work by now.",
	WhySite:      "Somebody is trying very many passwords on this site. Until that stops, everyone who signs in from a new place solves a challenge.",
}

// longWait is when waiting stops being the best advice.
const longWait = 5 * time.Minute

// Tone is "bad", "calm" or "good", and empty when there is nothing to say.
func (m Message) Tone() string { return said[m.Kind].tone }

// Title is what happened, in a few words.
func (m Message) Title() string { return said[m.Kind].title }

// CodeFailed is said of a one-time code that was none.
const CodeFailed = "The one-time code did not count: it is mistyped, used or too old, or was used in another place first."

// Lines is what it means and what to do next.
func (m Message) Lines() []string {
	if m.CodeFailed {
		return append(m.lines(), CodeFailed)
	}
	return m.lines()
}

func (m Message) lines() []string {
	text := said[m.Kind].text
	if m.gate {
		text = cmp.Or(gateSaid[m.Kind], text)
	}
	switch {
	case m.Kind == ChallengeAhead || m.Kind == ChallengeRequired:
		return []string{whySaid[m.Why], text}
	case m.Kind == SlowDown && m.RetryAfter > longWait:
		return []string{text, "In a hurry? Use a device and a connection from which you have signed in before, or sign in with a one-time code."}
	case m.Kind == InvalidInput:
		return []string{cmp.Or(m.Detail, text)}
	}
	return []string{text}
}

// Waits reports whether nothing can be done before RetryAfter is over.
func (m Message) Waits() bool {
	return m.Kind == SlowDown || m.Kind == Overloaded || m.Kind == PicturesWait
}

// ChallengeOptional reports whether the form may be sent without an answer:
// before the account is named nobody knows whether it needs one.
func (m Message) ChallengeOptional() bool { return m.Kind == ChallengeAhead }

// OffersCode reports whether the message says how to get a one-time code. All who
// mistype are told, since the password that was right may be one that is tried on
// many accounts (R28), and nobody may learn that.
func (m Message) OffersCode() bool { return m.Kind == WrongCredentials }

// AsksForCode reports whether a one-time code is the quickest way in, or one did
// not count.
func (m Message) AsksForCode() bool { return m.Kind == SlowDown || m.CodeFailed }
