package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"authguard/internal/alerts"
	"authguard/internal/attacks"
	"authguard/internal/audit"
	"authguard/internal/background"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/events"
	"authguard/internal/metrics"
	"authguard/internal/policy"
	"authguard/internal/times"
)

// watch is everything that receives events, through one bus: the log, the audit log, the alerts, the overview and the
// metrics.
type watch struct {
	background.Group
	bus     *events.Bus
	audit   *audit.Log
	alerts  *alerts.Alerter
	attacks *attacks.Recorder
	tops    *metrics.Tops
	effects *policy.Effects
	metrics *metrics.Metrics
	statsd  *metrics.StatsD
	traces  *metrics.Traces
	log     *slog.Logger

	keep atomic.Pointer[config.Audit] // how much of the audit log to keep
}

// openWatch creates a watch. attacked reports whether a realm's detector sees an attack.
func openWatch(loaded *config.Loaded, on *storage, attacked func(realm string) bool,
	log *slog.Logger) (w *watch, err error) {
	effects := policy.NewEffects(on.db, on.keys.Counters, on.clock.Now, log)
	w = &watch{tops: new(metrics.Tops), effects: effects, metrics: metrics.New(), log: log}
	w.audit = audit.New(on.db, audit.Config{Logger: log})
	w.attacks = attacks.New(attacks.Config{DB: on.db, Secret: on.keys.Counters, Attacked: attacked,
		Began: w.attackBegan, Ended: w.attackEnded, Crowded: w.attacksCrowded, Now: on.clock.Now, Log: log})
	if w.alerts, err = alerts.New(w.alertConfig(loaded.Config), on.outbox(log)); err != nil {
		return nil, err
	}
	at, prefix := loaded.Metrics.Server()
	w.statsd = &metrics.StatsD{Address: at, Prefix: prefix, Log: log}
	if w.traces, err = metrics.NewTraces(loaded.Tracing.Endpoint, runs(), log); err != nil {
		return nil, err
	}
	w.metrics.Traces = w.traces
	w.bus = events.NewBus(events.Config{Logger: log}, events.NewLog(log), w.audit, w.attacks, w.alerts, w.tops,
		w.effects, w.metrics, w.statsd)
	w.Add(background.Undo(w.traces.Close))
	for _, run := range []func(context.Context){w.alerts.Run, w.audit.Run, w.attacks.Run, w.effects.Run, w.statsd.Run,
		w.bus.Run} {
		w.Add(background.Run(run))
	}
	return w, w.reload(loaded)
}

func (w *watch) alertConfig(c config.Config) alerts.Config {
	a := alerts.Config{Bundle: c.Alerts.GroupWait, PerHour: c.Alerts.MaxPerHour, Private: c.Alerts.PrivateNetworks,
		FailureRatio: c.Alerts.FailureRatio, Attack: w.attacks.OnSite,
		Record: w.attacks.SoFar}
	if len(c.Admin.URLs) > 0 {
		a.URL = c.Admin.URLs[0]
	}
	for _, to := range c.Alerts.To {
		a.To = append(a.To, to.Reveal())
	}
	return a
}

func (w *watch) attackBegan(b attacks.Beginning) {
	w.audit.Attack(b.Attack)
	w.alerts.AttackBegan(b)
}

func (w *watch) attackEnded(e attacks.Ending) {
	w.audit.Attack(e.Attack)
	w.alerts.AttackEnded(e)
}

func (w *watch) attacksCrowded(realm, kind string) { w.alerts.AttacksCrowded(realm, kind) }

func (w *watch) reload(loaded *config.Loaded) error {
	w.keep.Store(&loaded.Audit)
	return w.alerts.Reconfigure(w.alertConfig(loaded.Config))
}

func (w *watch) forget(realm string) {
	w.alerts.Forget(realm)
	w.attacks.Forget(realm)
	w.tops.Forget(realm)
	w.metrics.Forget(realm)
}

// purge deletes audit rows that are too old or exceed audit.max_rows.
func (w *watch) purge(ctx context.Context) (rows int64, err error) {
	keep, now := w.keep.Load(), time.Now()
	return w.audit.Purge(ctx, audit.Keep{Since: now.Add(-keep.Retention),
		ActionsSince: now.Add(-max(keep.Retention, keep.AdminRetention)), Rows: int64(keep.MaxRows)})
}

func (w *watch) purgeAttacks(ctx context.Context) (rows int64, err error) {
	return w.attacks.Purge(ctx, time.Now().Add(-w.keep.Load().AdminRetention))
}

func (w *watch) channels() (all []metrics.ChannelGauges) {
	for _, c := range w.alerts.Channels() {
		all = append(all, metrics.ChannelGauges{Name: c.Name, Waiting: c.Waiting, Delivered: c.Delivered, Dead: c.Tries > 0})
	}
	return all
}

func (w *watch) warn() (all []control.Warning) {
	for _, dead := range w.alerts.Dead() {
		all = append(all, control.Warning{
			Code: string(alerts.ChannelDead), Title: "The alert channel " + dead.Name + " has failed",
			Text: fmt.Sprintf("%[2]d tries have failed since %[1]s, and %[3]d alerts wait: %[4]s. They are sent when it works "+
				"again. "+
				"Send a test with: authguard doctor --alerts", times.Text(dead.Since.UTC()), dead.Tries, dead.Waiting,
				dead.Why),
		})
	}
	return all
}
