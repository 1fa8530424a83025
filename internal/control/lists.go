package control

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"authguard/guard"
	"authguard/internal/audit"
	"authguard/internal/edge"
	"authguard/internal/lists"
)

// List allows or blocks a range, in force when List returns. It sets request.By; the note is the reason. Errors are
// those of lists.Request, wrapped in ErrAsked.
func (c *Control) List(ctx context.Context, who string, request lists.Request) (lists.Entry, error) {
	request.By = who
	if err := request.Validate(); err != nil {
		return lists.Entry{}, fmt.Errorf("%w: %w", ErrAsked, err)
	}
	entry, err := c.config.Listings.Add(ctx, request, c.config.Now())
	if err != nil {
		return lists.Entry{}, err
	}
	recorded := c.record(ctx, audit.Action{Who: who, What: string(request.Verdict), Subject: entry.Prefix.String(),
		Detail: until(entry.ExpiresAt), Why: entry.Note})
	if err := c.reloadLists(ctx); err != nil {
		return entry, fmt.Errorf("control: the entry is saved and applies when the lists can be read again: %w", err)
	}
	return entry, recorded
}

func until(t time.Time) string {
	if t.IsZero() {
		return "permanently"
	}
	return "until " + t.UTC().Format(time.RFC3339)
}

// Prolong sets when the entry of exactly this range expires: in by from now, or never for 0. why may be empty. The
// error is lists.ErrNotListed if there is none.
func (c *Control) Prolong(ctx context.Context, who string, prefix netip.Prefix, by time.Duration, why string) error {
	why, err := reason(why)
	if err != nil {
		return err
	}
	if !prefix.IsValid() || by < 0 {
		return fmt.Errorf("%w: %w", ErrAsked, lists.ErrPrefix)
	}
	end, err := c.config.Listings.Prolong(ctx, prefix, by, c.config.Now())
	if err != nil {
		return err
	}
	recorded := c.record(ctx, audit.Action{Who: who, What: "prolong", Subject: prefix.String(), Detail: until(end),
		Why: why})
	if err := c.reloadLists(ctx); err != nil {
		return fmt.Errorf("control: the new expiry is saved and applies when the lists can be read again: %w", err)
	}
	return recorded
}

// Unlist removes the entry of exactly this range; why may be empty. The error is lists.ErrNotListed if there is none.
func (c *Control) Unlist(ctx context.Context, who string, prefix netip.Prefix, why string) error {
	why, err := reason(why)
	if err != nil {
		return err
	}
	if !prefix.IsValid() {
		return fmt.Errorf("%w: %w", ErrAsked, lists.ErrPrefix)
	}
	if err := c.config.Listings.Remove(ctx, prefix); err != nil {
		return err
	}
	recorded := c.record(ctx, audit.Action{Who: who, What: "unlist", Subject: prefix.String(), Why: why})
	if err := c.reloadLists(ctx); err != nil {
		return fmt.Errorf("control: the entry is deleted and stops applying when the lists can be read again: %w", err)
	}
	return recorded
}

// Listings returns the entries in force, oldest first.
func (c *Control) Listings(ctx context.Context) ([]lists.Entry, error) {
	return c.config.Listings.All(ctx, c.config.Now())
}

// An Edge is the ranges for an upstream firewall or proxy to block or allow.
type Edge struct {
	Now    time.Time    `json:"now"`
	Ranges []edge.Range `json:"ranges"` // without overlaps
	// Everybody has the listed ranges that contain every IP address. They are left out unless requested: blocking all
	// logins does not mean blocking all traffic.
	Everybody []netip.Prefix `json:"everything"`
}

// refusedShown limits the most active IP addresses of the last hour that are checked for a block.
const refusedShown = 1000

// Edge returns the ranges of the lists. With refused it adds IP addresses where limits block every unknown client,
// among this node's 1000 most active of the last hour. An IP address with a successful login is not added.
func (c *Control) Edge(ctx context.Context, verdict guard.Verdict, refused, everybody bool) (e Edge, err error) {
	e = Edge{Now: c.config.Now(), Ranges: []edge.Range{}, Everybody: []netip.Prefix{}}
	entries, err := c.Listings(ctx)
	if err != nil {
		return e, err
	}
	listings := listingsOf(entries)
	if refused && verdict == guard.Blocked {
		more, err := c.refused(ctx, e.Now)
		if err != nil {
			return e, err
		}
		listings = append(listings, more...)
	}
	if !everybody {
		listings = slices.DeleteFunc(listings, func(l guard.Listing) bool {
			return e.leftOut(l.Prefix, l.Verdict == verdict)
		})
	}
	for _, r := range edge.Cover(listings, verdict, e.Now) {
		if everybody || !e.leftOut(r.Prefix, true) {
			e.Ranges = append(e.Ranges, r)
		}
	}
	return e, nil
}

func (e *Edge) leftOut(p netip.Prefix, asked bool) bool {
	if !asked || p.Bits() > 0 {
		return false
	}
	e.Everybody = append(e.Everybody, p)
	return true
}

func (c *Control) refused(ctx context.Context, now time.Time) (all []guard.Listing, err error) {
	for _, top := range c.config.Tops.First(c.config.Realm, now, refusedShown).Addresses {
		address, err := netip.ParseAddr(top.Name)
		if err != nil {
			continue
		}
		one, refused, err := c.config.Guard.Refusing(ctx, address)
		if err != nil {
			return nil, err
		}
		if refused {
			all = append(all, one)
		}
	}
	return all, nil
}

func (c *Control) reloadLists(ctx context.Context) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	entries, err := c.Listings(ctx)
	if err != nil {
		return err
	}
	c.config.Lists.Set(listingsOf(entries))
	return nil
}

func listingsOf(entries []lists.Entry) []guard.Listing {
	listings := make([]guard.Listing, 0, len(entries))
	for _, e := range entries {
		verdict := guard.Blocked
		if e.Verdict == lists.Allow {
			verdict = guard.Allowed
		}
		listings = append(listings, guard.Listing{Prefix: e.Prefix, Verdict: verdict, Until: e.ExpiresAt})
	}
	return listings
}
