package database_test

import (
	"bytes"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"authguard/internal/database"
	"authguard/internal/database/databasetest"
	"authguard/internal/seal"
)

func key(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

func keys(counters, challenges byte, cookies ...byte) (k seal.Keys) {
	k.Counters, k.Challenges = key(counters), key(challenges)
	for _, c := range cookies {
		k.Cookies = append(k.Cookies, key(c))
	}
	return k
}

func TestNodesWithOtherKeysAreRefused(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		for _, c := range []struct {
			keys seal.Keys
			want error
		}{
			{keys(1, 2, 3), nil}, {keys(1, 2, 3), nil},
			{keys(9, 2, 3), database.ErrKeysDiffer}, {keys(1, 9, 3), database.ErrKeysDiffer}, {keys(1, 2, 9), database.ErrKeysDiffer},
			{keys(1, 2, 4, 3), nil}, // rotated here
			{keys(1, 2, 3), nil},    // not yet there
			{keys(1, 2, 4, 3), nil}, {keys(1, 2, 5, 4), nil},
			{keys(1, 2, 3), database.ErrKeysDiffer}, // left behind
		} {
			err := database.AgreeOnKeys(t.Context(), db, c.keys, "/var/lib/authguard/keys")
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v", c.keys.Fingerprint(), err)
			}
			if err != nil && (!strings.Contains(err.Error(), "/var/lib/authguard/keys") || !strings.Contains(err.Error(), c.keys.Fingerprint())) {
				t.Errorf("which file? %v", err)
			}
		}
	})
}

func TestOfNodesThatStartAtOnceWithOtherKeysOneStarts(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		var all sync.WaitGroup
		var started atomic.Int64
		for n := range 8 {
			all.Go(func() {
				switch err := database.AgreeOnKeys(t.Context(), db, keys(byte(n), 1, 1), "keys"); {
				case err == nil:
					started.Add(1)
				case !errors.Is(err, database.ErrKeysDiffer):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if started.Load() != 1 {
			t.Errorf("%d started", started.Load())
		}
	})
}

func TestComparingWritesNothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		for range 2 { // the first one would have set it
			for n := range byte(2) {
				if err := database.CompareKeys(t.Context(), db, keys(n, 2, 3), "keys"); err != nil {
					t.Errorf("nobody has used the database yet: %v", err)
				}
			}
		}
		if err := database.AgreeOnKeys(t.Context(), db, keys(1, 2, 3), "keys"); err != nil {
			t.Fatal(err)
		}
		for _, one := range []seal.Keys{keys(1, 2, 3), keys(1, 2, 4, 3)} {
			if err := database.CompareKeys(t.Context(), db, one, "keys"); err != nil {
				t.Error(err)
			}
		}
		for _, one := range []seal.Keys{keys(9, 2, 3), keys(1, 2, 4)} { // 4 alone never took the place of 3
			if err := database.CompareKeys(t.Context(), db, one, "keys"); !errors.Is(err, database.ErrKeysDiffer) {
				t.Errorf("%v, want ErrDiffer", err)
			}
		}
	})
}
