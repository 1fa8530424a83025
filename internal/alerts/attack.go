package alerts

import (
	"fmt"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/events"
)

const (
	topShown         = 5
	maxStrangersKept = 20
)

// An attack collects what its summary will say, in bounded memory.
type attack struct {
	began     time.Time
	counts    map[events.Ending]int
	addresses *sketch
	accounts  *sketch
	busiest   *top // addresses
	aimedAt   *top // accounts
	strangers []string
	more      int
}

func newAttack(began time.Time) *attack {
	return &attack{
		began: began, counts: make(map[events.Ending]int),
		addresses: newSketch(), accounts: newSketch(), busiest: newTop(), aimedAt: newTop(),
	}
}

func (a *attack) add(e *guard.Event, ending events.Ending) {
	switch ending {
	case events.Undecided:
		return
	case events.Succeeded:
		a.addSuccess(e)
	case events.Failed, events.Challenged, events.Refused, events.Waited:
		address, account := events.AddressText(e.Address), events.Escape(e.Account)
		a.addresses.add(address)
		a.busiest.add(address)
		a.accounts.add(account)
		a.aimedAt.add(account)
	}
	a.counts[ending]++
}

// addSuccess keeps who got in from a new place: the attacker may be among them.
func (a *attack) addSuccess(e *guard.Event) {
	if !e.NewPlace {
		return
	}
	if len(a.strangers) == maxStrangersKept {
		a.more++
		return
	}
	a.strangers = append(a.strangers, fmt.Sprintf("%s from %s", Name(e.Account), events.AddressText(e.Address)))
}

func (a *attack) summary(end time.Time) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("It lasted %s, from %s to %s.", end.Sub(a.began).Round(time.Second), clock(a.began), clock(end))
	line("Failed: %d, challenged: %d, told to wait: %d, refused: %d.",
		a.counts[events.Failed], a.counts[events.Challenged], a.counts[events.Waited], a.counts[events.Refused])
	line("From about %d addresses, for about %d accounts.", a.addresses.estimate(), a.accounts.estimate())
	line("Busiest addresses (at least so many): %s.", a.busiest.line(topShown, func(s string) string { return s }))
	line("Most attacked accounts (at least so many): %s.", a.aimedAt.line(topShown, Name))
	line("Logins from new places meanwhile: %d.%s", len(a.strangers)+a.more, a.successes())
	return b.String()
}

func (a *attack) successes() string {
	if len(a.strangers) == 0 {
		return ""
	}
	text := " Have a look at them: " + strings.Join(a.strangers, "; ")
	if a.more > 0 {
		text += fmt.Sprintf("; and %d more", a.more)
	}
	return text + "."
}
