package captchamode_test

import (
	"testing"
	"time"

	"authguard/captchamode"
)

// joined is a Mode of a site of three that has been heard, and its clock.
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
		m.News()
		m.Confirm(nil)
		next := m.Hear(captchamode.Heard{Now: now, Nodes: 3})
		if next == nil {
			t.Fatal("a site that nobody knows is not written")
		}
		m.Agree(*next)
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

// What the site wrote while this node crossed the threshold itself does not
// take it back, and the switch is told once it is known whose it is.
func TestCrossingWhileTheSiteSpeaks(t *testing.T) {
	t.Parallel()
	m, now, switches := joined(t, true)
	*now = now.Add(3 * time.Minute)
	m.News()
	m.Confirm(nil)
	next := m.Hear(captchamode.Heard{Now: *now, Nodes: 3, Site: &captchamode.Site{Epoch: "e", Seq: 9, Node: "there"}})
	observe(m, 31)
	if next == nil || next.Level != captchamode.Calm || !m.On() {
		t.Fatalf("on is %v, and to be written is %+v", m.On(), next)
	}
	m.Agree(*next)
	if !m.On() || len(*switches) != 0 {
		t.Fatalf("on is %v after %+v, want on and nothing told", m.On(), *switches)
	}
	after := m.Hear(captchamode.Heard{Now: *now, Nodes: 3, Site: next})
	if after == nil || after.Level != captchamode.Attack || after.By != "here" {
		t.Fatalf("to be written is %+v, want its attack", after)
	}
	m.Agree(*after)
	if len(*switches) != 1 || (*switches)[0].Adopted || !(*switches)[0].On {
		t.Errorf("told was %+v, want one switch of its own", *switches)
	}
}

func TestNewsIsToldOnce(t *testing.T) {
	t.Parallel()
	m, now, _ := joined(t, true)
	observe(m, 5)
	m.TakeBack(captchamode.Failure)
	n := m.News()
	if len(n.Seconds) != 1 || n.Seconds[0].Added[captchamode.Failure] != 5 || n.Back[captchamode.Failure] != 1 || len(n.Tallies) != 5 || n.Share != 3 {
		t.Errorf("the news is %+v", n)
	}
	if n = m.News(); len(n.Seconds) != 0 || n.Back != (captchamode.Counts{}) || len(n.Tallies) != 0 {
		t.Errorf("there is news again: %+v", n)
	}
	*now = now.Add(time.Minute) // the tallies of a minute that is over count, too
	observe(m, 2)
	*now = now.Add(time.Second)
	observe(m, 2)
	total := 0
	for n = m.News(); len(n.Tallies) > 0; n.Tallies = n.Tallies[1:] {
		total += int(n.Tallies[0].Counted)
	}
	if len(n.Seconds) != 2 || total != 4 {
		t.Errorf("%d seconds and %d tallied, want 2 and 4", len(n.Seconds), total)
	}
}
