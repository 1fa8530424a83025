package accounts_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"authguard/internal/accounts"
	"authguard/internal/database/databasetest"
)

// No account gets a leaked password, by whatever way, and the present one stays. A hash is imported unseen.
func TestANewPasswordIsNotALeakedOne(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		asked := 0
		table, err := accounts.New(t.Context(), accounts.Config{DB: db, Normalise: normalise, Hash: hash,
			Leaked: func(password string) bool {
				asked++
				return password == "password1" || asked%2 == 1 && len(password) == 16
			}})
		if err != nil {
			t.Fatal(err)
		}
		before := mustAdd(t, table, "ann", "ann@example.org")
		file := func(text string) error {
			_, err := table.Import(t.Context(), accounts.ImportRequest{File: strings.NewReader(text), Format: accounts.CSV})
			return err
		}
		for way, set := range map[string]func(ctx context.Context) error{
			"a new account": func(ctx context.Context) error {
				_, err := table.Add(ctx, accounts.Addition{Username: "bob", Password: "password1"})
				return err
			},
			"set": func(ctx context.Context) error { return table.SetPassword(ctx, "ann", "password1", false) },
			"chosen": func(ctx context.Context) error {
				return table.ChoosePassword(ctx, "ann", "password1", before.Version)
			},
			"promoted": func(ctx context.Context) error { return table.Promote(ctx, "ann", "password1") },
		} {
			if err := set(t.Context()); !errors.Is(err, accounts.ErrLeaked) {
				t.Errorf("%s: %v", way, err)
			}
		}
		bad := new(accounts.ImportError)
		if err := file("username,password\nbob,long enough\ncid,password1\n"); !errors.As(err, &bad) ||
			bad.Problems[0].Line != 3 || !strings.Contains(bad.Problems[0].Text, "known from leaks") {
			t.Errorf("imported: %v", err)
		}
		if err := file("username,password_hash\ncid," + mustHash(t, "password1") + "\n"); err != nil {
			t.Errorf("a hash: %v", err)
		}
		if after := mustFind(t, table, "ann"); after.Version != before.Version {
			t.Errorf("%+v", after)
		}
		for range 10 {
			asked = 0 // the first one is on the list by chance
			if made := table.TemporaryPassword(); len(made) != 16 || asked != 2 {
				t.Errorf("%q after %d", made, asked)
			}
		}
	})
}
