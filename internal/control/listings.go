package control

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"authguard/internal/audit"
	"authguard/internal/lists"
)

// Allow lists a range as allowed: request's verdict and who asks are filled in.
// It is in force when Allow returns. Errors are those of lists.Request, wrapped
// in ErrAsked.
func (c *Control) Allow(ctx context.Context, who string, request lists.Request) (lists.Entry, error) {
	request.Verdict = lists.Allow
	return c.list(ctx, who, request)
}

// Block lists a range as blocked, like Allow.
func (c *Control) Block(ctx context.Context, who string, request lists.Request) (lists.Entry, error) {
	request.Verdict = lists.Block
	return c.list(ctx, who, request)
}

func (c *Control) list(ctx context.Context, who string, request lists.Request) (lists.Entry, error) {
	request.By = who
	if err := request.Validate(); err != nil {
		return lists.Entry{}, fmt.Errorf("%w: %w", ErrAsked, err)
	}
	entry, err := c.config.Listings.Add(ctx, request, c.config.Now())
	if err != nil {
		return lists.Entry{}, err
	}
	recorded := c.record(ctx, audit.Action{
		Who: who, What: string(request.Verdict), Subject: entry.Prefix.String(), Detail: untilWords(entry) + note(entry.Note),
	})
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

func untilWords(e lists.Entry) string {
	if e.ExpiresAt.IsZero() {
		return "for ever"
	}
	return "until " + e.ExpiresAt.UTC().Format(time.RFC3339)
}

func note(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}
