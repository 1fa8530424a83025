package control_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/database/databasetest"
	"authguard/internal/metrics"
	"authguard/internal/operation"
)

func TestASeriesCountsEachSecondOfAnHourAndEachMinuteOfADay(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		now := d.w.Clock.Now()
		settled := func(at time.Time, o guard.Outcome) guard.Event {
			return guard.Event{At: at, Account: "ann", Action: guard.Proceed, Settled: true, Outcome: o}
		}
		stopped := func(at time.Time, a guard.Action) guard.Event { return guard.Event{At: at, Account: "ann", Action: a} }
		known, solved := settled(now, guard.Succeeded), settled(now, guard.Failed)
		known.Known = true
		solved.Reasons = guard.Reasons{{Cause: guard.ChallengeSolved}}
		d.tops.Handle([]guard.Event{
			stopped(now.Add(-25*time.Hour), guard.Challenge), stopped(now.Add(-23*time.Hour), guard.Challenge), stopped(now.Add(-59*time.Minute), guard.Challenge),
			known, solved, settled(now, guard.Failed), stopped(now, guard.Challenge), stopped(now, guard.Block), stopped(now, guard.Delay),
			stopped(now, guard.Proceed), // undecided
		})
		sum := func(span metrics.Span) (all metrics.Counts, last metrics.Point, n int) {
			t.Helper()
			s, err := d.Series(span)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range s.Points {
				all.Add(p.Counts)
			}
			return all, s.Points[len(s.Points)-1], len(s.Points)
		}
		here := metrics.Counts{Attempts: 6, Failures: 2, Logins: 1, Shown: 1, Solved: 1, Refused: 2, Known: 1}
		all, last, n := sum(metrics.LastHour)
		if n != 3600 || last.Counts != here || !last.Start.Equal(now) || all.Shown != 2 {
			t.Errorf("hour: %d points, last %+v, in all %+v", n, last, all)
		}
		all, last, n = sum(metrics.LastDay)
		if n != 1440 || last.Counts != here || !last.Start.Equal(now.Truncate(time.Minute)) || all.Shown != 3 {
			t.Errorf("day: %d points, last %+v, in all %+v", n, last, all)
		}
		d.w.Clock.Advance(2 * time.Hour)
		if all, _, _ := sum(metrics.LastHour); all != (metrics.Counts{}) {
			t.Errorf("two hours later: %+v", all)
		}
		if _, err := d.Series("week"); !errors.Is(err, operation.ErrAsked) {
			t.Errorf("a span that is none: %v", err)
		}
	})
}

func TestThePressureOfADayIsKeptThoughTheModeKeepsAnHour(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		first := d.w.Clock.Now().Truncate(time.Minute)
		for i := range 7 {
			d.w.Mode.Observe(captchamode.Failure, [16]byte{byte(i)})
		}
		for minute := range 25 * 60 {
			d.w.Clock.Advance(time.Minute)
			d.tops.Tick(d.w.Clock.Now())
			if minute < 24*60-5 {
				continue
			}
			// The last minute is missing as long as reports of it can be late.
			if s, _ := d.Series(metrics.LastDay); len(s.FailureRate) >= 1439 && s.FailureRate[0].Start.Equal(first) {
				if s.FailureRate[0].Failures != 7 || s.FailureRate[0].Threshold == 0 {
					t.Errorf("a day later the minute is %+v", s.FailureRate[0])
				}
				return
			}
		}
		t.Error("the day's first minute is not there when the day is full")
	})
}

func TestNetworksAndReasonsAreTops(t *testing.T) {
	t.Parallel()
	tops := new(metrics.Tops)
	limited := refused("ann", "192.0.2.1", noon)
	limited.Reasons = guard.Reasons{{Cause: guard.ModeOn, Monitored: true}, {Cause: guard.LimitReached, Subject: guard.OnAccount, Limit: &guard.Limit{Failures: 5, Window: time.Hour}}}
	tops.Handle([]guard.Event{
		failed("ann", "192.0.2.1", noon), limited, refused("bob", "192.0.2.99", noon), failed("bob", "2001:db8:0:1::1", noon), failed("bob", "2001:db8:0:ffff::1", noon),
	})
	got := tops.First("", noon, 9)
	if n := got.Networks; len(n) != 2 || n[0].Name != "192.0.2.0/24" || n[0].Failures != 1 || n[0].Stopped != 2 || n[1].Name != "2001:db8::/48" || n[1].Failures != 2 {
		t.Errorf("networks: %+v", n)
	}
	if r := got.Reasons; len(r) != 2 || r[0].Name != "none" || r[0].Failures != 3 || r[0].Stopped != 1 || r[1].Name != "limit:account" || r[1].Stopped != 1 ||
		r[1].Words != "limit reached: account" {
		t.Errorf("reasons: %+v", r)
	}
}
