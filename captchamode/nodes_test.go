package captchamode_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"authguard/captchamode"
)

// joined is a Mode of a site of three that has heard the others, and its clock.
func joined(t *testing.T, heard bool) (*captchamode.Mode, *time.Time, *[]captchamode.Switch) {
	t.Helper()
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	var switches []captchamode.Switch
	m, err := captchamode.NewMode(captchamode.DefaultConfig(), func() time.Time { return now },
		func(s captchamode.Switch) { switches = append(switches, s) })
	if err != nil {
		t.Fatal(err)
	}
	m.Join("here", func() {})
	if heard {
		m.Report()
		next := m.Merge(captchamode.Answer{Now: now, Nodes: 3})
		if next == nil {
			t.Fatal("a site that nobody knows is not written")
		}
		m.Apply(*next)
	}
	return m, &now, &switches
}

func observe(m *captchamode.Mode, n int) {
	for i := range n {
		m.Observe(captchamode.Failure, [16]byte{byte(i), byte(i >> 8), 1})
	}
}

func TestNodeThatWasNeverHeardGoesByTheWholeThreshold(t *testing.T) {
	t.Parallel()
	m, _, switches := joined(t, false)
	m.GoAlone()
	observe(m, 30)
	if m.On() {
		t.Error("it is on at its threshold")
	}
	m.Observe(captchamode.Failure, [16]byte{200})
	if n := len(*switches); !m.On() || n == 0 || (*switches)[n-1].Adopted {
		t.Errorf("on is %v after %+v, want on and its own switch", m.On(), *switches)
	}
}

// What the nodes agreed on while this one crossed the threshold does not take
// that back, and the switch is told once it is known whose it is.
func TestCrossingWhileTheOthersSpeak(t *testing.T) {
	t.Parallel()
	m, now, switches := joined(t, true)
	*now = now.Add(3 * time.Minute)
	m.Report()
	next := m.Merge(captchamode.Answer{Now: *now, Nodes: 3, Agreed: &captchamode.Agreed{Version: "theirs", Detector: captchamode.Detector{Learned: 1}}})
	observe(m, 31)
	if next == nil || next.Level != captchamode.Calm || !m.On() {
		t.Fatalf("on is %v, and to be written is %+v", m.On(), next)
	}
	m.Apply(*next)
	if !m.On() || len(*switches) != 0 {
		t.Fatalf("on is %v after %+v, want on and nothing told", m.On(), *switches)
	}
	r := m.Report()
	after := m.Merge(captchamode.Answer{Now: *now, Nodes: 3, To: r, All: r, Agreed: next})
	if after == nil || after.Level != captchamode.Attack || after.By != "here" {
		t.Fatalf("to be written is %+v, want its attack", after)
	}
	m.Apply(*after)
	if len(*switches) != 1 || (*switches)[0].Adopted || !(*switches)[0].On {
		t.Errorf("told was %+v, want one switch of its own", *switches)
	}
}

// A node that sees nothing of an attack any more does not know what the others see.
func TestANodeAmongOthersLowersNoLevelByItself(t *testing.T) {
	t.Parallel()
	m, now, _ := joined(t, true)
	observe(m, 31)
	r := m.Report()
	next := m.Merge(captchamode.Answer{Now: *now, Nodes: 3, To: r, All: r})
	if next == nil || next.Level != captchamode.Attack {
		t.Fatalf("to be written is %+v, want an attack", next)
	}
	m.Apply(*next)
	for range 180 { // minutes; the cool-down has 120
		*now = now.Add(time.Minute)
		if m.Tick(); !m.On() {
			t.Fatal("it went off without the others")
		}
	}
	m.GoAlone()
	for range 180 {
		*now = now.Add(time.Minute)
		m.Tick()
	}
	if m.On() {
		t.Errorf("alone it goes off after the cool-down: %+v", m.State())
	}
}

func TestReportIsWholeEachTime(t *testing.T) {
	t.Parallel()
	m, now, _ := joined(t, true)
	observe(m, 5)
	m.TakeBack(captchamode.Failure)
	for range 2 {
		if r := m.Report(); r.FailureRate[captchamode.Failure] != 4 || r.Running[captchamode.Failure] != 5 || !r.Minute.Equal(*now) {
			t.Errorf("the report is %+v", r)
		}
	}
	*now = now.Add(time.Minute)
	m.Observe(captchamode.Failure, from(100, 9))
	m.Observe(captchamode.Failure, from(101, 9))
	if r := m.Report(); r.FailureRate[captchamode.Failure] != 6 || r.Running[captchamode.Failure] != 2 || r.Last[captchamode.Failure] != 5 {
		t.Errorf("the report is %+v", r)
	}
}

func agreed(rt *rapid.T, name string) captchamode.Agreed {
	a := captchamode.Agreed{
		Version: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, name+" version"),
		Number:  int64(rapid.IntRange(0, 3).Draw(rt, name+" number")),
	}
	a.Level = captchamode.Level(rapid.IntRange(0, 2).Draw(rt, name+" level"))
	a.Learned = rapid.IntRange(0, 3).Draw(rt, name+" learned")
	a.Normal = float64(a.Learned)
	if a.Level != captchamode.Calm && rapid.Bool().Draw(rt, name+" low") {
		a.Low = time.Unix(int64(rapid.IntRange(1, 3).Draw(rt, name+" since")), 0)
	}
	return a
}

// Of two histories neither ends an attack that the other knows of, shortens its
// cool-down, or forgets what was learned.
func TestMergeOfTwoHistoriesLosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		said, own := agreed(rt, "said"), agreed(rt, "own")
		own.Version = "mine"
		m := captchamode.Merge(&said, own, true)
		for _, a := range []captchamode.Agreed{said, own} {
			if m.Level < a.Level || m.Learned < a.Learned || m.Number < a.Number {
				rt.Fatalf("%+v and %+v became %+v", said, own, m)
			}
			if m.Level == a.Level && !m.Low.IsZero() && (a.Low.IsZero() || m.Low.Before(a.Low)) {
				rt.Fatalf("the cool-down of %+v and %+v begins at %v", said, own, m.Low)
			}
		}
		if again := captchamode.Merge(&m, m, true); again.Level != m.Level || !again.Low.Equal(m.Low) {
			rt.Fatalf("merged once more %+v is %+v", m, again)
		}
	})
}

func TestMergeTakesOverWhatCameLaterAndNothingOlder(t *testing.T) {
	t.Parallel()
	attack := captchamode.Agreed{Version: "old", Number: 3, Detector: captchamode.Detector{Level: captchamode.Attack, Learned: 100, Normal: 7}}
	over := captchamode.Agreed{Version: "new", Number: 4, Detector: captchamode.Detector{Learned: 120, Normal: 8}}
	if m := captchamode.Merge(&over, attack, false); m.Level != captchamode.Calm || m.Normal != 8 {
		t.Errorf("the end of an attack was not taken over: %+v", m)
	}
	if m := captchamode.Merge(&attack, over, false); m.Level != captchamode.Attack || m.Normal != 8 || m.Number != 4 {
		t.Errorf("what an older server knew became %+v", m)
	}
	empty := captchamode.Agreed{Version: "new"}
	if m := captchamode.Merge(&empty, attack, false); m.Level != captchamode.Attack || m.Normal != 7 {
		t.Errorf("a node that knew nothing made it %+v", m)
	}
	if m := captchamode.Merge(nil, attack, false); m.Level != captchamode.Attack {
		t.Errorf("an empty server made it %+v", m)
	}
	beside := captchamode.Agreed{Version: "new", Number: 3, By: "another", Detector: captchamode.Detector{Learned: 120}}
	if m := captchamode.Merge(&beside, attack, false); m.Level != captchamode.Attack {
		t.Errorf("another switch of the same number made it %+v", m)
	}
	fresh := attack
	fresh.Version = ""
	if m := captchamode.Merge(&empty, fresh, false); m.Level != captchamode.Calm {
		t.Errorf("a node that starts keeps %+v against the others", m)
	}
	calm := captchamode.Agreed{Version: "old", Number: 3}
	if m := captchamode.Merge(&attack, calm, true); m.Level != captchamode.Calm {
		t.Errorf("a cool-down that ended alone is forgotten: %+v", m)
	}
}
