package passwords

import (
	"net/netip"
	"strings"
	"time"
)

// A Hog is one account or address that fills the queue: for some seconds it has
// had a quarter of all who are there, or more, while others had to wait for more
// than a second.
type Hog struct {
	Account string     // empty: many accounts of one address
	Address netip.Addr // it asked last from there
	Present int        // of its checks that run or wait
	All     int        // checks that run or wait
}

const (
	hogsFor  = 5 * time.Second  // so long before it is told of: bursts end by then
	hogsAnew = 10 * time.Minute // after so long without, the next one is told of
	hogLook  = time.Second / 4  // the queue is looked at no more often
)

// hogging is what is known of a hog.
type hogging struct {
	looked, since, last time.Time
	told                bool
}

// hogged is the hog that there is, if somebody has to be told now.
func (g *Gate) hogged() *Hog {
	h, now := &g.hog, g.config.Now()
	if now.Sub(h.looked) < hogLook {
		return nil
	}
	h.looked = now
	hog := g.largest()
	if g.queued() <= g.soon() || 4*hog.Present < hog.All {
		return nil
	}
	pause := now.Sub(h.last)
	if pause > hogsFor {
		h.since = now
	}
	h.told = h.told && pause <= hogsAnew
	h.last = now
	if h.told || now.Sub(h.since) < hogsFor {
		return nil
	}
	h.told = true
	return &hog
}

// largest is the account or address with most checks.
func (g *Gate) largest() (most Hog) {
	most.All = g.running + g.queued()
	for key, p := range g.present {
		account := strings.HasPrefix(key, accountKey)
		if p.n < most.Present || p.n == most.Present && !account {
			continue
		}
		most.Present, most.Address, most.Account = p.n, p.last.From, ""
		if account {
			most.Account = p.last.Account
		}
	}
	return most
}

// tell tells of a hog, if there is one. The caller does not hold the lock.
func (g *Gate) tell(h *Hog) {
	if h != nil && g.config.Hogged != nil {
		g.config.Hogged(*h)
	}
}

// A GateState is what a Gate is doing.
type GateState struct {
	Running                          int
	Strangers, Known, Administrators int    // who wait
	Shed                             uint64 // turned away for overload, since the start
	Hogged                           bool   // one account or address has filled the queue in the last seconds
}

// Waiting is how many wait for their turn.
func (s GateState) Waiting() int { return s.Strangers + s.Known + s.Administrators }

// State is for the metrics.
func (g *Gate) State() GateState {
	g.mu.Lock()
	defer g.mu.Unlock()
	return GateState{
		Running: g.running, Strangers: len(g.lines[strangers]) + len(g.lines[fakes]), Known: len(g.lines[known]),
		Administrators: len(g.lines[administrators]),
		Shed:           g.shed, Hogged: g.hog.told && g.config.Now().Sub(g.hog.last) <= hogsFor,
	}
}
