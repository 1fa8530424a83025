package accounts_test

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/database/databasetest"
	"authguard/internal/passwords"
)

func newMix(t *testing.T) *passwords.Mix {
	t.Helper()
	checker, err := passwords.NewChecker(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	return passwords.NewMix([]byte("a secret"), checker)
}

// Made by openssl passwd -6, of the password "correct horse", and by Django.
const (
	sha512Crypt = "$6$hWUeb932Cr1ySUx1$K2475ez14jqrQozXESF8PNUq6yqRPRAeLE7n1bKrfFJ1CK1ZJEB6BTkCgr4rQhmAjkAgenOxw89kt/rgJommg0"
	djangoHash  = "pbkdf2_sha256$1000$saltsaltsalt$F7o7+5VTVzFAO998X6s3AHrDsJVdMiIlgndIMe19NvY="
)

func TestR12NamesThatNobodyHasAreCheckedLikeTheTable(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		mix := newMix(t)
		table := mustTableWith(t, open(t), mix)
		if l, found, err := table.FindForLogin(t.Context(), "nobody"); found || err != nil || l.Password.Instead.Kind() != "bcrypt" {
			t.Errorf("before the import: %+v, %v", l, err)
		}
		if n, err := imported(t, table, accounts.CSV, "username,password_hash\nann,"+djangoHash+"\nbob,"+djangoHash+"\n"); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		for _, name := range []string{"nobody", "ſ"} { // the second can be nobody's
			if l, found, err := table.FindForLogin(t.Context(), name); found || err != nil || l.Password.Instead.Kind() != "PBKDF2-SHA256" {
				t.Errorf("after the import: %+v, %v", l, err)
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

// When everybody is upgraded, so is nobody.
func TestR12UpgradesAreCounted(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		mix, now := newMix(t), noon
		table, err := accounts.New(t.Context(), accounts.Config{DB: open(t), Normalise: normalise, Hash: hash, Mix: mix, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := imported(t, table, accounts.CSV, "username,password_hash\nann,"+djangoHash+"\n"); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		for i, want := range []string{"PBKDF2-SHA256", "bcrypt"} {
			now = noon.Add(time.Duration(i) * 10 * time.Minute)
			if err := table.Upgrade(t.Context(), mustFind(t, table, "ann"), mustHash(t, "correct horse")); err != nil {
				t.Fatal(err)
			}
			if got := mix.None("nobody").Instead; got.Kind() != want {
				t.Errorf("%v later: %s, want %s", now.Sub(noon), got.Kind(), want)
			}
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
		census, err := accounts.CensusOfTable(t.Context(), db, "default", 10)
		if err != nil || !slices.Equal(census.Counts(), []passwords.Count{{Kind: "bcrypt", Accounts: 1}}) {
			t.Errorf("%+v, %v", census.Counts(), err)
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
	path, mix := filepath.Join(t.TempDir(), ".htpasswd"), newMix(t)
	write(t, path, "ann:"+sha512Crypt+"\nbob:6FZSgRFTLxtYc\ncid:"+sha512Crypt+"\n", noon)
	source, err := accounts.NewHtpasswdSource(path, normalise, mix, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	checker, err := passwords.NewChecker(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := checker.Check(mustFind(t, source, "ann").Password, "correct horse"); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	bob := mustFind(t, source, "bob")
	if ok, err := checker.Check(bob.Password, "correct horse"); ok || err == nil || bob.Password.Instead.Kind() != "SHA-512 crypt" {
		t.Errorf("%v, %v", ok, err)
	}
	if l, found, err := source.FindForLogin(t.Context(), "nobody"); found || err != nil || l.Password.Instead.Kind() != "SHA-512 crypt" {
		t.Errorf("%+v, %v", l, err)
	}
	want := []passwords.Count{{Kind: "SHA-512 crypt", Accounts: 2}, {Kind: "DES crypt", Accounts: 1, Problem: "DES crypt"}}
	if got := source.Census().Counts(); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
