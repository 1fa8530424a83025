package lists

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/operation"
	"authguard/internal/times"
)

// ListRange allows or blocks a range, in force when the operation returns. The note is the reason. Administrators cannot
// block their own IP address.
type ListRange struct {
	CIDR    string  `json:"cidr"`
	Verdict Verdict `json:"verdict"`
	For     string  `json:"for"` // a duration or "forever"; default DefaultFor
	Note    string  `json:"note"`
	Force   bool    `json:"force"`
}

// Do implements Request.
func (q ListRange) Do(ctx context.Context, t *Table, by operation.By) (*operation.Change, error) {
	request := Request{Verdict: q.Verdict, Note: q.Note, Force: q.Force}
	var err error
	if request.Prefix, err = prefixOf(q.CIDR); err != nil {
		return nil, err
	}
	if request.For, request.Forever, err = listedFor(q.For); err != nil {
		return nil, err
	}
	change, err := t.list(ctx, by, request)
	if change != nil {
		entry, _ := change.Answer.(Entry)
		change.Notice = operation.Notice{Text: listedWords(q.Verdict, entry.ExpiresAt, by.Now) + ":",
			Subject: entry.Prefix.String()}
	}
	return change, err
}

// listedWords returns the effect of an entry and its end, in now's time zone.
func listedWords(v Verdict, expires, now time.Time) string {
	did := map[Verdict]string{Block: "Blocked ", Allow: "Allowed "}[v]
	if expires.IsZero() {
		return did + "permanently"
	}
	return did + "until " + times.Text(expires.In(now.Location()))
}

// list adds an entry. Errors are those of Request, wrapped in ErrAsked.
func (t *Table) list(ctx context.Context, by operation.By, request Request) (*operation.Change, error) {
	request.By = by.Who
	if request.Verdict != Allow && request.Verdict != Block {
		return nil, fmt.Errorf("%w: verdict: must be allow or block, not %.20q", operation.ErrAsked, request.Verdict)
	}
	if err := request.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", operation.ErrAsked, err)
	}
	if request.locksOut(by.Address) {
		return nil, lockedOut(request.Prefix, by.Address)
	}
	before, err := t.restoring(ctx, request.Prefix, by.Now)
	if err != nil {
		return nil, err
	}
	entry, err := t.Add(ctx, request, by.Now)
	if err != nil {
		return nil, err
	}
	change := &operation.Change{Answer: entry, Undo: before, Action: operation.Action{What: string(request.Verdict),
		Subject: entry.Prefix.String(),
		Detail:  until(entry.ExpiresAt), Why: entry.Note}}
	return change, t.applied(ctx, by.Now, "the entry is saved and applies")
}

// restoring returns the request that restores the entry of exactly this range, or its absence.
func (t *Table) restoring(ctx context.Context, prefix netip.Prefix, now time.Time) (any, error) {
	entries, err := t.All(ctx, now)
	for _, e := range entries {
		if e.Prefix != unmap(prefix).Masked() {
			continue
		}
		request := &ListRange{CIDR: e.Prefix.String(), Verdict: e.Verdict, For: "forever", Note: e.Note,
			Force: e.Prefix.Bits() == 0}
		if !e.ExpiresAt.IsZero() {
			request.For = times.FormatDuration(e.ExpiresAt.Sub(now))
		}
		return request, err
	}
	return &Unlist{CIDR: prefix.String(), Because: operation.Because{Reason: operation.Undone}}, err
}

// applied loads the table into memory after a change.
func (t *Table) applied(ctx context.Context, now time.Time, what string) error {
	if err := t.Reload(ctx, now); err != nil {
		return fmt.Errorf("lists: %s when the lists can be read again: %w", what, err)
	}
	return nil
}

func prefixOf(cidr string) (netip.Prefix, error) {
	prefix, err := ParsePrefix(cidr)
	if err != nil {
		err = fmt.Errorf("%w: cidr: %w", operation.ErrAsked, err)
	}
	return prefix, err
}

// listedFor parses how long an entry lasts; 0 selects the default.
func listedFor(text string) (hold time.Duration, forever bool, err error) {
	if text == "forever" {
		return 0, true, nil
	}
	hold, err = operation.HoldOf(text)
	return hold, false, err
}

func until(t time.Time) string {
	if t.IsZero() {
		return "permanently"
	}
	return "until " + times.Text(t.UTC())
}

// Prolong sets when the entry of exactly this range expires, from now on. The error is NotListed if there is none.
type Prolong struct {
	CIDR string `json:"cidr"`
	For  string `json:"for"` // a duration or "forever"; default DefaultFor
	operation.Because
}

// Do implements Request.
func (q Prolong) Do(ctx context.Context, t *Table, by operation.By) (*operation.Change, error) {
	prefix, err := prefixOf(q.CIDR)
	if err != nil {
		return nil, err
	}
	hold, forever, err := listedFor(q.For)
	if err != nil {
		return nil, err
	}
	if !forever {
		hold = cmp.Or(hold, DefaultFor)
	}
	end, err := t.Prolong(ctx, prefix, hold, by.Now)
	if err != nil {
		return nil, t.near(ctx, prefix, by.Now, err)
	}
	return &operation.Change{Action: operation.Action{Subject: prefix.String(), Detail: until(end)}},
		t.applied(ctx, by.Now, "the new expiry is saved and applies")
}

// Unlist removes the entry of exactly this range. The error is that of Prolong.
type Unlist struct {
	CIDR string `json:"cidr" arg:"" help:"IP address or range, as listed"`
	operation.Because
}

// Do implements Request.
func (q Unlist) Do(ctx context.Context, t *Table, by operation.By) (*operation.Change, error) {
	prefix, err := prefixOf(q.CIDR)
	if err != nil {
		return nil, err
	}
	before, err := t.restoring(ctx, prefix, by.Now)
	if err == nil {
		err = t.keeps(ctx, by, func(e Entry) bool { return e.Prefix == unmap(prefix).Masked() })
	}
	if err == nil {
		err = t.Remove(ctx, prefix)
	}
	if err != nil {
		return nil, t.near(ctx, prefix, by.Now, err)
	}
	return &operation.Change{Action: operation.Action{Subject: prefix.String()}, Undo: before},
		t.applied(ctx, by.Now, "the entry is deleted and stops applying")
}

// near adds the overlapping entries to ErrNotListed.
func (t *Table) near(ctx context.Context, prefix netip.Prefix, now time.Time, err error) error {
	if !errors.Is(err, ErrNotListed) {
		return err
	}
	entries, failed := t.All(ctx, now)
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

// NotListed is ErrNotListed with the overlapping entries.
type NotListed string

func (n NotListed) Error() string { return string(n) }

// Unwrap returns ErrNotListed.
func (NotListed) Unwrap() error { return ErrNotListed }

// EntryOf returns the list entry that decides about an IP address; nil for none.
func (t *Table) EntryOf(ctx context.Context, address netip.Addr, now time.Time) (found *Entry, err error) {
	if t.Memory.Look(address, now) == guard.NotListed {
		return nil, nil
	}
	all, err := t.All(ctx, now)
	address = address.Unmap().WithZone("")
	for _, e := range all {
		if !e.Prefix.Contains(address) {
			continue
		}
		if found == nil || e.Prefix.Bits() > found.Prefix.Bits() || e.Prefix.Bits() == found.Prefix.Bits() &&
			e.Verdict == Block {
			found = &e
		}
	}
	return found, err
}

// Reload loads the entries into Memory. An older version never replaces a newer one.
func (t *Table) Reload(ctx context.Context, now time.Time) error {
	t.reading.Lock()
	defer t.reading.Unlock()
	entries, err := t.All(ctx, now)
	if err != nil {
		return err
	}
	t.Memory.Set(listingsOf(entries))
	return nil
}

func listingsOf(entries []Entry) []guard.Listing {
	listings := make([]guard.Listing, 0, len(entries))
	for _, e := range entries {
		verdict := guard.Blocked
		if e.Verdict == Allow {
			verdict = guard.Allowed
		}
		listings = append(listings, guard.Listing{Prefix: e.Prefix, Verdict: verdict, Until: e.ExpiresAt})
	}
	return listings
}
