package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/database/databasetest"
	"authguard/internal/events"
	"authguard/internal/operation"
)

var (
	noon   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	client = netip.MustParseAddr("192.0.2.7")
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// openLog is a log over a migrated database, which does not run.
func openLog(t *testing.T, open databasetest.Open, cfg Config) *Log {
	t.Helper()
	cfg.Logger = quiet()
	l := New(open(t), cfg)
	l.drain = time.Hour // no slow machine loses a row
	return l
}

func refusal(account string) guard.Event {
	return guard.Event{At: noon, Integration: "login", Account: account, Address: client}
}

func success(account string) guard.Event {
	e := refusal(account)
	e.Action, e.Settled, e.Outcome = guard.Proceed, true, guard.Succeeded
	return e
}

// drain writes what waits: the last work of a Run that has been stopped.
func drain(l *Log) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l.Run(ctx)
}

// written drains the log, so that everything is in the table, and reads it.
func written(t *testing.T, l *Log, f Filter) []Row {
	t.Helper()
	drain(l)
	rows, err := l.Recent(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestLikeEventsShareARowWithTheirNumber(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		e := refusal("alice")
		e.Realm = "shop"
		e.Reasons = guard.Reasons{guard.Reason{Cause: guard.LimitReached, Subject: guard.OnAccount}, guard.Reason{Cause: guard.ModeOn}}
		l.Handle([]guard.Event{e, e, e})
		rows := written(t, l, Filter{})
		if len(rows) != 1 {
			t.Fatalf("%d rows: %+v", len(rows), rows)
		}
		got := rows[0]
		want := Row{
			ID: got.ID, At: got.At, Last: got.Last, Realm: "shop", Kind: KindAttempt, Decision: "blocked", Account: "alice",
			Address: "192.0.2.7", Reasons: "limit:account,captcha-mode", Count: 3, Detail: "login",
		}
		if got != want || !got.At.Equal(noon) || !got.Last.Equal(noon) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestEventsThatDifferDoNotShareARow(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		base := refusal("alice")
		list := []guard.Event{base, base, base, base, base, base, base}
		list[1].Account = "bob"
		list[2].Address = netip.MustParseAddr("192.0.2.8")
		list[3].Action = guard.Challenge
		list[4].Settled = true
		list[5].Reasons = guard.Reasons{guard.Reason{Cause: guard.ModeOn}}
		list[6].Known = true
		l.Handle(list)
		if rows := written(t, l, Filter{}); len(rows) != len(list) {
			t.Fatalf("%d rows, want %d", len(rows), len(list))
		}
	})
}

func TestAnAttemptIsWrittenWhenItIsSettledAndNotBefore(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		begun := refusal("alice")
		begun.Action = guard.Proceed
		settled := begun
		settled.Settled, settled.Outcome, settled.NewClient = true, guard.Succeeded, true
		l.Handle([]guard.Event{begun, settled})
		rows := written(t, l, Filter{})
		if len(rows) != 1 || rows[0].Decision != "succeeded" || rows[0].Detail != "login, unknown client" {
			t.Fatalf("%+v", rows)
		}
	})
}

func TestTheMinutesAllowanceOpensAgain(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		l.Tick(noon)
		for i := range 100 {
			l.Handle([]guard.Event{refusal(fmt.Sprint("made-up-", i))})
		}
		l.Tick(noon.Add(59 * time.Second))
		l.Handle([]guard.Event{refusal("too early")})
		l.Tick(noon.Add(60 * time.Second))
		l.Handle([]guard.Event{refusal("in time")})
		drain(l)
		var rows, sum int
		if err := l.db.QueryRow("SELECT count(*), sum(count) FROM audit").Scan(&rows, &sum); err != nil {
			t.Fatal(err)
		}
		if rows != 60+1+1 || sum != 102 {
			t.Fatalf("%d rows for %d events, want 62 for 102", rows, sum)
		}
		if rows := written(t, l, Filter{Account: "in time"}); len(rows) != 1 || rows[0].Count != 1 {
			t.Fatalf("%+v", rows)
		}
	})
}

func TestHostileNamesAreStoredAsData(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		for _, name := range []string{"\x00", "\xff", "'; DROP TABLE audit; --", "a\nb", "\u202e", strings.Repeat("x", 10000)} {
			l := openLog(t, open, Config{})
			l.Handle([]guard.Event{refusal(name)})
			rows := written(t, l, Filter{Account: name})
			if len(rows) != 1 || rows[0].Account != events.Escape(name) {
				t.Errorf("%.20q: %+v", name, rows)
			}
		}
	})
}

func TestRecentFiltersAndPages(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		for i := range 10 {
			e := refusal([]string{"alice", "bob"}[i%2])
			e.At = noon.Add(time.Duration(i) * time.Minute)
			l.Handle([]guard.Event{e})
			l.Tick(e.At)
		}
		all := written(t, l, Filter{})
		for i := 1; i < len(all); i++ {
			if !all[i].At.Before(all[i-1].At) {
				t.Fatalf("row %d is not older than the one before it", i)
			}
		}
		for name, c := range map[string]struct {
			f    Filter
			want int
		}{
			"all":           {Filter{}, 10},
			"account":       {Filter{Account: "alice"}, 5},
			"address":       {Filter{Network: One(client)}, 10},
			"other address": {Filter{Network: One(netip.MustParseAddr("192.0.2.8"))}, 0},
			"since":         {Filter{Since: noon.Add(7 * time.Minute)}, 3},
			"limit":         {Filter{Limit: 4}, 4},
			"before":        {Filter{Before: all[6].ID}, 3},
			"both":          {Filter{Account: "bob", Since: noon.Add(8 * time.Minute), Network: One(client)}, 1},
		} {
			rows, err := l.Recent(t.Context(), c.f)
			if err != nil || len(rows) != c.want {
				t.Errorf("%s: %d rows (%v), want %d", name, len(rows), err, c.want)
			}
		}
	})
}

func TestEveryRowIsARealmsAndAFloodOnOneFlushesNoOther(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		in := func(realm, account string) guard.Event {
			e := refusal(account)
			e.Realm = realm
			return e
		}
		for i := range 2 * perMinute(events.Refused) {
			l.Handle([]guard.Event{in("shop", fmt.Sprint("made-up-", i))})
		}
		l.Handle([]guard.Event{in("", "alice"), in(guard.DefaultRealm, "alice"), in("wiki", "alice")})
		l.HandleSwitch(events.ModeSwitch{At: noon, Realm: "shop", From: "off", To: "on"})
		if err := l.Record(t.Context(), operation.Action{Who: "root", What: "unlock", Realm: "shop"}); err != nil {
			t.Fatal(err)
		}
		drain(l)
		for realm, want := range map[string]int{"shop": perMinute(events.Refused) + 3, "wiki": 1, guard.DefaultRealm: 1, "": perMinute(events.Refused) + 5, "other": 0} {
			if rows := written(t, l, Filter{Realm: realm}); len(rows) != want {
				t.Errorf("%s: %d rows, want %d", realm, len(rows), want)
			}
		}
		rows := written(t, l, Filter{Account: "alice"})
		if len(rows) != 2 || rows[0].Realm+rows[1].Realm != "wiki" {
			t.Errorf("%+v", rows)
		}
	})
}

func TestActionsAreOnRecordAtOnceAndFoundBySubject(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		for _, a := range []operation.Action{
			{Who: "root", What: "unlock", Subject: "alice", Detail: "called\nthe desk"},
			{Who: "root", What: "block", Subject: "192.0.2.7"},
			{Who: "root", What: "block", Subject: "192.0.2.9/24"},
		} {
			if err := l.Record(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := l.Recent(t.Context(), Filter{Account: "alice"})
		if err != nil || len(rows) != 1 || rows[0].Decision != "unlock" || rows[0].Who != "root" {
			t.Fatalf("%+v, %v", rows, err)
		}
		rows, err = l.Recent(t.Context(), Filter{Network: One(client), Kind: KindAdmin})
		if err != nil || len(rows) != 2 || rows[0].Address != "192.0.2.0/24" || rows[1].Address != "192.0.2.7" {
			t.Fatalf("%+v, %v", rows, err)
		}
		if err := l.Record(t.Context(), operation.Action{What: "unlock"}); err == nil {
			t.Error("an action without a who was recorded")
		}
	})
}

func TestAnActionThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		l.db.Close()
		if err := l.Record(t.Context(), operation.Action{Who: "root", What: "unlock"}); err == nil {
			t.Fatal("no error")
		}
	})
}

func TestAModeSwitchIsOnRecord(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		l.HandleSwitch(events.ModeSwitch{At: noon, From: "off", To: "on", Cause: "forced", Who: "root", Why: "drill", FailureRate: 3, Threshold: 1e6})
		rows := written(t, l, Filter{Kind: KindMode})
		if len(rows) != 1 || rows[0].Decision != "on" || rows[0].Who != "root" ||
			rows[0].Detail != "from off; failure rate 3 a minute, threshold 1,000,000; drill" {
			t.Fatalf("%+v", rows)
		}
	})
}

// faulty is a database that fails until it is mended.
type faulty struct {
	broken atomic.Bool
	tries  atomic.Int32
	rows   []Row // read after Run
}

func brokenDatabase() *faulty {
	f := new(faulty)
	f.broken.Store(true)
	return f
}

func (f *faulty) write(_ context.Context, rows []Row) error {
	f.tries.Add(1)
	if f.broken.Load() {
		return errors.New("the disk is full")
	}
	f.rows = append(f.rows, rows...)
	return nil
}

func (f *faulty) events() (sum int64) {
	for _, r := range f.rows {
		sum += r.Count
	}
	return sum
}

// faultyLog runs until it is stopped.
func faultyLog(f *faulty, w io.Writer) (l *Log, stop func()) {
	l = New(nil, Config{Logger: slog.New(slog.NewTextHandler(w, nil))})
	l.write = f.write
	return l, background.Go(l.Run)
}

func TestAFailingDatabaseLosesNothingOnceItIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := brokenDatabase()
		l, stop := faultyLog(f, io.Discard)
		for second := range 30 {
			for i := range 2500 {
				l.Handle([]guard.Event{success(fmt.Sprint(second, "-", i))})
			}
			l.Tick(time.Now())
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if waiting := l.waiting + len(l.open.rows); waiting > mostWaiting+mostRows || f.tries.Load() == 0 {
			t.Errorf("%d rows wait after %d tries", waiting, f.tries.Load())
		}
		f.broken.Store(false)
		stop()
		if f.events() != 30*2500 {
			t.Errorf("%d events on record, want %d", f.events(), 30*2500)
		}
	})
}

func TestRetriesBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := brokenDatabase()
		l, stop := faultyLog(f, io.Discard)
		l.Handle([]guard.Event{refusal("alice")})
		l.Tick(time.Now())
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := f.tries.Load(); n != 14 { // after 0, 1, 3, 7, 15, 31 seconds, then each 30
			t.Errorf("%d tries in five minutes, want 14", n)
		}
		f.broken.Store(false)
		stop()
	})
}

// The pause between two tries may be longer than what is left to drain.
func TestADatabaseThatIsBackAtTheEndGetsEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := brokenDatabase()
		l, stop := faultyLog(f, io.Discard)
		l.Handle([]guard.Event{refusal("alice")})
		l.Tick(time.Now())
		time.Sleep(65 * time.Second) // the next try is 26 s away
		f.broken.Store(false)
		stop()
		if f.events() != 1 {
			t.Errorf("%d events on record, want 1", f.events())
		}
	})
}

func TestWhatIsGivenUpAtTheEndIsCountedAndReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		f := brokenDatabase()
		l, stop := faultyLog(f, &out)
		for i := range mostRows + 15 {
			l.Handle([]guard.Event{success(fmt.Sprint(i))})
		}
		l.Tick(time.Now())
		began := time.Now()
		stop()
		if took := time.Since(began); took != drainFor {
			t.Errorf("gave up after %v, want %v", took, drainFor)
		}
		if want := `msg="audit rows lost" rows=2015 events=2015`; !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	})
}

func TestAFailedBatchLeavesNoRowBehind(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		rows := make([]Row, chunk+1)
		for i := range rows {
			rows[i] = Row{At: noon, Kind: KindAttempt, Count: 1}
		}
		if _, err := l.db.Exec("CREATE UNIQUE INDEX one_bad ON audit (detail) WHERE detail = 'bad'"); err != nil {
			t.Fatal(err)
		}
		rows[0].Detail, rows[chunk].Detail = "bad", "bad"
		if err := l.insert(t.Context(), rows); err == nil {
			t.Fatal("no error")
		}
		if n := count(t, l.db); n != 0 {
			t.Fatalf("%d rows of a batch that failed", n)
		}
	})
}

func count(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT count(*) FROM audit").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
