package alerts

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"authguard/internal/attacks"
	"authguard/internal/events"
	"authguard/internal/times"
)

const (
	topShown = 5
	// maxLoginsListed limits the accounts that the alert of an attack's end lists.
	maxLoginsListed = 15
)

var kindsOfAttacks = map[string]Kind{attacks.Site: AttackBegan, attacks.Account: AccountAttacked,
	attacks.Address: AddressAttack, attacks.Spray: Sprayed}

// AttackBegan raises the alert of an attack that was detected.
func (a *Alerter) AttackBegan(b attacks.Beginning) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w, kind, now, text := a.watcher(b.Realm), kindsOfAttacks[b.Kind], a.now(), soFar(b.Attack, a.now())
	raise := func() { a.raise(now, b.Realm, kind, kind.meaning().title, text, recordOf(b.Attack)) }
	switch b.Kind {
	case attacks.Site:
		switch {
		case b.Daily:
			text = fmt.Sprintf("%.0f logins of unknown clients failed in 24 hours; the threshold for step-up is %.0f\n%s",
				b.FailureRate, b.Threshold, text)
		case b.Threshold > 0:
			text = fmt.Sprintf("failure rate %s a minute; CAPTCHA mode turns on above %s\n%s", events.Rate(b.FailureRate),
				events.Rate(b.Threshold), text)
		}
		raise()
		w.speak()
		return
	case attacks.Account:
		text = "account " + Name(b.Subject) + ": " + text
	case attacks.Address:
		text = "address " + b.Subject + ": " + text +
			"For legitimate users: authguard unlock --address IP, or raise limits.address\n"
	case attacks.Spray:
		text += "Unknown clients with this password are rejected, even if it is right\n"
	}
	switch {
	case w.room(now):
		w.notified[b.ID] = now
		raise()
	case w.first(string(kind), now):
		w.notified[string(kind)] = now
		w.raise(now, kind, fmt.Sprintf("more than %d attacks within a day; further ones are not listed", maxNotified))
	}
}

// soFar sums up a running attack: the numbers are those of its page.
func soFar(one attacks.Attack, now time.Time) string {
	state := map[bool]string{true: "It goes on: last", false: "Last"}[now.Sub(one.Last) <= time.Minute]
	return fmt.Sprintf("%d failed or stopped attempts since %s, from %s on %s\n%s%s attempt %s\n%s",
		one.Attempts, times.Text(one.Began.UTC()), events.About(one.Addresses, "IP address"),
		events.About(one.Accounts, "account"), numbers(one), state, times.Text(one.Last.UTC()), compromised(one))
}

// numbers returns the numbers of checked and of stopped attempts.
func numbers(one attacks.Attack) string {
	return fmt.Sprintf("Wrong passwords checked: %d. Challenged: %d, solved: %d. Delayed: %d. Blocked: %d.\n", one.Failed,
		one.Challenged, one.Solved, one.Waited, one.Refused)
}

func compromised(one attacks.Attack) string {
	return fmt.Sprintf("Possibly compromised accounts: %d. Other accounts with a login from an unknown client: %d.\n",
		one.Lost, one.Strange)
}

// AttacksCrowded raises the alert that further attacks of a kind are not recorded.
func (a *Alerter) AttacksCrowded(realm, kind string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watcher(realm).raise(a.now(), kindsOfAttacks[kind], fmt.Sprintf("%d attacks of this kind run at the same time; "+
		"further ones have neither a record nor an alert until some of these end", attacks.MostAtOnce))
}

// AttackEnded raises the alert of the end of an attack on the site, with its record and the accounts with logins from
// unknown clients. Other attacks, and resumed ones that were too small for an alert of their start, have none.
func (a *Alerter) AttackEnded(one attacks.Ending) {
	if one.Kind != attacks.Site || !one.Alerted {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raise(a.now(), one.Realm, AttackEnded, AttackEnded.meaning().title, summary(&one), recordOf(one.Attack))
}

func summary(one *attacks.Ending) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("Duration: %s, from %s to %s (last attempt). The cool-down ended at %s.",
		times.FormatDuration(one.Duration().Round(time.Second)), times.Text(one.Began.UTC()), times.Text(one.Last.UTC()),
		times.Text(one.Ended.UTC()))
	line("Failed or stopped attempts: %d.", one.Attempts)
	b.WriteString(numbers(one.Attack))
	line("Sources: %s. Attacked: %s.", events.About(one.Addresses, "IP address"), events.About(one.Accounts, "account"))
	line("Top IP addresses (attempts, at least): %s.", first(one.TopAddresses, func(s string) string { return s }))
	line("Most attacked accounts (attempts, at least): %s.", first(one.TopAccounts, Name))
	b.WriteString(compromised(one.Attack))
	for _, v := range one.Victims[:min(maxLoginsListed, len(one.Victims))] { // the possibly compromised ones first
		line("Check %s, from %s.", Name(v.Account), v.Logins[len(v.Logins)-1].Address)
	}
	if more := len(one.Victims) - maxLoginsListed; more > 0 {
		line("And %d more.", more)
	}
	return b.String()
}

func first(top []attacks.Named, show func(string) string) string {
	var parts []string
	for _, one := range top[:min(topShown, len(top))] {
		parts = append(parts, fmt.Sprintf("%s (%d)", show(one.Name), one.Attempts))
	}
	return cmp.Or(strings.Join(parts, ", "), "none stands out")
}

// A record is the page and the command that show the record of an attack.
type record struct{ page, command string }

func recordOf(one attacks.Attack) *record {
	r := &record{"/attacks/" + one.ID, "authguard attack show " + one.ID}
	if name := events.RealmName(one.Realm); name != "" {
		r.command += " --realm " + name
	}
	return r
}

// about adds the running attack to an alert about CAPTCHA mode.
func (a *Alerter) about(realm string, kind Kind, body string) (string, *record) {
	if kind != ModeOn && kind != ModeOff && kind != ModeMonitored {
		return body, nil
	}
	one, ok := a.config.Record(realm)
	if !ok {
		return body, nil
	}
	return body + "\n" + soFar(one, a.now()), recordOf(one)
}

// speak raises the postponed alert of CAPTCHA mode during a resumed attack.
func (w *watcher) speak() {
	if w.silent != nil {
		w.raise(w.silent.At, ModeOn, modeText(*w.silent))
		w.silent = nil
	}
}
