package alerts

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"authguard/internal/sqltx"
)

// An outbox stores the shelves (backlog and state) of all channels by keyed ID. Safe for concurrent use.
type outbox interface {
	// change stores a shelf changed by do, locked on all nodes. After an error it may be stored. do can run twice.
	change(ctx context.Context, id string, do func(*shelf)) error
	// look returns a shelf; the zero shelf if there is none.
	look(ctx context.Context, id string) (shelf, error)
	// abandoned removes and returns the shelves, except the named ones, that no node has configured since a time.
	abandoned(ctx context.Context, except []string, since time.Time) ([]orphan, error)
}

// An orphan is the shelf of a removed channel.
type orphan struct {
	shelf
	seen time.Time // when a node last had it configured
}

// memoryBox is an outbox that ends with the process.
type memoryBox struct {
	mu      sync.Mutex
	shelves map[string]orphan
}

func (m *memoryBox) change(_ context.Context, id string, do func(*shelf)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.shelves[id]
	do(&one.shelf)
	one.seen = time.Now()
	m.shelves[id] = one
	return nil
}

func (m *memoryBox) look(_ context.Context, id string) (shelf, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.shelves[id]
	return one.shelf.copy(), nil
}

func (m *memoryBox) abandoned(_ context.Context, except []string, _ time.Time) (all []orphan, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.shelves, func(id string, one orphan) bool {
		gone := !slices.Contains(except, id)
		if gone {
			all = append(all, one)
		}
		return gone
	})
	return all, nil
}

// sqlBox is the table alert_channels.
type sqlBox struct {
	db  *sql.DB
	now func() time.Time
}

// queryTime limits one transaction. Meanwhile alerts wait in memory, and are sent from there after it.
const queryTime = 5 * time.Second

func (b *sqlBox) change(ctx context.Context, id string, do func(*shelf)) error {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	err := sqltx.Run(ctx, b.db, func(tx *sql.Tx) error {
		// Other nodes that change this shelf wait here.
		now := b.now().UnixMilli()
		if _, err := tx.ExecContext(ctx, `INSERT INTO alert_channels (id, made_at, seen_at) VALUES ($1, $2, $2)
			ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`, id, now); err != nil {
			return err
		}
		one, err := read(ctx, tx, id)
		if err != nil {
			return err
		}
		do(&one)
		text, err := json.Marshal(one)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE alert_channels SET shelf = $2 WHERE id = $1`, id, string(text))
		return err
	})
	if err != nil {
		return fmt.Errorf("alerts: outbox: %w", err)
	}
	return nil
}

func (b *sqlBox) look(ctx context.Context, id string) (shelf, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	one, err := read(ctx, b.db, id)
	if err != nil {
		err = fmt.Errorf("alerts: outbox: %w", err)
	}
	return one, err
}

func read(ctx context.Context, db sqltx.Runner, id string) (one shelf, err error) {
	err = sqltx.Each(ctx, db, func(rows *sql.Rows) error {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &one)
	}, `SELECT shelf FROM alert_channels WHERE id = $1`, id)
	return one, err
}

func (b *sqlBox) abandoned(ctx context.Context, except []string, since time.Time) (all []orphan, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	var ids []string
	err = sqltx.Each(ctx, b.db, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		if err == nil && !slices.Contains(except, id) {
			ids = append(ids, id)
		}
		return err
	}, `SELECT id FROM alert_channels WHERE seen_at <= $1`, since.UnixMilli())
	for _, id := range ids {
		var one orphan
		var text string
		var seen int64
		// Only one node gets it.
		switch e := b.db.QueryRowContext(ctx, `DELETE FROM alert_channels WHERE id = $1
			AND seen_at <= $2 RETURNING shelf, seen_at`, id, since.UnixMilli()).Scan(&text, &seen); {
		case errors.Is(e, sql.ErrNoRows):
		case e != nil:
			err = errors.Join(err, e)
		default:
			err = errors.Join(err, json.Unmarshal([]byte(text), &one.shelf))
			one.seen = time.UnixMilli(seen)
			all = append(all, one)
		}
	}
	if err != nil {
		err = fmt.Errorf("alerts: outbox: %w", err)
	}
	return all, err
}
