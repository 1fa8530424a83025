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
	// SecondWrong says that a code, or a passkey after the password, did not match.
	SecondWrong
	// PasskeyWrong says that a passkey signed nobody in.
	PasskeyWrong
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
	// sentence in the page's language, never a copy of what was typed.
	Detail string
}

// said is what each kind of message is: its tone, and the keys of its texts on
// the sign-in page (message.KEY.title and .text) and before an application's form,
// where what was typed is kept and may be of any kind.
var said = [...]struct{ tone, key, atGate string }{
	NoMessage:         {},
	WrongCredentials:  {"bad", "message.wrong", ""},
	ChallengeAhead:    {"calm", "message.ahead", "gate.ahead"},
	ChallengeRequired: {"calm", "message.required", "gate.required"},
	ChallengeFailed:   {"bad", "message.failed", "gate.failed"},
	SlowDown:          {"calm", "message.slow", "gate.slow"},
	Blocked:           {"bad", "message.blocked", "gate.blocked"},
	Overloaded:        {"calm", "message.busy", "gate.busy-text"},
	PicturesWait:      {"calm", "message.pictures", "gate.pictures"},
	InvalidInput:      {"bad", "message.invalid", "gate.invalid"},
	SignedOut:         {"good", "message.signed-out", ""},
	SecondWrong:       {"bad", "message.second", ""},
	PasskeyWrong:      {"bad", "message.passkey", ""},
}

var whySaid = [...]string{
	WhyUnusual: "why.unusual", WhyAccount: "why.account", WhyNetwork: "why.network", WhyWork: "why.work", WhyElsewhere: "why.elsewhere", WhySite: "why.site",
}

// longWait is when waiting stops being the best advice.
const longWait = 5 * time.Minute

// Tone is "bad", "calm" or "good", and empty when there is nothing to say.
func (m Message) Tone() string { return said[m.Kind].tone }

// title is what happened, in a few words.
func (p Page) title(m Message) string {
	if m.Kind == NoMessage {
		return ""
	}
	return p.T(said[m.Kind].key + ".title")
}

// lines are what it means and what to do next.
func (p Page) lines(m Message, atGate bool) (lines []string) {
	key := said[m.Kind].key + ".text"
	if atGate {
		key = cmp.Or(said[m.Kind].atGate, key)
	}
	switch {
	case m.Kind == NoMessage:
	case m.Kind == ChallengeAhead || m.Kind == ChallengeRequired:
		lines = []string{p.T(whySaid[m.Why]), p.T(key)}
	case m.Kind == InvalidInput:
		lines = []string{cmp.Or(m.Detail, p.T(key))}
	default:
		lines = []string{p.T(key)}
	}
	if m.Kind == SlowDown && m.RetryAfter > longWait {
		lines = append(lines, p.T("message.slow.hurry"))
	}
	if m.CodeFailed {
		lines = append(lines, p.T("message.code-failed"))
	}
	return lines
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
