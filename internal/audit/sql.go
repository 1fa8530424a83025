package audit

import (
	"context"
	"fmt"
	"strings"
	"time"
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
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("audit: begin: %w", err)
	}
	defer tx.Rollback() // does nothing after the commit
	for len(rows) > 0 {
		n := min(chunk, len(rows))
		if _, err := tx.ExecContext(ctx, insertStatement(n), l.values(rows[:n])...); err != nil {
			return fmt.Errorf("audit: insert %d rows: %w", n, err)
		}
		rows = rows[n:]
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("audit: commit: %w", err)
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

// id grows with time and is new at each try, so that a row of another node
// that took the same one costs a retry and not a row. The sequence starts at
// random for the same reason.
func (l *Log) id(at int64) int64 {
	const bits = 20
	return at<<bits | int64(l.seq.Add(1)&(1<<bits-1))
}

// Purge deletes the rows older than a time, in small steps so that nobody
// waits long for the table, and returns how many there were.
func (l *Log) Purge(ctx context.Context, before time.Time) (int64, error) {
	const statement = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < $1 ORDER BY at LIMIT 1000)"
	var total int64
	for {
		res, err := l.db.ExecContext(ctx, statement, before.UnixMilli())
		if err != nil {
			return total, fmt.Errorf("audit: purge: %w", err)
		}
		n, err := res.RowsAffected()
		if total += n; err != nil || n == 0 {
			return total, err
		}
	}
}
