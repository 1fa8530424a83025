package sqlplaces_test

import (
	"context"
	"database/sql"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/internal/changes"
	"authguard/internal/database/databasetest"
	"authguard/internal/sqlplaces"
	"authguard/trusted"
	"authguard/trusted/trustedtest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return noon.Add(d) }

func who(n int) trusted.Key   { return trusted.Key{byte(n), byte(n >> 8), 1} }
func where(n int) trusted.Key { return trusted.Key{byte(n), byte(n >> 8), 2} }

func TestMain(m *testing.M) { databasetest.Main(m) }

func mustStore(t testing.TB, db *sql.DB, cache int, now func() time.Time) *sqlplaces.Store {
	t.Helper()
	s, err := sqlplaces.New(t.Context(), sqlplaces.Config{DB: db, Cache: cache, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func still() time.Time { return noon }

func remember(t testing.TB, s *sqlplaces.Store, account, place trusted.Key, now time.Time) {
	t.Helper()
	if err := s.Remember(t.Context(), account, place, now); err != nil {
		t.Fatal(err)
	}
}

func want(t testing.TB, s *sqlplaces.Store, account, place trusted.Key, now time.Time, want trusted.Status) {
	t.Helper()
	if got, err := s.Status(t.Context(), account, place, now); err != nil || got != want {
		t.Errorf("status %d (%v), want %d", got, err, want)
	}
}

func TestTheStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		trustedtest.Run(t, func(t *testing.T) trusted.Store { return mustStore(t, open(t), 0, still) })
	})
}

func TestTheStoreKeepsTheContractBeyondItsCache(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		trustedtest.Run(t, func(t *testing.T) trusted.Store { return mustStore(t, open(t), 1, still) })
	})
}

func TestPlacesSurviveARestart(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		s := mustStore(t, db, 0, still)
		remember(t, s, who(1), where(1), noon)
		if err := s.Spend(t.Context(), who(1), where(2), noon); err != nil {
			t.Fatal(err)
		}
		if err := s.Forget(t.Context(), who(2), trusted.Key{}, noon); err != nil {
			t.Fatal(err)
		}
		for _, cache := range []int{0, 1} {
			s = mustStore(t, db, cache, still)
			want(t, s, who(1), where(1), noon, trusted.Privileged)
			want(t, s, who(1), where(2), noon, trusted.Spent)
			if got, err := s.ResetAt(t.Context(), who(2)); err != nil || !got.Equal(noon) {
				t.Errorf("reset at %v (%v), want %v", got, err, noon)
			}
		}
	})
}

// A closed database is the proof that nothing asked it.
func TestAMissAsksNoDatabaseWhileEverythingFits(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		s := mustStore(t, db, 10, still)
		remember(t, s, who(1), where(1), noon)
		db.Close()
		want(t, s, who(1), where(1), noon, trusted.Privileged)
		want(t, s, who(1), where(2), noon, trusted.Stranger)
		want(t, s, who(2), where(1), noon, trusted.Stranger)
	})
}

func TestAMissBeyondTheCacheIsAnErrorWithoutADatabase(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		s := mustStore(t, db, 1, still)
		remember(t, s, trusted.Key{64}, where(1), noon)
		remember(t, s, trusted.Key{128}, where(1), noon) // the same shard
		db.Close()
		want(t, s, trusted.Key{128}, where(1), noon, trusted.Privileged)
		if got, err := s.Status(t.Context(), trusted.Key{64}, where(1), noon); err == nil || got != trusted.Stranger {
			t.Errorf("status %d, %v", got, err)
		}
	})
}

func lastUsed(t *testing.T, db *sql.DB, place trusted.Key) (ms int64) {
	t.Helper()
	err := db.QueryRow("SELECT last_used FROM places WHERE place = $1", hex.EncodeToString(place[:])).Scan(&ms)
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

func TestAKnownPlaceIsWrittenOncePerHour(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		s := mustStore(t, db, 0, still)
		remember(t, s, who(1), where(1), noon)
		for minute := range 60 {
			remember(t, s, who(1), where(1), at(time.Duration(minute)*time.Minute))
		}
		if got := lastUsed(t, db, where(1)); got != noon.UnixMilli() {
			t.Errorf("written within the hour: %v", time.UnixMilli(got))
		}
		remember(t, s, who(1), where(1), at(time.Hour))
		if got := lastUsed(t, db, where(1)); got != at(time.Hour).UnixMilli() {
			t.Errorf("not written after an hour: %v", time.UnixMilli(got))
		}
		db.Close()
		remember(t, s, who(1), where(1), at(time.Hour+59*time.Minute))
	})
}

func TestWhatCannotBeWrittenIsNotPrivileged(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		s := mustStore(t, db, 0, still)
		remember(t, s, who(1), where(1), noon)
		db.Close()
		if s.Remember(t.Context(), who(1), where(2), noon) == nil {
			t.Error("Remember said nothing")
		}
		want(t, s, who(1), where(2), noon, trusted.Stranger)
		if s.Spend(t.Context(), who(1), where(1), noon) == nil {
			t.Error("Spend said nothing")
		}
		want(t, s, who(1), where(1), noon, trusted.Spent)
	})
}

// The other process is a second store on the same tables.
func TestRefreshTakesOverWhatAnotherProcessDid(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		server := mustStore(t, db, 0, still)
		for n := range 3 {
			remember(t, server, who(n), where(n), noon)
		}
		remember(t, server, who(1), where(9), noon)
		command := mustStore(t, db, 0, still)
		if err := command.Forget(t.Context(), who(0), trusted.Key{}, at(time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := command.Forget(t.Context(), who(1), where(1), at(time.Second)); err != nil {
			t.Fatal(err)
		}
		remember(t, command, who(5), where(5), at(time.Second))
		if err := server.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, server, who(0), where(0), at(time.Second), trusted.Stranger)
		want(t, server, who(1), where(1), at(time.Second), trusted.Stranger)
		want(t, server, who(1), where(9), at(time.Second), trusted.Privileged)
		want(t, server, who(2), where(2), at(time.Second), trusted.Privileged)
		want(t, server, who(5), where(5), at(time.Second), trusted.Privileged)
		if got, _ := server.ResetAt(t.Context(), who(0)); !got.Equal(at(time.Second)) {
			t.Errorf("reset at %v", got)
		}
	})
}

func TestWhatANodeWithASlowClockDidIsSeen(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		here := mustStore(t, db, 0, still)
		remember(t, here, who(1), where(1), at(-time.Hour))
		there := mustStore(t, db, 0, func() time.Time { return at(-50 * time.Second) })
		if err := there.Forget(t.Context(), who(1), trusted.Key{}, at(-50*time.Second)); err != nil {
			t.Fatal(err)
		}
		remember(t, there, who(2), where(2), at(-50*time.Second))
		if err := here.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, here, who(1), where(1), noon, trusted.Stranger)
		want(t, here, who(2), where(2), noon, trusted.Privileged)
	})
}

func TestOthersAreToldOfWhatTheyMustKnowAndOfNothingElse(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := mustStore(t, db, 0, still)
		told := func(want int, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			var got int
			err = db.QueryRow(`SELECT COALESCE(MAX(version), 0) FROM changes WHERE name = $1`, changes.Places).Scan(&got)
			if err != nil || got != want {
				t.Errorf("told %d times (%v), want %d", got, err, want)
			}
		}
		told(1, s.Remember(t.Context(), who(1), where(1), noon))
		told(2, s.Remember(t.Context(), who(1), where(2), noon))
		told(2, s.Remember(t.Context(), who(1), where(2), at(2*time.Hour))) // written, and no news
		told(3, s.Spend(t.Context(), who(1), where(2), noon))
		told(4, s.Forget(t.Context(), who(1), where(1), noon))
		told(5, s.Forget(t.Context(), who(1), trusted.Key{}, noon))
	})
}

// The watcher of the other node finds the number and has the place read.
func TestANewPlaceReachesAnotherNodeInItsNextRound(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		here, there := mustStore(t, db, 0, still), mustStore(t, db, 0, still)
		rounds := 0
		watcher, err := changes.New(changes.Config{DB: db})
		if err != nil {
			t.Fatal(err)
		}
		watcher.On(changes.Places, func(ctx context.Context) error {
			rounds++
			return there.Refresh(ctx)
		})
		for round, change := range []func(){
			func() {},
			func() { remember(t, here, who(1), where(1), noon) },
			func() {},
		} {
			change()
			if err := watcher.Poll(t.Context()); err != nil {
				t.Fatal(round, err)
			}
		}
		want(t, there, who(1), where(1), noon, trusted.Privileged)
		if rounds != 2 {
			t.Errorf("the places were read %d times, want 2", rounds)
		}
	})
}

func TestPeekIsWhatMemoryHolds(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		s := mustStore(t, db, 0, still)
		remember(t, s, who(1), where(1), noon)
		db.Close()
		if record, ok := s.Peek(who(1)); !ok || record.Status(where(1), noon, trusted.Limits{}.WithDefaults()) != trusted.Privileged {
			t.Errorf("%+v, %v", record, ok)
		}
		if record, ok := s.Peek(who(2)); ok {
			t.Errorf("%+v of a stranger", record)
		}
	})
}

// A place that was spent while the database was away must not come back with
// the next restart.
func TestWhatCouldNotBeWrittenIsWrittenWithTheNextChange(t *testing.T) {
	t.Parallel()
	db := databasetest.SQLite(t)
	s := mustStore(t, db, 0, still)
	remember(t, s, who(1), where(1), noon)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if s.Spend(ended, who(1), where(1), noon) == nil {
		t.Error("Spend said nothing")
	}
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s, who(1), where(1), noon, trusted.Spent)
	remember(t, s, who(1), where(2), noon)
	want(t, mustStore(t, db, 0, still), who(1), where(1), noon, trusted.Spent)
}

func TestRefreshKeepsUsesThatWereNotWritten(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		s := mustStore(t, db, 0, still)
		remember(t, s, who(1), where(1), noon)
		remember(t, s, who(1), where(1), at(30*time.Minute))
		if err := s.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, s, who(1), where(1), at(trusted.DefaultTTL+20*time.Minute), trusted.Privileged)
	})
}

func TestPurgeDeletesOnlyWhatExpired(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		now := noon
		s := mustStore(t, db, 0, func() time.Time { return now })
		remember(t, s, who(1), where(1), noon)
		remember(t, s, who(1), where(2), at(time.Hour))
		if err := s.Forget(t.Context(), who(2), trusted.Key{}, noon); err != nil {
			t.Fatal(err)
		}
		now = at(trusted.DefaultTTL)
		rows, err := s.Purge(t.Context())
		if err != nil || rows != 2 {
			t.Errorf("%d rows went (%v), want 2", rows, err)
		}
		want(t, s, who(1), where(2), now, trusted.Privileged)
		if got, _ := s.ResetAt(t.Context(), who(2)); !got.IsZero() {
			t.Errorf("memory keeps a purged reset: %v", got)
		}
	})
}

func TestChangesInParallelKeepMemoryAndTableEqual(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		s := mustStore(t, db, 20, still)
		var all sync.WaitGroup
		for n := range 4 {
			all.Go(func() {
				for i := range 30 {
					account, place := who(64*(i%8)), where(n*7+i%5)
					if i%7 == 6 {
						s.Spend(context.Background(), account, place, at(time.Duration(i)*time.Minute))
					} else {
						s.Remember(context.Background(), account, place, at(time.Duration(i)*time.Minute))
					}
					s.Status(context.Background(), who(i), place, noon)
				}
			})
		}
		all.Wait()
		fresh := mustStore(t, db, 0, still)
		for i := range 8 {
			for p := range 40 {
				status, err := fresh.Status(t.Context(), who(64*i), where(p), noon)
				if err != nil {
					t.Fatal(err)
				}
				want(t, s, who(64*i), where(p), noon, status)
			}
		}
	})
}

func BenchmarkStatusOfAStranger(b *testing.B) {
	s := mustStore(b, databasetest.SQLite(b), 0, still)
	remember(b, s, who(1), where(1), noon)
	b.ReportAllocs()
	for b.Loop() {
		s.Status(b.Context(), who(2), where(1), noon)
	}
}

func BenchmarkStatusOfAKnownPlace(b *testing.B) {
	s := mustStore(b, databasetest.SQLite(b), 0, still)
	remember(b, s, who(1), where(1), noon)
	b.ReportAllocs()
	for b.Loop() {
		s.Status(b.Context(), who(1), where(1), noon)
	}
}

func BenchmarkPeekAtAStranger(b *testing.B) {
	s := mustStore(b, databasetest.SQLite(b), 0, still)
	b.ReportAllocs()
	for b.Loop() {
		s.Peek(who(2))
	}
}

// Each place is new and of another account, so only the number that tells other
// nodes is shared.
func BenchmarkNewPlacesAtOnce(b *testing.B) {
	s := mustStore(b, databasetest.Postgres(b), 0, still)
	var n atomic.Int64
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			account := trusted.Key{byte(i), byte(i >> 8), byte(i >> 16), 1}
			if err := s.Remember(context.Background(), account, where(1), noon); err != nil {
				b.Error(err)
			}
		}
	})
}
