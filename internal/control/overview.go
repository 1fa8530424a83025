package control

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/attacks"
	"authguard/internal/database"
	"authguard/internal/events"
	"authguard/internal/lists"
	"authguard/internal/metrics"
	"authguard/internal/times"
)

const topRows = 8

// listsStale is the age of the lists in memory that causes a warning.
const listsStale = 10 * time.Second

// An Overview is the current state of a realm. Its JSON is the answer of GET /api/overview.
type Overview struct {
	Now   time.Time         `json:"now"`
	State captchamode.State `json:"mode"`
	// Situation answers the four questions at the top of the page.
	Situation Situation `json:"situation"`
	// OffAt is when the detector turns the mode off if the attack does not resume; zero if unknown or off.
	OffAt    time.Time            `json:"off_at,omitzero"`
	Minutes  []captchamode.Minute `json:"minutes"`  // the last hour, oldest first
	Switches []captchamode.Switch `json:"switches"` // oldest first
	// Addresses, Networks, Accounts and Reasons have the most failed and stopped attempts of the last hour on this node,
	// most first: those with at least 1 % of the attempts or 20 of them. Others are the rest.
	Addresses []Subject        `json:"addresses"`
	Networks  []Subject        `json:"networks"`
	Accounts  []Subject        `json:"accounts"`
	Reasons   []Subject        `json:"reasons"`
	Others    metrics.Others   `json:"others"`
	Warnings  []alerts.Warning `json:"warnings"`
	// Attacks are the running attacks, those on the whole site first, at most topRows.
	Attacks []attacks.Attack `json:"attacks"`
	// Unsecured are the newest attacks of the last week that are over, with possibly compromised accounts to secure.
	Unsecured []attacks.Attack `json:"unsecured"`
	// Setup are the tasks of a new installation; empty once they are done or a user has signed in.
	Setup []SetupStep `json:"setup,omitempty"`
	Held  int         `json:"delayed_attempts"` // delayed attempts, waiting for their turn or time
	// Nodes is set if other nodes serve the site.
	Nodes bool `json:"nodes"`
}

// A Subject is a metrics.Top with the decision for its next attempt.
type Subject struct {
	metrics.Top
	// Range is what a block of the IP address or network has to name.
	Range netip.Prefix `json:"range,omitzero"`
	// Blocked is set if the whole range is on the blocklist.
	Blocked bool `json:"blocked,omitzero"`
	// Next is the guard.Action for the next attempt as text; empty if it could not be determined.
	Next string        `json:"next,omitempty"`
	Wait time.Duration `json:"-"` // for delay
}

// Overview returns the state of the realm. It never fails; unavailable parts are left out.
func (c *Control) Overview(ctx context.Context) Overview {
	now := c.config.Now()
	o := Overview{
		Now: now, State: c.config.Mode.State(),
		Minutes:   append([]captchamode.Minute{}, c.config.Mode.Minutes()...),
		Switches:  append([]captchamode.Switch{}, c.config.Mode.Switches()...),
		Addresses: []Subject{}, Networks: []Subject{}, Accounts: []Subject{}, Reasons: []Subject{},
		Warnings: c.warnings(now), Held: c.config.Guard.Held(), Nodes: c.config.Nodes,
	}
	o.OffAt = OffAt(o.State)
	o.Attacks, _ = c.config.Attacks.Current(ctx, c.config.Realm, topRows)
	kept, _ := c.Accounts.Kept(ctx)
	o.Attacks = c.opened(o.Attacks, kept)
	o.Unsecured, _ = c.unsecured(ctx, now)
	o.Situation = c.situation(ctx, &o)
	o.Setup = c.setup(ctx, &o)
	busiest := c.config.Tops.First(c.config.Realm, now, topRows)
	o.Others = busiest.Others
	for _, top := range busiest.Addresses {
		address, _ := netip.ParseAddr(top.Name) // always valid
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

// glanceAge bounds how old an overview from Glance is, and the counters' reads with many live pages.
const glanceAge = time.Second

// Series returns the attempts of a span. The error is operation.ErrAsked for an invalid span.
func (c *Control) Series(span metrics.Span) (metrics.Series, error) {
	return c.config.Tops.Series(c.config.Realm, c.config.Mode, span, c.config.Now())
}

// Look returns Overview and Series.
func (c *Control) Look(ctx context.Context, span metrics.Span) (Overview, metrics.Series) {
	series, _ := c.Series(span)
	return c.Overview(ctx), series
}

// Glance is Look with an overview that is at most a second old.
func (c *Control) Glance(ctx context.Context, span metrics.Span) (Overview, metrics.Series) {
	c.glance.Lock()
	defer c.glance.Unlock()
	if now := c.config.Now(); c.seen.Now.IsZero() || now.Sub(c.seen.Now).Abs() >= glanceAge {
		c.seen = c.Overview(ctx)
	}
	series, _ := c.Series(span)
	return c.seen, series
}

// OffAt returns the earliest time at which the detector turns the mode off; zero if unknown or not cooling down.
func OffAt(s captchamode.State) time.Time {
	if s.Level != captchamode.Attack || s.Low.IsZero() || s.Override.State != captchamode.Automatic {
		return time.Time{}
	}
	return s.Low.Add(time.Duration(s.CoolDown))
}

// next adds the decision for the next attempt. A network's is that for an IP address in it without attempts.
func (c *Control) next(ctx context.Context, s Subject, account string, address netip.Addr) Subject {
	s.Blocked = s.Range.IsValid() && c.blocked(s.Range.Addr()) && c.blocked(lastOf(s.Range))
	if e, _, err := c.explain(ctx, account, address); err == nil {
		s.Next, s.Wait = e.Decision.Action.String(), e.Decision.RetryAfter
	}
	return s
}

func (c *Control) blocked(address netip.Addr) bool {
	return c.config.Listings.Memory.Look(address, c.config.Now()) == guard.Blocked
}

func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(bytes); bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

func (c *Control) warnings(now time.Time) []alerts.Warning {
	all := []alerts.Warning{}
	for _, one := range c.config.Guard.UnconfiguredProxies() {
		if len(all) < proxiesShown {
			all = append(all, UnconfiguredProxy(one))
		}
	}
	if listed := c.config.Changes.Sure(database.ListsChanged); !listed.IsZero() && now.Sub(listed) > listsStale {
		all = append(all, alerts.Warning{
			Code: "lists-stale", Title: "The database is not readable",
			Text: "The allowlist and blocklist are as of " + times.Text(listed.UTC()) +
				". Later changes do not apply yet. See the log for the cause.",
		})
	}
	if title, text := c.Limits.Warning(); title != "" {
		all = append(all, alerts.Warning{Code: "limits-monitored", Title: title, Text: text})
	}
	if c.config.Warn != nil {
		all = append(all, c.config.Warn()...)
	}
	return all
}

// proxiesShown limits the unconfigured proxies in the warnings.
const proxiesShown = 5

// SilentProxy is the warning code and alert kind for a configured proxy that does not forward the client's IP address.
const SilentProxy = "proxy-names-no-client"

const unconfiguredProxyCode = "unconfigured-proxy"

// UnconfiguredProxy returns the warning about an unconfigured or misconfigured proxy.
func UnconfiguredProxy(f guard.UnconfiguredProxy) alerts.Warning {
	limit := ""
	if f.MostLogins {
		limit = " It carries most logins, so it gets CAPTCHAs instead of blocks."
	}
	since := times.Text(f.Since.UTC())
	if f.Configured {
		text := fmt.Sprintf("Since %s, many accounts were tried from %s, which is in trusted_proxies. "+
			"A client has this IP address only if the proxy does not forward the client's IP address. "+
			"All clients behind it count as one IP address.%s "+
			"A client that sends X-Forwarded-For may choose its IP address. "+
			"Let the proxy set the header, in nginx with "+silentLine+
			" (docs/how-to/client-ip.md has the line for others), and reload it. "+
			"Check the result with authguard doctor --through URL. "+
			"If users really sign in from there, add it to direct_clients.", since, f.Address, limit)
		if f.Integration == "api" {
			text += " These attempts came in at the decision API. The back end must send the client's IP address as address."
		}
		return alerts.Warning{Code: SilentProxy, Title: "Proxy does not forward client IP addresses", Text: text}
	}
	text, does := f.Address.String(), "sends no forwarding header"
	if f.Address.Is6() {
		text = `"` + text + `"` // an IPv6 address can end in a colon, which YAML needs quoted
	}
	if f.Forwarded {
		does = "sends forwarding headers that are ignored"
	}
	return alerts.Warning{
		Code: unconfiguredProxyCode, Title: "Unconfigured proxy",
		Text: fmt.Sprintf("Since %s, several accounts have signed in through the private IP address %s, which %s. "+
			"All clients behind it count as one IP address, and are known clients only by device cookie.%s "+
			"If it is your proxy, add it to trusted_proxies, let it forward the client's IP address (docs/how-to/client-ip.md), and "+
			"reload. "+
			"Check the result with authguard doctor --through URL. If users really sign in from there, add it to direct_clients.",
			since, f.Address, does, limit),
		Setting: "trusted_proxies: [" + text + "]",
	}
}

// silentLine is for nginx, as in docs/how-to/client-ip.md.
const silentLine = "proxy_set_header X-Forwarded-For $remote_addr;"

// BrokenLists warns of IP lists whose file could not be loaded.
func BrokenLists(states []lists.State) (all []alerts.Warning) {
	for _, s := range states {
		if s.Kept == "" {
			continue
		}
		kept := "The list is empty."
		if !s.Read.IsZero() {
			kept = fmt.Sprintf("The version of %s stays in use: %d ranges.", times.Text(s.Read.UTC()), s.Ranges)
		}
		all = append(all, alerts.Warning{
			Code: "list-file", Title: "The file of the list " + s.Name + " could not be loaded",
			Text: fmt.Sprintf("%s: %s. %s Replace list files atomically: write a new file, then rename it.", s.File, s.Kept,
				kept),
		})
	}
	return all
}
