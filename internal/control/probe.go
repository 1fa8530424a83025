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
	probeFor   = time.Minute // how long a probe is expected
	mostProbes = 16          // at the same time
)

// A Probe is how a test request by an administrator arrived at the public listener, to check the proxy configuration.
type Probe struct {
	// Peer is the TCP peer. Believed is set if it is a configured proxy.
	Peer     netip.AddrPort `json:"peer"`
	Believed bool           `json:"believed"`
	// Header is the forwarding header in use, and Hops its values from left to right.
	Header string   `json:"header"`
	Hops   []string `json:"hops"`
	// Address is the client's IP address. Secure is set if the client uses TLS.
	Address netip.Addr `json:"address"`
	Secure  bool       `json:"secure"`
	Host    string     `json:"host"`
}

// Probes are the expected probes. Only a request with an expected token is recorded, once, so others learn nothing. The
// zero Probes expect none. Safe for concurrent use.
type Probes struct {
	mu       sync.Mutex
	expected []expectation
}

type expectation struct {
	token string
	until time.Time
	seen  *Probe
}

// Expect accepts a probe with this token, which only its sender knows.
func (p *Probes) Expect(token string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = slices.DeleteFunc(p.expected, func(e expectation) bool { return !now.Before(e.until) })
	p.expected = append(p.expected[max(0, len(p.expected)+1-mostProbes):], expectation{token: token,
		until: now.Add(probeFor)})
}

// Seen returns the probe that arrived, or nil.
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

// Take records the first request with an expected token and reports whether it did.
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
