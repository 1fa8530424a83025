package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"authguard/internal/database"
	"authguard/internal/sqltx"
)

// The parts of the table, by who can cause their rows, in the order of deletion. They must not displace each other
// (R31): a flood of blocked attempts deletes only the oldest of these. Sums outlive the rows they continue: they are
// few, and show an attack after its guesses are gone. (Rows of the kind "more" predate sums.) The column part says the
// same in SQL.
const (
	partStopped   = iota // blocked attempts, and limits on events
	partFailed           // wrong passwords
	partSums             // sums of both
	partSucceeded        // right passwords
	partActions          // operations of administrators, and mode switches
	parts
)

// A Keep is how much of the log is kept.
type Keep struct {
	// ActionsSince is the oldest time to keep for operations and mode switches, Since for everything else.
	Since, ActionsSince time.Time
	// Size is the maximum size of the table with its indexes in bytes; 0 for unlimited.
	Size int64
}

const (
	// deletedAtOnce rows hold SQLite's lock for a few milliseconds. Then deleting pauses for other writers.
	deletedAtOnce = 500
	// full and emptied are the fractions of Keep.Size where deletion starts and ends, about a day of an attack apart.
	full, emptied = 0.95, 0.9
)

// Purge deletes old rows and, beyond the size, the oldest rows of the parts in the order of the constants. A part with
// at most a fifth of the allowed rows loses none. It works in small steps, so that others can use the table, and on
// several nodes at once. It returns the number of deleted rows.
//
// The database reuses the freed space but does not return it, so Size is the maximum that the table ever takes.
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
	if err == nil && keep.Size > 0 {
		var n int64
		n, err = l.shrink(ctx, keep.Size)
		total += n
	}
	if err != nil {
		return total, fmt.Errorf("audit: purge: %w", err)
	}
	return total, nil
}

func (l *Log) shrink(ctx context.Context, size int64) (int64, error) {
	taken, each := l.takenOfSQLite, l.eachOfSQLite
	if database.IsPostgres(l.db) {
		taken, each = l.takenOfPostgres, l.eachOfPostgres
	}
	enough := int64(full * float64(size))
	bytes, err := taken(ctx, enough)
	if err != nil || bytes < enough {
		return 0, err
	}
	counts, err := l.counts(ctx)
	if err != nil {
		return 0, err
	}
	row, err := each(ctx, bytes, counts.sum(), size)
	if err != nil || row == 0 {
		return 0, err
	}
	return l.trim(ctx, counts, max(int64(emptied*float64(size)/row), 1))
}

// trim deletes rows until most are left.
func (l *Log) trim(ctx context.Context, counts counts, most int64) (total int64, err error) {
	excess := counts.sum() - most
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

// counts are the numbers of rows of each part.
type counts [parts]int64

func (c counts) sum() (n int64) {
	for _, one := range c {
		n += one
	}
	return n
}

func (l *Log) counts(ctx context.Context) (all counts, err error) {
	err = sqltx.Each(ctx, l.db, func(rows *sql.Rows) error {
		var one, n int64
		err := rows.Scan(&one, &n)
		all[one] = n
		return err
	}, "SELECT part, count(*) FROM audit GROUP BY part")
	return all, err
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
		n, err := sqltx.Exec(ctx, l.db,
			"DELETE FROM audit WHERE part = $1 AND id IN (SELECT id FROM audit WHERE part = $1 AND id <= $2 ORDER BY id LIMIT "+
				"$3)", part, last, deletedAtOnce)
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

// takenOfSQLite returns the bytes of the table's pages. Free pages do not count: otherwise deleted rows would cause
// further deletions. If all tables together are below enough, it returns their size.
func (l *Log) takenOfSQLite(ctx context.Context, enough int64) (bytes int64, err error) {
	err = l.db.QueryRowContext(ctx,
		"SELECT (page_count - freelist_count) * page_size FROM pragma_page_count(), pragma_freelist_count(), "+
			"pragma_page_size()").Scan(&bytes)
	if err != nil || bytes < enough {
		return bytes, err
	}
	var others int64
	err = l.db.QueryRowContext(ctx, `SELECT coalesce(sum(d.pgsize), 0) FROM sqlite_master m JOIN dbstat d
		ON d.name = m.name
		WHERE m.tbl_name <> 'audit' AND m.rootpage > 0 AND d.aggregate = TRUE`).Scan(&others)
	return bytes - others, err
}

func (l *Log) eachOfSQLite(_ context.Context, bytes, rows, _ int64) (float64, error) {
	return float64(bytes) / float64(max(rows, 1)), nil
}

// takenOfPostgres returns the size of the table's files, which do not shrink.
func (l *Log) takenOfPostgres(ctx context.Context, _ int64) (bytes int64, err error) {
	return bytes, l.db.QueryRowContext(ctx, "SELECT pg_total_relation_size('audit')").Scan(&bytes)
}

// PostgreSQL's overhead of a row and an index entry (its manual, page layout and B-trees), and the long-term fill of
// pages. An index with random keys is a little over half full, because PostgreSQL merges no pages; others 90 %.
const (
	rowPointer, indexEntry, aligned = 4, 12, 4
	anyOrder, inOrder               = 0.55, 0.9
	unvacuumed                      = 1.1 // dead rows not yet vacuumed
	sampledPages                    = 200
	correction                      = 0.5 // a third fewer rows in files of the maximum size
)

// eachOfPostgres estimates a row's bytes with its index entries from a sample: the free space is unknown.
func (l *Log) eachOfPostgres(ctx context.Context, bytes, _, size int64) (each float64, err error) {
	part := min(100, 100*sampledPages*8192/float64(bytes/2))
	var row, account, address float64
	err = l.db.QueryRowContext(ctx, `SELECT coalesce(avg(pg_column_size(audit.*)), 0), coalesce(avg(octet_length(realm) +
		octet_length(account)), 0), coalesce(avg(octet_length(realm) + octet_length(address)), 0)
		FROM audit TABLESAMPLE SYSTEM (`+strconv.FormatFloat(part, 'f', 6, 64)+`)`).Scan(&row, &account, &address)
	if err != nil || row == 0 {
		return 0, err
	}
	const id, lengths = 8, 2
	each = (row+rowPointer+aligned)/inOrder + (indexEntry+id+aligned+lengths)/inOrder // and of the index on part and id
	return corrected(bytes, size) * unvacuumed * (each + (account+address+2*(lengths+aligned+id+indexEntry))/anyOrder), nil
}

// corrected returns the factor by which rows take more than estimated, once the files outgrow the limit. Indexes with
// random keys get emptier for weeks.
func corrected(bytes, size int64) float64 {
	beyond := (float64(bytes)/float64(size) - full) / (1 - full)
	beyond = min(max(beyond, 0), 2)
	return 1 + correction*beyond*beyond
}
