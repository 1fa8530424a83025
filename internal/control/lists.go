package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/audit"
	"authguard/internal/edge"
	"authguard/internal/lists"
)

// ListRange allows or blocks a range, in force when the operation returns. The note is the reason. Administrators cannot
// block their own IP address.
type ListRange struct {
	CIDR    string        `json:"cidr"`
	Verdict lists.Verdict `json:"verdict"`
	For     string        `json:"for"` // a duration or "forever"; default lists.DefaultFor
	Note    string        `json:"note"`
	Force   bool          `json:"force"`
}

// Do implements Request.
func (q ListRange) Do(ctx context.Context, c *Control, by By) (*Change, error) {
	request := lists.Request{Verdict: q.Verdict, Note: q.Note, Force: q.Force}
	var err error
	if request.Prefix, err = prefixOf(q.CIDR); err != nil {
		return nil, err
	}
	if request.For, request.Forever, err = listedFor(q.For); err != nil {
		return nil, err
	}
	change, err := c.list(ctx, by, request)
	if entry, ok := change.entry(); ok {
		change.Notice = Notice{Text: "Blocked permanently:", Subject: entry.Prefix.String()}
		if !entry.ExpiresAt.IsZero() {
			change.Notice.Text = "Blocked until " + entry.ExpiresAt.In(c.Now().Location()).Format("2 Jan 2006 15:04") + ":"
		}
		if q.Verdict == lists.Allow {
			change.Notice.Text = "Allowed for a week:"
		}
	}
	return change, err
}

func (change *Change) entry() (e lists.Entry, ok bool) {
	if change != nil {
		e, ok = change.Answer.(lists.Entry)
	}
	return e, ok
}

// list adds an entry. Errors are those of lists.Request, wrapped in ErrAsked.
func (c *Control) list(ctx context.Context, by By, request lists.Request) (*Change, error) {
	request.By = by.Who
	if request.Verdict != lists.Allow && request.Verdict != lists.Block {
		return nil, fmt.Errorf("%w: verdict: must be allow or block, not %.20q", ErrAsked, request.Verdict)
	}
	if err := request.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAsked, err)
	}
	if request.Verdict == lists.Block && by.Address.IsValid() && request.Prefix.Contains(by.Address) {
		return nil, fmt.Errorf("%w: %s contains your own IP address, %s: you would lock yourself out", ErrAsked,
			request.Prefix, by.Address)
	}
	entry, err := c.config.Listings.Add(ctx, request, c.config.Now())
	if err != nil {
		return nil, err
	}
	change := &Change{Answer: entry, Action: audit.Action{What: string(request.Verdict), Subject: entry.Prefix.String(),
		Detail: until(entry.ExpiresAt), Why: entry.Note}}
	return change, c.listsChanged(ctx, "the entry is saved and applies")
}

// listsChanged applies a change of the lists.
func (c *Control) listsChanged(ctx context.Context, what string) error {
	if err := c.reloadLists(ctx); err != nil {
		return fmt.Errorf("control: %s when the lists can be read again: %w", what, err)
	}
	return nil
}

func prefixOf(cidr string) (netip.Prefix, error) {
	prefix, err := lists.ParsePrefix(cidr)
	if err != nil {
		err = fmt.Errorf("%w: cidr: %w", ErrAsked, err)
	}
	return prefix, err
}

// listedFor parses how long an entry lasts; 0 selects the default.
func listedFor(text string) (hold time.Duration, forever bool, err error) {
	if text == "forever" {
		return 0, true, nil
	}
	hold, err = holdOf(text)
	return hold, false, err
}

func until(t time.Time) string {
	if t.IsZero() {
		return "permanently"
	}
	return "until " + t.UTC().Format(time.RFC3339)
}

// ListAddress blocks or allows an IP address for a week, or removes the entry that decides about it.
type ListAddress struct {
	Address string        `json:"address"`
	Verdict lists.Verdict `json:"verdict"` // "none" removes the entry
	Because
}

// Do implements Request.
func (q ListAddress) Do(ctx context.Context, c *Control, by By) (*Change, error) {
	address, err := AddressOf(q.Address)
	if err == nil && !address.IsValid() {
		err = fmt.Errorf("%w: enter an IP address", ErrAsked)
	}
	if err != nil {
		return nil, err
	}
	switch prefix := guard.OneAddress(address); {
	case q.Verdict == lists.Block && by.Address.IsValid() && prefix.Contains(by.Address):
		return nil, fmt.Errorf("%w: %s is your own IP address: you would lock yourself out", ErrAsked, address)
	case q.Verdict != "none":
		change, err := c.list(ctx, By{Who: by.Who}, lists.Request{Prefix: prefix, Verdict: q.Verdict, Note: q.Reason})
		if change != nil {
			change.Notice = Notice{Text: map[lists.Verdict]string{lists.Block: "Blocked for a week:",
				lists.Allow: "Allowed for a week:"}[q.Verdict], Subject: prefix.String()}
		}
		return change, err
	}
	e, err := c.entryOf(ctx, address)
	if err == nil && e == nil {
		err = fmt.Errorf("%w: %s is not on any list", ErrAsked, address)
	}
	if err != nil {
		return nil, err
	}
	change, err := Unlist{CIDR: e.Prefix.String()}.Do(ctx, c, by)
	if change != nil {
		change.What, change.Notice = "unlist", Notice{Text: "Removed from the list:", Subject: address.String()}
	}
	return change, err
}

// Prolong sets when the entry of exactly this range expires, from now on. The error is NotListed if there is none.
type Prolong struct {
	CIDR string `json:"cidr"`
	For  string `json:"for"` // a duration or "forever"; default lists.DefaultFor
	Because
}

// Do implements Request.
func (q Prolong) Do(ctx context.Context, c *Control, _ By) (*Change, error) {
	prefix, err := prefixOf(q.CIDR)
	if err != nil {
		return nil, err
	}
	by, forever, err := listedFor(q.For)
	if err != nil {
		return nil, err
	}
	if !forever {
		by = cmp.Or(by, lists.DefaultFor)
	}
	end, err := c.config.Listings.Prolong(ctx, prefix, by, c.config.Now())
	if err != nil {
		return nil, c.near(ctx, prefix, err)
	}
	return &Change{Action: audit.Action{Subject: prefix.String(), Detail: until(end)}},
		c.listsChanged(ctx, "the new expiry is saved and applies")
}

// Unlist removes the entry of exactly this range. The error is that of Prolong.
type Unlist struct {
	CIDR string `json:"cidr" arg:"" help:"IP address or range, as listed"`
	Because
}

// Do implements Request.
func (q Unlist) Do(ctx context.Context, c *Control, _ By) (*Change, error) {
	prefix, err := prefixOf(q.CIDR)
	if err != nil {
		return nil, err
	}
	if err := c.config.Listings.Remove(ctx, prefix); err != nil {
		return nil, c.near(ctx, prefix, err)
	}
	return &Change{Action: audit.Action{Subject: prefix.String()}},
		c.listsChanged(ctx, "the entry is deleted and stops applying")
}

// near adds the overlapping entries to lists.ErrNotListed.
func (c *Control) near(ctx context.Context, prefix netip.Prefix, err error) error {
	if !errors.Is(err, lists.ErrNotListed) {
		return err
	}
	entries, failed := c.Listings(ctx)
	if failed != nil {
		return failed
	}
	var near []string
	for _, e := range entries {
		if e.Prefix.Overlaps(prefix) && len(near) < 5 {
			near = append(near, e.Prefix.String())
		}
	}
	if len(near) == 0 {
		return NotListed(fmt.Sprintf("%s is not on any list, and no entry overlaps it", prefix))
	}
	return NotListed(fmt.Sprintf("%s is not on any list; overlapping entries: %s", prefix, strings.Join(near, ", ")))
}

// NotListed is lists.ErrNotListed with the overlapping entries.
type NotListed string

func (n NotListed) Error() string { return string(n) }

// Unwrap returns lists.ErrNotListed.
func (NotListed) Unwrap() error { return lists.ErrNotListed }

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
