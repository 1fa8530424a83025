package guard

import (
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"
)

// An UnconfiguredProxy is a private address that several accounts log in from. It is probably a reverse proxy that is
// not configured, or one that does not name its clients (R9). Unless Guard.Direct names it, it is a shared address.
// Otherwise one login would make all clients behind the proxy known.
type UnconfiguredProxy struct {
	Address netip.Addr
	Since   time.Time
	// Forwarded: it sends forwarding headers, which are ignored.
	Forwarded bool
	// Configured: Guard.Proxies names it, but it does not name its clients.
	Configured bool
	// Integration is where it was detected.
	Integration string
	// MostLogins: it carries most logins. It is challenged instead of blocked: a block would close the site to all users.
	MostLogins bool
}

const (
	proxyRecent   = 64 // settled logins to look at
	proxyAccounts = 10 // different accounts there, at least: it carries most logins, or fails often
	proxyWithin   = 24 * time.Hour
)

// peers detects unconfigured proxies, and configured ones that do not name their clients. At the former only successes
// count, so an attacker needs accounts to fake one. A configured proxy's own address is no client's: failures count
// there.
type peers struct {
	direct  atomic.Pointer[bart.Lite]
	proxies atomic.Pointer[bart.Lite]                    // configured
	found   atomic.Pointer[map[digest]UnconfiguredProxy] // replaced, never changed

	mu        sync.Mutex
	successes newest
	failures  newest // at configured proxies' own addresses
}

type newest struct {
	logins [proxyRecent]settled
	next   int
}

type settled struct {
	account digest
	address digest
	at      time.Time
}

func (p *peers) set(to *atomic.Pointer[bart.Lite], networks []netip.Prefix) {
	all := new(bart.Lite)
	for _, n := range networks {
		all.Insert(unmapPrefix(n).Masked())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	to.Store(all)
	p.found.Store(nil)
	p.successes, p.failures = newest{}, newest{}
}

// mayBeProxy reports whether an address may be a proxy: private or configured as one, and not in Guard.Direct.
func (p *peers) mayBeProxy(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !p.configured(a) {
		return false
	}
	return !holds(&p.direct, a)
}

func (p *peers) configured(a netip.Addr) bool { return holds(&p.proxies, a.Unmap()) }

func holds(networks *atomic.Pointer[bart.Lite], a netip.Addr) bool {
	all := networks.Load()
	return all != nil && all.Contains(a.WithZone(""))
}

func (p *peers) carriesMost(address digest) bool {
	found := p.found.Load()
	return found != nil && (*found)[address].MostLogins
}

// notice records a proxy, and reports whether it is new.
func (p *peers) notice(is UnconfiguredProxy, address digest) (UnconfiguredProxy, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := map[digest]UnconfiguredProxy{}
	if all := p.found.Load(); all != nil {
		before = *all
	}
	was, known := before[address]
	if !known && len(before) >= maxUnconfigured {
		return is, false
	}
	if known {
		is.Since, is.Integration = was.Since, was.Integration
		is.Forwarded, is.MostLogins = was.Forwarded || is.Forwarded, was.MostLogins || is.MostLogins
	}
	if is != was {
		all := maps.Clone(before)
		all[address] = is
		p.found.Store(&all)
	}
	return is, !known
}

// maxUnconfigured bounds the list for administrators. Addresses beyond it are shared addresses, too.
const maxUnconfigured = 100

func (p *peers) note(among *newest, one settled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	among.logins[among.next%proxyRecent] = one
	among.next++
}

// count returns how many accounts the newest logins have at an address, and elsewhere.
func (p *peers) count(among *newest, address digest, now time.Time) (through, around int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	here, elsewhere := map[digest]bool{}, map[digest]bool{}
	for _, s := range among.logins[:min(among.next, proxyRecent)] {
		if now.Sub(s.at) > proxyWithin {
			continue
		}
		if s.address == address {
			here[s.account] = true
		} else {
			elsewhere[s.account] = true
		}
	}
	return len(here), len(elsewhere)
}
