package main

import (
	"context"
	"time"

	"authguard/internal/background"
	"authguard/internal/outbox"
)

const (
	// upkeepEvery is the interval of deleting old data.
	upkeepEvery = 10 * time.Minute
	// upkeepWithin is the timeout of one run.
	upkeepWithin = 5 * time.Minute
)

// upkeep deletes expired sessions, known clients and list entries, and audit rows that are too old or too many. It
// alerts about list entries that expire soon.
func (s *site) upkeep(ctx context.Context) {
	s.tidy(ctx)
	background.Every(ctx, upkeepEvery, s.tidy)
}

func (s *site) tidy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, upkeepWithin)
	defer cancel()
	for _, table := range []struct {
		name  string
		purge func(context.Context) (rows int64, err error)
	}{
		{"audit", s.watch.purge},
		{"attacks", s.watch.purgeAttacks},
		{"alerts", s.watch.alerts.Purge},
		{"IP list entries about to expire", s.expiring},
		{"lists", func(ctx context.Context) (int64, error) { return s.listings.Purge(ctx, s.storage.clock.Now()) }},
		{"hits of limits", s.watch.effects.Purge},
		{"sessions", s.main().people.sessions.Purge},
		{"codes", s.main().people.codes.Purge},
		{"messages", func(ctx context.Context) (int64, error) {
			return outbox.Purge(ctx, s.storage.db, s.storage.clock.Now())
		}},
		{"known clients", s.counting.known.Purge},
	} {
		rows, err := table.purge(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Error("old records could not be deleted", "table", table.name, "error", err)
		}
		if rows > 0 {
			s.log.Info("old records deleted", "table", table.name, "rows", rows)
		}
	}
}
