package tokens_test

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"authguard/internal/database/databasetest"
	"authguard/internal/tokens"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { databasetest.Main(m) }

func TestATokenIsToldOnceAndKeptAsItsDigest(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table := tokens.New(db)
		text, made, err := table.Add(t.Context(), "default", "shop", "cli:ann", noon)
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
		table := tokens.New(db)
		add := func(realm, name string) error {
			_, _, err := table.Add(t.Context(), realm, name, "", noon)
			return err
		}
		for _, one := range []struct {
			realm, name string
			want        error
		}{
			{"default", "shop", nil}, {"default", "shop", tokens.ErrTaken}, {"gold", "shop", nil}, {"default", "", tokens.ErrName},
			{"default", "a b", tokens.ErrName}, {"default", "-x", tokens.ErrName}, {"default", strings.Repeat("x", 65), tokens.ErrName}, {"default", "x\x00", tokens.ErrName},
		} {
			if err := add(one.realm, one.name); !errors.Is(err, one.want) {
				t.Errorf("%s/%s: %v", one.realm, one.name, err)
			}
		}
		for _, want := range []error{nil, tokens.ErrUnknown} {
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
		for i := range tokens.Most {
			if _, err := db.Exec(`INSERT INTO api_tokens (token_hash, realm, name, created_at) VALUES ($1, 'default', $1, 0)`, fmt.Sprintf("%064x", i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := tokens.New(db).Add(t.Context(), "default", "shop", "", noon); !errors.Is(err, tokens.ErrMost) {
			t.Error(err)
		}
	})
}
