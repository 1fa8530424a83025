package guard

import (
	"maps"
	"slices"
)

// The names of what a policy can be switched by. The ladders of a pair, an address, a
// network, an account, a privileged pair, an identity and the site are named by their subject
// ("known-client"); a named list's and an event's limits are "list:NAME" and
// "event:NAME".
const (
	PairDelayLadder = "pair-delay"
	SprayLadder     = "spray"
	// ModeLadder is CAPTCHA mode and the slowing before it, which the policy does not hold:
	// see captchamode.Config.
	ModeLadder = "mode"

	ofList  = "list:"
	ofEvent = "event:"
)

// A Word says whether limits are enforced, whatever they say themselves.
type Word uint8

const (
	AsWritten Word = iota // each limit's own Monitor holds
	Watched               // only watched
	Enforced
)

// Ladders are the names of all that Switched asks for: those of the policy that limit
// anything, in the order in which people read them, and the mode.
func (p Policy) Ladders() (all []string) {
	for _, one := range []struct {
		name string
		is   bool
	}{
		{PairDelayLadder, p.PairDelay.First > 0}, {"pair", len(p.Pair) > 0}, {"account", len(p.Account) > 0}, {"address", len(p.Address) > 0},
		{"network", len(p.Network) > 0}, {"known-client", len(p.KnownClient) > 0}, {"fingerprint", len(p.Fingerprint) > 0}, {"site", len(p.Site) > 0},
		{SprayLadder, p.Spray.Accounts > 0}, {ModeLadder, true},
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

// Switched is the policy with another word on its ladders, each asked for by its name.
// Limits that only alert stop nothing, and stay as they are.
func (p Policy) Switched(say func(ladder string) Word) Policy {
	p.PairDelay.Monitor = say(PairDelayLadder).On(p.PairDelay.Monitor)
	p.Spray.Monitor = say(SprayLadder).On(p.Spray.Monitor)
	for name, limits := range map[string]*[]Limit{
		"pair": &p.Pair, "account": &p.Account, "address": &p.Address, "network": &p.Network, "known-client": &p.KnownClient, "fingerprint": &p.Fingerprint, "site": &p.Site,
	} {
		*limits = switched(*limits, say(name))
	}
	p.Lists = slices.Clone(p.Lists)
	for i := range p.Lists {
		l := &p.Lists[i]
		word := say(ofList + l.Name)
		l.Monitor, l.Limits = word.On(l.Monitor), switched(l.Limits, word)
	}
	p.Events = maps.Clone(p.Events)
	for name, limits := range p.Events {
		word, limits := say(ofEvent+name), slices.Clone(limits)
		for i := range limits {
			if limits[i].Action != Alert {
				limits[i].Monitor = word.On(limits[i].Monitor)
			}
		}
		p.Events[name] = limits
	}
	return p
}

func switched(limits []Limit, word Word) []Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		if limits[i].Action != Alert {
			limits[i].Monitor = word.On(limits[i].Monitor)
		}
	}
	return limits
}

// On is Monitor by the word.
func (w Word) On(monitor bool) bool {
	switch w {
	case Watched:
		return true
	case Enforced:
		return false
	}
	return monitor
}
