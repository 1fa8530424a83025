package guard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Cause is the kind of a reason: a closed set for metric labels.
type Cause uint8

const (
	NoCause         Cause = iota
	LimitReached          // a limit of the subject is full
	PairDelayed           // the pair's next attempt is not due yet
	SiteThrottled         // CAPTCHA mode throttles unknown clients
	ModeOn                // CAPTCHA mode is on and the client is unknown
	BlockedByAdmin        // on the blocklist
	AllowedByAdmin        // on the allowlist, which exempts from limits
	KnownClient           // a known client, which is exempt from limits
	ChallengeSolved       // a solved challenge exempts from a limit
	ChallengeFailed       // the solution is wrong, expired or used
	BudgetSpent           // the client exceeded its limit and is no longer known
	BadAccountName        // empty, too long or not text
	StoreFailed           // the counters could not be read
	CodeAccepted          // the verification code is valid
	CodeFailed            // the verification code is invalid
	WorkNeeded            // an image CAPTCHA alone is not enough for this account
	TooManyPictures       // too many image CAPTCHAs were solved without a proof of work
	TooManyUnsolved       // too many challenges of the address are unsolved
	PasswordSprayed       // the right password is used for password spraying
	SprayedAsks           // the password is sprayed, and no verification code can be sent
	PasskeyVerified       // the client has a passkey of the account
	StepUpNeeded          // an unknown client needs more than the password (R32)
	PasswordLeaked        // the right password is known from leaks
)

// causes are each cause's stable code, and its words for support staff.
var causes = [...]struct{ code, words string }{
	NoCause:      {"none", "no reason was recorded"},
	LimitReached: {"limit", ""}, // see Reason.words
	PairDelayed: {"pair-delay",
		"recent wrong passwords for this account came from this address, so the next attempt is delayed"},
	SiteThrottled:   {"throttled", "the site's failure rate is unusually high, so unknown clients are throttled"},
	ModeOn:          {"captcha-mode", "CAPTCHA mode is on and the client is unknown for this account"},
	BlockedByAdmin:  {"blocklist", "an administrator blocked this address"},
	AllowedByAdmin:  {"allowlist", "an administrator put this address on the allowlist"},
	KnownClient:     {"known-client", "the client is a known client of this account"},
	ChallengeSolved: {"challenge-solved", "the challenge was solved"},
	ChallengeFailed: {"challenge-failed", "the solution of the challenge was wrong, expired or already used"},
	BudgetSpent: {"known-client-limit",
		"too many wrong passwords came from this known client, so it is treated as unknown"},
	BadAccountName: {"bad-account-name",
		"the account name is empty, too long, or has invalid, invisible or ambiguous characters"},
	StoreFailed:  {"store-failed", "the counters could not be read"},
	CodeAccepted: {"verification-code", "the client sent a valid verification code for this account"},
	CodeFailed: {"verification-code-failed",
		"the verification code is wrong, used, expired or bound to another client"},
	WorkNeeded: {"proof-of-work",
		"the account is under attack, so the image CAPTCHA also needs a proof of work, which requires JavaScript"},
	TooManyPictures: {"image-captchas",
		"too many image CAPTCHAs were solved without a proof of work, from this address or, during an attack, on the whole " +
			"site"},
	PasswordSprayed: {"spray", "the password is right, but it is used for password spraying"},
	SprayedAsks: {"spray-challenge",
		"the password is used for password spraying and no verification code can be sent, so an unknown client gets the " +
			"most expensive challenge"},
	PasskeyVerified: {"passkey", "the client signed in with a passkey of the account"},
	StepUpNeeded: {"step-up",
		"the site is under attack, or the password is known from leaks, so an unknown client needs a verification code or, " +
			"where none can be sent during an attack, a challenge"},
	PasswordLeaked: {"password-leaked", "the right password is known from leaks"},
	TooManyUnsolved: {"unsolved-challenges",
		"too many challenges of this address, or of the account there, are unsolved, so the next one is delayed"},
}

// String returns the cause's stable code.
func (c Cause) String() string { return causes[c].code }

// A Reason is one cause of a decision.
type Reason struct {
	Cause   Cause
	Subject SubjectKind
	// Monitored: recorded only, not enforced.
	Monitored bool
	Limit     *Limit        // for LimitReached: a limit of the policy, read-only
	Wait      time.Duration // until the reason ends; 0: unknown
	Event     string        // whose limit it is; empty: a login's
	List      string        // the IP list behind the reason; empty: none
}

// Code returns the reason as one stable word for logs and programs, such as "limit:account" or "captcha-mode". For an
// IP list it is "list:NAME" (limits), "blocklist:NAME" or "allowlist:NAME". A monitored reason ends with ":monitored".
func (r Reason) Code() string {
	code := r.Cause.String()
	if r.List != "" {
		if r.Cause == LimitReached {
			code = "list"
		}
		code += ":" + r.List
	} else if r.Subject != NoSubject && r.Cause == LimitReached {
		code += ":" + strings.ReplaceAll(r.Subject.String(), " ", "-")
	}
	if r.Monitored {
		code += ":monitored"
	}
	return code
}

// LimitSet returns the reason's name in Policy.LimitSets. Empty if it cannot be monitored, such as a blocklist entry.
func (r Reason) LimitSet() string {
	switch {
	case r.Event != "":
		return ofEvent + r.Event
	case r.List != "" && r.Cause != AllowedByAdmin:
		return ofList + r.List
	}
	switch r.Cause {
	case LimitReached:
		return strings.ReplaceAll(r.Subject.String(), " ", "-")
	case PairDelayed:
		return PairDelayLimits
	case SiteThrottled, ModeOn:
		return ModeLimits
	case PasswordSprayed, SprayedAsks:
		return SprayLimits
	case StepUpNeeded:
		return StepUpLimits
	}
	return ""
}

// String explains the reason to support staff.
func (r Reason) String() string {
	s := r.words()
	if r.Wait > 0 {
		s += fmt.Sprintf(" (for another %s)", Spell(r.Wait))
	}
	switch {
	case r.Monitored && r.Limit != nil && r.Limit.Action == Alert:
		s += "; it only alerts"
	case r.Monitored:
		s += "; recorded only, because this limit is monitored"
	}
	return s
}

func (r Reason) words() string {
	if r.List != "" {
		return r.ofList()
	}
	if r.Cause == LimitReached && r.Event != "" {
		return fmt.Sprintf("the %s had %d of %s within %s, which is its limit", r.Subject, r.Limit.Failures, r.Event,
			Spell(r.Limit.Window))
	}
	if r.Cause == LimitReached && r.Subject == OnIdentity {
		return fmt.Sprintf("the client's fingerprint had %d failed logins within %s, which is its limit", r.Limit.Failures,
			Spell(r.Limit.Window))
	}
	if r.Cause == LimitReached {
		return fmt.Sprintf("the %s had %d failed logins within %s, which is its limit", r.Subject, r.Limit.Failures,
			Spell(r.Limit.Window))
	}
	return causes[r.Cause].words
}

// CodeLabel shortens a code, with or without the limit behind it, to a label: "account limit 5/24h", "CAPTCHA mode".
func CodeLabel(code string) string {
	what, monitored := strings.CutSuffix(code, ":monitored")
	name, subject, _ := strings.Cut(what, ":")
	subject, limit, _ := strings.Cut(subject, ":")
	if name == causes[LimitReached].code {
		name, subject = strings.TrimSpace(strings.ReplaceAll(subject, "-", " ")+" limit"), ""
	}
	label := strings.ReplaceAll(strings.ReplaceAll(name, "-", " "), "captcha", "CAPTCHA")
	for _, more := range []string{subject, limit} {
		label = strings.TrimSpace(label + " " + more)
	}
	if monitored {
		label += " (monitored)"
	}
	return label
}

// CodeWords explains a reason of which only the code was kept, with or without the limit behind it
// ("limit:account:5/24h"). It returns an unknown code as it is.
func CodeWords(code string) string {
	what, monitored := strings.CutSuffix(code, ":monitored")
	name, subject, _ := strings.Cut(what, ":")
	subject, limit, _ := strings.Cut(subject, ":")
	count, window, _ := strings.Cut(limit, "/")
	words := code
	for cause := range causes {
		if causes[cause].code == name {
			words = causes[cause].words
		}
	}
	if name == causes[LimitReached].code {
		words = "the " + strings.ReplaceAll(cmp.Or(subject, "subject"), "-", " ") + " reached its limit of failed logins"
		if limit != "" {
			words = "the " + strings.ReplaceAll(subject, "-", " ") + " had " + count + " failed logins within " + window +
				", which is its limit"
		}
	}
	words = strings.Replace(words, "the fingerprint had", "the client's fingerprint had", 1)
	if name == "list" {
		words = "the address is on the list " + subject
		if limit != "" {
			words += " and had " + count + " failed logins within " + window + ", which is the list's limit"
		}
	}
	if monitored {
		words += "; recorded only, because this limit is monitored"
	}
	return words
}

func (r Reason) ofList() string {
	switch {
	case r.Cause == BlockedByAdmin:
		return "the address is on the blocklist " + r.List + ""
	case r.Cause == AllowedByAdmin:
		return "the address is on the allowlist " + r.List + ""
	case r.Limit.always():
		return "the address is on the list " + r.List + ", which challenges every unknown client"
	}
	return fmt.Sprintf("the address is on the list %s and had %d failed logins within %s, which is the list's limit",
		r.List, r.Limit.Failures, Spell(r.Limit.Window))
}

// A Part is a part of a duration: N times "day", "hour", "minute" or "second".
type Part struct {
	N    int
	Unit string
}

// Parts splits a duration for people into at most two units, the larger first. It uses seconds up to 90, minutes up to
// an hour, hours and minutes up to two days, then days and hours. It rounds up, so that a user does not retry too
// early. A duration of zero or less has no parts.
func Parts(d time.Duration) []Part {
	seconds := int((d + time.Second - 1) / time.Second)
	if seconds <= 90 && seconds != 60 {
		return parts(seconds, 1, "second", "")
	}
	// A store rounds up to its millisecond, which must not make an hour "1 hour 1 minute".
	minutes := (int(d/time.Second) + 59) / 60
	switch {
	case minutes < 60:
		return parts(minutes, 1, "minute", "")
	case minutes < 48*60:
		return parts(minutes, 60, "hour", "minute")
	}
	return parts((minutes+59)/60, 24, "day", "hour")
}

// parts splits n small units, of which per make a large one.
func parts(n, per int, large, small string) (all []Part) {
	if n >= per {
		all = append(all, Part{n / per, large})
	}
	if rest := n % per; rest > 0 {
		all = append(all, Part{rest, small})
	}
	return all
}

// Spell returns Parts in English, or "a moment" if there are none.
func Spell(d time.Duration) string {
	var words []string
	for _, p := range Parts(d) {
		words = append(words, plural(p.N, p.Unit))
	}
	if len(words) == 0 {
		return "a moment"
	}
	return strings.Join(words, " ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Reasons are at most maxReasons reasons, strongest first.
type Reasons []Reason

// maxReasons has room for every limit of an attempt in a policy of the usual size.
const maxReasons = 16

// Codes returns the code of every reason.
func (r Reasons) Codes() []string {
	codes := make([]string, 0, len(r))
	for _, one := range r {
		codes = append(codes, one.Code())
	}
	return codes
}

// Has reports whether a cause is among the reasons.
func (r Reasons) Has(c Cause) bool {
	return slices.ContainsFunc(r, func(one Reason) bool { return one.Cause == c })
}
