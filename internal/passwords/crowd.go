package passwords

import (
	"net/netip"
	"time"
)

// A Crowd is one account or address that fills the queue: for some seconds it has
// had a quarter of all who are there, or more, while others had to wait for more
// than a second.
type Crowd struct {
	Account string     // empty: many accounts of one address
	Address netip.Addr // it asked last from there
	Present int        // of its checks that run or wait
	All     int        // checks that run or wait
}

const (
	crowdsFor  = 5 * time.Second  // so long before it is told of: bursts end by then
	crowdsAnew = 10 * time.Minute // after so long without, the next one is told of
)

// crowding is what is known of a crowd.
type crowding struct {
	since, last time.Time
	told        bool
}

// crowded is the crowd that w belongs to, if it has to be told of.
func (g *Gate) crowded(w *waiter) *Crowd {
	all, now := g.running+g.queued(), g.config.Now()
	keys := w.keys()
	present := max(g.present[keys[0]], g.present[keys[2]])
	if g.queued() <= g.soon() || 4*present < all {
		return nil
	}
	c := &g.crowd
	pause := now.Sub(c.last)
	if pause > crowdsFor {
		c.since = now
	}
	c.told = c.told && pause <= crowdsAnew
	c.last = now
	if c.told || now.Sub(c.since) < crowdsFor {
		return nil
	}
	c.told = true
	crowd := &Crowd{Address: w.From, Present: present, All: all}
	if 2*g.present[keys[0]] > present {
		crowd.Account = w.Account
	}
	return crowd
}

// A GateState is what a Gate is doing.
type GateState struct {
	Running                          int
	Strangers, Known, Administrators int    // who wait
	Shed                             uint64 // turned away for overload, since the start
	Crowded                          bool   // one account or address has filled the queue in the last seconds
}

// State is for the metrics.
func (g *Gate) State() GateState {
	g.mu.Lock()
	defer g.mu.Unlock()
	return GateState{
		Running: g.running, Strangers: len(g.lines[strangers]), Known: len(g.lines[known]), Administrators: len(g.lines[administrators]),
		Shed: g.shed, Crowded: g.crowd.told && g.config.Now().Sub(g.crowd.last) <= crowdsFor,
	}
}
