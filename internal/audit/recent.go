package audit

import (
	"context"
	"database/sql"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"authguard/internal/events"
)

// Bounds of how many rows Recent reads.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// A Filter says which rows to read: those that match all of its fields that are
// not zero.
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
	rows, err := l.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("audit: read: %w", err)
	}
	defer rows.Close()
	var list []Row
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("audit: read: %w", err)
		}
		list = append(list, r)
	}
	return list, rows.Err()
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

func scan(rows *sql.Rows) (r Row, err error) {
	var at int64
	err = rows.Scan(&r.ID, &at, &r.Realm, &r.Kind, &r.Decision, &r.Account, &r.Address, &r.Reasons, &r.Count, &r.Who, &r.Detail)
	r.At = time.UnixMilli(at)
	return r, err
}
