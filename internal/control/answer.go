package control

import (
	"fmt"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/audit"
	"authguard/internal/times"
	"authguard/trusted"
)

// answer fills in Said and Next: what stops every attempt comes first, then the next one, then the last.
func (l *LookUp) answer() {
	e := &l.Explanation
	switch {
	case e.Account != "" && l.absent():
	case e.Listed == guard.Blocked:
		l.blocked()
	case e.Account != "" && l.Account.NeedsCode: // a verification code also bypasses CAPTCHA mode and reached limits
		l.doubted()
	case e.Decision.Action == guard.Proceed:
		l.open()
	default:
		l.stopped()
	}
	if e.Account != "" && l.Account.State == accounts.NotKnown && l.Account.Kept != accounts.InApp {
		l.Next += " The account source is currently unavailable, so all sign-ins fail."
	}
}

func (l *LookUp) say(said, next string, args ...any) {
	l.Said, l.Next = fmt.Sprintf(said, args...), next
}

func (l *LookUp) absent() bool {
	here := l.Account.Kept == accounts.Ours
	switch l.Account.State {
	case accounts.Disabled:
		l.say("Your account is disabled.", "If this is a mistake, enable it in the account source.")
		if here {
			l.Next = "If this is a mistake, enable the account."
		}
	case accounts.NoAccount:
		l.say("There is no account with this name.",
			"Ask for the spelling of the name or for the email address, and look that up.")
	default:
		return false
	}
	return true
}

func (l *LookUp) doubted() {
	l.say("An attacker may have your password. Sign in with the current password and a verification code, then choose a "+
		"new password.",
		"Verify the owner's identity, then create a verification code. If the current password does not work, it was "+
			"changed: reset it.")
}

func (l *LookUp) blocked() {
	l.say("An administrator has blocked your IP address.",
		"To admit the user, remove the block, or allow the IP address with a more specific entry. Another connection works "+
			"immediately.")
	if l.Entry != nil && !l.Entry.ExpiresAt.IsZero() {
		l.Said = fmt.Sprintf("An administrator has blocked your IP address for another %s.",
			guard.Spell(l.Entry.ExpiresAt.Sub(l.Now)))
	}
}

// stopped explains the decision for the next attempt by its first reason.
func (l *LookUp) stopped() {
	d, whose := &l.Explanation.Decision, l.whose()
	home := ""
	if l.knownElsewhere() {
		home = " Devices and networks from which you have signed in before still work."
	}
	const code = "Verify the owner's identity, then create a verification code. It admits them with their password."
	action := d.Action
	if _, ok := l.Explanation.Behind(); ok {
		action = guard.Block
	}
	switch action {
	case guard.Delay:
		l.say("There is a short delay after wrong passwords. Try again in %s.",
			"Nothing to do. Ask them to wait and to type carefully.", guard.Spell(d.RetryAfter))
		if d.Reasons.Has(guard.SiteThrottled) {
			l.Said = fmt.Sprintf("The site has more failed logins than usual, so sign-ins on new devices are throttled. Try "+
				"again in %s.", guard.Spell(d.RetryAfter))
		}
	case guard.Challenge:
		l.say("%s, so you must solve a CAPTCHA before your password is checked.%s", "Ask them to solve it. If they cannot: "+
			lowerFirst(code),
			map[bool]string{true: "The site is under attack and this device is new to your account",
				false: "There were too many wrong passwords " + whose}[d.Reasons.Has(guard.ModeOn)], home)
	case guard.Forget:
		l.say("There were too many wrong passwords from this device or network, so it is treated as unknown.", code)
	default:
		l.say("There were too many wrong passwords %s, so sign-ins are blocked %s.%s", code, whose, l.until(), home)
		if l.Explanation.Account == "" || l.refusedByAddress() {
			l.NoCode = true
			l.Next = "A verification code does not help here. Reset the failure counters if the failures were theirs; " +
				"otherwise ask them to use another connection."
		}
	}
}

// knownElsewhere reports whether the account has a known client other than this one.
func (l *LookUp) knownElsewhere() bool {
	return l.Explanation.Account != "" && l.Explanation.Status != trusted.Known && len(l.Places)+l.Unnamed+
		len(l.Devices) > 0
}

// full returns the limit that stops the next attempt longest, among those with the decision's action.
func (l *LookUp) full() (longest guard.Line, ok bool) {
	if line, ok := l.Explanation.Behind(); ok {
		return line, true
	}
	for _, line := range l.Explanation.Lines {
		if line.Full && !line.Limit.Monitor && line.Then() == l.Explanation.Decision.Action &&
			(!ok || line.FreeIn > longest.FreeIn) {
			longest, ok = line, true
		}
	}
	return longest, ok
}

func (l *LookUp) refusedByAddress() bool {
	line, ok := l.full()
	return ok && (line.Subject == guard.OnAddress || line.Subject == guard.OnNetwork)
}

func (l *LookUp) whose() string {
	line, _ := l.full()
	switch line.Subject {
	case guard.OnAddress:
		return "from your IP address"
	case guard.OnNetwork:
		return "from your network"
	case guard.OnAccount:
		return "for your account, not necessarily by you"
	case guard.OnPair, guard.OnKnownClient:
		return "for your account from your IP address"
	}
	return "on the whole site"
}

func (l *LookUp) until() string {
	if line, ok := l.Explanation.Behind(); ok {
		return "for another " + guard.Spell(line.FreeIn)
	}
	if wait := l.Explanation.Decision.RetryAfter; wait > 0 {
		return "for another " + guard.Spell(wait)
	}
	return "for now"
}

// open answers for a client that nothing stops; the last attempt explains why the user calls.
func (l *LookUp) open() {
	const free = "You can sign in now"
	last, ok := l.last()
	if l.Explanation.Account == "" {
		l.say("Your IP address is not limited.", "Ask for the user name and look up both.")
		return
	}
	at := fmt.Sprintf("%s ago from %s", guard.Spell(l.Now.Sub(times.Later(last.At, last.Last)).Truncate(time.Second)),
		last.Address)
	switch {
	case l.Account.State == accounts.MustChange:
		l.say("You have a temporary password. Sign in with it and choose a new one.",
			"If they do not have it, reset the password.")
	case !ok:
		l.say("%s: the next attempt is checked normally.",
			"Ask them to try now and refresh this page; the attempt appears below within a second.", free)
	case last.Sprayed():
		l.say("The last attempt, %s, used a password that attackers try on many accounts. On a new device it is not "+
			"accepted, right or wrong.",
			"Verify the owner's identity, create a verification code, and ask them to choose a new password.", at)
	case last.Decision == "failed":
		l.say("%s. The last attempt, %s, had a wrong password.",
			"Was it theirs? Then ask them to type carefully (Caps Lock, keyboard language), or reset the password.", free, at)
	case last.Decision == "succeeded":
		l.say("%s. The last attempt, %s, signed you in.",
			"Was it theirs? If not, remove the known IP address, end the sessions and reset the password. If so, their "+
				"browser may reject cookies.", free, at)
	default:
		l.say("%s. The last attempt, %s: %s.",
			"Ask them to try again and refresh this page; the attempt appears below within a second.", free, at, last.What)
	}
	if l.Account.Kept == accounts.InApp && last.Decision == "failed" {
		l.Next = "Was it theirs? Then ask them to type carefully. Check in the app whether the account exists and which " +
			"password it has."
	}
}

func (l *LookUp) last() (Event, bool) {
	for _, e := range l.Recent {
		if e.Kind == audit.KindAttempt {
			return e, true
		}
	}
	return Event{}, false
}

func lowerFirst(text string) string { return string(text[0]|0x20) + text[1:] }
