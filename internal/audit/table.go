package audit

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"authguard/internal/database"
	"authguard/internal/events"
)

const (
	columns     = "id, at, last_at, realm, kind, decision, account, address, reasons, count, who, detail"
	columnCount = 13
	// chunk rows go into one statement: one round trip per row is slow, and SQLite takes at most 32,766 parameters.
	chunk = 100
	// sequenceBits are the low bits of an ID; the rest is the time in ms.
	sequenceBits = 20
)

// insert writes the rows in one transaction. It prepares the statement for a whole chunk once, because SQLite parses
// 1,300 parameters more slowly than it writes the rows.
func (l *Log) insert(ctx context.Context, rows []Row) error {
	err := database.InTx(ctx, l.db, func(tx *sql.Tx) error {
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
	b.WriteString("INSERT INTO audit (" + columns + ", place) VALUES ")
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
		args = append(args, l.id(at), at, database.Milliseconds(r.Last), r.Realm, r.Kind, r.Decision, r.Account, r.Address, r.Reasons,
			r.Count, r.Who, r.Detail, place(r.Address))
	}
	return args
}

// id grows with time and differs at each try, so that a collision with another node costs a retry instead of a row. The
// sequence starts at a random number for the same reason.
func (l *Log) id(at int64) int64 {
	return at<<sequenceBits | int64(l.seq.Add(1)&(1<<sequenceBits-1))
}

func (l *Log) rows(ctx context.Context, query string, args ...any) (list []Row, err error) {
	err = database.Each(ctx, l.db, func(rows *sql.Rows) error {
		var r Row
		var at, last int64
		err := rows.Scan(&r.ID, &at, &last, &r.Realm, &r.Kind, &r.Decision, &r.Account, &r.Address, &r.Reasons, &r.Count,
			&r.Who, &r.Detail)
		r.At, r.Last = time.UnixMilli(at), database.Time(last)
		r.Realm = events.RealmName(r.Realm)
		list = append(list, r)
		return err
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("audit: read: %w", err)
	}
	return list, nil
}
