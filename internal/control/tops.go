package control

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"authguard/guard"
	"authguard/internal/events"
)

// topMinutes is how far back the tops look.
const topMinutes = 60

// A Top is one address or account and what came to nothing from or for it in
// the last hour. Under a flood the numbers are lower bounds.
type Top struct {
	// Name is the address, or the account's canonical name.
	Name     string
	Failures int // wrong passwords
	Stopped  int // challenged, refused or told to wait: no password was looked at
	LastSeen time.Time
}

// Tops are the addresses and accounts with the most failed and stopped attempts
// of the last hour, in bounded memory: at most sketchSlots of each for each
// minute. An IPv6 /64 is one address, as it is to the guard. Safe for
// concurrent use.
type Tops struct {
	mu        sync.Mutex
	addresses ring
	accounts  ring
}

var _ events.Sink = (*Tops)(nil)

// NewTops returns empty tops.
func NewTops() *Tops {
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	return &Tops{addresses: ring{random: random}, accounts: ring{random: random}}
}

// Handle counts events.
func (t *Tops) Handle(batch []guard.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range batch {
		e := &batch[i]
		failed, stopped := false, false
		switch events.EndingOf(e) {
		case events.Failed:
			failed = true
		case events.Refused, events.Challenged, events.Waited:
			stopped = true
		default:
			continue
		}
		if key, ok := addressKey(e.Address); ok {
			t.addresses.add(key, events.AddressText(e.Address), e.At, failed, stopped)
		}
		// What is no name cannot be looked up or unlocked, and has no bound.
		if !e.Reasons.Has(guard.BadAccountName) && e.Account != "" && len(e.Account) <= guard.MaxAccount {
			t.accounts.add(e.Account, e.Account, e.At, failed, stopped)
		}
	}
}

// HandleSwitch does nothing.
func (t *Tops) HandleSwitch(events.ModeSwitch) {}

// Tick does nothing: minutes age by the events' own clock.
func (t *Tops) Tick(time.Time) {}

// Addresses are the first n addresses at a time, most first.
func (t *Tops) Addresses(now time.Time, n int) []Top {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addresses.first(now, n)
}

// Accounts are the first n accounts at a time, most first.
func (t *Tops) Accounts(now time.Time, n int) []Top {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.accounts.first(now, n)
}

func addressKey(a netip.Addr) (string, bool) {
	if !a.IsValid() {
		return "", false
	}
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return a.String(), true
	}
	prefix, err := a.Prefix(64)
	return prefix.String(), err == nil
}

// A ring is the sketches of the last hour, by minute modulo their number.
type ring struct {
	sketches [topMinutes]*sketch
	random   *rand.Rand
}

func (r *ring) add(key, name string, at time.Time, failed, stopped bool) {
	t := r.at(at).of(key)
	if t == nil {
		return
	}
	t.name, t.seen = name, at
	if failed {
		t.failures++
	}
	if stopped {
		t.stopped++
	}
}

// at is the sketch of a time's minute. A straggler whose minute is gone counts
// in the one that took its place.
func (r *ring) at(at time.Time) *sketch {
	minute := at.Unix() / 60
	place := &r.sketches[minute%topMinutes]
	if *place == nil || (*place).minute < minute {
		*place = newSketch(minute, r.random)
	}
	return *place
}

func (r *ring) first(now time.Time, n int) []Top {
	sums := map[string]Top{}
	oldest := now.Unix()/60 - topMinutes
	for _, s := range r.sketches {
		if s == nil || s.minute <= oldest {
			continue
		}
		for i := range s.tallies {
			t := &s.tallies[i]
			sums[t.key] = sums[t.key].plus(t)
		}
	}
	all := make([]Top, 0, len(sums))
	for _, top := range sums {
		all = append(all, top)
	}
	slices.SortFunc(all, func(a, b Top) int {
		return cmp.Or(cmp.Compare(b.Failures+b.Stopped, a.Failures+a.Stopped), strings.Compare(a.Name, b.Name))
	})
	return all[:min(n, len(all))]
}

func (top Top) plus(t *tally) Top {
	top.Failures += t.failures
	top.Stopped += t.stopped
	if !t.seen.Before(top.LastSeen) {
		top.Name, top.LastSeen = t.name, t.seen
	}
	return top
}
