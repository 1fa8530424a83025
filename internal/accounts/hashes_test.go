package accounts_test

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"authguard/internal/accounts"
	"authguard/internal/database/databasetest"
	"authguard/internal/passwords"
)

// Made by openssl passwd -6, of the password "correct horse", and by Django.
const (
	sha512Crypt = "$6$hWUeb932Cr1ySUx1$K2475ez14jqrQozXESF8PNUq6yqRPRAeLE7n1bKrfFJ1CK1ZJEB6BTkCgr4rQhmAjkAgenOxw89kt/rgJommg0"
	djangoHash  = "pbkdf2_sha256$1000$saltsaltsalt$F7o7+5VTVzFAO998X6s3AHrDsJVdMiIlgndIMe19NvY="
)

// What unknown accounts are checked like at the start.
func TestR12HashesAreSampled(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		table := mustTable(t, db)
		if n, err := imported(t, table, accounts.CSV, "username,password_hash\nann,"+djangoHash+"\nbob,"+djangoHash+"\ncid,"+djangoHash+"\n"); n != 3 || err != nil {
			t.Fatal(n, err)
		}
		for realm, want := range map[string]int{"default": 2, "other": 0} {
			var sample []string
			if err := accounts.EachHash(t.Context(), db, realm, 2, func(hash string) { sample = append(sample, hash) }); err != nil {
				t.Fatal(err)
			}
			if len(sample) != want || slices.ContainsFunc(sample, func(hash string) bool { return hash != djangoHash }) {
				t.Errorf("%s: %v", realm, sample)
			}
		}
		if err := table.Disable(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		if l := mustFind(t, table, "ann"); l.Password.Usable || l.Password.Hash != djangoHash {
			t.Errorf("disabled: %+v", l)
		}
	})
}

func TestAHashIsUpgradedOnceAndNoNewPasswordIsLost(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		table := mustTable(t, db)
		if n, err := imported(t, table, accounts.CSV, "username,password_hash\nann,"+djangoHash+"\n"); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		before := mustFind(t, table, "ann")
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := table.Upgrade(t.Context(), before, mustHash(t, "correct horse")); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		after := mustFind(t, table, "ann")
		if !strings.HasPrefix(after.Password.Hash, "$2") || after.Version != before.Version {
			t.Errorf("%+v", after)
		}
		if err := table.SetPassword(t.Context(), "ann", "a new password", false); err != nil {
			t.Fatal(err)
		}
		changed := mustFind(t, table, "ann")
		for _, late := range []accounts.Login{before, after} {
			if err := table.Upgrade(t.Context(), late, mustHash(t, "correct horse")); err != nil {
				t.Error(err)
			}
		}
		if l := mustFind(t, table, "ann"); l.Password.Hash != changed.Password.Hash {
			t.Error("the new password was lost")
		}
	})
}

func TestShadowFilesAreImportedWithoutTheAccountsThatHaveNoPassword(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		table := mustTable(t, open(t))
		text := "root:*:19700:0:99999:7:::\ndaemon:!:19700::::::\nlocked:!" + sha512Crypt + ":19700::::::\nnone::19700::::::\nann:" + sha512Crypt + ":19700:0:99999:7:::\n"
		if n, err := imported(t, table, accounts.Shadow, text); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if l := mustFind(t, table, "ann"); l.Password.Hash != sha512Crypt {
			t.Errorf("%+v", l)
		}
		if _, err := imported(t, table, accounts.Shadow, "bob:6FZSgRFTLxtYc:19700::::::\n"); err == nil || !strings.Contains(err.Error(), "line 1: the stored hash cannot be checked: it is DES crypt") {
			t.Errorf("%v", err)
		}
	})
}

// A line whose hash cannot be checked is one account that cannot log in, and no reason
// to keep everybody else out.
func TestAnHtpasswdFileMayHaveEveryKindOfHash(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), ".htpasswd")
	write(t, path, "ann:"+sha512Crypt+"\nbob:6FZSgRFTLxtYc\ncid:"+sha512Crypt+"\n", noon)
	source, err := accounts.NewHtpasswdSource(path, normalise, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	checker, err := passwords.NewChecker(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	ann, bob := mustFind(t, source, "ann"), mustFind(t, source, "bob")
	if ok, err := checker.Check(&ann.Password, "correct horse"); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	if ok, err := checker.Check(&bob.Password, "correct horse"); ok || err == nil {
		t.Errorf("%v, %v", ok, err)
	}
	hashes := source.Hashes()
	slices.Sort(hashes)
	if !slices.Equal(hashes, []string{sha512Crypt, sha512Crypt, "6FZSgRFTLxtYc"}) {
		t.Errorf("%v", hashes)
	}
}
