package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authguard/internal/events"
	"authguard/internal/sqltx"
)

const (
	columns     = "id, at, realm, kind, decision, account, address, reasons, count, who, detail"
	columnCount = 11
	// chunk rows go into one statement: a round trip each would be slow over a
	// network, and SQLite takes no more than 32,766 parameters.
	chunk = 100
	// sequenceBits are the low bits of an ID; the rest is the time in ms.
	sequenceBits = 20
)

// insert writes the rows in one transaction.
func (l *Log) insert(ctx context.Context, rows []Row) error {
	err := sqltx.Run(ctx, l.db, func(tx *sql.Tx) error {
		for part := range slices.Chunk(rows, chunk) {
			if _, err := tx.ExecContext(ctx, insertStatement(len(part)), l.values(part)...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("audit: insert %d rows: %w", len(rows), err)
	}
	return nil
}

func insertStatement(rows int) string {
	var b strings.Builder
	b.WriteString("INSERT INTO audit (" + columns + ") VALUES ")
	for i := range rows * columnCount {
		switch {
		case i == 0:
			b.WriteString("(")
		case i%columnCount == 0:
			b.WriteString("), (")
		default:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d", i+1)
	}
	b.WriteString(")")
	return b.String()
}

func (l *Log) values(rows []Row) []any {
	args := make([]any, 0, len(rows)*columnCount)
	for _, r := range rows {
		at := r.At.UnixMilli()
		args = append(args, l.id(at), at, r.Realm, r.Kind, r.Decision, r.Account, r.Address, r.Reasons, r.Count, r.Who, r.Detail)
	}
	return args
}

// id grows with time and differs at each try, so that a collision with another
// node's row costs a retry and not a row. The sequence starts at a random
// number for the same reason.
func (l *Log) id(at int64) int64 {
	return at<<sequenceBits | int64(l.seq.Add(1)&(1<<sequenceBits-1))
}

// Bounds of how many rows Recent reads.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// A Filter selects the rows that match all of its nonzero fields.
type Filter struct {
	Account string // normalised, as events have it
	Address netip.Addr
	Kind    string
	Since   time.Time
	Before  int64 // only rows with a lower ID: the last one of the previous page
	Limit   int   // default DefaultLimit, at most MaxLimit
}

// Recent returns the newest rows that match the filter, newest first. Rows that
// have yet to be written, about a second's worth, are not among them.
func (l *Log) Recent(ctx context.Context, f Filter) ([]Row, error) {
	query, args := f.query(l.cfg.Realm)
	var list []Row
	err := sqltx.Each(ctx, l.db, func(rows *sql.Rows) error {
		var r Row
		var at int64
		err := rows.Scan(&r.ID, &at, &r.Realm, &r.Kind, &r.Decision, &r.Account, &r.Address, &r.Reasons, &r.Count, &r.Who, &r.Detail)
		r.At = time.UnixMilli(at)
		list = append(list, r)
		return err
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("audit: read: %w", err)
	}
	return list, nil
}

func (f Filter) query(realm string) (string, []any) {
	args := []any{realm}
	where := []string{"realm = $1"}
	and := func(condition string, value any) {
		args = append(args, value)
		where = append(where, fmt.Sprintf("%s $%d", condition, len(args)))
	}
	if f.Account != "" {
		and("account =", events.Escape(f.Account))
	}
	if f.Address.IsValid() {
		and("address =", events.AddressText(f.Address))
	}
	if f.Kind != "" {
		and("kind =", f.Kind)
	}
	if !f.Since.IsZero() {
		and("at >=", f.Since.UnixMilli())
	}
	if f.Before > 0 {
		and("id <", f.Before)
	}
	args = append(args, f.limit())
	return fmt.Sprintf("SELECT %s FROM audit WHERE %s ORDER BY at DESC, id DESC LIMIT $%d",
		columns, strings.Join(where, " AND "), len(args)), args
}

func (f Filter) limit() int {
	if f.Limit <= 0 {
		return DefaultLimit
	}
	return min(f.Limit, MaxLimit)
}

// Purge deletes the rows from before a time and the oldest ones beyond most, in
// small steps so that others can use the table. It returns how many it deleted.
func (l *Log) Purge(ctx context.Context, before time.Time, most int64) (total int64, err error) {
	var last int64 // the newest row to delete
	err = l.db.QueryRowContext(ctx, "SELECT id FROM audit ORDER BY id DESC LIMIT 1 OFFSET $1", most).Scan(&last)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	last = max(last, max(before.UnixMilli(), 0)<<sequenceBits-1)
	for n := int64(-1); n != 0 && err == nil; total += n {
		n, err = sqltx.Exec(ctx, l.db, "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE id <= $1 ORDER BY id LIMIT 1000)", last)
	}
	if err != nil {
		return total, fmt.Errorf("audit: purge: %w", err)
	}
	return total, nil
}
