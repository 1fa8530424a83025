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
	// SlowDown asks to wait for Message.RetryAfter (429).
	SlowDown
	// Overloaded says that the machine is busy (503).
	Overloaded
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
	// Detail replaces the text of InvalidInput. It is the handler's own
	// sentence, never a copy of what was typed.
	Detail string
}

// said is a message's tone and words.
type said struct {
	tone  string // "bad", "calm" or "good"
	title string
	lines []string
}

// said is what each kind says: what happened, what it means, what to do next.
func (m Message) said() said {
	switch m.Kind {
	case WrongCredentials:
		return said{"bad", "That did not match", []string{"The user name or the password is wrong. Check both, and Caps Lock, then try again."}}
	case ChallengeAhead:
		return said{"calm", "One more step", []string{m.Why.words(), "If you have signed in from here before, you may leave it empty."}}
	case ChallengeRequired:
		return said{"calm", "One more step", []string{m.Why.words(), "Solve the challenge below and enter your password again: it was not looked at."}}
	case ChallengeFailed:
		return said{"bad", "The digits did not match", []string{"Your password was not looked at. Here is a new challenge: each one works once, for a few minutes."}}
	case SlowDown:
		return said{"calm", "Please wait before you try again", m.waitLines()}
	case Overloaded:
		return said{"calm", "Too busy at the moment", []string{"Very many people are signing in, and we check only so many passwords at once. Yours was not looked at."}}
	case InvalidInput:
		return said{"bad", "Something is missing", []string{cmp.Or(m.Detail, "Enter your user name and your password, then try again.")}}
	case SignedOut:
		return said{"good", "You are signed out", []string{"This browser no longer acts for your account. On a computer that others use, close the window too."}}
	}
	return said{}
}

// Tone is "bad", "calm" or "good", and empty when there is nothing to say.
func (m Message) Tone() string { return m.said().tone }

// Title is what happened, in a few words.
func (m Message) Title() string { return m.said().title }

// Lines is what it means and what to do next.
func (m Message) Lines() []string { return m.said().lines }

// Waits reports whether nothing can be done before RetryAfter is over.
func (m Message) Waits() bool { return m.Kind == SlowDown || m.Kind == Overloaded }

// ChallengeOptional reports whether the form may be sent without an answer:
// before the account is named nobody knows whether it needs one.
func (m Message) ChallengeOptional() bool { return m.Kind == ChallengeAhead }

func (w ChallengeWhy) words() string {
	switch w {
	case WhyAccount:
		return "There were too many failed sign-ins for this account. Somebody may be guessing its password."
	case WhyNetwork:
		return "There were too many failed sign-ins from your network. It may not have been you."
	case WhySite:
		return "Somebody is trying very many passwords on this site. Until that stops, everyone who signs in from a new place solves a challenge."
	}
	return "Something about this sign-in is unusual."
}

// longWait is when waiting stops being the best advice.
const longWait = 5 * time.Minute

func (m Message) waitLines() []string {
	lines := []string{"There were several failed sign-ins, so the next one has to wait. Your password was not looked at. Trying earlier does no harm, but it does not help."}
	if m.RetryAfter > longWait {
		lines = append(lines, "In a hurry? Use a device and a connection from which you have signed in before, or ask whoever runs this site to unlock you.")
	}
	return lines
}
