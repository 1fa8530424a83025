package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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

// id grows with time and is new at each try, so that a row of another node with
// the same one costs a retry and not a row. The sequence starts at random for the
// same reason.
func (l *Log) id(at int64) int64 {
	return at<<sequenceBits | int64(l.seq.Add(1)&(1<<sequenceBits-1))
}

// Purge deletes the rows from before a time and then the oldest beyond most, in
// small steps so that nobody waits long for the table. It returns how many it
// deleted.
func (l *Log) Purge(ctx context.Context, before time.Time, most int64) (total int64, err error) {
	var last int64 // the newest row to delete
	err = l.db.QueryRowContext(ctx, "SELECT id FROM audit ORDER BY id DESC LIMIT 1 OFFSET $1", most).Scan(&last)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	last = max(last, max(before.UnixMilli(), 0)<<sequenceBits-1)
	for n := int64(-1); n != 0 && err == nil; total += n {
		n, err = l.deleteUpTo(ctx, last)
	}
	if err != nil {
		return total, fmt.Errorf("audit: purge: %w", err)
	}
	return total, nil
}

func (l *Log) deleteUpTo(ctx context.Context, last int64) (int64, error) {
	result, err := l.db.ExecContext(ctx,
		"DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE id <= $1 ORDER BY id LIMIT 1000)", last)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
