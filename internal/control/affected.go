package control

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"authguard/internal/audit"
	"authguard/internal/lists"
	"authguard/internal/times"
)

const (
	// affectedFor is the period of the sign-ins and attempts that are counted.
	affectedFor = 7 * 24 * time.Hour
	// affectedWithin limits the search: an administrator waits for the preview before blocking an attacker.
	affectedWithin = 5 * time.Second
)

// Affected are the users of a range: the preview of a list entry for it.
type Affected struct {
	Range netip.Prefix
	// Accounts signed in from there in the last week, newest first; all realms.
	Accounts []string
	// Failed and Tried are the wrong passwords of the last week, and the accounts that they were for. First and Last are
	// the oldest and newest.
	Failed, Tried int
	First, Last   time.Time
	// Partial is set if there were more attempts than the newest audit.MaxLimit, or if the search took too long.
	Partial bool
	// Entries are the overlapping list entries, widest first. Exactly is the one of this range, or nil.
	Entries []lists.Entry
	Exactly *lists.Entry
}

// Affected returns the users of a range. It changes nothing.
func (c *Control) Affected(ctx context.Context, network netip.Prefix) (a Affected, err error) {
	a.Range = network.Masked()
	entries, err := c.Lists.Entries(ctx)
	if err != nil {
		return a, err
	}
	for _, e := range entries {
		if !e.Prefix.Overlaps(a.Range) {
			continue
		}
		a.Entries = append(a.Entries, e)
		if e.Prefix == a.Range {
			a.Exactly = &e
		}
	}
	slices.SortStableFunc(a.Entries, func(a, b lists.Entry) int { return cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()) })
	ctx, cancel := context.WithTimeout(ctx, affectedWithin)
	defer cancel()
	f := audit.Filter{Network: a.Range, Since: c.Now().Add(-affectedFor), Limit: audit.MaxLimit}
	for _, f.Kind = range []string{"succeeded", "failed"} {
		rows, err := c.config.Audit.Recent(ctx, f)
		if err != nil && !errors.Is(err, audit.ErrSlow) {
			return a, err
		}
		a.Partial = a.Partial || err != nil || len(rows) == audit.MaxLimit
		if f.Kind == "failed" {
			a.failed(rows)
			continue
		}
		for _, row := range rows {
			if !slices.Contains(a.Accounts, row.Account) {
				a.Accounts = append(a.Accounts, row.Account)
			}
		}
	}
	return a, nil
}

func (a *Affected) failed(rows []audit.Row) {
	tried := map[string]bool{}
	for _, row := range rows {
		if last := times.Later(row.At, row.Last); last.After(a.Last) {
			a.Last = last
		}
		a.First, a.Failed, tried[row.Account] = row.At, a.Failed+int(row.Count), true
	}
	a.Tried = len(tried)
}
