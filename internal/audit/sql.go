package audit

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"authguard/internal/sqltx"
)

const (
	columns     = "id, at, realm, kind, decision, account, address, reasons, count, who, detail"
	columnCount = 11
	// chunk rows go into one statement: a round trip each would be slow over a
	// network, and SQLite takes no more than 32,766 parameters.
	chunk = 100
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

// id grows with time and is new at each try, so that a row of another node with
// the same one costs a retry and not a row. The sequence starts at random for the
// same reason.
func (l *Log) id(at int64) int64 {
	const bits = 20
	return at<<bits | int64(l.seq.Add(1)&(1<<bits-1))
}

// Purge deletes the rows from before a time and then the oldest beyond most, in
// small steps so that nobody waits long for the table. It returns how many it
// deleted.
func (l *Log) Purge(ctx context.Context, before time.Time, most int64) (int64, error) {
	const (
		old  = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < $1 ORDER BY at LIMIT 1000)"
		more = "DELETE FROM audit WHERE id IN (SELECT id FROM audit ORDER BY at LIMIT $1)"
	)
	total, err := l.delete(ctx, math.MaxInt64, func(int64) (sql.Result, error) { return l.db.ExecContext(ctx, old, before.UnixMilli()) })
	var rows int64
	if err == nil {
		err = l.db.QueryRowContext(ctx, "SELECT count(*) FROM audit").Scan(&rows)
	}
	if err == nil && rows > most {
		var n int64
		n, err = l.delete(ctx, rows-most, func(left int64) (sql.Result, error) { return l.db.ExecContext(ctx, more, min(left, 1000)) })
		total += n
	}
	if err != nil {
		return total, fmt.Errorf("audit: purge: %w", err)
	}
	return total, nil
}

// delete repeats a step until nothing is left to delete, or left rows are gone.
func (l *Log) delete(ctx context.Context, left int64, step func(left int64) (sql.Result, error)) (total int64, err error) {
	for left > 0 && ctx.Err() == nil {
		result, err := step(left)
		if err != nil {
			return total, err
		}
		n, err := result.RowsAffected()
		total, left = total+n, left-n
		if err != nil || n == 0 {
			return total, err
		}
	}
	return total, ctx.Err()
}
