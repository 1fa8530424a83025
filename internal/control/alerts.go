package control

import (
	"context"
	"fmt"

	"authguard/internal/alerts"
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
