package audit

import (
	"fmt"
	"testing"
	"time"

	"authguard/internal/database/databasetest"
)

func TestPurgeDeletesWhatIsOlderAndNothingElse(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		rows := make([]Row, 1300)
		for i := range rows {
			rows[i] = Row{At: noon.Add(time.Duration(i) * time.Second), Kind: KindAttempt, Decision: []string{"blocked", "failed", "succeeded"}[i%3], Count: 1}
			if i%100 == 0 {
				rows[i].Kind, rows[i].Decision = KindAdmin, "unlock"
			}
		}
		if err := l.insert(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		n, err := l.Purge(t.Context(), Keep{Since: noon.Add(1200 * time.Second), ActionsSince: noon.Add(500 * time.Second), Size: 16 << 20})
		if err != nil || n != 1200-7 { // the administrators' from the 500th second on stay
			t.Fatalf("purged %d (%v), want 1193", n, err)
		}
		var left, actions, oldest int64
		err = l.db.QueryRow("SELECT count(*), count(CASE WHEN kind = 'admin' THEN 1 END), min(CASE WHEN kind = 'admin' THEN 0 ELSE at END) FROM audit WHERE at >= $1 OR kind = 'admin'", noon.UnixMilli()).Scan(&left, &actions, &oldest)
		if err != nil || left != 107 || actions != 8 {
			t.Fatalf("%d rows are left, %d of them administrators' (%v), want 107 and 8", left, actions, err)
		}
	})
}

// bytes is how much room the table takes on disk, with what was deleted and not filled.
func (l *Log) bytes(t *testing.T) (n int64) {
	t.Helper()
	query := "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
	if _, err := l.db.Exec("VACUUM audit"); err == nil { // what autovacuum does, but now
		query = "SELECT pg_total_relation_size('audit')"
	}
	if err := l.db.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// The size holds of what is on disk, whatever the rows are like: freed room is filled
// again. Names as long as any are five times as much as usual ones.
func TestTheLogTakesNoMoreRoomThanItMay(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	for name, account := range map[string]func(i int) string{
		"short names": func(i int) string { return fmt.Sprint("p", i*7919%10007) },
		"long names":  func(i int) string { return fmt.Sprintf("%08x%0245d", uint32(i)*2654435761, i) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
				l := openLog(t, open, Config{})
				base, most, deleted, inserted := l.bytes(t), int64(0), int64(0), 0
				for i := 0; deleted < 8_000; i++ {
					rows := make([]Row, 200)
					for j := range rows {
						inserted++
						rows[j] = Row{At: noon.Add(time.Duration(inserted) * time.Second), Realm: "default", Kind: KindAttempt, Decision: "failed", Account: account(inserted),
							Address: fmt.Sprintf("203.%d.%d.%d", inserted*31%256, inserted*17%256, inserted%256), Count: 1, Detail: "login"}
					}
					if err := l.insert(t.Context(), rows); err != nil {
						t.Fatal(err)
					}
					n, err := l.Purge(t.Context(), Keep{Size: size})
					if deleted += n; err != nil {
						t.Fatal(err)
					}
					if most = max(most, l.bytes(t)-base); most > size*11/10 {
						t.Fatalf("%d bytes after %d rows, %d of them deleted", most, inserted, deleted)
					}
				}
				t.Logf("%d bytes at most, %d rows kept of %d", most, int64(inserted)-deleted, inserted)
				if most < size*6/10 {
					t.Errorf("at most %d bytes: rows go long before there is no more room", most)
				}
			})
		})
	}
}

// Ensure that fewer rows are kept the nearer PostgreSQL's files come to their bound, which
// they creep up to and never go back from.
func TestRowsGoBeforeTheFilesReachTheBound(t *testing.T) {
	t.Parallel()
	const size = 2 << 30
	for part, want := range map[float64]float64{0: 1, 0.9: 1, full: 1, 0.975: 1.125, 1: 1.5, 1.5: 3} {
		if got := corrected(int64(part*size), size); got < want-0.001 || got > want+0.001 {
			t.Errorf("%v of the bound: rows are taken for %v times as much, want %v", part, got, want)
		}
	}
}
