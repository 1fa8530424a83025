package guard

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"
)

// A Forgotten is a private address that several accounts log in from: probably
// a proxy that is not configured, or one that does not say for whom it speaks
// (R9). Until Direct says that it is a client it is nobody's own: after one login
// of Alice's everybody behind that proxy would be at her place.
type Forgotten struct {
	Address netip.Addr
	Since   time.Time
	// Forwarded says that it sends forwarding headers, which nobody reads.
	Forwarded bool
	// Configured says that Guard.Proxies names it: it does not say who its clients are.
	Configured bool
	// Door is the integration by which it was noticed.
	Door string
	// Softened says that it carries most of the site's logins: where it would be
	// refused it is challenged, or the site would be closed to all.
	Softened bool
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
	proxies atomic.Pointer[bart.Lite]            // configured
	found   atomic.Pointer[map[digest]Forgotten] // replaced, never changed

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

// Direct says which private addresses are really clients, such as the machines
// of an office on the site's own network. It forgets what was noticed before:
// the configuration was mended.
func (g *Guard) Direct(networks []netip.Prefix) { g.peers.set(&g.peers.direct, networks) }

// Proxies says which addresses are configured proxies. A client has one of these only if
// the proxy does not say who the client is. Like Direct it forgets what was noticed before.
func (g *Guard) Proxies(networks []netip.Prefix) { g.peers.set(&g.peers.proxies, networks) }

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

// ForgottenProxies are the proxies that were noticed, longest known first.
func (g *Guard) ForgottenProxies() []Forgotten {
	found := g.peers.found.Load()
	if found == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(*found), func(a, b Forgotten) int { return a.Since.Compare(b.Since) })
}

// suspects reports whether an address may be a proxy: private or configured as one, and not
// said to be a client.
func (p *peers) suspects(a netip.Addr) bool {
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

// softened reports whether an address carries most of the site's logins.
func (p *peers) softened(address digest) bool {
	found := p.found.Load()
	return found != nil && (*found)[address].Softened
}

// Shared reports whether so many accounts use an address that it is no known client (R30).
func (g *Guard) Shared(address netip.Addr) bool {
	return g.config.SharedAddresses.Shared(g.digests.addressKey(address), g.config.Now())
}

// shared reports whether an address is never a known client: too many accounts use it, or it may
// be an unconfigured proxy.
func (g *Guard) shared(a netip.Addr, address digest, now time.Time) bool {
	if g.config.SharedAddresses.Shared(address, now) || g.config.Shared != nil && g.config.Shared(a) {
		return true
	}
	return g.peers.suspects(a) && g.config.SharedAddresses.Several(address, now)
}

// arrived counts a success at its address.
func (g *Guard) arrived(ctx context.Context, t *Ticket, now time.Time) {
	accounts, err := g.config.SharedAddresses.Add(afterwards(ctx), t.account, t.from.address, now)
	if err != nil {
		g.config.Failed(fmt.Errorf("guard: counting the accounts of an IP address: %w", err))
	}
	if accounts > 0 && g.config.OnShared != nil {
		g.config.OnShared(t.login.address, accounts)
	}
	g.peers.note(&g.peers.successes, t, now)
	if g.peers.suspects(t.login.address) && g.config.SharedAddresses.Several(t.from.address, now) {
		through, around := g.peers.count(&g.peers.successes, t.from.address, now)
		g.notice(t, through >= proxyAccounts && through > 4*around, now)
	}
}

// missed counts a failure at a configured proxy's own address.
func (g *Guard) missed(t *Ticket, now time.Time) {
	if !g.peers.configured(t.login.address) || !g.peers.suspects(t.login.address) {
		return
	}
	g.peers.note(&g.peers.failures, t, now)
	if through, _ := g.peers.count(&g.peers.failures, t.from.address, now); through >= proxyAccounts {
		g.notice(t, false, now)
	}
}

// notice notes a proxy, and reports it once.
func (g *Guard) notice(t *Ticket, softened bool, now time.Time) {
	if is, first := g.peers.notice(t, softened, now); first && g.config.Forgotten != nil {
		g.config.Forgotten(is)
	}
}

func (p *peers) notice(t *Ticket, softened bool, now time.Time) (is Forgotten, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := map[digest]Forgotten{}
	if all := p.found.Load(); all != nil {
		before = *all
	}
	was, known := before[t.from.address]
	if !known && len(before) >= mostForgotten {
		return is, false
	}
	is = Forgotten{
		Address: t.login.address, Since: now, Forwarded: was.Forwarded || t.flags.has(flagForwarded),
		Softened: was.Softened || softened, Configured: p.configured(t.login.address), Door: t.login.integration,
	}
	if known {
		is.Since, is.Door = was.Since, was.Door
	}
	if is != was {
		all := maps.Clone(before)
		all[t.from.address] = is
		p.found.Store(&all)
	}
	return is, !known
}

// mostForgotten bounds the list that people read. Addresses beyond it are
// nobody's own all the same.
const mostForgotten = 100

// note keeps a login among the newest.
func (p *peers) note(among *newest, t *Ticket, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	among.logins[among.next%proxyRecent] = settled{t.account, t.from.address, now}
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
