package guard

import (
	"maps"
	"slices"
)

// An Override decides whether limits are enforced, instead of their own Monitor.
type Override uint8

const (
	AsWritten Override = iota // each limit's own Monitor applies
	Monitored
	Enforced
)

// LimitSets returns the names for Overridden: those of the policy's limits in reading order, and ModeLimits.
func (p Policy) LimitSets() (all []string) {
	for _, one := range []struct {
		name string
		is   bool
	}{
		{PairDelayLimits, p.PairDelay.First > 0}, {"pair", len(p.Pair) > 0}, {"account", len(p.Account) > 0},
		{"address", len(p.Address) > 0},
		{"network", len(p.Network) > 0}, {"known-client", len(p.KnownClient) > 0}, {"fingerprint", len(p.Fingerprint) > 0},
		{"site", len(p.Site) > 0},
		{SprayLimits, p.Spray.Accounts > 0}, {StepUpLimits, p.StepUp != StepUp{}}, {ModeLimits, true},
	} {
		if one.is {
			all = append(all, one.name)
		}
	}
	for _, l := range p.Lists {
		if l.Verdict != Allowed {
			all = append(all, ofList+l.Name)
		}
	}
	for _, name := range p.EventNames() {
		all = append(all, ofEvent+name)
	}
	return all
}

// Overridden returns the policy with an override of each set of limits, by name. Limits that only alert do not change.
func (p Policy) Overridden(say func(limitSet string) Override) Policy {
	p.PairDelay.Monitor = say(PairDelayLimits).On(p.PairDelay.Monitor)
	p.StepUp.Monitor = p.StepUp != StepUp{} && say(StepUpLimits).On(p.StepUp.Monitor)
	p.Spray.Monitor = say(SprayLimits).On(p.Spray.Monitor)
	for name, limits := range p.counted() {
		*limits = overridden(*limits, say(name))
	}
	p.Lists = slices.Clone(p.Lists)
	for i := range p.Lists {
		l := &p.Lists[i]
		override := say(ofList + l.Name)
		l.Monitor, l.Limits = override.On(l.Monitor), overridden(l.Limits, override)
	}
	p.Events = maps.Clone(p.Events)
	for name, limits := range p.Events {
		override, limits := say(ofEvent+name), slices.Clone(limits)
		for i := range limits {
			if limits[i].Action != Alert {
				limits[i].Monitor = override.On(limits[i].Monitor)
			}
		}
		p.Events[name] = limits
	}
	return p
}

// Counted returns the limits of a set that only counts failures, to replace them; nil for other sets.
func (p *Policy) Counted(limitSet string) *[]Limit { return p.counted()[limitSet] }

func (p *Policy) counted() map[string]*[]Limit {
	return map[string]*[]Limit{
		"pair": &p.Pair, "account": &p.Account, "address": &p.Address, "network": &p.Network, "known-client": &p.KnownClient,
		"fingerprint": &p.Fingerprint, "site": &p.Site,
	}
}

func overridden(limits []Limit, override Override) []Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		if limits[i].Action != Alert {
			limits[i].Monitor = override.On(limits[i].Monitor)
		}
	}
	return limits
}

// On returns the effective Monitor.
func (w Override) On(monitor bool) bool {
	switch w {
	case Monitored:
		return true
	case Enforced:
		return false
	}
	return monitor
}
