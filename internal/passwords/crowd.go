package passwords

import (
	"net/netip"
	"strings"
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
	crowdLook  = time.Second / 4  // the queue is looked at no more often
)

// crowding is what is known of a crowd.
type crowding struct {
	looked, since, last time.Time
	told                bool
}

// crowded is the crowd that there is, if somebody has to be told now.
func (g *Gate) crowded() *Crowd {
	c, now := &g.crowd, g.config.Now()
	if now.Sub(c.looked) < crowdLook {
		return nil
	}
	c.looked = now
	crowd := g.largest()
	if g.queued() <= g.soon() || 4*crowd.Present < crowd.All {
		return nil
	}
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
	return &crowd
}

// largest is the account or address with most checks.
func (g *Gate) largest() (most Crowd) {
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

// tell tells of a crowd, if there is one. The caller does not hold the lock.
func (g *Gate) tell(c *Crowd) {
	if c != nil && g.config.Crowded != nil {
		g.config.Crowded(*c)
	}
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
