package control

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ProbeHeader carries the token of a probe.
const ProbeHeader = "Authguard-Probe"

const (
	probeFor   = time.Minute // how long a probe is waited for
	mostProbes = 16          // at the same time
)

// A Probe is what arrived of a request that somebody with access to the server
// sent through the front door, to see whom it is taken for.
type Probe struct {
	// Peer is who the request came from, Believed that it is a configured proxy.
	Peer     netip.AddrPort `json:"peer"`
	Believed bool           `json:"believed"`
	// Header is the name of the forwarding header that is read, and Hops what it
	// said, from left to right.
	Header string   `json:"header"`
	Hops   []string `json:"hops"`
	// Address is what the request counts for, Secure that it counts as TLS.
	Address netip.Addr `json:"address"`
	Secure  bool       `json:"secure"`
	Host    string     `json:"host"`
}

// Probes are the probes that are expected. Only a request with the token of one is
// recorded, once; nobody else learns anything. The zero Probes expect none. Safe
// for concurrent use.
type Probes struct {
	mu       sync.Mutex
	expected []expectation
}

type expectation struct {
	token string
	until time.Time
	seen  *Probe
}

// Expect waits for a probe with this token, which only its sender knows.
func (p *Probes) Expect(token string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = slices.DeleteFunc(p.expected, func(e expectation) bool { return !now.Before(e.until) })
	p.expected = append(p.expected[max(0, len(p.expected)+1-mostProbes):], expectation{token: token, until: now.Add(probeFor)})
}

// Seen is what arrived; nil if nothing has.
func (p *Probes) Seen(token string) *Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.find(token); e != nil {
		return e.seen
	}
	return nil
}

func (p *Probes) find(token string) *expectation {
	for i := range p.expected {
		if p.expected[i].token == token {
			return &p.expected[i]
		}
	}
	return nil
}

// Take records what arrived with a token, if that is expected and nothing has
// yet. It reports whether it did.
func (p *Probes) Take(token string, now time.Time, arrived func() Probe) bool {
	if token == "" {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	expected := p.find(token)
	if expected == nil || expected.seen != nil || !now.Before(expected.until) {
		return false
	}
	seen := arrived()
	expected.seen = &seen
	return true
}
