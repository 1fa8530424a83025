package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"sync/atomic"
	"time"
)

// ErrElsewhere means that another running node of the same database uses another counter store.
var ErrElsewhere = errors.New("another running node of this PostgreSQL database counts elsewhere")

// claimClass is the first key of the advisory locks that are claims.
const claimClass = 0x61677264 // "agrd"

// Claim shows the other nodes of a PostgreSQL database which store this node counts in. It is a shared advisory lock,
// which ends with the process. SQLite has one node and no claims. Hold must not run concurrently; Refused may.
type Claim struct {
	db      *sql.DB
	conn    *sql.Conn
	held    string
	refused atomic.Pointer[error]
}

// NewClaim returns a Claim that holds nothing yet.
func NewClaim(db *sql.DB) *Claim { return &Claim{db: db} }

// Refused returns the ErrElsewhere of the last Hold, or nil.
func (c *Claim) Refused() error {
	if refused := c.refused.Load(); refused != nil {
		return *refused
	}
	return nil
}

// Hold claims store and releases the previous claim. Only the first Hold returns ErrElsewhere if another node uses
// another store: the store's name changes when it loses its data, and one node notices before the others.
func (c *Claim) Hold(ctx context.Context, store string) error {
	if store == "" || !IsPostgres(c.db) {
		return nil
	}
	if c.conn != nil && c.conn.PingContext(ctx) != nil {
		c.drop(ctx)
	}
	if c.conn != nil && c.held == store {
		return nil
	}
	if err := c.lock(ctx, store); err != nil {
		c.drop(ctx)
		return fmt.Errorf("database: show the other nodes where this one counts: %w", err)
	}
	if c.held == "" {
		err := Elsewhere(ctx, c.db, func(context.Context) (string, error) { return store, nil })
		if errors.Is(err, ErrElsewhere) {
			c.refused.Store(&err)
		}
		if err != nil {
			c.drop(ctx)
			return err
		}
	}
	c.held = store
	c.refused.Store(nil)
	return nil
}

// lock claims a store. The keepalives end the claim of a machine that lost power within half a minute.
func (c *Claim) lock(ctx context.Context, store string) (err error) {
	if c.conn == nil {
		if c.conn, err = c.db.Conn(ctx); err != nil {
			c.conn = nil
			return err
		}
	}
	_, err = c.conn.ExecContext(ctx, `SELECT pg_advisory_unlock_all(), pg_advisory_lock_shared($1, $2),
		set_config('tcp_keepalives_idle', '15', false), set_config('tcp_keepalives_interval', '5', false),
		set_config('tcp_keepalives_count', '3', false)`, claimClass, claimOf(store))
	return err
}

// drop ends the claim. It unlocks first because the pool may reuse the connection.
func (c *Claim) drop(ctx context.Context) {
	if c.conn != nil {
		_, _ = c.conn.ExecContext(ctx, `SELECT pg_advisory_unlock_all()`)
		_ = c.conn.Close()
		c.conn = nil
	}
}

// Close ends the claim.
func (c *Claim) Close() { c.drop(context.Background()) }

// claimOf is the second key of the lock for a store.
func claimOf(store string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(store))
	return int32(h.Sum32() >> 1)
}

const (
	// agreeTries and agreeEvery give the nodes time to notice that the shared store has lost its data: they check every
	// second.
	agreeTries = 7
	agreeEvery = 500 * time.Millisecond
)

// Elsewhere returns ErrElsewhere if another running node of a PostgreSQL database counts in another store than this
// one. An empty name means that the store has no name yet. Elsewhere only reads. If the store cannot be reached, there
// is nothing to compare, and the result is nil.
func Elsewhere(ctx context.Context, db *sql.DB, store func(context.Context) (string, error)) error {
	if !IsPostgres(db) {
		return nil
	}
	for range agreeTries {
		own, err := store(ctx)
		if err != nil {
			return nil
		}
		var others int
		err = db.QueryRowContext(ctx, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND classid::bigint = $1 AND (objid::bigint <> $2 OR $3)`, claimClass, claimOf(own), own == "").Scan(&others)
		if err != nil {
			return fmt.Errorf("database: look where the other nodes count: %w", err)
		}
		if others == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(agreeEvery):
		}
	}
	return ErrElsewhere
}
