package audit

import (
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
		n, err := l.Purge(t.Context(), Keep{Since: noon.Add(1200 * time.Second), ActionsSince: noon.Add(500 * time.Second)})
		if err != nil || n != 1200-7 { // the administrators' from the 500th second on stay
			t.Fatalf("purged %d (%v), want 1193", n, err)
		}
		var left, actions, oldest int64
		err = l.db.QueryRow("SELECT count(*), count(CASE WHEN kind = 'admin' THEN 1 END), min(CASE WHEN kind = 'admin' THEN 0 ELSE at END) FROM audit WHERE at >= $1 OR kind = 'admin'", noon.UnixMilli()).Scan(&left, &actions, &oldest)
		if err != nil || left != 107 || actions != 8 {
			t.Fatalf("%d rows are left, %d of them administrators' (%v), want 107 and 8", left, actions, err)
		}
		if n, err := l.Purge(t.Context(), Keep{Rows: 100}); err != nil || n != 7 {
			t.Errorf("purged %d (%v) beyond 100 rows, want 7", n, err)
		}
	})
}
