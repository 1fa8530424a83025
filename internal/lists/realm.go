package lists

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/times"
)

// A Realm is the lists as one realm uses them. Set all fields but Files before use.
type Realm struct {
	*Table
	Files  *Files // IP lists from files, of all realms; nil for none
	Name   string
	Policy func() []guard.NamedList
	Guards func() []*guard.Guard // all that count the realm's attempts
	Now    func() time.Time
	Log    *slog.Logger

	mu    sync.Mutex
	saved map[string]Hits // the matches that the database already has
}

// Entries returns the entries in force, oldest first.
func (r *Realm) Entries(ctx context.Context) ([]Entry, error) { return r.All(ctx, r.Now()) }

// A Query selects entries of the lists.
type Query struct {
	// Find is an IP address (entries that cover it), a range (overlapping entries), or part of a note or name.
	Find    string
	Verdict Verdict // empty: both
	Soon    bool    // only entries that expire within a day
}

// A Listed is the result of a query, with the IP lists from files.
type Listed struct {
	// Entries are sorted by address. For an IP address they are the most specific first, which decides.
	Entries []Entry     `json:"lists"`
	Named   []NamedList `json:"named"`
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
	State
	Then   string   `json:"action"` // limits, block or allow
	Limits []string `json:"limits"` // as written in the configuration
	Day    Hits     `json:"day"`    // in the last 24 hours
}

// Listed returns the matching entries and the IP lists from files.
func (r *Realm) Listed(ctx context.Context, q Query) (l Listed, err error) {
	entries, err := r.Entries(ctx)
	if err != nil {
		return l, err
	}
	now, find := r.Now(), strings.TrimSpace(q.Find)
	address, _ := netip.ParseAddr(find)
	l = Listed{Entries: []Entry{}, Address: address.Unmap().WithZone(""), Total: len(entries)}
	matches := matching(find, l.Address)
	sortedEntries(entries)
	for _, e := range entries {
		soon := !e.ExpiresAt.IsZero() && e.ExpiresAt.Sub(now) <= 24*time.Hour
		if e.Verdict == Allow {
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
		slices.SortStableFunc(l.Entries, func(a, b Entry) int { return cmp.Compare(b.Prefix.Bits(), a.Prefix.Bits()) })
	}
	l.Named, err = r.named(ctx, now)
	for _, one := range l.Named {
		if r.Memory.Named(one.Name).Has(l.Address) {
			l.Found = append(l.Found, one.Name)
		}
	}
	return l, err
}

func matching(find string, address netip.Addr) func(Entry) bool {
	if address.IsValid() {
		return func(e Entry) bool { return e.Prefix.Contains(address) }
	}
	if p, err := ParsePrefix(find); err == nil {
		return func(e Entry) bool { return e.Prefix.Overlaps(p) }
	}
	find = strings.ToLower(find)
	return func(e Entry) bool {
		return strings.Contains(strings.ToLower(e.Note+"\n"+e.CreatedBy+"\n"+e.Prefix.String()), find)
	}
}

func (r *Realm) named(ctx context.Context, now time.Time) ([]NamedList, error) {
	all := []NamedList{}
	policy := r.Policy()
	if r.Files == nil || len(policy) == 0 {
		return all, nil
	}
	states := map[string]State{}
	for _, s := range r.Files.States() {
		states[s.Name] = s
	}
	hits, err := r.HitsOf(ctx, r.Name, now.Add(-24*time.Hour))
	if err != nil {
		return all, err
	}
	waiting := r.unsaved()
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
	text := fmt.Sprintf("%d/%s %s", l.Failures, times.FormatDuration(l.Window), l.Action)
	if l.Failures == 0 {
		text = "0 " + l.Action.String()
	}
	if l.Monitor {
		text += " monitor"
	}
	return text
}

// saveWithin is the time limit of the last save.
const saveWithin = 10 * time.Second

const saveHitsEvery = time.Minute

// Run saves the matches of the IP lists until ctx ends, and once more then.
func (r *Realm) Run(ctx context.Context) {
	background.Every(ctx, saveHitsEvery, r.SaveHits)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveWithin)
	defer cancel()
	r.SaveHits(ctx)
}

// SaveHits saves the matches since the last call.
func (r *Realm) SaveHits(ctx context.Context) {
	more := r.unsaved()
	if len(more) == 0 {
		return
	}
	if err := r.AddHits(ctx, r.Name, more, r.Now()); err != nil {
		r.Log.Warn("matches of the IP lists could not be saved; they are retried", "error", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.saved == nil {
		r.saved = map[string]Hits{}
	}
	for name, h := range more {
		r.saved[name] = r.saved[name].Plus(h)
	}
}

// unsaved returns this node's matches that the database lacks.
func (r *Realm) unsaved() map[string]Hits {
	all := map[string]Hits{}
	for _, g := range r.Guards() {
		for name, t := range g.TalliedLists() {
			all[name] = all[name].Plus(Hits{Met: int64(t.Met), Stopped: int64(t.Stopped)})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, saved := range r.saved {
		all[name] = all[name].Plus(Hits{Met: -saved.Met, Stopped: -saved.Stopped})
	}
	maps.DeleteFunc(all, func(_ string, h Hits) bool { return h.Met <= 0 }) // a new guard of a route starts at 0
	return all
}

// An Edge is the ranges for an upstream firewall or proxy to block or allow.
type Edge struct {
	Now    time.Time `json:"now"`
	Ranges []Range   `json:"ranges"` // without overlaps
	// Everybody has the listed ranges that contain every IP address. They are left out unless requested: blocking all
	// logins does not mean blocking all traffic.
	Everybody []netip.Prefix `json:"everything"`
}

// Edge returns the ranges with a verdict, those of the table and of more listings.
func (r *Realm) Edge(ctx context.Context, verdict guard.Verdict, more []guard.Listing, everybody bool) (Edge, error) {
	e := Edge{Now: r.Now(), Ranges: []Range{}, Everybody: []netip.Prefix{}}
	entries, err := r.Entries(ctx)
	if err != nil {
		return e, err
	}
	listings := append(listingsOf(entries), more...)
	if !everybody {
		listings = slices.DeleteFunc(listings, func(l guard.Listing) bool {
			return e.leftOut(l.Prefix, l.Verdict == verdict)
		})
	}
	for _, r := range Cover(listings, verdict, e.Now) {
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

func sortedEntries(all []Entry) {
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()))
	})
}
