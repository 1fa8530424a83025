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

// A ListQuery selects entries of the lists.
type ListQuery struct {
	// Find is an IP address (entries that cover it), a range (overlapping entries), or part of a note or name.
	Find    string
	Verdict lists.Verdict // empty: both
	Soon    bool          // only entries that expire within a day
}

// A Listed is the result of a query, with the IP lists from files.
type Listed struct {
	// Entries are newest first. For an IP address they are the most specific first, which decides.
	Entries []lists.Entry `json:"lists"`
	Named   []NamedList   `json:"named"`
	// Address is Find as an IP address, and Found its IP lists; the first decides if no entry does.
	Address netip.Addr `json:"address,omitzero"`
	Found   []string   `json:"found,omitempty"`
	// Total counts all entries, Allowed those of the allowlist, Soon those that expire within a day.
	Total   int `json:"total"`
	Allowed int `json:"allowed"`
	Soon    int `json:"soon"`
}

// A NamedList is an IP list from a file: its state, action and matches.
type NamedList struct {
	lists.State
	Then   string     `json:"action"` // limits, block or allow
	Limits []string   `json:"limits"` // as written in the configuration
	Day    lists.Hits `json:"day"`    // in the last 24 hours
}

// Listed returns the matching entries and the IP lists from files.
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

// listsTold are the matches that the database already has.
type listsTold struct {
	mu    sync.Mutex
	saved map[string]lists.Hits
}

const saveHitsEvery = time.Minute

// RunLists saves the matches of the IP lists until ctx ends, and once more then.
func (c *Control) RunLists(ctx context.Context) {
	background.Every(ctx, saveHitsEvery, c.SaveHits)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	c.SaveHits(ctx)
}

// SaveHits saves the matches since the last call.
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

// unsaved returns this node's matches that the database lacks.
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
	maps.DeleteFunc(all, func(_ string, h lists.Hits) bool { return h.Met <= 0 }) // a new guard of a route starts at 0
	return all
}

// BrokenLists warns of IP lists whose file could not be loaded.
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
			Text: fmt.Sprintf("%s: %s. %s Replace list files atomically: write a new file, then rename it.", s.File, s.Kept,
				kept),
		})
	}
	return all
}
