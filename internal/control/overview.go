package control

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/changes"
)

// topRows is how many addresses, and how many accounts, an overview has.
const topRows = 10

// listsStale is how old the lists in memory may be before somebody is warned.
const listsStale = 10 * time.Second

// An Overview is what is going on, at one moment. Its JSON is the answer of GET
// /api/overview.
type Overview struct {
	Now      time.Time            `json:"now"`
	State    captchamode.State    `json:"mode"`
	Minutes  []captchamode.Minute `json:"minutes"`  // the last hour, oldest first
	Switches []captchamode.Switch `json:"switches"` // oldest first
	// Addresses and Accounts are those with the most failed and stopped
	// attempts in the last hour, most first.
	Addresses []Subject `json:"addresses"`
	Accounts  []Subject `json:"accounts"`
	Warnings  []Warning `json:"warnings"`
	Held      int       `json:"held"` // attempts that wait for their turn, or until they are due
}

// A Subject is one of the tops and what its next attempt would get.
type Subject struct {
	Top
	// Next is proceed, wait, challenge, refuse or, for a place that has used up
	// its budget, forget; empty if that could not be found out.
	Next string        `json:"next,omitempty"`
	Wait time.Duration `json:"-"` // for wait
}

// A Warning is something to mend. Code is stable; Text says what it means and
// what to do, Setting is the line for the configuration, if one helps.
type Warning struct {
	Code    string `json:"code"`
	Title   string `json:"title"`
	Text    string `json:"text"`
	Setting string `json:"setting,omitempty"`
}

// Overview tells everything at once. It never fails: what cannot be found out is
// left out.
func (c *Control) Overview(ctx context.Context) Overview {
	now := c.config.Now()
	o := Overview{
		Now: now, State: c.config.Mode.State(),
		Minutes:   append([]captchamode.Minute{}, c.config.Mode.Minutes()...),
		Switches:  append([]captchamode.Switch{}, c.config.Mode.Switches()...),
		Addresses: []Subject{}, Accounts: []Subject{}, Warnings: c.warnings(now), Held: c.config.Guard.Held(),
	}
	addresses, accounts := c.config.Tops.First(c.config.Realm, now, topRows)
	for _, top := range addresses {
		address, _ := netip.ParseAddr(top.Name) // the zero address cannot be explained
		o.Addresses = append(o.Addresses, c.next(ctx, top, "", address))
	}
	for _, top := range accounts {
		o.Accounts = append(o.Accounts, c.next(ctx, top, top.Name, netip.Addr{}))
	}
	return o
}

func (c *Control) next(ctx context.Context, top Top, account string, address netip.Addr) Subject {
	e, err := c.config.Guard.Explain(ctx, account, address)
	if err != nil {
		return Subject{Top: top}
	}
	return Subject{Top: top, Next: e.Decision.Action.String(), Wait: e.Decision.RetryAfter}
}

func (c *Control) warnings(now time.Time) []Warning {
	all := []Warning{}
	for _, one := range c.config.Guard.ForgottenProxies() {
		if len(all) < proxiesShown {
			all = append(all, ForgottenProxy(one))
		}
	}
	if listed := c.config.Changes.Sure(changes.Lists); !listed.IsZero() && now.Sub(listed) > listsStale {
		all = append(all, Warning{
			Code: "lists-stale", Title: "The database cannot be read",
			Text: "The allow and block lists are those of " + listed.UTC().Format(time.RFC3339) +
				". Changes made since then are not in force. The log says what is wrong.",
		})
	}
	if c.config.Warn != nil {
		all = append(all, c.config.Warn()...)
	}
	return all
}

// proxiesShown is how many forgotten proxies an overview warns of.
const proxiesShown = 5

// ForgottenProxy says what is wrong with a proxy that was forgotten, and how to
// mend it.
func ForgottenProxy(f guard.Forgotten) Warning {
	text, does, limit := f.Address.String(), "sends no forwarding header", ""
	if f.Address.Is6() {
		text = `"` + text + `"` // a colon may end a word of YAML
	}
	if f.Forwarded {
		does = "sends forwarding headers that nobody reads"
	}
	if f.Softened {
		limit = " It carries most logins, so it is asked for CAPTCHAs instead of being refused."
	}
	return Warning{
		Code: "forgotten-proxy", Title: "A proxy is missing from the configuration",
		Text: fmt.Sprintf("Since %s several accounts have logged in through the private address %s, which %s. "+
			"All who come through it count as one address, and nobody is known there but by a device cookie.%s "+
			"If it is your proxy, name it in proxies, have it say who the client is (docs/proxies.md), and reload: "+
			"authguard doctor --through URL shows what arrives. If people really log in from there, name it in allow_direct.",
			f.Since.UTC().Format(time.RFC3339), f.Address, does, limit),
		Setting: "proxies: [" + text + "]",
	}
}
