package guard

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"
)

// A Verdict is what an administrator said of an address.
type Verdict uint8

const (
	// NotListed: nothing was said.
	NotListed Verdict = iota
	// Allowed: the limits of address and network and CAPTCHA mode do not
	// apply. The limits of account and pair do: nobody is allowed to guess.
	Allowed
	// Blocked: every attempt is refused, from privileged places too.
	Blocked
)

// A Listing is one entry of the allow and block lists.
type Listing struct {
	Prefix  netip.Prefix
	Verdict Verdict
	Until   time.Time // zero: for good
}

// Lists are the allow and block lists in memory. The zero Lists are empty.
// Safe for concurrent use; a look-up takes no lock. The most specific entry
// that has not run out decides; of two alike the block.
type Lists struct {
	table atomic.Pointer[bart.Table[[]Listing]]
}

// Set replaces all entries.
func (l *Lists) Set(entries []Listing) {
	table := new(bart.Table[[]Listing])
	for _, e := range entries {
		if !e.Prefix.IsValid() {
			continue
		}
		prefix := unmapPrefix(e.Prefix).Masked()
		already, _ := table.Get(prefix)
		table.Insert(prefix, append(already, e))
	}
	l.table.Store(table)
}

// Look tells what the lists say of an address at a time.
func (l *Lists) Look(a netip.Addr, now time.Time) Verdict {
	table := l.table.Load()
	if table == nil {
		return NotListed
	}
	return lookUp(table, a, now)
}

func lookUp(table *bart.Table[[]Listing], a netip.Addr, now time.Time) Verdict {
	if table.Size() == 0 || !a.IsValid() {
		return NotListed
	}
	a = a.Unmap().WithZone("")
	for bits := a.BitLen(); bits >= 0; bits-- {
		prefix, entries, ok := table.LookupPrefixLPM(netip.PrefixFrom(a, bits).Masked())
		if !ok {
			return NotListed
		}
		if v := strongest(entries, now); v != NotListed {
			return v
		}
		bits = prefix.Bits()
	}
	return NotListed
}

func strongest(entries []Listing, now time.Time) Verdict {
	v := NotListed
	for _, e := range entries {
		if e.Until.IsZero() || now.Before(e.Until) {
			v = max(v, e.Verdict)
		}
	}
	return v
}

func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// proxyHint notices a proxy that was forgotten in the configuration (R9): one
// private address that carries most accounts' successful logins and sends
// forwarding headers. Only successful logins count, so an attacker would need
// many accounts to fake one.
type proxyHint struct {
	found atomic.Pointer[proxyFound]

	mu     sync.Mutex
	recent [proxyRecent]success
	next   int
}

type proxyFound struct {
	key     digest
	address netip.Addr
	since   time.Time
}

type success struct {
	account   digest
	address   digest
	forwarded bool
	at        time.Time
}

const (
	proxyRecent   = 64 // successful logins that are looked at
	proxyAccounts = 10 // of so many different accounts, at least
	proxyWithin   = 24 * time.Hour
)

func (p *proxyHint) suspect(address digest) bool {
	found := p.found.Load()
	return found != nil && found.key == address
}

func (p *proxyHint) succeeded(t *Ticket, now time.Time) {
	private := t.from.IsPrivate() || t.from.IsLoopback() || t.from.IsLinkLocalUnicast()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent[p.next%proxyRecent] = success{t.account, t.address, t.forwarded && private, now}
	p.next++
	if !t.forwarded || !private {
		return
	}
	if p.most(t.address, now) && !p.suspect(t.address) {
		p.found.Store(&proxyFound{key: t.address, address: t.from, since: now})
	}
}

// most reports whether the address carries most accounts' recent logins, all
// of them with forwarding headers.
func (p *proxyHint) most(address digest, now time.Time) bool {
	through, around := map[digest]bool{}, map[digest]bool{}
	for _, s := range p.recent[:min(p.next, proxyRecent)] {
		if now.Sub(s.at) > proxyWithin {
			continue
		}
		if s.address == address && s.forwarded {
			through[s.account] = true
		} else {
			around[s.account] = true
		}
	}
	return len(through) >= proxyAccounts && len(through) > 4*len(around)
}

// ForgottenProxy is the address of a proxy that ought to be configured, if one
// was noticed, and since when.
func (g *Guard) ForgottenProxy() (address netip.Addr, since time.Time, found bool) {
	f := g.proxies.found.Load()
	if f == nil {
		return netip.Addr{}, time.Time{}, false
	}
	return f.address, f.since, true
}

// ProxiesChanged forgets what was noticed: the configuration was mended.
func (g *Guard) ProxiesChanged() {
	g.proxies.mu.Lock()
	defer g.proxies.mu.Unlock()
	g.proxies.recent, g.proxies.next = [proxyRecent]success{}, 0
	g.proxies.found.Store(nil)
}
