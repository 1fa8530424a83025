package alerts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"authguard/internal/background"
	"authguard/internal/database"
)

const (
	// historyEvery is the interval between writes.
	historyEvery = 2 * time.Second
	// keptAlerts limits the rows of each kind, so that a flood of one kind does not displace others (R31).
	keptAlerts = 1000
	keptFor    = 90 * 24 * time.Hour
	queryTime  = 5 * time.Second
)

// A Record is a stored alert.
type Record struct {
	Alert
	Count int `json:"count"` // more than 1: includes alerts without text
}

// A history stores raised alerts for the page Alerts, with or without channels. Alerts that cannot be written wait in
// bounded memory; they are in the log anyway.
type history struct {
	db  *sql.DB // nil: nothing is stored
	log *slog.Logger

	mu    sync.Mutex
	fresh digest
}

func (h *history) add(a Alert) {
	if h.db == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fresh.add(a)
}

func (h *history) run(ctx context.Context) {
	background.Save(ctx, historyEvery, h.write, func(err error) {
		h.log.Error("alerts cannot be saved: they wait in memory, and are in the log", "error", err)
	})
}

func (h *history) write(ctx context.Context) error {
	h.mu.Lock()
	rows := h.fresh
	h.fresh = digest{}
	h.mu.Unlock()
	if rows.len() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	err := database.InTx(ctx, h.db, func(tx *sql.Tx) error {
		for _, r := range records(rows) {
			_, err := tx.ExecContext(ctx, `INSERT INTO alerts (id, at, realm, kind, title, body, count)
				VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING`,
				r.ID, r.At.UnixMilli(), r.Realm, string(r.Kind), database.Clean(r.Title), database.Clean(r.Body), r.Count)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		rows.merge(h.fresh)
		h.fresh = rows
	}
	return err
}

// records returns the rows of a digest. Counted alerts are added to the last of their kind.
func records(d digest) (all []Record) {
	for _, a := range d.Kept {
		all = append(all, Record{a, 1})
	}
	for _, kind := range slices.Sorted(maps.Keys(d.Counted)) {
		for i := len(all) - 1; i >= 0; i-- {
			if all[i].Kind == kind {
				all[i].Count += d.Counted[kind]
				break
			}
		}
	}
	return all
}

var errNoHistory = errors.New("alerts: there is no database")

// Recent returns the newest alerts, newest first: of all realms or one, before an ID other than 0. Those of the last
// seconds can be missing.
func (a *Alerter) Recent(ctx context.Context, realm string, before int64, limit int) ([]Record, error) {
	if a.history.db == nil {
		return nil, errNoHistory
	}
	all := []Record{}
	err := database.Each(ctx, a.history.db, func(rows *sql.Rows) error {
		var r Record
		var at int64
		err := rows.Scan(&r.ID, &at, &r.Realm, &r.Kind, &r.Title, &r.Body, &r.Count)
		r.At = time.UnixMilli(at)
		all = append(all, r)
		return err
	}, `SELECT id, at, realm, kind, title, body, count FROM alerts
		WHERE ($1 = '' OR realm = $1) AND (CAST($2 AS BIGINT) = 0 OR id < CAST($2 AS BIGINT)) ORDER BY id DESC
			LIMIT $3`, realm, before, limit)
	if err != nil {
		return nil, fmt.Errorf("alerts: read: %w", err)
	}
	return all, nil
}

// Purge deletes alerts that are too old, or beyond the limit of their kind.
func (a *Alerter) Purge(ctx context.Context) (rows int64, err error) {
	if a.history.db == nil {
		return 0, nil
	}
	rows, err = database.Exec(ctx, a.history.db, `DELETE FROM alerts WHERE at < $1`, a.now().Add(-keptFor).UnixMilli())
	if err != nil {
		return rows, fmt.Errorf("alerts: purge: %w", err)
	}
	var kinds []string
	err = database.Each(ctx, a.history.db, func(rows *sql.Rows) error {
		var kind string
		err := rows.Scan(&kind)
		kinds = append(kinds, kind)
		return err
	}, `SELECT DISTINCT kind FROM alerts`)
	for _, kind := range kinds {
		more, failed := database.Exec(ctx, a.history.db, `DELETE FROM alerts WHERE kind = $1 AND id <=
			(SELECT id FROM alerts WHERE kind = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)`, kind, keptAlerts)
		rows, err = rows+more, errors.Join(err, failed)
	}
	if err != nil {
		err = fmt.Errorf("alerts: purge: %w", err)
	}
	return rows, err
}
