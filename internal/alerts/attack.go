package alerts

import (
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/axiomhq/hyperloglog"

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
	addresses *crowd
	accounts  *crowd
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
	line("From about %d addresses, for about %d accounts.", a.addresses.size(), a.accounts.size())
	line("Busiest addresses (at least so many): %s.", a.addresses.busiest.line(topShown, func(s string) string { return s }))
	line("Most attacked accounts (at least so many): %s.", a.accounts.busiest.line(topShown, Name))
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

// A crowd counts distinct texts, to within about 1 %, and knows the busiest.
type crowd struct {
	seed     maphash.Seed // secret: nobody can type names that collide
	distinct *hyperloglog.Sketch
	busiest  *top
}

func newCrowd() *crowd {
	return &crowd{seed: maphash.MakeSeed(), distinct: hyperloglog.New(), busiest: newTop()}
}

func (c *crowd) add(text string) {
	c.distinct.InsertHash(maphash.String(c.seed, text))
	c.busiest.add(text)
}

func (c *crowd) size() uint64 { return c.distinct.Estimate() }
