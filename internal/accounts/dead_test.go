package accounts_test

import (
	"context"
	"testing"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/database"
	"authguard/internal/postgrestest"
)

// More look-ups than the pool has connections: those that get none must not
// wait for one after the other either.
func TestALoginDoesNotHangOnADeadDatabase(t *testing.T) {
	t.Parallel()
	server := postgrestest.Own(t)
	db, err := database.Open(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := database.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	table := mustTable(t, db)
	mustAdd(t, table, "ann", "")
	source, err := accounts.NewSQLSource(accounts.SQLSourceConfig{DB: db, Query: "SELECT password_hash FROM accounts WHERE username = ?"})
	if err != nil {
		t.Fatal(err)
	}
	server.Stop(t)
	defer server.Continue(t)
	began := time.Now()
	done := make(chan error)
	for n := range 100 {
		from := []accounts.Source{table, source}[n%2]
		go func() {
			_, _, err := from.FindForLogin(context.Background(), "ann")
			done <- err
		}()
	}
	for range 100 {
		if err := <-done; err == nil {
			t.Error("a dead database answered")
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}
