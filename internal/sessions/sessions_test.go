package sessions_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/scs/v2"

	"authguard/internal/database/databasetest"
	"authguard/internal/sessions"
)

// begin is the real time, since scs itself reads the clock.
var begin = time.Now().Truncate(time.Second)

func TestMain(m *testing.M) { databasetest.Main(m) }

type fixture struct {
	db      *sql.DB
	store   *sessions.Store
	manager *scs.SessionManager
	now     time.Time
}

func setUp(t *testing.T, db *sql.DB) *fixture {
	t.Helper()
	f := &fixture{db: db, now: begin}
	var err error
	if f.store, err = sessions.New(sessions.Config{DB: f.db, Now: func() time.Time { return f.now }}); err != nil {
		t.Fatal(err)
	}
	f.manager = scs.New()
	f.manager.Store = f.store
	return f
}

func TestASessionOfOneRealmIsNoneInAnother(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		f := setUp(t, db)
		shop, err := sessions.New(sessions.Config{DB: db, Realm: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		token := f.login(t, "ann")
		if _, found, err := shop.FindCtx(t.Context(), token); found || err != nil {
			t.Errorf("found %t, %v", found, err)
		}
		if n, err := shop.DeleteAccount(t.Context(), "ann"); n != 0 || err != nil {
			t.Errorf("ended %d, %v", n, err)
		}
		if _, found, err := f.store.FindCtx(t.Context(), token); !found || err != nil {
			t.Errorf("found %t, %v", found, err)
		}
	})
}

// login makes a session the way the door does.
func (f *fixture) login(t *testing.T, account string) (token string) {
	t.Helper()
	ctx, err := f.manager.Load(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	f.manager.Put(ctx, sessions.AccountKey, account)
	token, _, err = f.manager.Commit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (f *fixture) who(t *testing.T, token string) string {
	t.Helper()
	ctx, err := f.manager.Load(context.Background(), token)
	if err != nil {
		t.Fatal(err)
	}
	return f.manager.GetString(ctx, sessions.AccountKey)
}

func TestASessionIsFoundByItsTokenOnly(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		f := setUp(t, db)
		token := f.login(t, "ann")
		if got := f.who(t, token); got != "ann" {
			t.Errorf("got %q", got)
		}
		for _, other := range []string{"", token[1:], token + "x", strings.Repeat("x", 1<<20)} {
			if got := f.who(t, other); got != "" {
				t.Errorf("a wrong token finds %q", got)
			}
		}
	})
}

func TestTheDatabaseHoldsNoToken(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		f := setUp(t, db)
		token := f.login(t, "ann")
		var row string
		err := f.db.QueryRow("SELECT token_hash || data || account FROM sessions").Scan(&row)
		if err != nil || strings.Contains(row, token) || !strings.HasSuffix(row, "ann") {
			t.Errorf("the row is %q (%v)", row, err)
		}
		stolen := row[:64]
		if got := f.who(t, stolen); got != "" {
			t.Errorf("what is in the database logs in %q", got)
		}
	})
}

func TestAllSessionsOfOneAccountEndAtOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		f := setUp(t, db)
		first, second, other, nobody := f.login(t, "ann"), f.login(t, "ann"), f.login(t, "bob"), f.login(t, "")
		if n, err := f.store.DeleteAccount(t.Context(), "ann"); n != 2 || err != nil {
			t.Errorf("ended %d, %v", n, err)
		}
		if f.who(t, first)+f.who(t, second) != "" || f.who(t, other) != "bob" {
			t.Error("the wrong sessions ended")
		}
		if n, err := f.store.DeleteAccount(t.Context(), ""); n != 0 || err != nil {
			t.Errorf("ended %d nameless ones, %v", n, err)
		}
		if _, found, err := f.store.Find(nobody); !found || err != nil {
			t.Errorf("found %v, %v", found, err)
		}
	})
}

func TestDestroyEndsOneSession(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		f := setUp(t, db)
		first, second := f.login(t, "ann"), f.login(t, "ann")
		for range 2 {
			if err := f.store.Delete(first); err != nil {
				t.Error(err)
			}
		}
		if f.who(t, first) != "" || f.who(t, second) != "ann" {
			t.Error("the wrong session ended")
		}
	})
}

func TestExpiredSessionsAreNotFoundAndPurged(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		f := setUp(t, db)
		data, err := scs.GobCodec{}.Encode(begin, map[string]any{"account": "ann"})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.store.Commit("token", data, begin.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		f.now = begin.Add(time.Minute - time.Millisecond)
		if _, found, _ := f.store.Find("token"); !found {
			t.Error("expired too early")
		}
		if n, err := f.store.Purge(t.Context()); n != 0 || err != nil {
			t.Errorf("purged %d, %v", n, err)
		}
		f.now = begin.Add(time.Minute)
		if _, found, _ := f.store.Find("token"); found {
			t.Error("not expired")
		}
		if n, err := f.store.Purge(t.Context()); n != 1 || err != nil {
			t.Errorf("purged %d, %v", n, err)
		}
	})
}

func TestDataThatIsNoSessionIsNotWritten(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		if err := setUp(t, db).store.Commit("token", []byte("junk"), begin.Add(time.Hour)); err == nil {
			t.Error("junk was written")
		}
	})
}

// A server proves all the time that it can write: that is nobody's session, and the
// log must not say that one ended.
func TestAProofIsPurgedAndIsNoSession(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		f := setUp(t, db)
		if err := f.store.Prove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := f.store.Purge(t.Context()); n != 0 || err != nil {
			t.Errorf("purged %d, %v, want 0", n, err)
		}
		var left int
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM sessions`).Scan(&left); left != 0 || err != nil {
			t.Errorf("%d rows are left, %v", left, err)
		}
	})
}

// commit writes a session with these values, as scs does.
func (f *fixture) commit(t *testing.T, token string, values map[string]any) {
	t.Helper()
	data, err := scs.GobCodec{}.Encode(begin, values)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.Commit(token, data, begin.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
}

func TestAnAccountsSessionsAreListedAndEndedOneByOne(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		f := setUp(t, db)
		ann := func(token, door string) {
			f.commit(t, token, map[string]any{sessions.AccountKey: "ann", sessions.IntegrationKey: door, sessions.AddressKey: "192.0.2.7", sessions.AgentKey: "Brow\x00ser"})
			f.now = f.now.Add(time.Second)
		}
		ann("first", "admin")
		ann("second", "admin")
		ann("elsewhere", "login")
		f.commit(t, "bob's", map[string]any{sessions.AccountKey: "bob", sessions.IntegrationKey: "admin"})
		list := func() (all []string) {
			t.Helper()
			of, err := f.store.Of(t.Context(), "ann", "admin")
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range of {
				all = append(all, one.ID)
			}
			return all
		}
		of, err := f.store.Of(t.Context(), "ann", "admin")
		want := sessions.Session{
			ID: sessions.ID("second"), Integration: "admin", Address: "192.0.2.7", Agent: "Brow\uFFFDser",
			Started: begin.Add(time.Second), Seen: begin.Add(time.Second), Ends: begin.Add(time.Hour),
		}
		if err != nil || len(of) != 2 || of[0] != want {
			t.Fatalf("%+v, %v, want first %+v", of, err, want)
		}
		if err := f.store.End(t.Context(), "bob", sessions.ID("first")); !errors.Is(err, sessions.ErrUnknown) {
			t.Errorf("bob ended ann's session: %v", err)
		}
		if err := f.store.End(t.Context(), "ann", sessions.ID("first")); err != nil {
			t.Error(err)
		}
		f.commit(t, "first", map[string]any{sessions.AccountKey: "ann"}) // a request that was still running
		if _, found, _ := f.store.Find("first"); found {
			t.Error("a session that was ended goes on")
		}
		if got := list(); len(got) != 1 || got[0] != sessions.ID("second") {
			t.Errorf("left: %v", got)
		}
		ann("third", "admin")
		if n, err := f.store.EndOthers(t.Context(), "ann", "admin", sessions.ID("third")); n != 1 || err != nil {
			t.Errorf("ended %d others, %v", n, err)
		}
		if got := list(); len(got) != 1 || got[0] != sessions.ID("third") {
			t.Errorf("left: %v", got)
		}
		if _, found, _ := f.store.Find("elsewhere"); !found {
			t.Error("a session at another door was ended")
		}
	})
}

func TestAnUnusedSessionEnds(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		f := setUp(t, db)
		f.commit(t, "idle", map[string]any{sessions.AccountKey: "ann", sessions.IdleKey: (10 * time.Minute).Milliseconds()})
		at := func(after time.Duration, want bool) {
			t.Helper()
			f.now = begin.Add(after)
			if _, found, err := f.store.Find("idle"); found != want || err != nil {
				t.Errorf("after %s: found %t, %v", after, found, err)
			}
		}
		at(10*time.Minute-time.Millisecond, true)
		if err := f.store.Touch(t.Context(), "idle"); err != nil {
			t.Fatal(err)
		}
		at(20*time.Minute-2*time.Millisecond, true)
		seen := func() time.Time {
			t.Helper()
			all, err := f.store.Of(t.Context(), "ann", "")
			if err != nil || len(all) != 1 {
				t.Fatalf("%+v, %v", all, err)
			}
			return all[0].Seen
		}
		for _, later := range []time.Duration{59_999 * time.Millisecond, time.Minute} { // it writes once a minute
			f.now = begin.Add(10*time.Minute - time.Millisecond + later)
			before := seen()
			if err := f.store.Touch(t.Context(), "idle"); err != nil {
				t.Fatal(err)
			}
			if moved := !seen().Equal(before); moved != (later == time.Minute) {
				t.Errorf("used again after %s: written %t", later, moved)
			}
		}
		at(21*time.Minute-2*time.Millisecond, true)
		at(21*time.Minute-time.Millisecond, false)
		if err := f.store.Touch(t.Context(), "nobody's"); err != nil {
			t.Error(err)
		}
	})
}

// What an ended session held is gone, also when a request that was still running writes it
// again.
func TestAnEndedSessionHoldsNothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		f := setUp(t, db)
		values := map[string]any{sessions.AccountKey: "ann"}
		f.commit(t, "over", values)
		if err := f.store.End(t.Context(), "ann", sessions.ID("over")); err != nil {
			t.Fatal(err)
		}
		f.commit(t, "over", values)
		var data string
		if err := db.QueryRow(`SELECT data FROM sessions WHERE token_hash = $1`, sessions.ID("over")).Scan(&data); err != nil || data != "" {
			t.Errorf("%q, %v", data, err)
		}
		if _, found, err := f.store.Find("over"); found || err != nil {
			t.Errorf("found %t, %v", found, err)
		}
	})
}
