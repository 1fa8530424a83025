package accounts_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"authguard/internal/accounts"
	"authguard/internal/database/databasetest"
)

// Administrators who remove each other at the same moment must not all succeed: each would
// count on another one.
func TestOfManyAdministratorsThatGoAtOnceOneStays(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table := mustTable(t, db)
		names := []string{"ann", "bob", "carl", "dora"}
		for _, name := range names {
			if _, err := table.Add(t.Context(), accounts.Addition{Username: name, Password: "long enough", Role: accounts.Admin}); err != nil {
				t.Fatal(err)
			}
		}
		mustAdd(t, table, "eve", "")
		var gone atomic.Int32
		var all sync.WaitGroup
		for i, name := range names {
			all.Go(func() {
				remove := []func(context.Context, string) error{table.Demote, table.Disable, table.Delete}
				switch err := remove[i%3](t.Context(), name); {
				case err == nil:
					gone.Add(1)
				case !errors.Is(err, accounts.ErrLast):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if gone.Load() != 3 {
			t.Errorf("%d of 4 are gone", gone.Load())
		}
		if err := table.Disable(t.Context(), "eve"); err != nil {
			t.Errorf("a user: %v", err)
		}
	})
}

func TestAUserBecomesAnAdministratorWithAnotherPassword(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table := mustTable(t, db)
		before := mustAdd(t, table, "ann", "ann@example.org")
		if err := table.Promote(t.Context(), "ann", "short"); !errors.Is(err, accounts.ErrTooShort) {
			t.Error(err)
		}
		old := mustFind(t, table, "ann").Password.Hash
		for _, want := range []error{nil, accounts.ErrUnknown} { // an administrator is no user
			if err := table.Promote(t.Context(), "ANN@example.org", "another long one"); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		after := mustFind(t, table, "ann")
		if after.Role != accounts.Admin || !after.MustChange || after.Version != before.Version+1 || after.Password.Hash == old {
			t.Errorf("%+v", after)
		}
		if err := table.Demote(t.Context(), "ann"); !errors.Is(err, accounts.ErrLast) {
			t.Errorf("the last one: %v", err)
		}
		if err := table.Promote(t.Context(), "nobody", "another long one"); !errors.Is(err, accounts.ErrUnknown) {
			t.Errorf("nobody: %v", err)
		}
	})
}
