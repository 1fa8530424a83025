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

// topRows is how many addresses and how many accounts an overview has.
const topRows = 10

// listsStale is how old the lists in memory may be before somebody is warned.
const listsStale = 10 * reloadEvery

// An Overview is what is going on, at one moment.
type Overview struct {
	Now      time.Time
	State    captchamode.State
	Minutes  []captchamode.Minute // the last hour, oldest first
	Switches []captchamode.Switch // oldest first
	// Addresses and Accounts are those with the most failed and stopped
	// attempts in the last hour, most first.
	Addresses []Subject
	Accounts  []Subject
	Warnings  []Warning
	Held      int // attempts that wait for their turn, or until they are due
}

// A Subject is one of the tops and what its next attempt would get.
type Subject struct {
	Top
	Next guard.Decision
	// Known is false where Next could not be found out.
	Known bool
}

// A Warning is something to mend. Code is stable; Text says what it means and
// what to do, Setting is the line for the configuration, if one helps.
type Warning struct {
	Code, Title, Text, Setting string
}

// Overview tells everything at once. It fails in nothing: what cannot be found
// out is left out.
func (c *Control) Overview(ctx context.Context) Overview {
	now := c.config.Now()
	o := Overview{
		Now: now, State: c.config.Mode.State(), Minutes: c.config.Mode.Minutes(), Switches: c.config.Mode.Switches(),
		Warnings: c.warnings(now), Held: c.config.Guard.Held(),
	}
	for _, top := range c.config.Tops.Addresses(now, topRows) {
		address, err := netip.ParseAddr(top.Name)
		o.Addresses = append(o.Addresses, c.next(ctx, top, "", address, err))
	}
	for _, top := range c.config.Tops.Accounts(now, topRows) {
		o.Accounts = append(o.Accounts, c.next(ctx, top, top.Name, netip.Addr{}, nil))
	}
	return o
}

func (c *Control) next(ctx context.Context, top Top, account string, address netip.Addr, err error) Subject {
	s := Subject{Top: top}
	if err == nil {
		var e guard.Explanation
		e, err = c.config.Guard.Explain(ctx, account, address)
		s.Next, s.Known = e.Decision, err == nil
	}
	return s
}

func (c *Control) warnings(now time.Time) (all []Warning) {
	if address, since, found := c.config.Guard.ForgottenProxy(); found {
		all = append(all, forgottenProxy(address, since))
	}
	if listed := c.listedAt(); !listed.IsZero() && now.Sub(listed) > listsStale {
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

// listedAt is when the lists in memory were known last to be those of the
// database; zero if they have not been read yet.
func (c *Control) listedAt() (at time.Time) {
	if listed := c.listed.Load(); listed != nil {
		at = *listed
	}
	if c.config.Changes != nil {
		if sure := c.config.Changes.Sure(changes.Lists); sure.After(at) {
			at = sure
		}
	}
	return at
}

func forgottenProxy(address netip.Addr, since time.Time) Warning {
	text := address.String()
	if address.Is6() {
		text = `"` + text + `"` // a colon may end a word of YAML
	}
	return Warning{
		Code: "forgotten-proxy", Title: "A proxy is missing in the configuration",
		Text: fmt.Sprintf("Since %s most people have logged in through %s, which sends forwarding headers but is not configured as a proxy. "+
			"All of them count as one address. Until this is mended that address is asked for CAPTCHAs instead of being refused. "+
			"If it is your proxy, set it and reload; list every proxy that you have.", since.UTC().Format(time.RFC3339), address),
		Setting: "proxies: [" + text + "]",
	}
}
