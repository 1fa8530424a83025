package guard

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// proxyHint notices a proxy that was forgotten in the configuration (R9): one
// private address that carries most accounts' successful logins and sends
// forwarding headers. Only successful logins count, so nobody without many
// accounts of his own can bring it about.
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

func (p *proxyHint) succeeded(v *view, now time.Time) {
	private := v.from.IsPrivate() || v.from.IsLoopback() || v.from.IsLinkLocalUnicast()
	address := v.Places[atAddress].Key
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent[p.next%proxyRecent] = success{v.Account, address, v.forwarded && private, now}
	p.next++
	if !v.forwarded || !private {
		return
	}
	if p.most(address, now) && !p.suspect(address) {
		p.found.Store(&proxyFound{key: address, address: v.from, since: now})
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
