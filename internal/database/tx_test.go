package database_test

import (
	"database/sql"
	"errors"
	"sync"
	"testing"

	"authguard/internal/database"
	"authguard/internal/database/databasetest"
)

func TestATransactionIsAllOrNothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		no := errors.New("no")
		put := func(name string, result error) error {
			return database.InTx(t.Context(), db, func(tx *sql.Tx) error {
				_, err := tx.Exec(`INSERT INTO settings (name, value, changed_at) VALUES ($1, '', 0)`, name)
				return errors.Join(err, result)
			})
		}
		if err := put("a", no); !errors.Is(err, no) {
			t.Error(err)
		}
		if err := put("b", nil); err != nil {
			t.Error(err)
		}
		if err := put("b", nil); !database.Taken(err) {
			t.Errorf("not told as taken: %v", err)
		}
		if database.Taken(no) || database.Taken(nil) {
			t.Error("everything is taken")
		}
		var names string
		if err := db.QueryRow(`SELECT MAX(name) || COUNT(*) FROM settings`).Scan(&names); err != nil || names != "b1" {
			t.Errorf("%q, %v", names, err)
		}
	})
}

// Two transactions that lock two rows in opposite order: PostgreSQL gives one
// of them up, and it is done again. SQLite never runs two at once.
func TestADeadlockIsNoError(t *testing.T) {
	t.Parallel()
	db := databasetest.Postgres(t)
	if _, err := db.Exec(`INSERT INTO changes (name, version) VALUES ('a', 0), ('b', 0)`); err != nil {
		t.Fatal(err)
	}
	// Both look for a deadlock after a while, and on a busy machine at the same
	// moment: then both are given up. Only the first looks here.
	looks := []string{"10ms", "1h"}
	var all, locked sync.WaitGroup
	var begun [2]int
	locked.Add(2)
	committed := make(chan struct{})
	for n := range 2 {
		all.Go(func() {
			err := database.InTx(t.Context(), db, func(tx *sql.Tx) error {
				if begun[n]++; begun[n] > 1 {
					<-committed // with what the other waited for
					return errors.Join(bump(tx, n), bump(tx, 1-n))
				}
				if _, err := tx.Exec(`SET LOCAL deadlock_timeout = '` + looks[n] + `'`); err != nil {
					return err
				}
				if err := bump(tx, n); err != nil {
					return err
				}
				locked.Done()
				locked.Wait()
				for n == 0 && !waits(t, db) { // it looks once
				}
				return bump(tx, 1-n)
			})
			if err != nil {
				t.Error(err)
			}
			if n == 1 {
				close(committed)
			}
		})
	}
	all.Wait()
	var sum int
	if err := db.QueryRow(`SELECT SUM(version) FROM changes`).Scan(&sum); err != nil || sum != 4 || begun != [2]int{2, 1} {
		t.Errorf("%d (%v) in %v tries, want 4 in [2 1]", sum, err, begun)
	}
}

// waits reports whether a transaction waits for a row.
func waits(t *testing.T, db *sql.DB) (yes bool) {
	t.Helper()
	err := db.QueryRow(`SELECT COUNT(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&yes)
	if err != nil {
		t.Error(err)
	}
	return yes || err != nil
}

func bump(tx *sql.Tx, n int) error {
	_, err := tx.Exec(`UPDATE changes SET version = version + 1 WHERE name = $1`, []string{"a", "b"}[n])
	return err
}

func TestRowsAreCountedAndReadUntilOneFails(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		insert := `INSERT INTO settings (name, value, changed_at) VALUES ('a', '', 0), ('b', '', 0), ('c', '', 0)`
		if n, err := database.Exec(t.Context(), db, insert); n != 3 || err != nil {
			t.Errorf("%d rows, %v", n, err)
		}
		enough, names := errors.New("enough"), ""
		err := database.Each(t.Context(), db, func(rows *sql.Rows) error {
			var name string
			err := rows.Scan(&name)
			if names += name; name == "b" {
				return enough
			}
			return err
		}, `SELECT name FROM settings WHERE name <= $1 ORDER BY name`, "c")
		if !errors.Is(err, enough) || names != "ab" {
			t.Errorf("read %q, %v", names, err)
		}
	})
}

func TestTextThatNotBothCanHold(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "ä\n": "ä\n", "a\x00b": "a\uFFFDb", "a\xffb": "a\uFFFDb"} {
		if got := database.Clean(text); got != want || database.Holds(text) != (got == text) {
			t.Errorf("%q is %q", text, got)
		}
	}
}
