package known_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"authguard/internal/database/databasetest"
	"authguard/internal/known"
	"authguard/trusted"
	"authguard/trusted/trustedtest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return noon.Add(d) }

// key is a digest, in which every bit is random.
func key(kind, n uint64) (k trusted.Key) {
	random := rand.New(rand.NewPCG(kind, n))
	binary.LittleEndian.PutUint64(k[:], random.Uint64())
	binary.LittleEndian.PutUint64(k[8:], random.Uint64())
	return k
}

func account(n int) trusted.Key { return key(1, uint64(n)) }
func client(n int) trusted.Key  { return key(2, uint64(n)) }

func TestMain(m *testing.M) { databasetest.Main(m) }

func mustStore(t testing.TB, db *sql.DB, now func() time.Time) *known.Store {
	t.Helper()
	s, err := known.New(t.Context(), known.Config{DB: db, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func still() time.Time { return noon }

func remember(t testing.TB, s *known.Store, account, client trusted.Key, now time.Time) {
	t.Helper()
	if err := s.Remember(t.Context(), account, client, now); err != nil {
		t.Fatal(err)
	}
}

func want(t testing.TB, s *known.Store, account, client trusted.Key, now time.Time, want trusted.Status) {
	t.Helper()
	record, err := s.Record(t.Context(), account, now)
	if got := record.Status(client); err != nil || got != want {
		t.Errorf("status %d (%v), want %d", got, err, want)
	}
}

func TestTheStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		trustedtest.Run(t, func(t *testing.T) trusted.Store { return mustStore(t, open(t), still) })
	})
}

func TestKnownClientsSurviveARestart(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		s := mustStore(t, db, still)
		remember(t, s, account(1), client(1), noon)
		if err := s.Spend(t.Context(), account(1), client(2), noon); err != nil {
			t.Fatal(err)
		}
		if err := s.Forget(t.Context(), account(2), trusted.Key{}, noon); err != nil {
			t.Fatal(err)
		}
		s = mustStore(t, db, still)
		want(t, s, account(1), client(1), noon, trusted.Known)
		want(t, s, account(1), client(2), noon, trusted.Spent)
		if got, err := s.Record(t.Context(), account(2), noon); err != nil || got.Reset != noon.UnixMilli() {
			t.Errorf("reset at %v (%v), want %v", got.Reset, err, noon)
		}
	})
}

// R6: a closed database is the proof that no query was made.
func TestInventedNamesCostNoQuery(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		s := mustStore(t, db, still)
		for n := range 100 {
			remember(t, s, account(n), client(1), noon)
		}
		s = mustStore(t, db, still)
		db.Close()
		for n := 100; n < 10_000; n++ {
			want(t, s, account(n), client(1), noon, trusted.Unknown)
		}
		for n := range 100 {
			record, err := s.Record(t.Context(), account(n), noon)
			if err == nil || record.Status(client(1)) != trusted.Unknown {
				t.Errorf("account %d is known without a query: %v", n, err)
			}
		}
	})
}

func TestAFailedWriteIsReported(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		s := mustStore(t, db, still)
		db.Close()
		for what, err := range map[string]error{
			"remember": s.Remember(t.Context(), account(1), client(1), noon),
			"spend":    s.Spend(t.Context(), account(1), client(1), noon),
			"forget":   s.Forget(t.Context(), account(1), trusted.Key{}, noon),
		} {
			if err == nil {
				t.Errorf("%s: no error", what)
			}
		}
	})
}

func version(t testing.TB, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT version FROM known_clients").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAKnownClientIsWrittenOnceAnHour(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		s := mustStore(t, db, still)
		for minute := range 60 {
			remember(t, s, account(1), client(1), at(time.Duration(minute)*time.Minute))
		}
		if got := version(t, db); got != 1 {
			t.Errorf("%d writes within the hour, want 1", got)
		}
		remember(t, s, account(1), client(1), at(time.Hour))
		if got := version(t, db); got != 2 {
			t.Errorf("%d writes after an hour, want 2", got)
		}
	})
}

// The other process is a second store on the same tables. What it removes is gone at once; what it
// adds to an account that had no client needs a Refresh.
func TestAnotherProcessSeesEveryChange(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		here := mustStore(t, db, still)
		remember(t, here, account(1), client(1), noon)
		remember(t, here, account(1), client(2), noon)
		there := mustStore(t, db, func() time.Time { return at(-50 * time.Second) }) // its clock is slow
		if err := there.Forget(t.Context(), account(1), client(1), noon); err != nil {
			t.Fatal(err)
		}
		want(t, here, account(1), client(1), noon, trusted.Unknown)
		want(t, here, account(1), client(2), noon, trusted.Known)
		remember(t, there, account(1), client(3), noon)
		want(t, here, account(1), client(3), noon, trusted.Known)
		if err := there.Forget(t.Context(), account(1), trusted.Key{}, at(time.Second)); err != nil {
			t.Fatal(err)
		}
		want(t, here, account(1), client(2), at(time.Second), trusted.Unknown)
		remember(t, there, account(2), client(1), at(-50*time.Second))
		if err := here.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, here, account(2), client(1), noon, trusted.Known)
	})
}

func TestPurgeDeletesOnlyWhatExpired(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		now := noon
		s := mustStore(t, open(t), func() time.Time { return now })
		remember(t, s, account(1), client(1), noon)
		remember(t, s, account(1), client(2), at(time.Hour))
		remember(t, s, account(3), client(1), noon)
		if err := s.Forget(t.Context(), account(2), trusted.Key{}, noon); err != nil {
			t.Fatal(err)
		}
		now = at(trusted.DefaultTTL)
		rows, err := s.Purge(t.Context())
		if err != nil || rows != 2 {
			t.Errorf("%d rows deleted (%v), want 2", rows, err)
		}
		want(t, s, account(1), client(1), now, trusted.Unknown)
		want(t, s, account(1), client(2), now, trusted.Known)
		if got, _ := s.Record(t.Context(), account(2), now); got.Reset != 0 {
			t.Errorf("a purged reset is kept: %v", got.Reset)
		}
	})
}

// Two nodes change the same accounts at the same time: each change of either is in the table.
func TestParallelChangesOfTwoNodesAreAllKept(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		nodes := []*known.Store{mustStore(t, db, still), mustStore(t, db, still)}
		var all sync.WaitGroup
		for n := range trusted.DefaultLimits {
			all.Go(func() {
				for a := range 8 {
					if err := nodes[n%2].Remember(context.Background(), account(a), client(n), noon); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		for a := range 8 {
			for n := range trusted.DefaultLimits {
				want(t, nodes[a%2], account(a), client(n), noon, trusted.Known)
			}
			if err := nodes[a%2].Remember(t.Context(), account(a), client(99), noon); err == nil {
				t.Error("an eleventh client within the hour")
			}
		}
	})
}

// R30, R7: each node counts what all have counted, and after a restart, too.
func TestASharedAddressIsSoOnEveryNode(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		nodes := []*known.Store{mustStore(t, db, still), mustStore(t, db, still)}
		pool, home := key(3, 1), key(3, 2)
		for n := range trusted.DefaultSharers + 1 {
			_, err := nodes[n%2].SharedAddresses().Add(t.Context(), account(n), pool, noon)
			if err == nil {
				_, err = nodes[n%2].SharedAddresses().Add(t.Context(), account(n%2), home, noon)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := nodes[1].Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, s := range append(nodes, mustStore(t, db, still)) {
			shared := s.SharedAddresses()
			if !shared.Shared(pool, noon) || shared.Several(home, noon) {
				t.Errorf("node %d: the pool is shared: %v, the home has several accounts: %v", i,
					shared.Shared(pool, noon), shared.Several(home, noon))
			}
			if used, err := shared.Used(t.Context(), home, noon); err != nil || !used {
				t.Errorf("node %d: the home is used: %v, %v", i, used, err)
			}
			want(t, s, account(1), pool, noon, trusted.Unknown) // no client is known by that
		}
	})
}

func databases(b *testing.B, run func(b *testing.B, s *known.Store)) {
	for name, open := range map[string]func(testing.TB) *sql.DB{
		"sqlite": func(t testing.TB) *sql.DB { return databasetest.SQLite(t) }, "postgres": databasetest.Postgres,
	} {
		b.Run(name, func(b *testing.B) {
			s := mustStore(b, open(b), still)
			for n := range 10 {
				remember(b, s, account(1), client(n), noon)
			}
			run(b, s)
		})
	}
}

func BenchmarkRecordOfAnInventedName(b *testing.B) {
	databases(b, func(b *testing.B, s *known.Store) {
		b.ReportAllocs()
		for b.Loop() {
			s.Record(b.Context(), account(2), noon)
		}
	})
}

func BenchmarkRecordOfTenClients(b *testing.B) {
	databases(b, func(b *testing.B, s *known.Store) {
		b.ReportAllocs()
		for b.Loop() {
			s.Record(b.Context(), account(1), noon)
		}
	})
}

// Each login writes: the last use is an hour later each time.
func BenchmarkRememberAnHourLater(b *testing.B) {
	databases(b, func(b *testing.B, s *known.Store) {
		now := noon
		for b.Loop() {
			now = now.Add(time.Hour)
			if err := s.Remember(b.Context(), account(1), client(1), now); err != nil {
				b.Fatal(err)
			}
		}
	})
}
