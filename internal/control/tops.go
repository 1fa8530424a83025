package control

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"authguard/guard"
	"authguard/internal/events"
	"authguard/internal/tops"
)

const (
	topMinutes = 60  // how far back the tops look
	topNames   = 256 // how many each minute keeps
)

// A Top is one address or account and what came to nothing from or for it in
// the last hour. Under a flood the numbers are lower bounds.
type Top struct {
	// Name is the address, or the account's canonical name.
	Name     string    `json:"name"`
	Failures int       `json:"failures"` // wrong passwords
	Stopped  int       `json:"stopped"`  // challenged, refused or told to wait: no password was looked at
	LastSeen time.Time `json:"last_seen"`
}

// Tops are, for each realm, the addresses and accounts with the most failed and stopped attempts
// of the last hour, in bounded memory. An IPv6 /64 is one address, as it is to
// the guard. The zero Tops are empty; safe for concurrent use.
type Tops struct {
	mu     sync.Mutex
	realms map[string]*realmTops
}

type realmTops struct{ addresses, accounts hour }

var _ events.Sink = (*Tops)(nil)

// Handle counts events.
func (t *Tops) Handle(batch []guard.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range batch {
		e := &batch[i]
		of := t.in(e.Realm)
		one := Top{LastSeen: e.At}
		switch events.EndingOf(e) {
		case events.Failed:
			one.Failures = 1
		case events.Refused, events.Challenged, events.Waited, events.Pretended:
			one.Stopped = 1
		default:
			continue
		}
		if e.Address.IsValid() {
			one.Name = events.AddressText(e.Address)
			of.addresses.add(addressKey(e.Address), one)
		}
		// What is no name cannot be looked up or unlocked, and has no bound.
		if !e.Reasons.Has(guard.BadAccountName) && e.Account != "" && len(e.Account) <= guard.MaxAccount {
			one.Name = e.Account
			of.accounts.add(e.Account, one)
		}
	}
}

// HandleSwitch does nothing.
func (t *Tops) HandleSwitch(events.ModeSwitch) {}

// Tick does nothing: minutes age by the events' own clock.
func (t *Tops) Tick(time.Time) {}

// First are the first n addresses and accounts of a realm at a time, most first.
func (t *Tops) First(realm string, now time.Time, n int) (addresses, accounts []Top) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.in(realm)
	return of.addresses.first(now, n), of.accounts.first(now, n)
}

// Forget ends the tops of a realm that is no more.
func (t *Tops) Forget(realm string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.realms, realm)
}

// in is a realm's tops; the caller holds the lock.
func (t *Tops) in(realm string) *realmTops {
	realm = cmp.Or(realm, guard.DefaultRealm)
	of := t.realms[realm]
	if of == nil {
		if t.realms == nil {
			t.realms = map[string]*realmTops{}
		}
		of = new(realmTops)
		t.realms[realm] = of
	}
	return of
}

func addressKey(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return a.String()
	}
	prefix, _ := a.Prefix(64) // cannot fail
	return prefix.String()
}

// An hour is the tops of the last minutes, by minute modulo their number.
type hour [topMinutes]struct {
	minute int64 // Unix minutes
	tops   *tops.Top[Top]
}

// add counts in an event's minute. A straggler whose minute is gone counts in
// the one that took its place.
func (h *hour) add(key string, one Top) {
	minute := one.LastSeen.Unix() / 60
	place := &h[minute%topMinutes]
	if place.tops == nil || place.minute < minute {
		place.minute, place.tops = minute, tops.New[Top](topNames)
	}
	if t := place.tops.Of(key); t != nil {
		t.add(one)
	}
}

func (h *hour) first(now time.Time, n int) []Top {
	sums := map[string]Top{}
	oldest := now.Unix()/60 - topMinutes
	for _, place := range h {
		if place.tops == nil || place.minute <= oldest {
			continue
		}
		for key, t := range place.tops.All() {
			sum := sums[key]
			sum.add(*t)
			sums[key] = sum
		}
	}
	all := slices.SortedFunc(maps.Values(sums), func(a, b Top) int {
		return cmp.Or(cmp.Compare(b.Failures+b.Stopped, a.Failures+a.Stopped), strings.Compare(a.Name, b.Name))
	})
	return all[:min(n, len(all))]
}

// add sums up, under the name that was seen last.
func (t *Top) add(one Top) {
	t.Failures += one.Failures
	t.Stopped += one.Stopped
	if !one.LastSeen.Before(t.LastSeen) {
		t.Name, t.LastSeen = one.Name, one.LastSeen
	}
}
