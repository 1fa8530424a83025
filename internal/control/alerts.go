package control

import (
	"context"
	"fmt"
	"strings"

	"authguard/internal/alerts"
	"authguard/internal/audit"
	"authguard/internal/events"
)

// The default and the maximum number of alerts.
const (
	alertsShown = 20
	maxAlerts   = 1000
)

// Alerts are the channels of all realms and the newest alerts. Its JSON is the answer of GET /api/alerts.
type Alerts struct {
	Channels []alerts.Channel `json:"channels"`
	// Recent are the newest first: of all realms, or of one that is not the default.
	Recent []alerts.Record `json:"alerts"`
	More   bool            `json:"more"` // older alerts exist
}

// Alerts returns the channels and the newest alerts, or those before an ID other than 0. limit 0 is 20.
func (c *Control) Alerts(ctx context.Context, before int64, limit int) (a Alerts, err error) {
	if limit <= 0 {
		limit = alertsShown
	}
	limit = min(limit, maxAlerts)
	a.Channels = c.config.Alerts.Channels()
	if a.Recent, err = c.config.Alerts.Recent(ctx, events.RealmName(c.config.Realm), before, limit+1); err != nil {
		return Alerts{}, fmt.Errorf("control: %w", err)
	}
	if a.More = len(a.Recent) > limit; a.More {
		a.Recent = a.Recent[:limit]
	}
	return a, nil
}

// TestAlerts sends a test message to every channel and waits for all outcomes.
type TestAlerts struct{}

// Do implements Request.
func (TestAlerts) Do(ctx context.Context, c *Control, by By) (*Change, error) {
	found, bad := c.config.Alerts.Test(ctx, by.Who), []string{}
	for _, one := range found {
		if one.Problem != "" {
			bad = append(bad, one.Channel+": "+strings.ReplaceAll(one.Problem, "\n", "; "))
		}
	}
	notice := Notice{Text: "A test message was sent to every channel. Check that it has arrived."}
	if len(found) == 0 {
		notice = Notice{Bad: true, Text: "No alert channel configured. Add one in alerts.to."}
	} else if len(bad) > 0 {
		notice = Notice{Bad: true, Text: "The test message could not be sent to " + strings.Join(bad, "; ") + "."}
	}
	return &Change{
		Action: audit.Action{Detail: fmt.Sprintf("%d channels, %d of them failed", len(found), len(bad))},
		Answer: map[string]any{"channels": append([]alerts.Tested{}, found...)}, Notice: notice,
	}, nil
}
