package pages

import (
	"cmp"
	"time"
)

// A MessageKind is what the sign-in page reports.
type MessageKind uint8

const (
	NoMessage MessageKind = iota
	// WrongCredentials does not say whether the user name or the password is wrong (user enumeration).
	WrongCredentials
	// ChallengeRequired asks for a challenge; Message.Why has the reason.
	ChallengeRequired
	// ChallengeAhead announces a challenge before a password was sent, on GET /login in CAPTCHA mode.
	ChallengeAhead
	// ChallengeFailed reports a wrong or expired solution.
	ChallengeFailed
	// Blocked reports a block by an administrator (429), which does not end by waiting.
	Blocked
	// SlowDown asks to wait for Message.RetryAfter (429).
	SlowDown
	// Overloaded reports that the server is busy (503).
	Overloaded
	// PicturesWait asks clients without JavaScript to wait (429).
	PicturesWait
	// InvalidInput reports an incomplete form (400); Message.Detail says what to correct.
	InvalidInput
	// PasswordReset confirms that a forgotten password was replaced.
	PasswordReset
	// SignedOut confirms the end of a session.
	SignedOut
	// SecondWrong reports a wrong MFA code, or a passkey that did not match after the password.
	SecondWrong
	// PasskeyWrong reports a passkey sign-in that failed.
	PasskeyWrong
)

// A ChallengeWhy is the reason for a challenge.
type ChallengeWhy uint8

const (
	// WhyUnusual gives no particular reason.
	WhyUnusual ChallengeWhy = iota
	// WhyAccount: too many failures on this account.
	WhyAccount
	// WhyNetwork: too many failures from this IP address or its network.
	WhyNetwork
	// WhySite: CAPTCHA mode.
	WhySite
	// WhyWork: an image CAPTCHA alone is not enough for this account.
	WhyWork
	// WhyElsewhere: the solution is for another user name or network, or a different challenge is required.
	WhyElsewhere
)

// A Message stands above the form. The zero Message shows nothing.
type Message struct {
	Kind MessageKind
	Why  ChallengeWhy
	// RetryAfter is the wait, for SlowDown and Overloaded.
	RetryAfter time.Duration
	// RetryAt is the end of the wait, for browsers without JavaScript; the zero time leaves it out.
	RetryAt time.Time
	// Client is the client's IP address, for Blocked, which shows it with the time of the attempt.
	Client string
	// CodeFailed is set if the verification code was wrong.
	CodeFailed bool
	// CodeSent, for WrongCredentials: a code was emailed if the password was right. It does not say whether it was.
	CodeSent bool
	// Detail replaces the text of InvalidInput. It is the handler's own sentence in the page's language, never user input.
	Detail string
}

// said has the tone of each kind and the keys of its texts: key.title and .text on the sign-in page, atGate before an
// app's form.
var said = [...]struct{ tone, key, atGate string }{
	NoMessage:         {},
	WrongCredentials:  {"bad", "message.wrong", ""},
	ChallengeAhead:    {"calm", "message.ahead", ""},
	ChallengeRequired: {"calm", "message.required", "gate.required"},
	ChallengeFailed:   {"bad", "message.failed", "gate.failed"},
	SlowDown:          {"calm", "message.slow", "gate.slow"},
	Blocked:           {"bad", "message.blocked", "gate.blocked"},
	Overloaded:        {"calm", "message.busy", "gate.busy-text"},
	PicturesWait:      {"calm", "message.pictures", "gate.pictures"},
	InvalidInput:      {"bad", "message.invalid", "gate.invalid"},
	PasswordReset:     {"good", "message.reset", ""},
	SignedOut:         {"good", "message.signed-out", ""},
	SecondWrong:       {"bad", "message.second", ""},
	PasskeyWrong:      {"bad", "message.passkey", ""},
}

var whySaid = [...]string{
	WhyUnusual: "why.unusual", WhyAccount: "why.account", WhyNetwork: "why.network", WhyWork: "why.work",
	WhyElsewhere: "why.elsewhere", WhySite: "why.site",
}

// longWait is the wait beyond which the page suggests a quicker way.
const longWait = 5 * time.Minute

// Tone is "bad", "calm" or "good"; empty for no message.
func (m Message) Tone() string { return said[m.Kind].tone }

func (p Page) title(m Message) string {
	if m.Kind == NoMessage {
		return ""
	}
	return p.T(said[m.Kind].key + ".title")
}

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
	if m.CodeSent {
		lines = append(lines, p.T("message.wrong.sent"))
	}
	if m.CodeFailed {
		lines = append(lines, p.T("message.code-failed"))
	}
	return lines
}

// Waits reports whether the user can do nothing before RetryAfter.
func (m Message) Waits() bool {
	return m.Kind == SlowDown || m.Kind == Overloaded || m.Kind == PicturesWait
}

// Closed reports whether no attempt can succeed: the page shows no form.
func (m Message) Closed() bool { return m.Kind == Blocked }

// ChallengeOptional reports whether the form may lack a solution: the server does not know the account yet.
func (m Message) ChallengeOptional() bool { return m.Kind == ChallengeAhead }

// OffersCode reports whether the message says how to get a verification code. Every wrong password gets it: the right
// password may be blocked as sprayed (R28), and the page must not reveal that.
func (m Message) OffersCode() bool { return m.Kind == WrongCredentials }

// AsksForCode reports whether a verification code is the quickest way in, or one was wrong.
func (m Message) AsksForCode() bool { return m.Kind == SlowDown || m.CodeSent || m.CodeFailed }
