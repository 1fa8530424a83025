package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"authguard/internal/database"
)

// The parts of the table, by who can cause their rows, in the order of deletion. They must not displace each other
// (R31): a flood of blocked attempts deletes only the oldest of these. Sums outlive the rows they continue: they are
// few, and show an attack after its guesses are gone. The column part says the same in SQL.
const (
	partStopped   = iota // blocked attempts, and limits on events
	partFailed           // wrong passwords
	partSums             // sums of both, and attacks
	partSucceeded        // right passwords
	partActions          // operations of administrators, and mode switches
	parts
)

// A Keep is how much of the log is kept.
type Keep struct {
	// ActionsSince is the oldest time to keep for operations and mode switches, Since for everything else.
	Since, ActionsSince time.Time
	// Rows is the maximum number of rows; 0 for unlimited.
	Rows int64
}

// deletedAtOnce rows hold SQLite's lock for a few milliseconds. Then deleting pauses for other writers.
const deletedAtOnce = 500

// Purge deletes old rows and, beyond the number of rows, the oldest rows of the parts in the order of the constants. A
// part with at most a fifth of the allowed rows loses none. It works in small steps, so that others can use the table,
// and on several nodes at once. It returns the number of deleted rows.
func (l *Log) Purge(ctx context.Context, keep Keep) (total int64, err error) {
	for i := 0; i < parts && err == nil; i++ {
		since := keep.Since
		if i == partActions {
			since = keep.ActionsSince
		}
		var n int64
		n, err = l.deleteUpTo(ctx, i, max(since.UnixMilli(), 0)<<sequenceBits-1)
		total += n
	}
	if err == nil && keep.Rows > 0 {
		var n int64
		n, err = l.trim(ctx, keep.Rows)
		total += n
	}
	if err != nil {
		return total, fmt.Errorf("audit: purge: %w", err)
	}
	return total, nil
}

// trim deletes rows until most are left.
func (l *Log) trim(ctx context.Context, most int64) (total int64, err error) {
	counts, excess := [parts]int64{}, -most
	err = database.Each(ctx, l.db, func(rows *sql.Rows) error {
		var part, n int64
		err := rows.Scan(&part, &n)
		counts[part] = n
		excess += n
		return err
	}, "SELECT part, count(*) FROM audit GROUP BY part")
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
	return total, err
}

// keepNewest deletes all but the newest rows of a part. Counting what stays is right for two nodes at once.
func (l *Log) keepNewest(ctx context.Context, part int, keep int64) (int64, error) {
	var last int64 // the newest row to delete
	err := l.db.QueryRowContext(ctx, "SELECT id FROM audit WHERE part = $1 ORDER BY id DESC LIMIT 1 OFFSET $2", part,
		keep).Scan(&last)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return l.deleteUpTo(ctx, part, last)
}

func (l *Log) deleteUpTo(ctx context.Context, part int, last int64) (total int64, err error) {
	for {
		began := time.Now()
		n, err := database.Exec(ctx, l.db, `DELETE FROM audit WHERE id IN
			(SELECT id FROM audit WHERE part = $1 AND id <= $2 ORDER BY id LIMIT $3)`, part, last, deletedAtOnce)
		if total += max(n, 0); err != nil || n == 0 {
			return total, err
		}
		select {
		case <-ctx.Done():
			return total, ctx.Err()
		case <-time.After(time.Since(began)):
		}
	}
}
