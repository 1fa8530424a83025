package guard

import (
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
	// Softened says that it carries most of the site's logins: where it would be
	// refused it is challenged, or the site would be closed to all.
	Softened bool
}

const (
	peerAccounts  = 3  // that log in through a private address: it is no client's
	proxyRecent   = 64 // successful logins that are looked at
	proxyAccounts = 10 // of so many different accounts, at least: it carries most
	proxyWithin   = 24 * time.Hour
)

// peers notices proxies that were forgotten in the configuration. Only
// successful logins count, so an attacker would need accounts to fake one.
type peers struct {
	direct atomic.Pointer[bart.Lite]
	found  atomic.Pointer[map[digest]Forgotten] // replaced, never changed

	mu     sync.Mutex
	recent [proxyRecent]success
	next   int
}

type success struct {
	account digest
	address digest
	at      time.Time
}

// Direct says which private addresses are really clients, such as the machines
// of an office on the site's own network. It forgets what was noticed before:
// the configuration was mended.
func (g *Guard) Direct(networks []netip.Prefix) {
	direct := new(bart.Lite)
	for _, n := range networks {
		direct.Insert(unmapPrefix(n).Masked())
	}
	g.peers.mu.Lock()
	defer g.peers.mu.Unlock()
	g.peers.direct.Store(direct)
	g.peers.found.Store(nil)
	g.peers.recent, g.peers.next = [proxyRecent]success{}, 0
}

// ForgottenProxies are the proxies that were noticed, longest known first.
func (g *Guard) ForgottenProxies() []Forgotten {
	found := g.peers.found.Load()
	if found == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(*found), func(a, b Forgotten) int { return a.Since.Compare(b.Since) })
}

// suspects reports whether an address may be a proxy: private, and not said to
// be a client.
func (p *peers) suspects(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast() {
		return false
	}
	direct := p.direct.Load()
	return direct == nil || !direct.Contains(a.WithZone(""))
}

// softened reports whether an address carries most of the site's logins.
func (p *peers) softened(address digest) bool {
	found := p.found.Load()
	return found != nil && (*found)[address].Softened
}

// nobodys reports whether an address is no place of anybody's: too many accounts
// use it, or it may be a proxy's. The administration has its own proxies, and is
// reached by tunnels: there only the first counts.
func (g *Guard) nobodys(a netip.Addr, address digest, directory string, now time.Time) bool {
	if g.config.Crowds.Shared(address, now) {
		return true
	}
	return directory == "" && g.peers.suspects(a) && g.config.Crowds.Accounts(address, now) >= peerAccounts
}

// arrived counts a success at its address.
func (g *Guard) arrived(t *Ticket, now time.Time) {
	if t.directory != "" {
		return
	}
	accounts, became := g.config.Crowds.Add(t.account, t.address, now)
	if became && g.config.Crowded != nil {
		g.config.Crowded(t.from, accounts)
	}
	g.peers.note(t, now)
	if accounts >= peerAccounts && g.peers.suspects(t.from) {
		g.notice(t, g.peers.most(t, now), now)
	}
}

// notice notes a forgotten proxy, and tells of it once.
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
	was, known := before[t.address]
	if !known && len(before) >= mostForgotten {
		return is, false
	}
	is = Forgotten{Address: t.from, Since: now, Forwarded: was.Forwarded || t.forwarded, Softened: was.Softened || softened}
	if known {
		is.Since = was.Since
	}
	if is != was {
		all := maps.Clone(before)
		all[t.address] = is
		p.found.Store(&all)
	}
	return is, !known
}

// mostForgotten bounds the list that people read. Addresses beyond it are
// nobody's own all the same.
const mostForgotten = 100

// note keeps a success among the newest.
func (p *peers) note(t *Ticket, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent[p.next%proxyRecent] = success{t.account, t.address, now}
	p.next++
}

// most reports whether an address carries most accounts' newest successes.
func (p *peers) most(t *Ticket, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	through, around := map[digest]bool{}, map[digest]bool{}
	for _, s := range p.recent[:min(p.next, proxyRecent)] {
		if now.Sub(s.at) > proxyWithin {
			continue
		}
		if s.address == t.address {
			through[s.account] = true
		} else {
			around[s.account] = true
		}
	}
	return len(through) >= proxyAccounts && len(through) > 4*len(around)
}
