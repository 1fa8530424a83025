package captchamode_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"authguard/captchamode"
)

// A site is a mode with a clock, on which so many unknown clients fail in each hour, each in its own network.
type site struct {
	*captchamode.Mode
	t        *testing.T
	now      time.Time
	serial   int
	switches []captchamode.Switch
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, now: time.Date(2026, 3, 2, 0, 0, 30, 0, time.UTC)}
	var err error
	s.Mode, err = captchamode.NewMode(captchamode.DefaultConfig(), func() time.Time { return s.now },
		func(w captchamode.Switch) { s.switches = append(s.switches, w) })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// days lets so many unknown clients fail, spread over these days, while nine accounts sign in per minute.
func (s *site) days(days int, failures int) {
	s.t.Helper()
	minutes := days * 24 * 60
	for minute := range minutes {
		for i := range 9 {
			s.LoggedIn(from(i, uint64(minute)), from(i, 0), false, s.now)
		}
		for range failures*(minute+1)/minutes - failures*minute/minutes {
			s.fail(s.serial)
		}
		s.minute()
	}
}

// minute passes; the failures are in its middle.
func (s *site) minute() {
	for range 2 {
		s.now = s.now.Add(30 * time.Second)
		s.Tick()
	}
}

func (s *site) fail(network int) {
	s.serial++
	s.Failed(from(s.serial, 1), from(s.serial, 2), from(network, 3), s.now)
}

func (s *site) want(what string, elevated bool) {
	s.t.Helper()
	if is := s.State().Daily; s.Elevated() != elevated || is.Elevated != elevated {
		s.t.Errorf("%s: elevated %v: %+v", what, !elevated, is)
	}
}

func TestR32ASlowAttackElevatesTheDay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.days(4, 4*60)
	s.want("usual days", false)
	if is := s.State().Daily; is.Usual < 40 || is.Usual > 65 {
		t.Errorf("60 failures a day: %+v", is)
	}
	s.days(1, 300)
	s.want("five times as many", true)
	if s.On() || s.Throttling() {
		t.Error("the minute's failure rate is low")
	}
	usual := s.State().Daily.Usual
	s.days(14, 14*300)
	s.want("two weeks", true)
	if is := s.State().Daily.Usual; is > usual {
		t.Errorf("usual: %v, and %v after two weeks of attack", usual, is)
	}
	if err := s.Force(captchamode.Override{State: captchamode.ForcedOn, Who: "ann", Why: "a test",
		Until: s.now.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	s.days(2, 2*60)
	s.want("usual days again", false)
	var all []captchamode.Cause
	for _, w := range s.switches {
		all = append(all, w.Cause)
	}
	want := []captchamode.Cause{captchamode.ByDailyFailures, captchamode.ByPerson, captchamode.ByExpiry,
		captchamode.ByDailyFailures}
	if !slices.Equal(all, want) {
		t.Fatalf("switches: %v", all)
	}
	for i, attacked := range []bool{true, true, true, false} { // an administrator does not end the attack
		if one := s.switches[i]; one.Elevated != attacked || one.Attacked != attacked {
			t.Errorf("%+v", one)
		}
	}
}

// An attack just below the threshold does not raise it, a smaller one by half in a week and a few, and one on a new
// site by no more than its logins explain.
func TestR32AnAttackTeachesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.days(6, 6*100)
	usual := s.State().Daily.Usual
	s.days(7, int(7*(2*usual+18)))
	if is := s.State().Daily; is.Usual > usual*1.05 || is.Elevated {
		t.Errorf("just below the threshold: %v, then %+v", usual, is)
	}
	usual = s.State().Daily.Usual
	for range 7 { // a patient attacker takes what does not elevate
		s.days(1, int(s.State().Daily.Threshold*0.74))
	}
	if is := s.State().Daily; is.Usual > usual*1.5+10 || is.Elevated {
		t.Errorf("a patient attacker: %v, then %+v after a week", usual, is)
	}
	fresh := newSite(t)
	fresh.days(3, 3*9000)
	if is := fresh.State().Daily.Usual; is > 9*24*60/4+20 {
		t.Errorf("a new site with 9 logins a minute learned %v", is)
	}
}

// One network contributes a tenth of the threshold. A failure that its pair corrects does not count, and frees no more
// than it took.
func TestR32NoNetworkElevatesTheDayAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.days(3, 0)
	for range 600 {
		s.fail(7)
		s.minute()
	}
	if is := s.State().Daily; is.Failures > 2 || is.Elevated {
		t.Errorf("from one network: %+v", is)
	}
	before := s.State().Daily.Failures
	for i := range 100 {
		s.fail(1000 + i)
		s.LoggedIn(from(s.serial, 1), from(s.serial, 1), true, s.now)
		s.fail(7) // beyond its share
		s.LoggedIn(from(s.serial, 1), from(s.serial, 1), true, s.now)
		s.minute()
	}
	if is := s.State().Daily; is.Failures != before {
		t.Errorf("corrected: %d, then %+v", before, is)
	}
	for i := range 25 {
		s.fail(2000 + i)
		s.fail(7)
		s.LoggedIn(from(s.serial, 1), from(s.serial, 1), true, s.now) // takes nothing from the others
	}
	s.minute()
	s.minute()
	s.want("25 networks beside a correcting one", true)
}

func TestR32ARestartAndAnAdministrator(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.days(3, 3*10)
	s.days(1, 400)
	saved, err := json.Marshal(s.Save())
	if err != nil {
		t.Fatal(err)
	}
	again := newSite(t)
	again.now = s.now
	var snapshot captchamode.Snapshot
	if err := json.Unmarshal(saved, &snapshot); err != nil {
		t.Fatal(err)
	}
	again.Restore(snapshot)
	again.Tick()
	again.want("after a restart", true)
	if len(again.switches) > 0 {
		t.Errorf("%+v", again.switches)
	}
	if err := again.Force(captchamode.Override{State: captchamode.ForcedOn, Who: "ann", Why: "a test",
		Until: again.now.Add(time.Hour)}); err != nil || !again.switches[0].Attacked {
		t.Errorf("an administrator ends the attack after a restart: %v, %+v", err, again.switches)
	}
	again.Clear("ann", "a test")
	again.want("cleared", false)
}

func TestR32MonitoredFailuresElevateNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := s.Config()
	c.Monitor = true
	if err := s.SetConfig(c); err != nil {
		t.Fatal(err)
	}
	s.days(3, 0)
	s.days(1, 400)
	if _, _, would := s.Monitored(); s.Elevated() || !would || !s.State().Daily.Elevated {
		t.Errorf("elevated %v, it would be %v: %+v", s.Elevated(), would, s.State().Daily)
	}
}

// The same networks count on each day.
func TestR32NetworksCountEveryDay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.days(3, 0)
	for day := range 5 {
		for i := range 24 * 60 {
			s.fail(100 + i%18)
			s.minute()
		}
		s.want(fmt.Sprintf("day %d", day), true)
	}
}

// A typo that is corrected in the next minute does not count either.
func TestR32ATypoIsCorrectedInTheNextMinute(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.days(3, 0)
	s.now = s.now.Truncate(time.Minute)
	for i := range 60 {
		for second := range 120 { // the minute of the failure is learned at its end
			switch second {
			case 50:
				s.fail(1000 + i)
			case 70:
				s.LoggedIn(from(s.serial, 1), from(s.serial, 1), true, s.now)
			}
			s.now = s.now.Add(time.Second)
			s.Tick()
		}
	}
	s.minute()
	if is := s.State().Daily; is.Failures > 0 || is.Elevated {
		t.Errorf("%+v", is)
	}
}

// After the cool-down the attack is over, though the day is elevated, and an administrator does not begin it again.
func TestR32TheCoolDownEndsTheAttack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.days(3, 0)
	for i := range 200 {
		s.fail(i)
	}
	for s.minute(); s.State().Level != captchamode.Calm; {
		s.minute()
	}
	if s.want("after the cool-down", true); s.switches[len(s.switches)-1].Attacked {
		t.Errorf("%+v", s.switches)
	}
	if err := s.Force(captchamode.Override{State: captchamode.ForcedOn, Who: "ann", Why: "a test",
		Until: s.now.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if last := s.switches[len(s.switches)-1]; last.Attacked {
		t.Errorf("%+v", last)
	}
}
