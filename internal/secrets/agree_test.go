package secrets_test

import (
	"bytes"
	"database/sql"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"authguard/internal/database/databasetest"
	"authguard/internal/secrets"
)

func TestMain(m *testing.M) { databasetest.Main(m) }

func key(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

func keys(counters, challenges byte, cookies ...byte) (k secrets.Keys) {
	k.Counters, k.Challenges = key(counters), key(challenges)
	for _, c := range cookies {
		k.Cookies = append(k.Cookies, key(c))
	}
	return k
}

func TestAFingerprintTellsKeysApartAndTellsNoKey(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range []secrets.Keys{keys(1, 2, 3), keys(2, 1, 3), keys(1, 1, 3), keys(1, 2, 4), keys(1, 2, 4, 3), keys(9, 2, 3)} {
		f := k.Fingerprint()
		if seen[f] || f != k.Fingerprint() {
			t.Errorf("%s is not one file's", f)
		}
		seen[f] = true
		for _, secret := range append(k.Cookies, k.Counters, k.Challenges) {
			if strings.Contains(f, hex.EncodeToString(secret)[:8]) {
				t.Errorf("%s tells of a key", f)
			}
		}
	}
	if f := keys(1, 2, 3).Fingerprint(); len(f) != 25 {
		t.Errorf("%s is not short", f)
	}
}

func TestNodesWithOtherKeysAreRefused(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		for _, c := range []struct {
			keys secrets.Keys
			want error
		}{
			{keys(1, 2, 3), nil}, {keys(1, 2, 3), nil},
			{keys(9, 2, 3), secrets.ErrDiffer}, {keys(1, 9, 3), secrets.ErrDiffer}, {keys(1, 2, 9), secrets.ErrDiffer},
			{keys(1, 2, 4, 3), nil}, // rotated here
			{keys(1, 2, 3), nil},    // not yet there
			{keys(1, 2, 4, 3), nil}, {keys(1, 2, 5, 4), nil},
			{keys(1, 2, 3), secrets.ErrDiffer}, // left behind
		} {
			err := secrets.Agree(t.Context(), db, c.keys, "/var/lib/authguard/keys")
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
				switch err := secrets.Agree(t.Context(), db, keys(byte(n), 1, 1), "keys"); {
				case err == nil:
					started.Add(1)
				case !errors.Is(err, secrets.ErrDiffer):
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

func TestAFileFromElsewhereIsReadAndNeverMade(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "keys")
	if _, err := secrets.Read(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "copy the file") {
		t.Errorf("got %v", err)
	}
	if entries, _ := os.ReadDir(folder); len(entries) != 0 {
		t.Error("a file was made")
	}
	made, err := secrets.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for mode, readable := range map[os.FileMode]bool{
		0o400: true, 0o440: true, 0o600: true, 0o640: true, 0o444: false, 0o460: false, 0o604: false, 0o620: false,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		k, err := secrets.Read(path)
		if readable != (err == nil) || readable && k.Fingerprint() != made.Fingerprint() {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

func TestComparingWritesNothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		for range 2 { // the first one would have set it
			for n := range byte(2) {
				if err := secrets.Compare(t.Context(), db, keys(n, 2, 3), "keys"); err != nil {
					t.Errorf("nobody has used the database yet: %v", err)
				}
			}
		}
		if err := secrets.Agree(t.Context(), db, keys(1, 2, 3), "keys"); err != nil {
			t.Fatal(err)
		}
		for _, one := range []secrets.Keys{keys(1, 2, 3), keys(1, 2, 4, 3)} {
			if err := secrets.Compare(t.Context(), db, one, "keys"); err != nil {
				t.Error(err)
			}
		}
		for _, one := range []secrets.Keys{keys(9, 2, 3), keys(1, 2, 4)} { // 4 alone never took the place of 3
			if err := secrets.Compare(t.Context(), db, one, "keys"); !errors.Is(err, secrets.ErrDiffer) {
				t.Errorf("%v, want ErrDiffer", err)
			}
		}
	})
}
