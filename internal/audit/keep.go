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

// The parts of the table: what must not push each other out (R31), by who can cause it, in
// the order in which they are deleted when there are too many. A flood of refused attempts
// loses the oldest of them and nothing else. Sums stay longer than what they begin where it
// ends: they are few, and tell of an attack when its single guesses are long gone. (Rows of
// the kind "more", which counted what had no row, were written before there were sums.)
// The column part says the same in SQL.
const (
	partStopped   = iota // who was turned away, and limits on events
	partFailed           // wrong passwords
	partSums             // what is summed up of both
	partSucceeded        // right passwords
	partActions          // what administrators and the mode did
	parts
)

// A Keep is how much of the log is kept.
type Keep struct {
	// Since and ActionsSince are the oldest moments that are kept: of what
	// administrators and the mode did, and of everything else.
	Since, ActionsSince time.Time
	// Size is how many bytes the table may take with its indexes. Zero: any number.
	Size int64
}

const (
	// deletedAtOnce rows hold the lock of SQLite for a few milliseconds, and what waits
	// for it comes next, since nothing is deleted for as long again.
	deletedAtOnce = 500
	// full is the part of Keep.Size at which rows go, and emptied the part that they go
	// down to: what is deleted makes room for about a day of an attack.
	full, emptied = 0.95, 0.9
)

// Purge deletes the rows that are too old and, beyond the size, the oldest of the part
// that has too many: of who was turned away first, then of wrong passwords, of sums, of
// successes, and of what administrators and the mode did. A part that has no more than a
// fifth of what has room loses nothing. It works in small steps so that others can use the
// table, and on several nodes at once. It returns how many it deleted.
//
// The database keeps the room that rows leave, and fills it again: the size is the most
// that the table ever takes, and no file shrinks.
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

// shrink deletes what has no room.
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

// trim leaves so many rows.
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

// counts are how many rows each part has.
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

// keepNewest deletes the rows of a part but for the newest. How many remain, and
// not how many go, is what two nodes that do this at once agree about.
func (l *Log) keepNewest(ctx context.Context, part int, keep int64) (int64, error) {
	var last int64 // the newest row to delete
	err := l.db.QueryRowContext(ctx, "SELECT id FROM audit WHERE part = $1 ORDER BY id DESC LIMIT 1 OFFSET $2", part, keep).Scan(&last)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return l.deleteUpTo(ctx, part, last)
}

// deleteUpTo deletes the rows of a part up to an ID.
func (l *Log) deleteUpTo(ctx context.Context, part int, last int64) (total int64, err error) {
	for {
		began := time.Now()
		n, err := sqltx.Exec(ctx, l.db, "DELETE FROM audit WHERE part = $1 AND id IN (SELECT id FROM audit WHERE part = $1 AND id <= $2 ORDER BY id LIMIT $3)", part, last, deletedAtOnce)
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

// takenOfSQLite is how many bytes the table takes: the pages in use that are no other
// table's. Those that are free are not counted, so that no row goes for what was deleted
// already. If all tables together take less than enough, that is the answer.
func (l *Log) takenOfSQLite(ctx context.Context, enough int64) (bytes int64, err error) {
	err = l.db.QueryRowContext(ctx, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()").Scan(&bytes)
	if err != nil || bytes < enough {
		return bytes, err
	}
	var others int64
	err = l.db.QueryRowContext(ctx, `SELECT coalesce(sum(d.pgsize), 0) FROM sqlite_master m JOIN dbstat d ON d.name = m.name
		WHERE m.tbl_name <> 'audit' AND m.rootpage > 0 AND d.aggregate = TRUE`).Scan(&others)
	return bytes - others, err
}

func (l *Log) eachOfSQLite(_ context.Context, bytes, rows, _ int64) (float64, error) {
	return float64(bytes) / float64(max(rows, 1)), nil
}

// takenOfPostgres is how large the files of the table are. They do not shrink.
func (l *Log) takenOfPostgres(ctx context.Context, _ int64) (bytes int64, err error) {
	return bytes, l.db.QueryRowContext(ctx, "SELECT pg_total_relation_size('audit')").Scan(&bytes)
}

// What PostgreSQL adds to a row and to an entry of an index (its manual, chapters on page
// layout and B-trees), and how full pages are in the long run: those of an index whose
// keys come and go in any order are a little more than half full, since it merges none; of
// the others nine tenths.
const (
	rowPointer, indexEntry, aligned = 4, 12, 4
	anyOrder, inOrder               = 0.55, 0.9
	unvacuumed                      = 1.1 // what was deleted a while ago
	sampledPages                    = 200
	correction                      = 0.5 // a third fewer rows in files as large as they may be
)

// eachOfPostgres is how many bytes a row takes with its entries in the indexes. How much
// of the files is free nobody tells, so it is told from some of the rows.
func (l *Log) eachOfPostgres(ctx context.Context, bytes, _, size int64) (each float64, err error) {
	part := min(100, 100*sampledPages*8192/float64(bytes/2))
	var row, account, address float64
	err = l.db.QueryRowContext(ctx, `SELECT coalesce(avg(pg_column_size(audit.*)), 0), coalesce(avg(octet_length(realm) + octet_length(account)), 0), coalesce(avg(octet_length(realm) + octet_length(address)), 0)
		FROM audit TABLESAMPLE SYSTEM (`+strconv.FormatFloat(part, 'f', 6, 64)+`)`).Scan(&row, &account, &address)
	if err != nil || row == 0 {
		return 0, err
	}
	const id, lengths = 8, 2
	each = (row+rowPointer+aligned)/inOrder + (indexEntry+id+aligned+lengths)/inOrder // and of the index of part and id
	return corrected(bytes, size) * unvacuumed * (each + (account+address+2*(lengths+aligned+id+indexEntry))/anyOrder), nil
}

// corrected is by how much rows take more than it is told from them, if the files have
// grown beyond what they were to have: PostgreSQL merges no pages, so those of an index
// whose keys come and go in any order get emptier for weeks.
func corrected(bytes, size int64) float64 {
	beyond := (float64(bytes)/float64(size) - full) / (1 - full)
	beyond = min(max(beyond, 0), 2)
	return 1 + correction*beyond*beyond
}
