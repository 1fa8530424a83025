package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"authguard/internal/alerts"
	"authguard/internal/audit"
	"authguard/internal/background"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/events"
	"authguard/internal/lists"
)

// A watch is everybody who is told what happens: the log, the audit log, the
// alerts, the overview and the metrics, all through one bus.
type watch struct {
	bus     *events.Bus
	audit   *audit.Log
	alerts  *alerts.Alerter
	tops    *control.Tops
	metrics *control.Metrics
	log     *slog.Logger

	keep atomic.Int64 // nanoseconds that the audit log is kept
	rows atomic.Int64 // that it may have
}

func openWatch(loaded *config.Loaded, on *storage, log *slog.Logger) (w *watch, err error) {
	w = &watch{tops: control.NewTops(), metrics: control.NewMetrics(), log: log}
	w.audit = audit.New(on.db, audit.Config{Realm: realm, Logger: log})
	if w.alerts, err = alerts.New(alertConfig(loaded.Config), log); err != nil {
		return nil, err
	}
	w.bus = events.NewBus(events.Config{Logger: log}, events.NewLog(log), w.audit, w.alerts, w.tops, w.metrics)
	return w, w.reload(loaded)
}

func alertConfig(c config.Config) alerts.Config {
	a := alerts.DefaultConfig()
	for _, to := range c.Alerts.To {
		a.To = append(a.To, to.Reveal())
	}
	a.PerHour, a.Bundle = c.Alerts.PerHour, c.Alerts.Bundle
	return a
}

// start starts the listeners before the bus that feeds them, so that the bus is
// stopped first.
func (w *watch) start(group *background.Group) {
	group.Start(w.alerts.Run)
	group.Start(w.audit.Run)
	group.Start(w.bus.Run)
}

func (w *watch) reload(loaded *config.Loaded) error {
	w.keep.Store(int64(loaded.Audit.Keep))
	w.rows.Store(int64(loaded.Audit.Rows))
	return w.alerts.Reconfigure(alertConfig(loaded.Config))
}

const (
	// tidyEvery is how often what is too old is deleted.
	tidyEvery = 10 * time.Minute
	// tidyWithin bounds one time.
	tidyWithin = 5 * time.Minute
)

// tidying deletes what nobody may keep for ever: old rows of the audit log, and
// those beyond its bound, and entries of the lists that have run out.
func (w *watch) tidying(listings *lists.Table) func(context.Context) {
	return func(ctx context.Context) {
		w.tidy(ctx, listings)
		background.Every(ctx, tidyEvery, func(ctx context.Context) { w.tidy(ctx, listings) })
	}
}

func (w *watch) tidy(ctx context.Context, listings *lists.Table) {
	ctx, cancel := context.WithTimeout(ctx, tidyWithin)
	defer cancel()
	now := time.Now()
	old, err := w.audit.Purge(ctx, now.Add(-time.Duration(w.keep.Load())), w.rows.Load())
	if err != nil && ctx.Err() == nil {
		w.log.Error("old rows of the audit log could not be deleted", "error", err)
	}
	ended, err := listings.Purge(ctx, now)
	if err != nil && ctx.Err() == nil {
		w.log.Error("list entries that have run out could not be deleted", "error", err)
	}
	if old+ended > 0 {
		w.log.Info("old records deleted", "audit", old, "lists", ended)
	}
}
