package control

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/duration"
	"authguard/internal/lists"
)

// A ListQuery chooses entries of the lists.
type ListQuery struct {
	// Find is an address, of which every entry is meant that covers it, a range, of which
	// every one that overlaps it is, or a part of a note or a name.
	Find    string
	Verdict lists.Verdict // empty: both
	Soon    bool          // only what expires within a day
}

// A Listed is the entries that a query finds, and the named lists.
type Listed struct {
	// Entries are newest first; those that cover an address the narrowest first, which
	// decides.
	Entries []lists.Entry `json:"lists"`
	Named   []NamedList   `json:"named"`
	// Address is what Find was if it was an address, and Found the names of the named
	// lists that have it; the first decides if no entry does.
	Address netip.Addr `json:"address,omitzero"`
	Found   []string   `json:"found,omitempty"`
	// Total is how many entries there are, of which Allowed allow; Soon end within a day.
	Total   int `json:"total"`
	Allowed int `json:"allowed"`
	Soon    int `json:"soon"`
}

// A NamedList is a named list of the realm: its file, what it does and what it met.
type NamedList struct {
	lists.State
	Then   string     `json:"action"` // limits, block or allow
	Limits []string   `json:"limits"` // as one writes them in the configuration
	Day    lists.Hits `json:"day"`    // in the last 24 hours
}

// Listed finds entries, and tells of the named lists.
func (c *Control) Listed(ctx context.Context, q ListQuery) (l Listed, err error) {
	entries, err := c.Listings(ctx)
	if err != nil {
		return l, err
	}
	now, find := c.config.Now(), strings.TrimSpace(q.Find)
	address, _ := netip.ParseAddr(find)
	l = Listed{Entries: []lists.Entry{}, Address: address.Unmap().WithZone(""), Total: len(entries)}
	matches := matching(find, l.Address)
	for _, e := range slices.Backward(entries) {
		soon := !e.ExpiresAt.IsZero() && e.ExpiresAt.Sub(now) <= 24*time.Hour
		if e.Verdict == lists.Allow {
			l.Allowed++
		}
		if soon {
			l.Soon++
		}
		if (q.Verdict == "" || e.Verdict == q.Verdict) && (!q.Soon || soon) && matches(e) {
			l.Entries = append(l.Entries, e)
		}
	}
	if l.Address.IsValid() {
		slices.SortStableFunc(l.Entries, func(a, b lists.Entry) int { return cmp.Compare(b.Prefix.Bits(), a.Prefix.Bits()) })
	}
	l.Named, err = c.named(ctx, now)
	for _, one := range l.Named {
		if c.config.Lists.Named(one.Name).Has(l.Address) {
			l.Found = append(l.Found, one.Name)
		}
	}
	return l, err
}

// matching tells which entries a text means.
func matching(find string, address netip.Addr) func(lists.Entry) bool {
	if address.IsValid() {
		return func(e lists.Entry) bool { return e.Prefix.Contains(address) }
	}
	if p, err := lists.ParsePrefix(find); err == nil {
		return func(e lists.Entry) bool { return e.Prefix.Overlaps(p) }
	}
	find = strings.ToLower(find)
	return func(e lists.Entry) bool {
		return strings.Contains(strings.ToLower(e.Note+"\n"+e.CreatedBy+"\n"+e.Prefix.String()), find)
	}
}

// named are the realm's named lists.
func (c *Control) named(ctx context.Context, now time.Time) ([]NamedList, error) {
	all := []NamedList{}
	policy := c.config.Guard.Policy().Lists
	if c.config.Named == nil || len(policy) == 0 {
		return all, nil
	}
	states := map[string]lists.State{}
	for _, s := range c.config.Named.States() {
		states[s.Name] = s
	}
	hits, err := c.config.Listings.HitsOf(ctx, c.config.Realm, now.Add(-24*time.Hour))
	if err != nil {
		return all, err
	}
	waiting := c.unsaved()
	for _, l := range policy {
		one := NamedList{State: states[l.Name], Then: "limits", Limits: []string{}, Day: hits[l.Name].Plus(waiting[l.Name])}
		switch l.Verdict {
		case guard.Blocked:
			one.Then = "block"
		case guard.Allowed:
			one.Then = "allow"
		}
		for _, limit := range l.Limits {
			one.Limits = append(one.Limits, limitText(limit))
		}
		all = append(all, one)
	}
	return all, nil
}

func limitText(l guard.Limit) string {
	text := fmt.Sprintf("%d/%s %s", l.Failures, duration.Format(l.Window), l.Action)
	if l.Failures == 0 {
		text = "0 " + l.Action.String()
	}
	if l.Monitor {
		text += " monitor"
	}
	return text
}

// listsTold is what the database was told of the named lists.
type listsTold struct {
	mu    sync.Mutex
	saved map[string]lists.Hits
}

// saveHitsEvery is how often it is told more.
const saveHitsEvery = time.Minute

// RunLists saves what the named lists meet, until ctx ends and once more then.
func (c *Control) RunLists(ctx context.Context) {
	background.Every(ctx, saveHitsEvery, c.SaveHits)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	c.SaveHits(ctx)
}

// SaveHits saves what the named lists have met since the last time.
func (c *Control) SaveHits(ctx context.Context) {
	more := c.unsaved()
	if len(more) == 0 {
		return
	}
	if err := c.config.Listings.AddHits(ctx, c.config.Realm, more, c.config.Now()); err != nil {
		c.config.Log.Warn("matches of the IP lists could not be saved; they are retried", "error", err)
		return
	}
	c.told.mu.Lock()
	defer c.told.mu.Unlock()
	if c.told.saved == nil {
		c.told.saved = map[string]lists.Hits{}
	}
	for name, h := range more {
		c.told.saved[name] = c.told.saved[name].Plus(h)
	}
}

// unsaved is what the named lists met on this node that the database does not know of.
func (c *Control) unsaved() map[string]lists.Hits {
	all := map[string]lists.Hits{}
	for _, g := range c.guards() {
		for name, t := range g.TalliedLists() {
			all[name] = all[name].Plus(lists.Hits{Met: int64(t.Met), Stopped: int64(t.Stopped)})
		}
	}
	c.told.mu.Lock()
	defer c.told.mu.Unlock()
	for name, saved := range c.told.saved {
		all[name] = all[name].Plus(lists.Hits{Met: -saved.Met, Stopped: -saved.Stopped})
	}
	maps.DeleteFunc(all, func(_ string, h lists.Hits) bool { return h.Met <= 0 }) // a route's guard may be new
	return all
}

// BrokenLists warns of named lists whose file is not in force.
func BrokenLists(states []lists.State) (all []Warning) {
	for _, s := range states {
		if s.Kept == "" {
			continue
		}
		kept := "The list is empty."
		if !s.Read.IsZero() {
			kept = fmt.Sprintf("The version of %s stays in use: %d ranges.", s.Read.UTC().Format(time.RFC3339), s.Ranges)
		}
		all = append(all, Warning{
			Code: "list-file", Title: "The file of the list " + s.Name + " could not be loaded",
			Text: fmt.Sprintf("%s: %s. %s Replace list files atomically: write a new file, then rename it.", s.File, s.Kept, kept),
		})
	}
	return all
}
