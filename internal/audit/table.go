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
	columns     = "id, at, last_at, realm, kind, decision, account, address, reasons, count, who, detail"
	columnCount = 12
	// chunk rows go into one statement: a round trip each would be slow over a
	// network, and SQLite takes no more than 32,766 parameters.
	chunk = 100
	// sequenceBits are the low bits of an ID; the rest is the time in ms.
	sequenceBits = 20
)

// insert writes the rows in one transaction. Its statement for a whole chunk is prepared
// once: SQLite takes longer to read 1,200 parameters than to write the rows.
func (l *Log) insert(ctx context.Context, rows []Row) error {
	err := sqltx.Run(ctx, l.db, func(tx *sql.Tx) error {
		whole := len(rows) / chunk * chunk
		if whole > 0 {
			statement, err := tx.PrepareContext(ctx, insertStatement(chunk))
			if err != nil {
				return err
			}
			defer statement.Close()
			for part := range slices.Chunk(rows[:whole], chunk) {
				if _, err := statement.ExecContext(ctx, l.values(part)...); err != nil {
					return err
				}
			}
		}
		if rest := rows[whole:]; len(rest) > 0 {
			_, err := tx.ExecContext(ctx, insertStatement(len(rest)), l.values(rest)...)
			return err
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
		args = append(args, l.id(at), at, milliseconds(r.Last), r.Realm, r.Kind, r.Decision, r.Account, r.Address, r.Reasons, r.Count, r.Who, r.Detail)
	}
	return args
}

// milliseconds is a moment as the table has it; 0 for none.
func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
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
	Realm   string     // default all
	Account string     // normalised, as events have it
	Address netip.Addr // also finds what was summed up for its network
	Kind    string
	Since   time.Time
	Before  int64 // only rows with a lower ID: the last one of the previous page
	Limit   int   // default DefaultLimit, at most MaxLimit
}

// Recent returns the newest rows that match the filter, newest first. Rows that
// have yet to be written, about a second's worth, are not among them.
func (l *Log) Recent(ctx context.Context, f Filter) ([]Row, error) {
	query, args := f.query()
	return l.rows(ctx, query, args...)
}

// rows reads the rows of a query.
func (l *Log) rows(ctx context.Context, query string, args ...any) (list []Row, err error) {
	err = sqltx.Each(ctx, l.db, func(rows *sql.Rows) error {
		var r Row
		var at, last int64
		err := rows.Scan(&r.ID, &at, &last, &r.Realm, &r.Kind, &r.Decision, &r.Account, &r.Address, &r.Reasons, &r.Count, &r.Who, &r.Detail)
		r.At = time.UnixMilli(at)
		if last > 0 {
			r.Last = time.UnixMilli(last)
		}
		r.Realm = events.RealmName(r.Realm)
		list = append(list, r)
		return err
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("audit: read: %w", err)
	}
	return list, nil
}

func (f Filter) query() (string, []any) {
	var args []any
	where := []string{"1 = 1"}
	and := func(condition string, value any) {
		args = append(args, value)
		where = append(where, fmt.Sprintf("%s $%d", condition, len(args)))
	}
	if f.Realm != "" {
		and("realm =", f.Realm)
	}
	if f.Account != "" {
		and("account =", events.Escape(f.Account))
	}
	if f.Address.IsValid() {
		args = append(args, events.AddressText(f.Address), networkText(networkOf(f.Address)))
		where = append(where, fmt.Sprintf("(address = $%d OR address = $%d AND kind = 'attempt')", len(args)-1, len(args)))
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

// part tells apart what must not push each other out (R31), by who can cause it.
// It is the expression of the index audit_part. A flood of refused attempts loses
// the oldest of them and nothing else. (Rows of the kind "more", which counted what
// had no row, were written before there were sums.)
const part = "CASE WHEN kind NOT IN ('attempt', 'event', 'more') THEN 3 WHEN decision = 'succeeded' THEN 2 WHEN decision = 'failed' THEN 1 ELSE 0 END"

const parts = 4

// Purge deletes the rows from before a time, and beyond most rows the oldest of
// the part that has too many: of who was turned away first, then of wrong passwords,
// of successes, and of what administrators and the mode did. A part that has no more
// than a quarter of most loses nothing. It works in small steps so that others can
// use the table, and on several nodes at once. It returns how many it deleted.
func (l *Log) Purge(ctx context.Context, before time.Time, most int64) (total int64, err error) {
	total, err = l.deleteUpTo(ctx, max(before.UnixMilli(), 0)<<sequenceBits-1, "id <= $1")
	var counts [parts]int64
	if err == nil {
		counts, err = l.counts(ctx)
	}
	excess := counts[0] + counts[1] + counts[2] + counts[3] - most
	for i := 0; i < parts && err == nil; i++ {
		drop := min(excess, counts[i]-most/parts)
		if drop <= 0 {
			continue
		}
		excess -= drop
		var n int64
		n, err = l.keepNewest(ctx, i, counts[i]-drop)
		total += n
	}
	if err != nil {
		return total, fmt.Errorf("audit: purge: %w", err)
	}
	return total, nil
}

func (l *Log) counts(ctx context.Context) (counts [parts]int64, err error) {
	err = sqltx.Each(ctx, l.db, func(rows *sql.Rows) error {
		var one, n int64
		err := rows.Scan(&one, &n)
		counts[one] = n
		return err
	}, "SELECT "+part+", count(*) FROM audit GROUP BY 1")
	return counts, err
}

// keepNewest deletes the rows of a part but for the newest. How many remain, and
// not how many go, is what two nodes that do this at once agree about.
func (l *Log) keepNewest(ctx context.Context, one int, keep int64) (int64, error) {
	var last int64 // the newest row to delete
	err := l.db.QueryRowContext(ctx, "SELECT id FROM audit WHERE "+part+" = $1 ORDER BY id DESC LIMIT 1 OFFSET $2", one, keep).Scan(&last)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return l.deleteUpTo(ctx, last, "id <= $1 AND "+part+" = $2", one)
}

func (l *Log) deleteUpTo(ctx context.Context, last int64, where string, more ...any) (total int64, err error) {
	for n := int64(-1); n != 0 && err == nil; total += max(n, 0) {
		n, err = sqltx.Exec(ctx, l.db, "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE "+where+" ORDER BY id LIMIT 1000)", append([]any{last}, more...)...)
	}
	return total, err
}
