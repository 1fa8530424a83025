package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"authguard/internal/accounts"
	"authguard/internal/database/databasetest"
)

func imported(t *testing.T, table *accounts.Table, format accounts.Format, text string) (int, error) {
	t.Helper()
	return table.Import(t.Context(), accounts.ImportRequest{File: strings.NewReader(text), Format: format, Size: int64(len(text))})
}

// problems is the bad lines as "line: text".
func problems(t *testing.T, err error) []string {
	t.Helper()
	var bad *accounts.ImportError
	if !errors.As(err, &bad) {
		t.Fatalf("got %v", err)
	}
	var lines []string
	for _, p := range bad.Problems {
		lines = append(lines, fmt.Sprintf("%d: %s", p.Line, p.Text))
	}
	return lines
}

func count(t *testing.T, table *accounts.Table) int {
	t.Helper()
	all, err := table.List(t.Context(), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestHtpasswdFilesAreTakenAsTheyAre(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		table := mustTable(t, open(t))
		h := mustHash(t, "secret")
		text := "\xEF\xBB\xBFAnn:" + h + "\r\n\r\n# people\r\nbob:$2y" + h[3:] + "\r\ncid:$2b" + h[3:] + ":a comment"
		n, err := imported(t, table, accounts.Htpasswd, text)
		if n != 3 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		for _, name := range []string{"ann", "bob", "cid"} {
			l := mustFind(t, table, name)
			if bcrypt.CompareHashAndPassword([]byte(l.Password.Hash), []byte("secret")) != nil || l.Version <= 1 {
				t.Errorf("%+v", l)
			}
		}
	})
}

func TestCSVColumnsMayComeInAnyOrder(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		table := mustTable(t, open(t))
		h := mustHash(t, "secret")
		n, err := imported(t, table, accounts.CSV, "\xEF\xBB\xBFEmail, password_hash,username\r\nann@example.org,"+h+",ann\r\n,\""+h+"\",bob\r\n")
		if n != 2 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		n, err = imported(t, table, accounts.CSV, "username,password\ncid,\"pass,word \"\"1\"\"\"\n")
		if n != 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		if l := mustFind(t, table, "ann@example.org"); l.Account != "ann" || table.Canonical("ann@example.org") != "ann" {
			t.Errorf("%+v", l)
		}
		if l := mustFind(t, table, "cid"); bcrypt.CompareHashAndPassword([]byte(l.Password.Hash), []byte(`pass,word "1"`)) != nil {
			t.Error("a quoted password was changed")
		}
	})
}

func TestEveryBadLineIsToldAndNothingImported(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		table := mustTable(t, open(t))
		mustAdd(t, table, "taken", "taken@example.org")
		h := mustHash(t, "secret")
		_, err := imported(t, table, accounts.Htpasswd, strings.Join([]string{
			"good:" + h, "no colon", "md5:$apr1$abcdefgh$xyz", "sha:{SHA}fEqNCco3", "GOOD:" + h,
			"taken@example.org:" + h, ":" + h, "plain:hunter2", "broken:" + h[:30], "empty:", " :" + h, "fine:" + h,
		}, "\n"))
		got := problems(t, err)
		for i, want := range []string{
			"2: not of the form", "3: ", "4: ", "5: \"good\" is already in line 1", "6: the account \"taken@example.org\" already",
			"7: not of the form", "8: ", "9: ", "10: the hash is missing", "11: not a name",
		} {
			if i >= len(got) || !strings.HasPrefix(got[i], want) {
				t.Errorf("problem %d is not %q in %q", i, want, got)
			}
		}
		all := err.Error()
		for _, want := range []string{"Apache MD5", "SHA-1", "plain text", "10 bad line(s)"} {
			if !strings.Contains(all, want) {
				t.Errorf("%q is not in %s", want, all)
			}
		}
		for _, secret := range []string{"hunter2", h[:30], "fEqNCco3"} {
			if strings.Contains(all, secret) {
				t.Errorf("%q is in the message", secret)
			}
		}
		if n := count(t, table); n != 1 {
			t.Errorf("%d accounts, want 1", n)
		}
	})
}

func TestBadCSVIsToldByLine(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		table := mustTable(t, open(t))
		h := mustHash(t, "secret")
		_, err := imported(t, table, accounts.CSV, "username,email,password_hash\na,,"+h+"\nb,x\nc,a,"+h+"\nd,,\"x\"y\ne,,\n")
		got := fmt.Sprint(problems(t, err))
		for _, want := range []string{"3: not CSV: wrong number of fields", `4: "a" is already in line 2`, "5: not CSV", "6: the hash is missing"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in %s", want, got)
			}
		}
		for _, header := range []string{"", "username", "email,password", "username,password,password_hash", "username,password,shoe", "username,username,password"} {
			_, err := imported(t, table, accounts.CSV, header+"\n")
			if got := problems(t, err); len(got) != 1 || !strings.HasPrefix(got[0], "1: the header") {
				t.Errorf("%q: %v", header, got)
			}
		}
		_, err = imported(t, table, accounts.CSV, "username,password\na,short\nb,"+strings.Repeat("x", 73)+"\n")
		if got := problems(t, err); len(got) != 2 {
			t.Errorf("bad passwords: %v", got)
		}
		if n := count(t, table); n != 0 {
			t.Errorf("%d accounts", n)
		}
	})
}

func TestTheListOfBadLinesIsBounded(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		_, err := imported(t, mustTable(t, open(t)), accounts.Htpasswd, strings.Repeat("x\n", 5000))
		var bad *accounts.ImportError
		if !errors.As(err, &bad) || len(bad.Problems) != 100 || bad.More != 4900 {
			t.Errorf("%.200v", err)
		}
		_, err = imported(t, mustTable(t, open(t)), accounts.Htpasswd, "a\n"+strings.Repeat("x", 1<<20))
		if got := problems(t, err); len(got) != 2 || !strings.HasPrefix(got[1], "2: the line is too long") {
			t.Errorf("%v", got)
		}
	})
}

func TestALongImportTellsItsProgress(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		table := mustTable(t, open(t))
		h := mustHash(t, "secret")
		var text strings.Builder
		for i := range 3000 {
			fmt.Fprintf(&text, "user%d:%s\n", i, h)
		}
		var told []int64
		size := int64(text.Len())
		n, err := table.Import(t.Context(), accounts.ImportRequest{
			File: strings.NewReader(text.String()), Format: accounts.Htpasswd, Size: size,
			Progress: func(done, total int64) {
				if total != size || len(told) > 0 && done < told[len(told)-1] {
					t.Errorf("done %d of %d after %v", done, total, told)
				}
				told = append(told, done)
			},
		})
		if n != 3000 || err != nil || len(told) < 3 || told[len(told)-1] != size {
			t.Errorf("%d, %v, %v", n, err, told)
		}
	})
}

func TestACancelledImportLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		table := mustTable(t, open(t))
		h := mustHash(t, "secret")
		ctx, cancel := context.WithCancel(t.Context())
		text := "username,password\na,long enough\nb,long enough\n"
		_, err := table.Import(ctx, accounts.ImportRequest{
			File: strings.NewReader(text), Format: accounts.CSV, Progress: func(int64, int64) { cancel() },
		})
		if !errors.Is(err, context.Canceled) || count(t, table) != 0 {
			t.Errorf("%v, %d accounts", err, count(t, table))
		}
		for range 2 { // the temporary tables are gone, or these would fail
			imported(t, table, accounts.Htpasswd, "bad")
		}
		if n, err := imported(t, table, accounts.Htpasswd, "a:"+h); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}

func FuzzImport(f *testing.F) {
	for _, seed := range []string{"a:$2y$05$x\n", "username,password\na,\"b\n", "\xEF\xBB\xBF#\r\n", "a,b\n\"\n"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, isCSV bool) {
		format := accounts.Htpasswd
		if isCSV {
			format = accounts.CSV
		}
		table := mustTable(t, databasetest.SQLite(t))
		n, err := imported(t, table, format, text)
		if got := count(t, table); got != n || err != nil && n != 0 {
			t.Errorf("says %d (%v), holds %d", n, err, got)
		}
	})
}

func TestImportsLeaveNoFileOpen(t *testing.T) {
	t.Parallel()
	db := databasetest.SQLite(t)
	table := mustTable(t, db)
	open := func() (n int) {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if to, _ := os.Readlink("/proc/self/fd/" + one.Name()); strings.Contains(to, t.Name()) {
				n++
			}
		}
		return n
	}
	h, err := hash("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	before := open()
	for i := range 20 {
		_, _ = imported(t, table, accounts.Htpasswd, fmt.Sprintf("u%d:%s\n", i, h))
		_, _ = imported(t, table, accounts.Htpasswd, "bad\n")
		_, _ = imported(t, table, accounts.Htpasswd, "")
	}
	if after := open(); after > before+4 {
		t.Errorf("%d files are open, and %d were before", after, before)
	}
}
