package accounts_test

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/database/databasetest"
	"authguard/internal/operation"
)

func TestATokenIsToldOnceAndKeptAsItsDigest(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table := accounts.NewTokens(db)
		text, made, err := table.Add(t.Context(), accounts.TokenRequest{Realm: "default", Name: "shop", By: "cli:ann"}, noon)
		if err != nil || !regexp.MustCompile(`^authguard_[A-Z2-7]{26}$`).MatchString(text) {
			t.Fatalf("%q %v", text, err)
		}
		all, err := table.All(t.Context())
		if err != nil || len(all) != 1 || all[0].Sum != sha256.Sum256([]byte(text)) || all[0].Sum != made.Sum ||
			all[0].Name != "shop" || all[0].CreatedBy != "cli:ann" || !all[0].CreatedAt.Equal(noon) {
			t.Errorf("%+v %v", all, err)
		}
		var kept string
		if err := db.QueryRow(`SELECT token_hash || realm || name || created_by FROM api_tokens`).Scan(&kept); err != nil || strings.Contains(kept, text) {
			t.Errorf("the database has %q (%v)", kept, err)
		}
	})
}

func TestANameIsOneTokenOfARealm(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table := accounts.NewTokens(db)
		add := func(realm, name string) error {
			_, _, err := table.Add(t.Context(), accounts.TokenRequest{Realm: realm, Name: name}, noon)
			return err
		}
		for _, one := range []struct {
			realm, name string
			want        error
		}{
			{"default", "shop", nil}, {"default", "shop", accounts.ErrTokenTaken}, {"gold", "shop", nil}, {"default", "", operation.ErrAsked},
			{"default", "a b", operation.ErrAsked}, {"default", "-x", operation.ErrAsked}, {"default", strings.Repeat("x", 65), operation.ErrAsked}, {"default", "x\x00", operation.ErrAsked},
		} {
			if err := add(one.realm, one.name); !errors.Is(err, one.want) {
				t.Errorf("%s/%s: %v", one.realm, one.name, err)
			}
		}
		for _, want := range []error{nil, accounts.ErrTokenUnknown} {
			if err := table.Revoke(t.Context(), "default", "shop"); !errors.Is(err, want) {
				t.Errorf("revoking: %v, not %v", err, want)
			}
		}
		if all, err := table.All(t.Context()); err != nil || len(all) != 1 || all[0].Realm != "gold" {
			t.Errorf("left: %+v %v", all, err)
		}
		if err := add("default", "shop"); err != nil {
			t.Errorf("after it was revoked its name is %v", err)
		}
	})
}

func TestThereAreNoMoreThanCanBeCompared(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		for i := range 1000 {
			if _, err := db.Exec(`INSERT INTO api_tokens (token_hash, realm, name, created_at) VALUES ($1, 'default', $1, 0)`, fmt.Sprintf("%064x", i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := accounts.NewTokens(db).Add(t.Context(), accounts.TokenRequest{Realm: "default", Name: "shop"}, noon); !errors.Is(err, operation.ErrAsked) || !strings.Contains(err.Error(), "at most 1000") {
			t.Error(err)
		}
	})
}

func TestATokenWithScopesIsGoodForATimeAndAsLongAsItsMakerIsOne(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table := accounts.NewTokens(db)
		exec := func(statement string) {
			t.Helper()
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		exec(`INSERT INTO accounts (id, realm, username, password_hash, role, created_at, changed_at) VALUES ('1', 'default', 'ann', 'x', 'admin', 0, 0)`)
		ask := accounts.TokenRequest{Realm: "default", Name: "ci", Maker: "ann", Scopes: []operation.Scope{operation.Lists, operation.Read}, For: time.Hour}
		text, made, err := table.Add(t.Context(), ask, noon)
		if err != nil || !regexp.MustCompile(`^authguard_admin_[A-Z2-7]{26}$`).MatchString(text) || !made.ExpiresAt.Equal(noon.Add(time.Hour)) {
			t.Fatalf("%q %+v %v", text, made, err)
		}
		good := func(text string, at time.Time, want bool) {
			t.Helper()
			if found, ok, err := table.Find(t.Context(), text, at); ok != want || err != nil || ok && (!operation.Includes(found.Scopes, operation.Lists) || operation.Includes(found.Scopes, operation.Mode) || operation.Includes(found.Scopes, operation.Admin)) {
				t.Errorf("%+v, %t, %v, want %t", found, ok, err, want)
			}
		}
		good(text, noon.Add(time.Hour-time.Millisecond), true)
		good(text, noon.Add(time.Hour), false)
		if all, err := table.All(t.Context()); err != nil || !all[0].UsedAt.Equal(noon.Add(time.Hour-time.Millisecond)) {
			t.Errorf("%+v, %v", all, err)
		}
		for _, statement := range []string{"disabled = TRUE", "disabled = FALSE, role = 'user'"} {
			exec("UPDATE accounts SET " + statement)
			good(text, noon, false)
		}
		exec("UPDATE accounts SET role = 'admin'")
		good(text, noon, true)
		defer func() { // whoever may have had the maker's password may have made it
			if err := errors.Join(table.RevokeOf(t.Context(), "bob"), table.RevokeOf(t.Context(), "ann")); err != nil {
				t.Error(err)
			}
			good(text, noon, false)
		}()
		decisions, _, err := table.Add(t.Context(), accounts.TokenRequest{Realm: "default", Name: "shop"}, noon)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{decisions, text + "A", text[:20], "", strings.Repeat("x", 1<<20)} {
			good(other, noon, false)
		}
		for want, bad := range map[string]accounts.TokenRequest{
			"a scope must be": {Scopes: []operation.Scope{"everything"}}, "valid for a minute": {Scopes: []operation.Scope{operation.Read}, For: 367 * 24 * time.Hour},
		} {
			bad.Realm, bad.Name = "default", "bad"
			if _, _, err := table.Add(t.Context(), bad, noon); !errors.Is(err, operation.ErrAsked) || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
	})
}

func TestATokenKnowsWhetherItIsOfOneRealm(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table := accounts.NewTokens(db)
		for _, confined := range []bool{true, false} {
			text, made, err := table.Add(t.Context(), accounts.TokenRequest{Realm: "shop", Name: fmt.Sprint("of", confined), Scopes: []operation.Scope{operation.Read}, Confined: confined}, noon)
			if err != nil || made.Confined != confined {
				t.Fatalf("%+v, %v", made, err)
			}
			found, ok, err := table.Find(t.Context(), text, noon)
			if !ok || err != nil || found.Confined != confined || found.Realm != "shop" {
				t.Errorf("%+v, %t, %v", found, ok, err)
			}
			for _, later := range []time.Duration{59 * time.Second, time.Minute} { // its use is noted once a minute
				if _, _, err := table.Find(t.Context(), text, noon.Add(later)); err != nil {
					t.Fatal(err)
				}
				again, _, err := table.Find(t.Context(), text, noon.Add(later))
				if noted := again.UsedAt.Equal(noon.Add(later)); err != nil || noted != (later == time.Minute) {
					t.Errorf("used after %s: %+v, %v", later, again, err)
				}
			}
		}
		for _, scope := range operation.OverAll() {
			if _, _, err := table.Add(t.Context(), accounts.TokenRequest{Realm: "shop", Name: "x", Scopes: []operation.Scope{scope}, Confined: true}, noon); !errors.Is(err, operation.ErrAsked) {
				t.Errorf("%s: %v", scope, err)
			}
		}
	})
}
