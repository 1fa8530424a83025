package control

import (
	"fmt"
	"time"

	"authguard/guard"
	"authguard/internal/audit"
	"authguard/trusted"
)

// answer fills in what is said to who cannot log in, and what is done next. It looks at
// what stops every attempt first, then at what stops the next one, then at the last.
func (l *LookUp) answer() {
	e := &l.Explanation
	switch {
	case e.Account != "" && l.absent():
	case e.Listed == guard.Blocked:
		l.blocked()
	case e.Account != "" && l.Account.NeedsCode: // which lets in through CAPTCHA mode and full limits, too
		l.doubted()
	case e.Decision.Action == guard.Proceed:
		l.open()
	default:
		l.stopped()
	}
	if e.Account != "" && l.Account.State == NotKnown && l.Account.Kept != InApp {
		l.Next += " Accounts are kept elsewhere, which cannot be asked just now: while that is so nobody is let in."
	}
}

func (l *LookUp) say(said, next string, args ...any) {
	l.Said, l.Next = fmt.Sprintf(said, args...), next
}

// absent is about an account that no password opens.
func (l *LookUp) absent() bool {
	here := l.Account.Kept == ours
	switch l.Account.State {
	case Disabled:
		l.say("Your account has been disabled, so no password opens it.", "If that is a mistake, enable it where it is kept.")
		if here {
			l.Next = "If that is a mistake, enable it under Accounts."
		}
	case NoAccount:
		l.say("There is no account with this name.", "Ask how the name is spelt, or for the e-mail address, and look that up.")
	default:
		return false
	}
	return true
}

func (l *LookUp) doubted() {
	l.say("You need a new password, since somebody else may have yours. Sign in with the present one and a one-time code beside it; then you choose another.",
		"Make sure that it is the owner; then make a one-time code. If the present password no longer works, somebody has changed it: give them a new one under Accounts.")
}

func (l *LookUp) blocked() {
	l.say("An administrator has blocked the address that you come from, so nobody can sign in from it.",
		"If they should be let in, take the block off, or allow their address beside it. Another connection works at once.")
	if l.Entry != nil && !l.Entry.ExpiresAt.IsZero() {
		l.Said = fmt.Sprintf("An administrator has blocked the address that you come from for another %s; nobody can sign in from it until then.",
			guard.Spell(l.Entry.ExpiresAt.Sub(l.Now)))
	}
}

// stopped is about what the next attempt meets, by the reason that the guard names first.
func (l *LookUp) stopped() {
	d, whose := &l.Explanation.Decision, l.whose()
	home := ""
	if l.knownElsewhere() {
		home = " Where you have signed in before it works as ever."
	}
	const code = "Make sure that it is the owner; then make a one-time code, which lets them in from where they are, with their password."
	switch d.Action {
	case guard.Delay:
		l.say("After wrong passwords there is a short wait: try again in %s.", "Nothing needs to be done. Have them wait, and type with care.", guard.Spell(d.RetryAfter))
		if d.Reasons.Has(guard.SiteSlowed) {
			l.Said = fmt.Sprintf("More logins than usual fail on the whole site, so new places are slowed down: try again in %s.", guard.Spell(d.RetryAfter))
		}
	case guard.Challenge:
		l.say("%s, so you solve a CAPTCHA first and then your password is looked at.%s", "Have them solve it. If they cannot: "+lowerFirst(code),
			map[bool]string{true: "The site is being attacked and this place is new to your account", false: "There were too many wrong passwords " + whose}[d.Reasons.Has(guard.ModeOn)], home)
	case guard.Forget:
		l.say("Too many wrong passwords came from where you are, so it no longer counts as a place that we know you at.", code)
	default:
		l.say("There were too many wrong passwords %s, so nothing is let in %s.%s", code, whose, l.until(), home)
		if l.Explanation.Account == "" || l.refusedByAddress() {
			l.Next = "A one-time code does not help against this. Unlock the address if the failures were theirs; otherwise have them use another connection."
		}
	}
}

// knownElsewhere reports whether the account has a place that this is not.
func (l *LookUp) knownElsewhere() bool {
	return l.Explanation.Account != "" && l.Explanation.Status != trusted.Privileged && len(l.Places)+l.Unnamed+len(l.Devices) > 0
}

// full is the limit that stops the next attempt for longest, of those that lead to the
// decision.
func (l *LookUp) full() (longest guard.Line, ok bool) {
	for _, line := range l.Explanation.Lines {
		if line.Full && !line.Limit.Monitor && line.Then() == l.Explanation.Decision.Action && (!ok || line.FreeIn > longest.FreeIn) {
			longest, ok = line, true
		}
	}
	return longest, ok
}

func (l *LookUp) refusedByAddress() bool {
	line, ok := l.full()
	return ok && (line.Subject == guard.OnAddress || line.Subject == guard.OnNetwork)
}

// whose is where the failures were that are too many.
func (l *LookUp) whose() string {
	line, _ := l.full()
	switch line.Subject {
	case guard.OnAddress:
		return "from your address"
	case guard.OnNetwork:
		return "from the network around your address"
	case guard.OnAccount:
		return "at your account, not necessarily yours"
	case guard.OnPair, guard.OnPrivilegedPair:
		return "at your account from your address"
	}
	return "on the whole site"
}

// until is how long it lasts.
func (l *LookUp) until() string {
	if wait := l.Explanation.Decision.RetryAfter; wait > 0 {
		return "for another " + guard.Spell(wait)
	}
	return "for now"
}

// open is about somebody whom nothing stops: what happened last says why they call.
func (l *LookUp) open() {
	const free = "Nothing stands in your way now"
	last, ok := l.last()
	if l.Explanation.Account == "" {
		l.say("Nothing stands against your address: what is sent from there is looked at.", "Ask for the user name and look up both.")
		return
	}
	at := fmt.Sprintf("%s ago from %s", guard.Spell(l.Now.Sub(later(last.At, last.Last)).Truncate(time.Second)), last.Address)
	switch {
	case l.Account.State == MustChange:
		l.say("Your password has been replaced by a one-time one: sign in with that, and you choose your own.", "If they do not have it, give them a new one under Accounts.")
	case !ok:
		l.say("%s: the next try is let through to its password.", "Have them try now, and look again: the try is below a second later.", free)
	case last.Sprayed():
		l.say("The last try, %s, had a password that strangers try on many accounts: from a new place it is not enough, right or wrong.",
			"Make sure that it is the owner, make a one-time code, and have them choose another password.", at)
	case last.Decision == "failed":
		l.say("%s; the last try, %s, had a wrong password.", "Was it theirs? Then have them type it with care (Caps Lock, keyboard language), or give them a new password.", free, at)
	case last.Decision == "succeeded":
		l.say("%s: the last try, %s, signed you in.", "Was it theirs? If not, forget the place, end the sessions and give them a new password. If so, their browser may refuse cookies.", free, at)
	default:
		l.say("%s; the last try, %s, was %s.", "Have them try again now, and look again: the try is below a second later.", free, at, last.What)
	}
	if l.Account.Kept == InApp && last.Decision == "failed" {
		l.Next = "Was it theirs? Then have them type it with care. The app keeps the accounts: whether there is one of this name, and its password, is to be seen there."
	}
}

// last is the newest attempt.
func (l *LookUp) last() (Event, bool) {
	for _, e := range l.Recent {
		if e.Kind == audit.KindAttempt {
			return e, true
		}
	}
	return Event{}, false
}

func lowerFirst(text string) string { return string(text[0]|0x20) + text[1:] }
