package guard

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"

	"authguard/failures"
)

// A NamedList is what becomes of logins from the addresses of a list that somebody else
// keeps, such as the ranges of datacenters. What is on it is in Lists, under its name.
// Administrators' own entries come first; then the first list of the policy that has
// the address decides, and no other is asked.
type NamedList struct {
	Name string
	// Verdict is for all on the list: Allowed or Blocked, as if an administrator had
	// listed them. NotListed: they meet Limits.
	Verdict Verdict
	// Limits bind each address on the list beside Policy.Address, with which it shares
	// its count: they are the same failures. One of 0 failures without a window asks
	// for a challenge at every attempt of a stranger.
	Limits []Limit
	// Monitor: that an address is Blocked is recorded and shown, not enforced. Each of
	// Limits has its own.
	Monitor bool
}

// MaxNamedLists is how many lists a policy may name: each is asked for every address
// that none before it has.
const MaxNamedLists = 16

// always reports whether the limit is one that is full from the start.
func (l *Limit) always() bool { return l.Failures == 0 && l.Window == 0 }

var listName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

// lists checks the named lists: each ladder by itself, and that it fits on the
// address's, which is meant to be looser.
func (c *checker) lists(all []NamedList, address []Limit) {
	c.check(len(all) <= MaxNamedLists, "lists", "must be at most %d, not %d", MaxNamedLists, len(all))
	seen := map[string]bool{}
	for i, l := range all {
		path := listPath(i)
		c.check(listName.MatchString(l.Name), path+".name",
			"must be 1 to 40 lower-case letters, digits and -, such as datacenters, not %.60q", l.Name)
		c.check(!seen[l.Name], path+".name", "is the name of another list")
		seen[l.Name] = true
		c.check(l.Verdict != NotListed || len(l.Limits) > 0, path+".limits",
			"must have a limit such as 0 challenge, or the list must allow or block")
		c.check(l.Verdict == NotListed || len(l.Limits) == 0, path+".limits",
			"are not used by a list that allows or blocks: remove the limits or the action")
		rungs, askers := l.split()
		c.check(len(askers) <= 1, path+".limits", "can contain one limit of 0 failures only")
		for _, one := range askers {
			c.check(one.Action == Challenge, path+".limits",
				"of 0 failures must be challenge, not %s: unknown clients get a challenge first; to block all of them set "+
					"action: block", one.Action)
		}
		c.check(len(rungs)+len(address) <= failures.MaxRungs, path+".limits",
			"at most %d limits together with limits.address, not %d", failures.MaxRungs, len(rungs)+len(address))
		asked := len(askers) > 0 && !askers[0].Monitor
		ladder := slices.Clone(l.Limits)
		for j, r := range l.Limits {
			at := fmt.Sprintf("%s.limits[%d]", path, j)
			if r.always() {
				ladder[j] = Limit{Failures: 1, Window: time.Millisecond, Action: Challenge, Monitor: true} // stops nothing
				continue
			}
			c.check(!asked || r.Action != Challenge, at,
				"can never be reached: 0 challenge challenges every unknown client before")
			for k, e := range address {
				if r.Window > 0 {
					c.reachableBeside(at+".failures", r, fmt.Sprintf("limits.address[%d]", k), e)
				}
			}
		}
		c.ladder(path+".limits", ladder, failures.Backoff{}, Challenge, Block, FakeFailure)
	}
}

func listPath(i int) string { return fmt.Sprintf("lists[%d]", i) }

// split tells the limits that count from those that are full from the start.
func (l *NamedList) split() (rungs, askers []Limit) {
	for _, one := range l.Limits {
		if one.always() {
			askers = append(askers, one)
		} else {
			rungs = append(rungs, one)
		}
	}
	return rungs, askers
}

// A listRule is a named list made ready.
type listRule struct {
	name      string
	verdict   Verdict
	monitored bool   // a block is only recorded
	asks      *Limit // at every attempt of an unknown client; nil: not so
	address   addressRules
}

func compileLists(p Policy) (all []*listRule) {
	for _, l := range p.Lists {
		limits, askers := l.split()
		r := &listRule{name: l.Name, verdict: l.Verdict, monitored: l.Monitor, address: newAddressRules(p, l.Name, limits)}
		if len(askers) > 0 {
			r.asks = &askers[0]
		}
		all = append(all, r)
	}
	return all
}

// Ranges are a set of address ranges that does not change. The nil Ranges are empty.
type Ranges struct {
	table bart.Lite
	size  int
}

// NewRanges makes a set of valid ranges; host bits do not count, and IPv4-mapped
// ranges are the IPv4 ranges.
func NewRanges(all []netip.Prefix) *Ranges {
	r := new(Ranges)
	for _, p := range all {
		if p.IsValid() {
			r.table.Insert(unmapPrefix(p).Masked())
		}
	}
	r.size = r.table.Size()
	return r
}

// Len is how many ranges there are, each counted once.
func (r *Ranges) Len() int {
	if r == nil {
		return 0
	}
	return r.size
}

// Has reports whether an address is in one of the ranges.
func (r *Ranges) Has(a netip.Addr) bool {
	return r != nil && r.size > 0 && a.IsValid() && r.table.Contains(a.Unmap().WithZone(""))
}

// SetNamed replaces what is on the named lists, of all policies; the map must not be
// changed any more. A list that a policy names and nobody has set is empty.
func (l *Lists) SetNamed(all map[string]*Ranges) { l.named.Store(&all) }

// Named is what is on a named list.
func (l *Lists) Named(name string) *Ranges {
	if all := l.named.Load(); all != nil {
		return (*all)[name]
	}
	return nil
}

// listed is what the lists say of an address: the administrators' entries and, where
// they say nothing, the first named list that has it.
func (g *Guard) listed(r *rules, a netip.Addr, now time.Time) listing {
	if v := g.config.Lists.Look(a, now); v == Blocked {
		return listing{verdict: v, left: g.config.Lists.blockedFor(a, now)}
	} else if v != NotListed {
		return listing{verdict: v}
	}
	for _, l := range r.lists {
		switch {
		case !g.config.Lists.Named(l.name).Has(a):
		case l.verdict != Blocked:
			return listing{verdict: l.verdict, on: l}
		case l.monitored:
			return listing{on: l}
		default: // a named list has no end
			return listing{verdict: Blocked, on: l, left: mostBlocked}
		}
	}
	return listing{}
}

// name is the name of the named list that the address is on.
func (l *listing) name() string {
	if l.on == nil {
		return ""
	}
	return l.on.name
}

// asks reports whether a named list challenges every unknown client.
func (l *listing) asks() bool { return l.on != nil && l.on.asks != nil && !l.on.asks.Monitor }

// challenge is why the list does, or would.
func (l *listing) challenge() Reason {
	return Reason{Cause: LimitReached, Subject: OnAddress, Limit: l.on.asks, List: l.on.name, Monitored: l.on.asks.Monitor}
}

// askers adds why every unknown client has to solve a challenge.
func (v *view) askers(d *Decision) {
	if v.modeAsks() {
		d.Reasons.add(Reason{Cause: ModeOn, Subject: OnSite})
	}
	if v.listed.asks() && !v.Known() {
		d.Reasons.add(v.listed.challenge())
	}
}

// A ListTally is how many attempts came from the addresses of a named list, and how many
// of them it stopped: challenged, blocked or answered with a fake failure.
type ListTally struct {
	Met, Stopped uint64
}

type listTally struct{ met, stopped atomic.Uint64 }

// tallyList counts an attempt for the named list that its address is on.
func (g *Guard) tallyList(v *view, d *Decision) {
	on := v.listed.on
	if on == nil {
		return
	}
	t, ok := g.listTallies.Load(on.name)
	if !ok {
		t, _ = g.listTallies.LoadOrStore(on.name, new(listTally)) // only the policy's: bounded
	}
	t.(*listTally).met.Add(1)
	if d.Action == Proceed {
		return
	}
	for _, why := range append(d.Reasons, v.fake...) {
		if why.List != "" && !why.Monitored {
			t.(*listTally).stopped.Add(1)
			return
		}
	}
}

// TalliedLists is what each of the policy's named lists has done since the start, on
// this node.
func (g *Guard) TalliedLists() map[string]ListTally {
	all := map[string]ListTally{}
	for _, l := range g.rules.Load().lists {
		all[l.name] = ListTally{}
		if t, ok := g.listTallies.Load(l.name); ok {
			all[l.name] = ListTally{t.(*listTally).met.Load(), t.(*listTally).stopped.Load()}
		}
	}
	return all
}
