package guard

import (
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"
)

// A UnconfiguredProxy is a private address that several accounts log in from: probably
// a proxy that is not configured, or one that does not say for whom it speaks
// (R9). Until Direct says that it is a client it is nobody's own: after one login
// of Alice's everybody behind that proxy would be at her place.
type UnconfiguredProxy struct {
	Address netip.Addr
	Since   time.Time
	// Forwarded says that it sends forwarding headers, which nobody reads.
	Forwarded bool
	// Configured says that Guard.Proxies names it: it does not say who its clients are.
	Configured bool
	// Integration is the integration by which it was noticed.
	Integration string
	// MostLogins says that it carries most of the site's logins: where it would be
	// refused it is challenged, or the site would be closed to all.
	MostLogins bool
}

const (
	proxyRecent   = 64 // settled logins that are looked at
	proxyAccounts = 10 // of so many different accounts, at least: it carries most, or fails often
	proxyWithin   = 24 * time.Hour
)

// peers notices proxies that were forgotten in the configuration, and configured ones
// that do not say who the client is. Of the former only successful logins count, so an
// attacker would need accounts to fake one. A configured proxy's own address is no
// client's: there failures count as well.
type peers struct {
	direct  atomic.Pointer[bart.Lite]
	proxies atomic.Pointer[bart.Lite]                    // configured
	found   atomic.Pointer[map[digest]UnconfiguredProxy] // replaced, never changed

	mu        sync.Mutex
	successes newest
	failures  newest // at configured proxies' own addresses
}

// newest are the newest settled logins.
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

// mayBeProxy reports whether an address may be a proxy: private or configured as one, and not
// said to be a client.
func (p *peers) mayBeProxy(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !p.configured(a) {
		return false
	}
	return !holds(&p.direct, a)
}

// configured reports whether an address is a configured proxy's.
func (p *peers) configured(a netip.Addr) bool { return holds(&p.proxies, a.Unmap()) }

func holds(networks *atomic.Pointer[bart.Lite], a netip.Addr) bool {
	all := networks.Load()
	return all != nil && all.Contains(a.WithZone(""))
}

// carriesMost reports whether an address carries most of the site's logins.
func (p *peers) carriesMost(address digest) bool {
	found := p.found.Load()
	return found != nil && (*found)[address].MostLogins
}

// notice notes a proxy, and reports whether it is new.
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

// maxUnconfigured bounds the list that people read. Addresses beyond it are
// nobody's own all the same.
const maxUnconfigured = 100

// note keeps a login among the newest.
func (p *peers) note(among *newest, one settled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	among.logins[among.next%proxyRecent] = one
	among.next++
}

// count says how many accounts the newest logins have at an address, and elsewhere.
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
