//go:build !race

package captchamode_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"authguard/captchamode"
)

// quick lets minutes pass in one step each: so many log in, and so many fail unmended.
func (w *town) quick(d time.Duration, of func(at time.Time) (logins, failures int)) {
	for end := w.now.Add(d); w.now.Before(end); {
		logins, failures := of(w.now)
		w.now = w.now.Add(20 * time.Second)
		for range logins {
			w.serial++
			w.LoggedIn(key(w.serial), key(w.serial), true, w.now)
		}
		w.fail(failures)
		for range 2 {
			w.now = w.now.Add(20 * time.Second)
			w.Tick()
		}
	}
}

// office is a site where people work from eight to six, and few by night.
func office(at time.Time) (logins, failures int) {
	if h := at.Hour(); h < 8 || h >= 18 || at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
		return 2, 0
	}
	return 40, 4
}

// expected is the curve's threshold at an hour of the week.
func expected(w *town, weekday time.Weekday, hour int) float64 {
	return w.Week()[(int(weekday)+6)%7*24+hour].Threshold
}

func TestR25TheThresholdKnowsTheHour(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	if w.Week() != nil {
		t.Error("a week is known before an hour was seen")
	}
	w.quick(15*24*time.Hour+3*time.Hour+30*time.Minute, office)
	if s := w.State(); s.Threshold != 30 || s.Usual != 3 || s.Normal < 10 {
		t.Errorf("Tuesday at half past three: %+v; want the floor, though the day's average is %.1f", s, 5*s.Normal)
	}
	if got := [...]float64{expected(w, time.Tuesday, 3), expected(w, time.Wednesday, 12), expected(w, time.Saturday, 3)}; got != [...]float64{30, 200, 30} {
		t.Errorf("the curve is %v, want 200 by day and 30 by night", got)
	}
	// Some Saturday people work: it is half of a weekday's, and never more than the day's average.
	if got, want := expected(w, time.Saturday, 12), min(100, 5*w.State().Normal); got < want-0.1 || got > want+0.1 {
		t.Errorf("Saturday at noon: %.1f, want %.1f", got, want)
	}
}

// Until the first week is over the threshold is that of a mode that knows no hours.
func TestR25BeforeAWeekWasSeenNothingIsLowered(t *testing.T) {
	t.Parallel()
	w, flat := newTown(t, captchamode.DefaultConfig()), newTown(t, captchamode.DefaultConfig())
	for range 7 * 24 {
		w.quick(time.Hour, office)
		flat.quick(time.Hour, office)
		s := flat.Save()
		s.Week = captchamode.Week{}
		flat.Restore(s)
		w.Save() // learns the minute that has just ended, as flat did
		if got, want := w.State().Threshold, flat.State().Threshold; got < want || got > want*1.001 {
			t.Fatalf("%v: the threshold is %.2f, and %.2f without hours", w.now, got, want)
		}
	}
}

// A week is whatever a stranger made of it: the bounds hold for all.
func TestR25WhateverTheWeekTheThresholdStaysInItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Just(0.), rapid.Float64Range(0, 20), rapid.Float64Range(0, 2000))
		d := captchamode.Detector{Learned: 1 << 20, Normal: number.Draw(t, "normal"), Recent: number.Draw(t, "recent"), Most: 3000}
		d.Week.Foreseen = number.Draw(t, "foreseen")
		for range 168 {
			weeks := rapid.IntRange(0, 4)
			d.Week.Hours = append(d.Week.Hours, captchamode.Hour{
				Logins: number.Draw(t, "logins"), FailureRate: number.Draw(t, "pressure"), Weeks: weeks.Draw(t, "weeks"), Calm: weeks.Draw(t, "calm"),
			})
		}
		hour := rapid.IntRange(0, 167).Draw(t, "hour")
		at := time.Date(2026, 3, 2, hour, 30, 0, 0, time.UTC)
		m, err := captchamode.NewMode(captchamode.DefaultConfig(), func() time.Time { return at }, nil)
		if err != nil {
			t.Fatal(err)
		}
		m.Restore(captchamode.Snapshot{Detector: d})
		s := m.State()
		bounded := func(normal float64) float64 { return min(max(30, 5*normal), 500) }
		if s.Threshold < 30 || s.Threshold > 500 || s.Threshold < bounded(d.Recent) {
			t.Fatalf("%+v", s)
		}
		flat := bounded(max(d.Normal, d.Recent))
		trusted := d.Normal <= 2*d.Week.Foreseen
		near := func(hour int) (known bool) {
			known = true
			for beside := -1; beside <= 2; beside++ {
				known = known && d.Week.Hours[(hour+beside+168)%168].Weeks > 0
			}
			return known
		}
		for beside := -1; beside <= 2; beside++ {
			trusted = trusted && d.Week.Hours[(hour+beside+168)%168].Calm > 0
		}
		trusted = trusted && near(hour)
		for beside := -1; beside <= 1; beside++ { // a clock that is changed
			one := d.Week.Hours[(hour+beside+168)%168]
			if s.Threshold < min(flat, bounded(one.FailureRate+3)) && one.Calm > 0 {
				t.Fatalf("%d: usually %.1f failures, and the threshold is %.1f of %.1f", hour+beside, one.FailureRate, s.Threshold, flat)
			}
			if trusted && s.Threshold < bounded(one.Logins) {
				t.Fatalf("%d: usually %.1f logins, and the threshold is %.1f", hour+beside, one.Logins, s.Threshold)
			}
		}
		for day := range 7 {
			if one := d.Week.Hours[(hour+24*day)%168]; near(hour+24*day) && s.Threshold < min(flat, bounded(one.Logins/2)) {
				t.Fatalf("%d days on there are %.1f logins, and the threshold is %.1f of %.1f", day, one.Logins, s.Threshold, flat)
			}
		}
		if !trusted && s.Threshold < flat {
			t.Fatalf("the threshold is %.1f where the hours say nothing, %.1f without them", s.Threshold, flat)
		}
	})
}

// Whatever comes at an hour each week, five weeks do not double it (a month has each hour
// of the week five times at most), and a holiday takes an eighth.
func TestR25AnHourMovesByAnEighthInAWeek(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.Date(2026, 3, 2, 3, 0, 0, 0, time.UTC)
		m, err := captchamode.NewMode(captchamode.DefaultConfig(), func() time.Time { return at }, nil)
		if err != nil {
			t.Fatal(err)
		}
		was := rapid.Float64Range(0, 100).Draw(t, "was")
		d := captchamode.Detector{Learned: 1 << 20, Most: 1e9}
		d.Week.Hours = make([]captchamode.Hour, 168)
		d.Week.Hours[3] = captchamode.Hour{Logins: was, FailureRate: was, Weeks: 4, Calm: 4}
		for week := range 5 {
			d.Week.Running = captchamode.Running{Start: at, Minutes: 59, Calm: 59,
				Logins: rapid.Float64Range(0, 1e6).Draw(t, "logins"), FailureRate: rapid.Float64Range(0, 1e6).Draw(t, "pressure")}
			m.Restore(captchamode.Snapshot{Detector: d, Minutes: []captchamode.Minute{{Start: at.Add(59 * time.Minute)}}})
			at = at.Add(61 * time.Minute)
			m.Tick()
			m.Observe(captchamode.Failure, [16]byte{})
			at = at.Add(2 * time.Minute)
			m.Tick()
			d = m.Save().Detector
			h := d.Week.Hours[3]
			most := was
			for range week + 1 {
				most *= 1.125
			}
			if h.Logins > max(most, 6)+.01 || h.FailureRate > max(most, 3)+.01 || week == 0 && (h.Logins < was*.875-.01 || h.FailureRate < was*.875-.01) || h.Weeks != 4 {
				t.Fatalf("week %d: %.3f has become %+v", week, was, h)
			}
			at = at.Add(7*24*time.Hour - 63*time.Minute)
		}
		if h := d.Week.Hours[3]; was >= 6 && h.Logins >= 2*was {
			t.Fatalf("%.3f has become %+v", was, h)
		}
	})
}

// An attack at the same hour of every night teaches nothing, nor do its accounts.
func TestR25AnAttackAtTheSameHourTeachesNothing(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	w.quick(14*24*time.Hour, office)
	before := w.Week()
	w.on = 0
	nights := 0
	for range 10 {
		w.quick(3*time.Hour, office)
		w.quick(time.Hour, func(at time.Time) (int, int) {
			logins, failures := office(at)
			return logins, failures + 100
		})
		if w.On() {
			nights++
		}
		w.quick(20*time.Hour, office)
	}
	after := w.Week()
	if nights != 10 || after[3].Logins != before[3].Logins || after[3].FailureRate != before[3].FailureRate {
		t.Errorf("seen in %d nights of 10; Monday at three was %+v and is %+v", nights, before[3], after[3])
	}
}

// A node that was down learns nothing of the time, and a restart in the middle of an hour
// loses nothing of it.
func TestR7TheHoursOutliveTheProcess(t *testing.T) {
	t.Parallel()
	w, other := newTown(t, captchamode.DefaultConfig()), newTown(t, captchamode.DefaultConfig())
	w.quick(2*24*time.Hour, office)
	for range 2 * 24 * 3 {
		other.quick(20*time.Minute, office)
		text, err := json.Marshal(other.Save())
		var back captchamode.Snapshot
		if err != nil || json.Unmarshal(text, &back) != nil {
			t.Fatal(err)
		}
		again := newTown(t, captchamode.DefaultConfig())
		again.now, again.serial = other.now, other.serial
		again.Restore(back)
		other = again
	}
	w.Save() // learns the minute that has just ended, as other did
	if got, want := other.Week(), w.Week(); !reflect.DeepEqual(got, want) || len(got) != 168 {
		t.Errorf("with a restart every twenty minutes Monday at noon is %+v, without %+v", got[12], want[12])
	}
	w.quick(6*24*time.Hour, office)
	kept := w.Save()
	w.quick(24*time.Hour, office)
	if kept.Week.Hours[24+12].Weeks != 1 || w.Save().Week.Hours[24+12].Weeks != 2 {
		t.Error("what was saved has changed since")
	}
	before := w.Week()
	w.now = w.now.Add(3 * 24 * time.Hour) // down
	w.quick(10*time.Minute, office)
	for i, h := range w.Week() {
		if h.Hour != before[i].Hour && i != 47 {
			t.Errorf("hour %d was %+v and is %+v after three days without a node", i, before[i], h)
		}
	}
}

// Several nodes learn what one would, of all that they have counted.
func TestR25NodesLearnTheSameWeek(t *testing.T) {
	t.Parallel()
	one := newTown(t, captchamode.DefaultConfig())
	nodes, at, agreed := [3]*captchamode.Mode{}, one.now, (*captchamode.Agreed)(nil)
	for i := range nodes {
		m, err := captchamode.NewMode(captchamode.DefaultConfig(), func() time.Time { return at }, nil)
		if err != nil {
			t.Fatal(err)
		}
		m.Join(string(rune('a'+i)), func() {})
		nodes[i] = m
	}
	flush := func() {
		var all captchamode.Report
		for _, m := range nodes {
			r := m.Report()
			all.Minute = r.Minute
			for s := range r.FailureRate {
				all.FailureRate[s], all.Running[s], all.Last[s] = all.FailureRate[s]+r.FailureRate[s], all.Running[s]+r.Running[s], all.Last[s]+r.Last[s]
			}
		}
		for _, m := range nodes {
			if next := m.Merge(captchamode.Answer{To: m.Report(), Now: at, Nodes: 3, All: all, Agreed: agreed}); next != nil {
				agreed = next
				m.Apply(*next)
			}
		}
	}
	flush()
	serial := 0
	for range 24 * 60 { // the same moments on both
		logins, failures := office(one.now)
		one.now, at = one.now.Add(20*time.Second), at.Add(20*time.Second)
		for range logins {
			serial++
			one.LoggedIn(key(serial), key(serial), true, one.now)
			nodes[serial%3].LoggedIn(key(serial), key(serial), true, at)
		}
		for range failures {
			serial++
			one.Failed(key(serial), key(serial), [16]byte{}, one.now)
			nodes[serial%3].Failed(key(serial), key(serial), [16]byte{}, at)
		}
		for range 2 {
			one.now, at = one.now.Add(20*time.Second), at.Add(20*time.Second)
			one.Tick()
			flush()
		}
		at = at.Add(3 * time.Second) // reports come a little late
		flush()
		at = at.Add(-3 * time.Second)
	}
	for i, want := range one.Week() {
		for _, m := range nodes {
			if got := m.Week()[i]; got.Hour != want.Hour {
				t.Fatalf("hour %d: three nodes have learned %+v, and one %+v", i, got.Hour, want.Hour)
			}
		}
	}
}

// A version that knew no hours, and an empty Redis where a node wrote first that knew
// fewer, take nothing away.
func TestTheRicherWeekIsKept(t *testing.T) {
	t.Parallel()
	rich := captchamode.Week{Hours: make([]captchamode.Hour, 168)}
	rich.Hours[5] = captchamode.Hour{Logins: 3, Weeks: 2, Calm: 2}
	own := captchamode.Agreed{Version: "mine", Detector: captchamode.Detector{Learned: 100, Week: rich}}
	theirs := captchamode.Agreed{Version: "theirs", Number: 4, Detector: captchamode.Detector{Learned: 120}}
	for _, apart := range []bool{true, false} {
		if got := captchamode.Merge(&theirs, own, apart); !reflect.DeepEqual(got.Week, rich) || got.Learned != 120 {
			t.Errorf("apart %v: %+v", apart, got)
		}
		own, theirs := theirs, own
		if got := captchamode.Merge(&theirs, own, apart); !reflect.DeepEqual(got.Week, rich) {
			t.Errorf("the other way round, apart %v: %+v", apart, got)
		}
	}
}

// A bare ratio switches nothing (R20): every login fails for two days, just below the
// threshold of a site of any size.
func TestR20ABareRatioNeverSwitchesTheMode(t *testing.T) {
	t.Parallel()
	for failures, most := range map[int]captchamode.Level{1: captchamode.Calm, 9: captchamode.Calm, 27: captchamode.Slow} {
		w := newTown(t, captchamode.DefaultConfig())
		for range 2 * 24 * 60 {
			w.minute(func(step int) { w.fail(due(failures, step)) })
		}
		for _, s := range w.switches {
			if s.On || s.Level > most {
				t.Errorf("%d failures a minute and not one login: %+v", failures, s)
			}
		}
	}
}
