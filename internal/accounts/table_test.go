package accounts_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"authguard/internal/accounts"
	"authguard/internal/database/databasetest"
	"authguard/internal/passwords"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { databasetest.Main(m) }

// normalise stands in for guard's.
func normalise(name string) (string, error) {
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "" || strings.ContainsAny(name, "\x00\n") || len(name) > 100 {
		return "", errors.New("empty, too long or not text")
	}
	return name, nil
}

// hash is a real bcrypt at the lowest cost.
func hash(password string) (string, error) {
	raw, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	return string(raw), err
}

func mustHash(t *testing.T, password string) string {
	t.Helper()
	text, err := hash(password)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTheSameNameInTwoRealmsIsTwoAccounts(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		ours := mustTable(t, db)
		shop, err := accounts.New(t.Context(), accounts.Config{DB: db, Realm: "shop", Normalise: normalise, Hash: hash})
		if err != nil {
			t.Fatal(err)
		}
		add := func(table *accounts.Table, name, email, password string) error {
			_, err := table.Add(t.Context(), accounts.Addition{Username: name, Email: email, Password: password})
			return err
		}
		csv := func(table *accounts.Table, text string) (int, error) {
			return table.Import(t.Context(), accounts.ImportRequest{File: strings.NewReader(text), Format: accounts.CSV})
		}
		for _, err := range []error{add(ours, "ann", "a@b", "ours ours"), add(shop, "ann", "c@d", "shop shop"), add(shop, "a@b", "", "shop shop")} {
			if err != nil {
				t.Error(err)
			}
		}
		if err := add(shop, "ann", "", "shop shop"); !errors.Is(err, accounts.ErrTaken) {
			t.Errorf("twice in one realm: %v", err)
		}
		const both = "username,password\ncid,long enough\n"
		for _, table := range []*accounts.Table{ours, shop} {
			if n, err := csv(table, both); n != 1 || err != nil {
				t.Errorf("import: %d, %v", n, err)
			}
		}
		if _, err := csv(shop, both); err == nil {
			t.Error("imported twice")
		}
		if err := shop.SetPassword(t.Context(), "ann", "another one", true); err != nil {
			t.Error(err)
		}
		if err := ours.Disable(t.Context(), "cid"); err != nil {
			t.Error(err)
		}
		got := ""
		for _, table := range []*accounts.Table{ours, shop} {
			all, err := table.List(t.Context(), "", 10)
			if err != nil {
				t.Error(err)
			}
			for _, a := range all {
				login, found, err := table.FindForLogin(t.Context(), a.Username)
				got += fmt.Sprintf("%s %t %t %t %v; ", a.Username, a.Disabled, login.MustChange, found, err)
			}
		}
		if want := "ann false false true <nil>; cid true false true <nil>; a@b false false true <nil>; ann false true true <nil>; cid false false true <nil>; "; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if name := ours.Canonical("a@b"); name != "ann" {
			t.Error(name)
		}
		if name := shop.Canonical("a@b"); name != "a@b" {
			t.Error(name)
		}
		if _, found, err := ours.FindForLogin(t.Context(), "c@d"); found || err != nil {
			t.Errorf("another realm's: %t, %v", found, err)
		}
	})
}

func TestAnAccountIsInGroups(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		table := mustTable(t, open(t))
		add := func(name, email string, groups ...string) error {
			_, err := table.Add(t.Context(), accounts.Addition{Username: name, Email: email, Groups: groups, Password: "long enough"})
			return err
		}
		for _, err := range []error{add("ann", "ann@example.org", "staff", "editors", "staff"), add("bob@example.org", "")} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if n, err := imported(t, table, accounts.CSV, "username,groups,password_hash\ncid,\"b, a;c\","+mustHash(t, "secret")+"\n"); n != 1 || err != nil {
			t.Errorf("import: %d, %v", n, err)
		}
		wants := func(name, want string) {
			t.Helper()
			l := mustFind(t, table, name)
			if got := l.Email + "|" + strings.Join(l.Groups, ","); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
			if a, err := table.Get(t.Context(), name); err != nil || !slices.Equal(a.Groups, l.Groups) {
				t.Errorf("%s: %v %v", name, a.Groups, err)
			}
		}
		wants("ann", "ann@example.org|editors,staff")
		wants("bob@example.org", "bob@example.org|")
		wants("cid", "|a,b,c")
		version := mustFind(t, table, "ann").Version
		if err := table.SetGroups(t.Context(), "ANN@example.org", []string{"admins"}); err != nil {
			t.Error(err)
		}
		wants("ann", "ann@example.org|admins")
		if err := table.SetGroups(t.Context(), "cid", nil); err != nil {
			t.Error(err)
		}
		wants("cid", "|")
		if mustFind(t, table, "ann").Version != version {
			t.Error("other groups end a session")
		}
		for _, group := range []string{"a\r\nRemote-User: root", "é", strings.Repeat("x", 65), "a\x00"} {
			if err := table.SetGroups(t.Context(), "ann", []string{group}); !errors.Is(err, accounts.ErrGroup) {
				t.Errorf("%q: %v", group, err)
			}
			if err := add("eve", "", group); !errors.Is(err, accounts.ErrGroup) {
				t.Errorf("%q: %v", group, err)
			}
		}
		if err := table.SetGroups(t.Context(), "ann", strings.Fields(many(51))); !errors.Is(err, accounts.ErrGroup) {
			t.Errorf("51 groups: %v", err)
		}
		if err := table.SetGroups(t.Context(), "nobody", nil); !errors.Is(err, accounts.ErrUnknown) {
			t.Errorf("nobody's groups: %v", err)
		}
	})
}

func many(n int) (names string) {
	for i := range n {
		names += fmt.Sprint(" g", i)
	}
	return names
}

func mustTable(t *testing.T, db *sql.DB) *accounts.Table {
	t.Helper()
	table, err := accounts.New(t.Context(), accounts.Config{
		DB: db, Normalise: normalise, Hash: hash, Now: func() time.Time { return noon },
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func mustAdd(t *testing.T, table *accounts.Table, username, email string) accounts.Account {
	t.Helper()
	a, err := table.Add(t.Context(), accounts.Addition{Username: username, Email: email, Password: "long enough"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustFind(t *testing.T, source accounts.Source, name string) accounts.Login {
	t.Helper()
	l, found, err := source.FindForLogin(t.Context(), name)
	if err != nil || !found {
		t.Fatalf("%q: found %v, %v", name, found, err)
	}
	return l
}

func wantUnknown(t *testing.T, source accounts.Source, name string) {
	t.Helper()
	if l, found, err := source.FindForLogin(t.Context(), name); found || err != nil {
		t.Errorf("%q: %+v, %v", name, l, err)
	}
}

func TestUserNameAndEMailAreOneAccount(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		table := mustTable(t, open(t))
		mustAdd(t, table, "Ann", "Ann@Example.org")
		for _, name := range []string{"ann", "ann@example.org"} {
			if l := mustFind(t, table, name); l.Account != "ann" || !l.Password.Usable || l.Version == 0 || l.Role != accounts.User {
				t.Errorf("%q: %+v", name, l)
			}
		}
		for _, name := range []string{"", "bob", "ann@example.com"} {
			wantUnknown(t, table, name)
		}
		if table.Canonical("ann@example.org") != "ann" || table.Canonical("ann") != "ann" || table.Canonical("bob") != "bob" {
			t.Error("not one canonical name")
		}
		if a, err := table.Get(t.Context(), "ann@example.org"); err != nil || a.Username != "ann" || !a.CreatedAt.Equal(noon) {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

func TestNobodysNameIsSomebodyElses(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		table := mustTable(t, open(t))
		mustAdd(t, table, "ann", "ann@example.org")
		mustAdd(t, table, "eve@example.org", "eve@example.org") // one name, twice
		for _, a := range []accounts.Addition{
			{Username: "ANN"}, {Username: "ann@example.org"}, {Username: "bob", Email: "ann"},
			{Username: "bob", Email: "Ann@example.org"}, {Username: "bob", Email: "eve@example.org"},
		} {
			a.Password = "long enough"
			if _, err := table.Add(t.Context(), a); !errors.Is(err, accounts.ErrTaken) {
				t.Errorf("%+v: %v", a, err)
			}
		}
		if table.Canonical("eve@example.org") != "eve@example.org" {
			t.Error("a refused addition left an alias")
		}
	})
}

func TestOfManyAtOnceOneGetsTheName(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		table := mustTable(t, open(t))
		var mu sync.Mutex
		var all sync.WaitGroup
		won := 0
		for range 8 {
			all.Go(func() {
				_, err := table.Add(context.Background(), accounts.Addition{Username: "ann", Password: "long enough"})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else if !errors.Is(err, accounts.ErrTaken) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if won != 1 {
			t.Errorf("%d got the name", won)
		}
	})
}

func TestPasswordsHaveTheirLength(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		table := mustTable(t, open(t))
		mustAdd(t, table, "ann", "")
		for password, want := range map[string]error{
			"": accounts.ErrTooShort, "1234567": accounts.ErrTooShort, "äöüäöüä": accounts.ErrTooShort,
			strings.Repeat("x", 73): passwords.ErrTooLong, strings.Repeat("ä", 37): passwords.ErrTooLong,
			"12345678\x00": passwords.ErrNUL, "12345678": nil, strings.Repeat("x", 72): nil,
		} {
			if err := table.SetPassword(t.Context(), "ann", password, false); !errors.Is(err, want) {
				t.Errorf("%q: %v", password, err)
			}
		}
		if _, err := table.Add(t.Context(), accounts.Addition{Username: "bob", Password: "short"}); !errors.Is(err, accounts.ErrTooShort) {
			t.Error(err)
		}
	})
}

func TestAChangeEndsTheSessionsByItsVersion(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		table := mustTable(t, open(t))
		mustAdd(t, table, "ann", "ann@example.org")
		first := mustFind(t, table, "ann").Version
		if err := table.SetPassword(t.Context(), "ann@example.org", "something else", true); err != nil {
			t.Fatal(err)
		}
		l := mustFind(t, table, "ann")
		if l.Version != first+1 || !l.MustChange || bcrypt.CompareHashAndPassword([]byte(l.Password.Hash), []byte("something else")) != nil {
			t.Errorf("after a new password: %+v", l)
		}
		if err := table.Disable(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		if l := mustFind(t, table, "ann"); l.Version != first+2 || l.Password.Usable {
			t.Errorf("disabled: %+v", l)
		}
		if err := table.Enable(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		if l := mustFind(t, table, "ann"); l.Version != first+2 || !l.Password.Usable {
			t.Errorf("enabled: %+v", l)
		}
		if err := table.Delete(t.Context(), "Ann"); err != nil {
			t.Fatal(err)
		}
		if _, err := table.Get(t.Context(), "ann"); !errors.Is(err, accounts.ErrUnknown) {
			t.Errorf("deleted: %v", err)
		}
		mustAdd(t, table, "ann", "ann@example.org") // the names are free
		for _, err := range []error{
			table.Delete(t.Context(), "bob"), table.Disable(t.Context(), "bob"), table.SetPassword(t.Context(), "", "something else", false),
		} {
			if !errors.Is(err, accounts.ErrUnknown) {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestListGoesPageByPage(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		table := mustTable(t, open(t))
		for _, name := range []string{"c", "a", "b", "a-c", "ä", "a c"} { // the order of no language
			mustAdd(t, table, name, "")
		}
		var names string
		for after := ""; ; {
			page, err := table.List(t.Context(), after, 2)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, a := range page {
				names += a.Username
			}
			after = page[len(page)-1].Username
		}
		if names != "aa ca-cbcä" {
			t.Errorf("listed %q", names)
		}
	})
}

func TestAnotherProcessesAccountsAreKnownAfterRefresh(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		server, command := mustTable(t, db), mustTable(t, db)
		mustAdd(t, command, "ann", "ann@example.org")
		if err := server.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := server.Canonical("ann@example.org"); got != "ann" {
			t.Errorf("got %q", got)
		}
	})
}

func TestCanonicalIsSafeWhileAccountsAreAdded(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		table := mustTable(t, open(t))
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 1000 {
				table.Canonical("ann@example.org")
			}
		}()
		mustAdd(t, table, "ann", "ann@example.org")
		<-done
	})
}
