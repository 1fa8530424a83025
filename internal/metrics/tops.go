package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/events"
	"authguard/internal/times"
)

const (
	topMinutes = 60  // how far back the tops go
	topNames   = 256 // names kept per minute
)

// A Top is one IP address, network, account or reason with its failed and stopped attempts of the last hour. During a
// flood the numbers are lower bounds.
type Top struct {
	// Name is the IP address, the network, the account's canonical name, or the reason's code.
	Name     string    `json:"name"`
	Failures int       `json:"failures"` // wrong passwords
	Stopped  int       `json:"stopped"`  // challenged, blocked or delayed, without a password check
	LastSeen time.Time `json:"last_seen"`
	Words    string    `json:"words,omitempty"` // the meaning of a reason's code
}

// Busiest are the tops of each kind that stand out, most first.
type Busiest struct {
	Addresses, Networks, Accounts, Reasons []Top
	Others
}

// Others are the names of each kind that do not stand out.
type Others struct {
	Addresses Rest `json:"addresses"`
	Networks  Rest `json:"networks"`
	Accounts  Rest `json:"accounts"`
}

// A Rest is a number of names, and the attempts of the most active one. During a flood the numbers are lower bounds.
type Rest struct {
	Names int `json:"names"`
	Most  int `json:"most_attempts"`
}

// Tops are statistics of each realm's last hour and day in bounded memory: a Series (0.4 MiB), and the most frequent
// subjects and reasons. An IPv6 /64 is one address, as in the guard. The zero Tops are empty; safe for concurrent use.
type Tops struct {
	mu     sync.Mutex
	realms map[string]*realmTops
	noted  int64 // Unix minutes
}

type realmTops struct {
	series
	addresses, networks, accounts, reasons times.Ring[*events.Top[Top]]
	minutesOf                              func() []captchamode.Minute
}

var _ events.Sink = (*Tops)(nil)

// Handle counts events.
func (t *Tops) Handle(batch []guard.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range batch {
		if ending := events.EndingOf(&batch[i]); ending != events.Undecided {
			t.in(batch[i].Realm).handle(&batch[i], ending)
		}
	}
}

func (of *realmTops) handle(e *guard.Event, ending events.Ending) {
	of.add(e.At, countsOf(e, ending))
	one := Top{LastSeen: e.At}
	switch ending {
	case events.Failed:
		one.Failures = 1
	case events.Refused, events.Challenged, events.Waited, events.FakeFailure:
		one.Stopped = 1
	default:
		return
	}
	if e.Address.IsValid() {
		address, network := events.PrefixesOf(e.Address)
		one.Name = events.AddressText(e.Address)
		count(&of.addresses, address.String(), one)
		one.Name = network.String()
		count(&of.networks, one.Name, one)
	}
	// An invalid name cannot be looked up, and has no size limit.
	if !e.Reasons.Has(guard.BadAccountName) && e.Account != "" && len(e.Account) <= guard.MaxAccount {
		one.Name = e.Account
		count(&of.accounts, e.Account, one)
	}
	why := reasonOf(e)
	one.Name, one.Words = why.Code(), wordsOf(why)
	count(&of.reasons, one.Name, one)
}

// reasonOf returns the strongest reason that is not monitored.
func reasonOf(e *guard.Event) guard.Reason {
	for _, r := range e.Reasons {
		if !r.Monitored {
			return r
		}
	}
	return guard.Reason{}
}

// wordsOf describes a reason without the numbers of its limit and wait.
func wordsOf(r guard.Reason) string {
	switch r.Cause {
	case guard.NoCause:
		return "no limit reached: the password was checked"
	case guard.LimitReached:
		return "limit reached: " + r.Subject.String()
	}
	r.Wait = 0
	return r.String()
}

// HandleSwitch does nothing.
func (t *Tops) HandleSwitch(events.ModeSwitch) {}

// Tick stores the mode's last minutes of each realm, once a minute.
func (t *Tops) Tick(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	minute := now.Unix() / 60
	if minute == t.noted {
		return
	}
	t.noted = minute
	for _, of := range t.realms {
		if of.minutesOf != nil {
			of.note(of.minutesOf())
		}
	}
}

// Watch stores the failure rate of a realm from now on, until Forget.
func (t *Tops) Watch(realm string, minutes func() []captchamode.Minute) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.in(realm).minutesOf = minutes
}

// First returns the n most active of each kind in a realm that stand out: with at least 1 % of the attempts or 20 of
// them. Reasons all do.
func (t *Tops) First(realm string, now time.Time, n int) Busiest {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.in(realm)
	var b Busiest
	b.Addresses, b.Others.Addresses = standOut(first(&of.addresses, now), n)
	b.Networks, b.Others.Networks = standOut(first(&of.networks, now), n)
	b.Accounts, b.Others.Accounts = standOut(first(&of.accounts, now), n)
	b.Reasons = first(&of.reasons, now)
	b.Reasons = b.Reasons[:min(n, len(b.Reasons))]
	return b
}

// Forget deletes the statistics of a removed realm.
func (t *Tops) Forget(realm string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.realms, realm)
}

// in returns a realm's statistics; the caller holds the lock.
func (t *Tops) in(realm string) *realmTops {
	realm = cmp.Or(realm, guard.DefaultRealm)
	of := t.realms[realm]
	if of == nil {
		if t.realms == nil {
			t.realms = map[string]*realmTops{}
		}
		hour := func() times.Ring[*events.Top[Top]] { return times.NewRing[*events.Top[Top]](time.Minute, topMinutes) }
		of = &realmTops{series: newSeries(), addresses: hour(), networks: hour(), accounts: hour(), reasons: hour()}
		t.realms[realm] = of
	}
	return of
}

func newTop() *events.Top[Top] { return events.NewTop[Top](topNames) }

func count(minutes *times.Ring[*events.Top[Top]], key string, one Top) {
	if t := (*minutes.At(one.LastSeen, newTop)).Of(key); t != nil {
		t.add(one)
	}
}

// enough attempts in an hour are worth a block, however large an attack is besides.
const enough = 20

// standOut splits the tops, most first.
func standOut(all []Top, n int) ([]Top, Rest) {
	sum := 0
	for _, t := range all {
		sum += t.attempts()
	}
	i := 0
	for i < min(n, len(all)) && (100*all[i].attempts() >= sum || all[i].attempts() >= enough) {
		i++
	}
	if i == len(all) {
		return all, Rest{}
	}
	return all[:i], Rest{len(all) - i, all[i].attempts()}
}

func (t *Top) attempts() int { return t.Failures + t.Stopped }

func first(minutes *times.Ring[*events.Top[Top]], now time.Time) []Top {
	sums := map[string]Top{}
	minutes.Newest(now, topMinutes, func(_ time.Time, minute **events.Top[Top]) {
		if minute == nil {
			return
		}
		for key, t := range (*minute).All() {
			sum := sums[key]
			sum.add(*t)
			sums[key] = sum
		}
	})
	return slices.SortedFunc(maps.Values(sums), func(a, b Top) int {
		return cmp.Or(cmp.Compare(b.attempts(), a.attempts()), strings.Compare(a.Name, b.Name))
	})
}

// add sums up, under the newest name.
func (t *Top) add(one Top) {
	t.Failures += one.Failures
	t.Stopped += one.Stopped
	if !one.LastSeen.Before(t.LastSeen) {
		t.Name, t.Words, t.LastSeen = one.Name, one.Words, one.LastSeen
	}
}
