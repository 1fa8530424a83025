package audit_test

import (
	"database/sql"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"authguard/internal/audit"
	"authguard/internal/audit/audittest"
	"authguard/internal/database"
	"authguard/internal/database/databasetest"
)

func TestMain(m *testing.M) { databasetest.Main(m) }

// defaultSize is that of audit.max_size.
const defaultSize = 2 << 30

// A month at 100 failed logins a second, whole: an hour of work and 2 GiB of disk, so it
// wants to be asked for. AUDIT_MONTH names an empty database, a file or a PostgreSQL URL,
// which is left for TestAMonthOfAuditIsLookedUpInTime of cmd/authguard; AUDIT_PATTERN is a
// part of a pattern's name.
func TestAMonthOfFailedLoginsFitsItsBound(t *testing.T) {
	dsn, days := os.Getenv("AUDIT_MONTH"), 30
	if dsn == "" {
		t.Skip("AUDIT_MONTH names no database: see docs/benchmarks.md")
	}
	db, err := database.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := database.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	base := taken(t, db)
	if !database.IsPostgres(db) { // nobody waits for this process: what is written is the same
		db.SetMaxOpenConns(1)
		for _, pragma := range []string{"cache_size = -400000", "synchronous = OFF", "wal_autocheckpoint = 20000"} {
			if _, err := db.Exec("PRAGMA " + pragma); err != nil {
				t.Fatal(err)
			}
		}
	}
	log := audit.New(db, audit.Config{Logger: slog.New(slog.DiscardHandler)})
	began, hours, most := time.Now(), 0, int64(0)
	from := began.Add(-time.Duration(days) * 24 * time.Hour)
	for name, p := range audittest.Patterns() {
		if !strings.Contains(name, os.Getenv("AUDIT_PATTERN")) {
			continue
		}
		audittest.Fill(t, log, p, from, days*24*60, func(now time.Time) {
			if hours++; hours%6 > 0 {
				return
			}
			start := time.Now()
			gone, err := log.Purge(t.Context(), audit.Keep{Since: from, ActionsSince: from, Size: defaultSize})
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(start)
			if database.IsPostgres(db) { // as autovacuum does
				_, err = db.Exec("VACUUM audit")
			}
			bytes := taken(t, db) - base
			if most = max(most, bytes); err != nil || bytes > defaultSize {
				t.Fatalf("%d bytes on disk, %v", bytes, err)
			}
			if hours%24 == 0 {
				t.Logf("%s, day %d: %d MiB, %d rows went in %v; %v since the start", name, hours/24, bytes>>20, gone, took.Round(time.Millisecond), time.Since(began).Round(time.Second))
			}
		})
		for _, part := range []string{"part = 0", "part = 1", "part = 2", "part = 3"} {
			var rows, count, oldest sql.NullInt64
			if err := db.QueryRow("SELECT count(*), sum(count), min(at) FROM audit WHERE "+part).Scan(&rows, &count, &oldest); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s: %d rows for %d attempts, back to day %.1f", name, part, rows.Int64, count.Int64, time.UnixMilli(oldest.Int64).Sub(from).Hours()/24)
		}
		return
	}
}

// taken is the room on disk, with what was deleted and is not filled yet.
func taken(t *testing.T, db *sql.DB) (bytes int64) {
	t.Helper()
	query := "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
	if database.IsPostgres(db) {
		query = "SELECT pg_total_relation_size('audit')"
	}
	if err := db.QueryRow(query).Scan(&bytes); err != nil {
		t.Fatal(err)
	}
	return bytes
}
