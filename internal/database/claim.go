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

// ErrElsewhere means that another running node of the same database counts elsewhere.
var ErrElsewhere = errors.New("another running node of this PostgreSQL database counts elsewhere")

// claimClass is the first number of the advisory locks that are claims.
const claimClass = 0x61677264 // "agrd"

// A Claim shows the other nodes of a PostgreSQL database where this one counts: a shared
// advisory lock, which ends with the process. SQLite has one node, and no claims. Hold is
// for one caller at a time; Refused is safe for concurrent use.
type Claim struct {
	db      *sql.DB
	conn    *sql.Conn
	held    string
	refused atomic.Pointer[error]
}

// NewClaim returns a Claim that claims nothing yet.
func NewClaim(db *sql.DB) *Claim { return &Claim{db: db} }

// Refused is why the last Hold was refused, which is ErrElsewhere; nil if it was not.
func (c *Claim) Refused() error {
	if refused := c.refused.Load(); refused != nil {
		return *refused
	}
	return nil
}

// Hold shows that this node counts in a store, and no longer in the one before. The first
// Hold is ErrElsewhere if another node counts elsewhere. Later ones are not: the store's
// name changes when it loses its data, for one node before the others.
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

// lock claims a store. PostgreSQL ends the claim of a machine that lost its power within
// half a minute.
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

// drop ends the claim; the connection may be used for something else.
func (c *Claim) drop(ctx context.Context) {
	if c.conn != nil {
		_, _ = c.conn.ExecContext(ctx, `SELECT pg_advisory_unlock_all()`)
		_ = c.conn.Close()
		c.conn = nil
	}
}

// Close ends the claim.
func (c *Claim) Close() { c.drop(context.Background()) }

// claimOf is the second number of the lock for a store.
func claimOf(store string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(store))
	return int32(h.Sum32() >> 1)
}

const (
	// agreeTries and agreeEvery are how long nodes may take to show that the store that they
	// share has lost its data: they look every second.
	agreeTries = 7
	agreeEvery = 500 * time.Millisecond
)

// Elsewhere is ErrElsewhere if a running node of a PostgreSQL database counts in another store
// than this node; the store is empty if it has no name yet. It only reads. If the store cannot
// be asked, there is nothing to compare.
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
