package alerts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/events"
	"authguard/internal/tops"
)

const (
	topSlots         = 64
	topShown         = 5
	maxStrangersKept = 20
)

// An attack collects what its summary will say, in bounded memory.
type attack struct {
	began     time.Time
	counts    map[events.Ending]int
	addresses crowd
	accounts  crowd
	newPlaces int      // logins from places that nobody had used before
	strangers []string // the first of them: the attacker may be among them
}

func newAttack(began time.Time) *attack {
	return &attack{began: began, counts: make(map[events.Ending]int), addresses: newCrowd(), accounts: newCrowd()}
}

func (a *attack) add(e *guard.Event, ending events.Ending) {
	switch ending {
	case events.Undecided:
		return
	case events.Succeeded:
		a.addSuccess(e)
	case events.Failed, events.Challenged, events.Refused, events.Waited:
		a.addresses.add(events.AddressText(e.Address))
		a.accounts.add(events.Escape(e.Account))
	}
	a.counts[ending]++
}

func (a *attack) addSuccess(e *guard.Event) {
	if !e.NewPlace {
		return
	}
	if a.newPlaces++; a.newPlaces <= maxStrangersKept {
		a.strangers = append(a.strangers, fmt.Sprintf("%s from %s", Name(e.Account), events.AddressText(e.Address)))
	}
}

func (a *attack) summary(end time.Time) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("It lasted %s, from %s to %s.", end.Sub(a.began).Round(time.Second), clock(a.began), clock(end))
	line("Failed: %d, challenged: %d, told to wait: %d, refused: %d.",
		a.counts[events.Failed], a.counts[events.Challenged], a.counts[events.Waited], a.counts[events.Refused])
	line("From about %d addresses, for about %d accounts.", a.addresses.distinct.Count(), a.accounts.distinct.Count())
	line("Busiest addresses (at least so many): %s.", a.addresses.first(func(s string) string { return s }))
	line("Most attacked accounts (at least so many): %s.", a.accounts.first(Name))
	line("Logins from new places meanwhile: %d.%s", a.newPlaces, a.successes())
	return b.String()
}

func (a *attack) successes() string {
	if len(a.strangers) == 0 {
		return ""
	}
	text := " Have a look at them: " + strings.Join(a.strangers, "; ")
	if more := a.newPlaces - len(a.strangers); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text + "."
}

// A crowd is the addresses, or the accounts, of an attack.
type crowd struct {
	distinct *tops.Distinct
	busiest  *tops.Top[int]
}

func newCrowd() crowd { return crowd{tops.NewDistinct(), tops.New[int](topSlots)} }

func (c crowd) add(name string) {
	c.distinct.Add(name)
	if n := c.busiest.Of(name); n != nil {
		*n++
	}
}

// first lists the busiest few.
func (c crowd) first(show func(string) string) string {
	counts := map[string]int{}
	for name, n := range c.busiest.All() {
		counts[name] = *n
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var parts []string
	for _, name := range names[:min(topShown, len(names))] {
		parts = append(parts, fmt.Sprintf("%s (%d)", show(name), counts[name]))
	}
	return cmp.Or(strings.Join(parts, ", "), "none stands out")
}
