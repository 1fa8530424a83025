package control

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"authguard/guard"
	"authguard/internal/audit"
	"authguard/internal/lists"
)

// List allows or blocks a range; it fills in request.By. The entry is in force
// when List returns. Errors are those of lists.Request, wrapped in ErrAsked.
func (c *Control) List(ctx context.Context, who string, request lists.Request) (lists.Entry, error) {
	request.By = who
	if err := request.Validate(); err != nil {
		return lists.Entry{}, fmt.Errorf("%w: %w", ErrAsked, err)
	}
	entry, err := c.config.Listings.Add(ctx, request, c.config.Now())
	if err != nil {
		return lists.Entry{}, err
	}
	detail := "for ever"
	if !entry.ExpiresAt.IsZero() {
		detail = "until " + entry.ExpiresAt.UTC().Format(time.RFC3339)
	}
	if entry.Note != "" {
		detail += ": " + entry.Note
	}
	recorded := c.record(ctx, audit.Action{Who: who, What: string(request.Verdict), Subject: entry.Prefix.String(), Detail: detail})
	if err := c.reloadLists(ctx); err != nil {
		return entry, fmt.Errorf("control: the entry is saved and will be in force when the lists can be read again: %w", err)
	}
	return entry, recorded
}

// Unlist takes exactly this range off the lists. The error is
// lists.ErrNotListed if it is not on them.
func (c *Control) Unlist(ctx context.Context, who string, prefix netip.Prefix) error {
	if !prefix.IsValid() {
		return fmt.Errorf("%w: %w", ErrAsked, lists.ErrPrefix)
	}
	if err := c.config.Listings.Remove(ctx, prefix); err != nil {
		return err
	}
	recorded := c.record(ctx, audit.Action{Who: who, What: "unlist", Subject: prefix.String()})
	if err := c.reloadLists(ctx); err != nil {
		return fmt.Errorf("control: the entry is deleted and will be out of force when the lists can be read again: %w", err)
	}
	return recorded
}

// Listings are the entries that are in force, oldest first.
func (c *Control) Listings(ctx context.Context) ([]lists.Entry, error) {
	return c.config.Listings.All(ctx, c.config.Now())
}

// reloadLists makes what the database lists the lists of the guard.
func (c *Control) reloadLists(ctx context.Context) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	entries, err := c.Listings(ctx)
	if err != nil {
		return err
	}
	listings := make([]guard.Listing, 0, len(entries))
	for _, e := range entries {
		verdict := guard.Blocked
		if e.Verdict == lists.Allow {
			verdict = guard.Allowed
		}
		listings = append(listings, guard.Listing{Prefix: e.Prefix, Verdict: verdict, Until: e.ExpiresAt})
	}
	c.config.Lists.Set(listings)
	return nil
}
