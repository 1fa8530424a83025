package main

import (
	"context"
	"time"
)

const (
	// upkeepEvery is how often what is too old is deleted.
	upkeepEvery = 10 * time.Minute
	// upkeepWithin bounds one time.
	upkeepWithin = 5 * time.Minute
)

// upkeep deletes what nobody may keep for ever: old rows of the audit log, and
// those beyond its bound, and entries of the lists that have run out.
func (s *site) upkeep(ctx context.Context) {
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	for {
		s.tidy(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *site) tidy(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, upkeepWithin)
	defer cancel()
	old, err := s.audit.Purge(ctx, now.Add(-time.Duration(s.keep.Load())), int64(s.rows.Load()))
	if err != nil && ctx.Err() == nil {
		s.log.Error("old rows of the audit log could not be deleted", "error", err)
	}
	ended, err := s.blocklist.Purge(ctx, now)
	if err != nil && ctx.Err() == nil {
		s.log.Error("list entries that have run out could not be deleted", "error", err)
	}
	if old+ended > 0 {
		s.log.Info("old records deleted", "audit", old, "lists", ended)
	}
}
