package codes

import (
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/database/databasetest"
	"authguard/internal/testing/clocktest"
	"authguard/trusted"
)

func TestMain(m *testing.M) { databasetest.Main(m) }

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// at shows a code for alice from the nth place.
func at(code string, n byte, now time.Time) guard.Code {
	return guard.Code{Account: "alice", Address: trusted.Key{n}, Text: code, Now: now}
}

// issued is a table with a code for alice, and its clock.
func issued(t *testing.T, db *sql.DB) (table *Table, code string, clock *clocktest.Clock) {
	t.Helper()
	clock = clocktest.At(noon)
	table = New(db, clock.Now)
	code, expires, err := table.Issue(t.Context(), Grant{Account: "alice", For: DefaultLife})
	if err != nil || !expires.Equal(noon.Add(time.Hour)) {
		t.Fatalf("%v, %v", expires, err)
	}
	return table, code, clock
}

func show(t *testing.T, table *Table, p guard.Code) bool {
	t.Helper()
	good, err := table.Show(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return good
}

func TestACodeOfOneRealmIsNoneInAnother(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table, code, clock := issued(t, db)
		shop := table.In("shop")
		if show(t, shop, at(code, 1, clock.Now())) {
			t.Error("a code of another realm is good")
		}
		if err := shop.Revoke(t.Context(), "alice"); err != nil {
			t.Fatal(err)
		}
		if err := shop.Settle(t.Context(), at(code, 1, clock.Now()), guard.Succeeded); err != nil {
			t.Fatal(err)
		}
		for range liveMost { // which uses up the one realm's, not the other's
			if _, _, err := shop.Asked(t.Context(), Grant{Account: "alice", For: DefaultLife, From: trusted.Key{9}}); err != nil {
				t.Error(err)
			}
		}
		if _, _, err := table.Asked(t.Context(), Grant{Account: "alice", For: DefaultLife, From: trusted.Key{8}}); err != nil {
			t.Error(err)
		}
		if !show(t, table, at(code, 1, clock.Now())) {
			t.Error("what was done in another realm ended the code")
		}
	})
}

func TestR29ACodeIsGoodAtTheFirstPlaceOnlyAndOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table, code, clock := issued(t, db)
		other := at(code, 1, clock.Now())
		other.Account = "bob"
		for name, p := range map[string]guard.Code{
			"another account": other, "too short": at(code[1:], 1, clock.Now()),
			"made up": at("AAAABBBBCCCCDDDD", 1, clock.Now()), "empty": at("", 1, clock.Now()), "too old": at(code, 1, noon.Add(time.Hour)),
			"not UTF-8": at("\xff"+code[1:], 1, clock.Now()), "very long": at(strings.Repeat("-", 1<<20)+code, 1, clock.Now()),
		} {
			if show(t, table, p) {
				t.Errorf("%s is good", name)
			}
		}
		if show(t, table.Of("administration"), at(code, 1, clock.Now())) {
			t.Error("another directory is good")
		}
		if !show(t, table, at(" "+strings.ToLower(guard.SpellCode(code))+" ", 1, clock.Now())) {
			t.Error("the code is not good as people type it")
		}
		if show(t, table, at(code, 2, clock.Now())) {
			t.Error("it is good at a second place")
		}
		if err := table.Settle(t.Context(), at("", 1, clock.Now()), guard.Succeeded); err != nil {
			t.Fatal(err)
		}
		if show(t, table, at(code, 1, clock.Now())) {
			t.Error("it is good again after it was used")
		}
	})
}

func TestR29ACodeIsClaimedByOnePlaceOfManyAtOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table, code, clock := issued(t, db)
		var good atomic.Int64
		var all sync.WaitGroup
		for n := range 40 {
			all.Go(func() {
				if ok, err := table.Show(t.Context(), at(code, byte(1+n%8), clock.Now())); err != nil {
					t.Error(err)
				} else if ok {
					good.Add(1)
				}
			})
		}
		all.Wait()
		var place string
		var tries int64
		if err := db.QueryRow(`SELECT place, tries FROM verification_codes`).Scan(&place, &tries); err != nil {
			t.Fatal(err)
		}
		if good.Load() != Tries || tries != Tries {
			t.Errorf("good %d times in 40 at 8 places at once, %d tries are written down, want %d: one place's five", good.Load(), tries, Tries)
		}
	})
}

func TestR29ATryIsGivenBackIfNoPasswordWasLookedAt(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table, code, clock := issued(t, db)
		for i := range 20 {
			if !show(t, table, at(code, 1, clock.Now())) {
				t.Fatal("no tries are left")
			}
			unseen := []guard.Outcome{guard.Abandoned, guard.Withdrawn}[i%2]
			if err := table.Settle(t.Context(), at("", 1, clock.Now()), unseen); err != nil {
				t.Fatal(err)
			}
		}
		n := 0
		for n <= Tries && show(t, table, at(code, 1, clock.Now())) {
			n++
			if err := table.Settle(t.Context(), at("", 1, clock.Now()), guard.Failed); err != nil {
				t.Fatal(err)
			}
		}
		if n != Tries {
			t.Errorf("%d tries, want %d", n, Tries)
		}
	})
}

// A login uses up the codes of its own place in its own directory. The owner's next
// code, and that of an administrator of the same name, stay good.
func TestR29ALoginUsesUpTheCodesOfItsPlaceOnly(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table, code, clock := issued(t, db)
		for name, directory := range map[string]string{"another place": "", "another directory": "administration"} {
			theirs, other := table.Of(directory), guard.Code{Account: "alice", Address: trusted.Key{2}}
			if directory != "" {
				other.Address = trusted.Key{1}
			}
			other.Now = clock.Now()
			var err error
			if other.Text, _, err = table.Issue(t.Context(), Grant{Directory: directory, Account: "alice", For: DefaultLife}); err != nil {
				t.Fatal(err)
			}
			if !show(t, table, at(code, 1, clock.Now())) || !show(t, theirs, other) {
				t.Fatal("not good to begin with")
			}
			if err := theirs.Settle(t.Context(), guard.Code{Account: "alice", Address: other.Address, Now: clock.Now()}, guard.Succeeded); err != nil {
				t.Fatal(err)
			}
			if !show(t, table, at(code, 1, clock.Now())) || show(t, theirs, other) {
				t.Errorf("a login in %s used up the wrong code", name)
			}
		}
	})
}

// What strangers ask for in one directory leaves the other its own codes.
func TestR29CodesOfOneDirectoryBlockNoOthers(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table := New(db, clocktest.At(noon).Now)
		ask := func(directory string, from byte) error {
			_, _, err := table.Asked(t.Context(), Grant{Directory: directory, Account: "alice", For: DefaultLife, From: trusted.Key{from}})
			return err
		}
		for i, directory := range []string{"", "", "administration"} {
			if err := ask(directory, byte(1+i)); err != nil {
				t.Errorf("code %d, directory %q: %v", i, directory, err)
			}
		}
		if err := ask("", 4); !errors.Is(err, ErrEnough) {
			t.Errorf("a third one: %v", err)
		}
	})
}

func TestANewPasswordEndsCodes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table, code, clock := issued(t, db)
		if err := table.Revoke(t.Context(), "alice"); err != nil {
			t.Fatal(err)
		}
		if show(t, table, at(code, 1, clock.Now())) {
			t.Error("the code is still good")
		}
	})
}

// Whoever asks for codes in alice's name can leave her without one only by
// having had two sent to her.
func TestR29StrangersCannotUseUpTheOwnersCodesNorFillHerMailbox(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock := clocktest.At(noon)
		table := New(db, clock.Now)
		var sent []string
		for i := range 24 * 60 {
			code, _, err := table.Asked(t.Context(), grant("alice", byte(1+i%250)))
			if err == nil {
				sent = append(sent, code)
			} else if !errors.Is(err, ErrEnough) {
				t.Fatal(err)
			} else if len(sent) < 2 || !show(t, table, at(sent[len(sent)-1], 9, clock.Now())) {
				t.Fatal("refused, and the owner has no code that is good")
			} else if err := table.Settle(t.Context(), at("", 9, clock.Now()), guard.Abandoned); err != nil {
				t.Fatal(err)
			}
			clock.Advance(time.Minute)
		}
		if len(sent) != 48 {
			t.Errorf("%d codes in a day, want 48: two in an hour", len(sent))
		}
		n := 0
		for i := range 100 {
			if _, _, err := table.Asked(t.Context(), grant(string(rune('A'+i)), 251)); err == nil {
				n++
			}
		}
		if n != askedMost {
			t.Errorf("one address was given %d codes at once, want %d", n, askedMost)
		}
	})
}

func TestOldCodesAreDeleted(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table, _, clock := issued(t, db)
		for _, want := range []int64{0, 1} {
			if rows, err := table.Purge(t.Context()); err != nil || rows != want {
				t.Errorf("%d rows deleted, want %d; %v", rows, want, err)
			}
			clock.Advance(26 * time.Hour)
		}
	})
}

func TestOnlyADigestOfACodeIsKept(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		_, code, _ := issued(t, db)
		var kept string
		if err := db.QueryRow(`SELECT code_hash || directory || account || place || asked_from FROM verification_codes`).Scan(&kept); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(kept, code) || len(code) != 16 {
			t.Errorf("%q is kept of %q", kept, code)
		}
	})
}

func FuzzNormalise(f *testing.F) {
	f.Add("abcd-efgh-0123-4567")
	f.Fuzz(func(t *testing.T, typed string) {
		code, ok := guard.ReadCode(typed)
		if again, still := guard.ReadCode(guard.SpellCode(code)); ok && (!still || again != code) {
			t.Errorf("%q is %q, and that is %q", typed, code, again)
		}
	})
}

func grant(account string, from byte) Grant {
	return Grant{Account: account, For: DefaultLife, From: trusted.Key{from}}
}

// After a right password the owner gets a code at most once in ten minutes and five times a day, whatever else was
// requested from that IP address; a code that was not sent does not count.
func TestR32ARightPasswordSendsFewCodes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock := clocktest.At(noon)
		table := New(db, clock.Now)
		for i := range 20 {
			if _, _, err := table.Asked(t.Context(), grant(string(rune('A'+i)), 7)); err != nil && !errors.Is(err, ErrEnough) {
				t.Fatal(err)
			}
		}
		g := grant("alice", 7)
		g.RightPassword = true
		sent := 0
		for minute := range 24 * 60 {
			code, _, err := table.Asked(t.Context(), g)
			switch {
			case err != nil && !errors.Is(err, ErrEnough):
				t.Fatal(err)
			case err == nil && minute == 0:
				if err := table.Forget(t.Context(), code); err != nil {
					t.Fatal(err)
				}
			case err == nil:
				if sent++; minute != 1+10*(sent-1) {
					t.Errorf("code %d at minute %d", sent, minute)
				}
			}
			clock.Advance(time.Minute)
			if minute%60 == 0 {
				if _, err := table.Purge(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if sent != 5 {
			t.Errorf("%d codes in a day", sent)
		}
		clock.Advance(10 * time.Minute)
		if _, _, err := table.Asked(t.Context(), g); err != nil {
			t.Errorf("the next day: %v", err)
		}
	})
}

// Requests without the password leave the owner the codes after a right one.
func TestR32RequestsUseUpNoCodeAfterARightPassword(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock := clocktest.At(noon)
		table := New(db, clock.Now)
		for i := range 180 {
			if _, _, err := table.Asked(t.Context(), grant("alice", byte(i))); err != nil && !errors.Is(err, ErrEnough) {
				t.Fatal(err)
			}
			clock.Advance(time.Minute)
		}
		g := grant("alice", 7)
		g.RightPassword = true
		if _, _, err := table.Asked(t.Context(), g); err != nil {
			t.Errorf("after three hours of requests: %v", err)
		}
	})
}
