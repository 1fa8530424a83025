package lists

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/database"
	"authguard/internal/events"
	"authguard/internal/operation"
)

// UnlistMany removes the entries of exactly these ranges, or those that one import added.
type UnlistMany struct {
	Ranges  []string `json:"ranges"`
	Created string   `json:"created"` // the time of the import (RFC 3339), whose administrator is Who
	Who     string   `json:"who"`
	operation.Because
}

// maxRestored limits the entries that Undo can restore, because a form contains them.
const maxRestored = 50

// Do implements Request.
func (q UnlistMany) Do(ctx context.Context, t *Table, by operation.By) (*operation.Change, error) {
	selected, err := q.selector()
	if err != nil {
		return nil, err
	}
	if err := t.keeps(ctx, by, selected); err != nil {
		return nil, err
	}
	entries, err := t.All(ctx, by.Now)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return !selected(e) })
	if len(entries) == 0 {
		return nil, NotListed("none of these entries is on a list")
	}
	if err := t.removeAll(ctx, entries); err != nil {
		return nil, err
	}
	n := events.Count(len(entries), "entry")
	change := &operation.Change{Answer: map[string]int{"removed": len(entries)},
		Action: operation.Action{Detail: n + ": " + someRanges(entries)},
		Notice: operation.Notice{Text: "Removed from the lists: " + n + "."}}
	if kept := entriesJSON(entries); len(entries) <= maxRestored && len(kept) <= maxRestored*MaxNote/8 {
		change.Undo = &RestoreEntries{Entries: kept}
	} else {
		change.Notice.Note = "No undo: the page does not keep so many entries. Import the list again."
	}
	return change, t.applied(ctx, by.Now, "the entries are deleted and stop applying")
}

func (q UnlistMany) selector() (func(Entry) bool, error) {
	if q.Created != "" {
		at, err := time.Parse(time.RFC3339, q.Created)
		if err != nil {
			return nil, fmt.Errorf("%w: created: %.40q is not a time", operation.ErrAsked, q.Created)
		}
		return func(e Entry) bool { return e.CreatedAt.Equal(at) && e.CreatedBy == q.Who }, nil
	}
	ranges := map[netip.Prefix]bool{}
	for _, text := range q.Ranges {
		prefix, err := prefixOf(text)
		if err != nil {
			return nil, err
		}
		ranges[prefix] = true
	}
	if len(ranges) == 0 {
		return nil, fmt.Errorf("%w: select the entries to remove", operation.ErrAsked)
	}
	return func(e Entry) bool { return ranges[e.Prefix] }, nil
}

func (t *Table) removeAll(ctx context.Context, entries []Entry) error {
	err := database.InTx(ctx, t.db, func(tx *sql.Tx) error {
		for _, e := range entries {
			if _, err := database.Exec(ctx, tx, `DELETE FROM lists WHERE cidr = $1`, e.Prefix.String()); err != nil {
				return err
			}
		}
		return database.Announce(ctx, tx, database.ListsChanged)
	})
	if err != nil {
		return fmt.Errorf("lists: remove %d entries: %w", len(entries), err)
	}
	return nil
}

func someRanges(entries []Entry) string {
	var all []string
	for _, e := range entries[:min(len(entries), 5)] {
		all = append(all, e.Prefix.String())
	}
	text := strings.Join(all, ", ")
	if more := len(entries) - len(all); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// entriesJSON returns entries for RestoreEntries.
func entriesJSON(entries []Entry) string {
	text, _ := json.Marshal(entries) // no field can fail
	return string(text)
}

// RestoreEntries adds entries that UnlistMany removed, unless they have expired since.
type RestoreEntries struct {
	Entries string `json:"entries"` // a list of Entry in JSON
	operation.Because
}

// Do implements Request.
func (q RestoreEntries) Do(ctx context.Context, t *Table, by operation.By) (*operation.Change, error) {
	var entries []Entry
	if json.Unmarshal([]byte(q.Entries), &entries) != nil || len(entries) > maxRestored {
		return nil, fmt.Errorf("%w: entries: must be a list of at most %d entries", operation.ErrAsked, maxRestored)
	}
	undo := &UnlistMany{Because: operation.Because{Reason: operation.Undone}}
	var requests []Request
	for _, e := range entries {
		r := Request{Prefix: e.Prefix, Verdict: e.Verdict, Note: e.Note, By: by.Who, Force: e.Prefix.Bits() == 0,
			Forever: e.ExpiresAt.IsZero()}
		if r.For = e.ExpiresAt.Sub(by.Now); r.Forever {
			r.For = 0
		}
		switch {
		case !r.Forever && r.For <= 0 || slices.Contains(undo.Ranges, e.Prefix.String()):
			continue
		case r.locksOut(by.Address):
			return nil, lockedOut(r.Prefix, by.Address)
		}
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("%w: %w", operation.ErrAsked, err)
		}
		requests, undo.Ranges = append(requests, r), append(undo.Ranges, e.Prefix.String())
	}
	if len(requests) == 0 {
		return nil, fmt.Errorf("%w: these entries have expired meanwhile", operation.ErrAsked)
	}
	added, err := t.AddAll(ctx, requests, by.Now)
	if err != nil {
		return nil, err
	}
	n := events.Count(len(added), "entry")
	return &operation.Change{Undo: undo, Action: operation.Action{Detail: n + ": " + someRanges(added)},
			Notice: operation.Notice{Text: "Restored: " + n + "."}},
		t.applied(ctx, by.Now, "the entries are saved and apply")
}

// locksOut reports whether a request blocks this IP address.
func (r Request) locksOut(own netip.Addr) bool {
	return r.Verdict == Block && unmap(r.Prefix).Contains(own.Unmap().WithZone(""))
}

// keeps returns an error if the removal of entries would leave the sender's IP address to a block.
func (t *Table) keeps(ctx context.Context, by operation.By, removed func(Entry) bool) error {
	entries, err := t.All(ctx, by.Now)
	if err != nil || t.Memory.Look(by.Address, by.Now) != guard.Allowed {
		return err
	}
	left := new(guard.Lists)
	left.Set(listingsOf(slices.DeleteFunc(entries, removed)))
	if left.Look(by.Address, by.Now) != guard.Blocked {
		return nil
	}
	return fmt.Errorf("%w: without this entry, a block of a wider range applies to your own IP address, %s: you would "+
		"lock yourself out", operation.ErrAsked, by.Address)
}

func lockedOut(prefix netip.Prefix, own netip.Addr) error {
	return fmt.Errorf("%w: %s contains your own IP address, %s: you would lock yourself out", operation.ErrAsked, prefix,
		own)
}
