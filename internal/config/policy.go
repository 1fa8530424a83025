package config

import (
	"authguard/captchamode"
	"authguard/guard"
	"authguard/trusted"
)

// Policy is the settings that a decision depends on. A pair delay whose first
// is zero delays nothing.
func (c Config) Policy() guard.Policy {
	l := c.Limits
	if l.PairDelay.First == 0 {
		l.PairDelay = guard.Delay{}
	}
	return guard.Policy{
		PairDelay:      l.PairDelay,
		Address:        l.Address,
		Network:        l.Network,
		Account:        l.Account,
		PrivilegedPair: l.PrivilegedPair,
		SiteSlow:       c.Site.Slow,
		PendingFor:     l.LongestCheck,
		Places:         trusted.Limits{Places: c.Places.PerAccount, TTL: c.Places.TTL},
		Devices:        c.Places.DeviceCookie,
	}
}

// Mode is the settings of the site-wide switch.
func (c Config) Mode() captchamode.Config { return c.Site.Mode }

// policyConflicts is what the guard says about its policy (rule R8 above all).
// Its paths are ours.
func (c Config) policyConflicts() []conflict {
	var all []conflict
	for _, p := range c.Policy().Problems() {
		all = append(all, conflict{p.Path, policyCause(p.Path), p.Text})
	}
	return all
}

// policyCause is the setting that may make the one at path a problem: the
// delay's numbers bound each other, and how fast a place's budget is used up.
func policyCause(path string) string {
	const delay = "limits.pair_delay"
	if partOf(path, delay) || partOf(path, "limits.privileged_pair") {
		return delay
	}
	return ""
}
