package control

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/attacks"
	"authguard/internal/changes"
	"authguard/internal/events"
)

// topRows is how many addresses, and how many accounts, an overview has.
const topRows = 10

// listsStale is how old the lists in memory may be before somebody is warned.
const listsStale = 10 * time.Second

// An Overview is what is going on, at one moment. Its JSON is the answer of GET
// /api/overview.
type Overview struct {
	Now   time.Time         `json:"now"`
	State captchamode.State `json:"mode"`
	// OffAt is when the detector switches the mode off if it stays quiet; zero: not
	// known, or it is not on.
	OffAt    time.Time            `json:"off_at,omitzero"`
	Minutes  []captchamode.Minute `json:"minutes"`  // the last hour, oldest first
	Switches []captchamode.Switch `json:"switches"` // oldest first
	// Addresses, Networks, Accounts and Reasons are those with the most failed and
	// stopped attempts in the last hour, most first, and Crowd how widely these are
	// spread: as this node has seen them. Botnet says that they come from one.
	Addresses []Subject `json:"addresses"`
	Networks  []Subject `json:"networks"`
	Accounts  []Subject `json:"accounts"`
	Reasons   []Subject `json:"reasons"`
	Crowd     Crowd     `json:"crowd"`
	Botnet    bool      `json:"botnet"`
	Warnings  []Warning `json:"warnings"`
	// Attacks are those that are running, that on the whole site first.
	Attacks []attacks.Brief `json:"attacks"`
	Held    int             `json:"delayed_attempts"` // attempts that wait for their turn, or until they are due
	// Nodes reports whether others serve the site beside this one.
	Nodes bool `json:"nodes"`
}

// A Subject is one of the tops and what its next attempt would get.
type Subject struct {
	Top
	// Range is what a block of an address or network has to name.
	Range netip.Prefix `json:"range,omitzero"`
	// Blocked reports whether the whole range is on the block list.
	Blocked bool `json:"blocked,omitzero"`
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
		Addresses: []Subject{}, Networks: []Subject{}, Accounts: []Subject{}, Reasons: []Subject{},
		Crowd: c.config.Tops.Crowd(c.config.Realm, now), Warnings: c.warnings(now), Attacks: append([]attacks.Brief{}, c.config.Attacks.Running(c.config.Realm)...), Held: c.config.Guard.Held(), Nodes: c.config.Nodes,
	}
	o.OffAt = OffAt(o.State)
	o.Botnet = botnet(o.Crowd, o.State)
	busiest := c.config.Tops.First(c.config.Realm, now, topRows)
	for _, top := range busiest.Addresses {
		address, _ := netip.ParseAddr(top.Name) // always one
		one, _ := events.PrefixesOf(address)
		o.Addresses = append(o.Addresses, c.next(ctx, Subject{Top: top, Range: one}, "", address))
	}
	for _, top := range busiest.Networks {
		network, _ := netip.ParsePrefix(top.Name)
		o.Networks = append(o.Networks, c.next(ctx, Subject{Top: top, Range: network}, "", network.Addr()))
	}
	for _, top := range busiest.Accounts {
		o.Accounts = append(o.Accounts, c.next(ctx, Subject{Top: top}, top.Name, netip.Addr{}))
	}
	for _, top := range busiest.Reasons {
		o.Reasons = append(o.Reasons, Subject{Top: top})
	}
	return o
}

// botnet reports whether what came to nothing is the work of many addresses, so many in an
// hour as the people of this site never make: a quarter of it, or ten times what would be an
// attack in a minute. A loud address more does not hide them.
func botnet(c Crowd, s captchamode.State) bool {
	left, attack := float64(c.ByAddress.Left), max(s.Threshold, 1)
	return c.ByAddress.Scattered && (s.On || s.Level != captchamode.Calm) && left > attack && (4*c.ByAddress.Left >= c.Attempts || left >= 10*attack)
}

// glanceAge is how old what Glance tells may be: as many as watch, the counters are
// asked once in that time.
const glanceAge = time.Second

// Look is Overview and Series.
func (c *Control) Look(ctx context.Context, span Span) (Overview, Series) {
	series, _ := c.Series(span)
	return c.Overview(ctx), series
}

// Glance is Look, of which the overview may be a second old.
func (c *Control) Glance(ctx context.Context, span Span) (Overview, Series) {
	c.glance.Lock()
	defer c.glance.Unlock()
	if now := c.config.Now(); c.seen.Now.IsZero() || now.Sub(c.seen.Now).Abs() >= glanceAge {
		c.seen = c.Overview(ctx)
	}
	series, _ := c.Series(span)
	return c.seen, series
}

// OffAt is the earliest moment at which the detector switches the mode off; zero: not
// known, or not cooling down.
func OffAt(s captchamode.State) time.Time {
	if s.Level != captchamode.Attack || s.Low.IsZero() || s.Override.State != captchamode.Automatic {
		return time.Time{}
	}
	return s.Low.Add(time.Duration(s.CoolDown))
}

// next adds what the next attempt would get. For a network it is that of an address in it
// from which nothing has come.
func (c *Control) next(ctx context.Context, s Subject, account string, address netip.Addr) Subject {
	s.Blocked = s.Range.IsValid() && c.blocked(s.Range.Addr()) && c.blocked(lastOf(s.Range))
	if e, _, err := c.explain(ctx, account, address); err == nil {
		s.Next, s.Wait = e.Decision.Action.String(), e.Decision.RetryAfter
	}
	return s
}

func (c *Control) blocked(address netip.Addr) bool {
	return c.config.Lists.Look(address, c.config.Now()) == guard.Blocked
}

// lastOf is the last address of a range.
func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(bytes); bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
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
			Code: "lists-stale", Title: "The database is not readable",
			Text: "The allowlist and blocklist are as of " + listed.UTC().Format(time.RFC3339) +
				". Later changes do not apply yet. See the log for the cause.",
		})
	}
	all = append(all, c.policyWarning()...)
	if c.config.Warn != nil {
		all = append(all, c.config.Warn()...)
	}
	return all
}

// proxiesShown is how many forgotten proxies an overview warns of.
const proxiesShown = 5

// SilentProxy is the code of the warning, and the kind of the alert, that a configured proxy
// does not say who the client is.
const SilentProxy = "proxy-names-no-client"

// ForgottenProxy says what is wrong with a proxy that was noticed, and how to mend it.
func ForgottenProxy(f guard.Forgotten) Warning {
	limit := ""
	if f.Softened {
		limit = " It carries most logins, so it gets CAPTCHAs instead of blocks."
	}
	since := f.Since.UTC().Format(time.RFC3339)
	if f.Configured {
		text := fmt.Sprintf("Since %s, many accounts were tried from %s, which is in trusted_proxies. "+
			"A client has this IP address only if the proxy does not forward the client's IP address. "+
			"All clients behind it count as one IP address.%s "+
			"A client that sends X-Forwarded-For may choose its IP address. "+
			"Let the proxy set the header, in nginx with "+silentLine+" (docs/proxies.md has the line for others), and reload it. "+
			"Check the result with authguard doctor --through URL. "+
			"If users really sign in from there, add it to direct_clients.", since, f.Address, limit)
		if f.Door == "api" {
			text += " These attempts came in at the decision API. The back end must send the client's IP address as address."
		}
		return Warning{Code: SilentProxy, Title: "Proxy does not forward client IP addresses", Text: text}
	}
	text, does := f.Address.String(), "sends no forwarding header"
	if f.Address.Is6() {
		text = `"` + text + `"` // a colon may end a word of YAML
	}
	if f.Forwarded {
		does = "sends forwarding headers that are ignored"
	}
	return Warning{
		Code: "unconfigured-proxy", Title: "Unconfigured proxy",
		Text: fmt.Sprintf("Since %s, several accounts have signed in through the private IP address %s, which %s. "+
			"All clients behind it count as one IP address, and are known clients only by device cookie.%s "+
			"If it is your proxy, add it to trusted_proxies, let it forward the client's IP address (docs/proxies.md), and reload. "+
			"Check the result with authguard doctor --through URL. If users really sign in from there, add it to direct_clients.",
			since, f.Address, does, limit),
		Setting: "trusted_proxies: [" + text + "]",
	}
}

// silentLine is nginx's; docs/proxies.md has it.
const silentLine = "proxy_set_header X-Forwarded-For $remote_addr;"
