package redisstore_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/captchamode"
	"authguard/internal/redisstore"
	"authguard/internal/testing/clocktest"
	"authguard/internal/testing/redistest"
)

// modeClaims are what holds on every kind of Redis.
var modeClaims = map[string]func(t *testing.T, open opener){
	"SumOfThreeNodesSwitchesAll":          sumSwitchesAll,
	"OneNodeThatSeesAllSwitchesAtOnce":    switchesAtOnce,
	"TwoThatCrossAtOnceRecordOne":         crossAtOnce,
	"WhatWasWrittenMeanwhileHolds":        writtenMeanwhile,
	"OneAddressOverThreeNodesIsOne":       oneAddressIsOne,
	"OneAddressStaysOneOverMinutes":       oneAddressOverMinutes,
	"CoolDownEndsOnceForAll":              coolDownEndsOnce,
	"NewNodeAdopts":                       newNodeAdopts,
	"NewNodeForgetsWhatItSaved":           newNodeForgets,
	"NewNodeTellsTheWeekThatItSaved":      newNodeTellsTheWeek,
	"AllRestartInAnAttack":                allRestart,
	"ClocksApart":                         clocksApart,
	"RemainingNodesGoOn":                  remainingNodes,
	"NodesAreThoseOfThreeSeconds":         nodesOfThreeSeconds,
	"EveryKeyExpires":                     everyKeyExpires,
	"TakenBackElsewhere":                  takenBackElsewhere,
	"SolvedElsewhereIsNoAttack":           solvedElsewhere,
	"MinutesAreTheSites":                  minutesAreTheSites,
	"SiteLearnsOnce":                      siteLearnsOnce,
	"CorrectedOnAnotherNode":              correctedElsewhere,
	"ClearedOnOneIsClearedOnAll":          clearedOnAll,
	"ClearedWhileRedisWasAway":            clearedWhileAway,
	"ClearedWhileANodeWasAway":            clearedWhileNodeAway,
	"AttackIsNotLearned":                  attackIsNotLearned,
	"AnswerLostCountsOnce":                answerLost,
	"FailedFlushKeepsItsCounts":           failedFlushKeeps,
	"WhatIsOlderThanAMinuteIsNotReported": olderIsNotReported,
	"ForcedOffStaysUnderTheDetector":      forcedOff,
	"NonsenseInRedisIsWrittenAnew":        nonsense,
	"ShortSilenceIsNoAttack":              shortSilence,
	"AloneAgainstAPartOfTheThreshold":     alone,
	"AloneAnAddressHasAPartOfItsShare":    aloneShare,
	"HigherLevelHoldsAfterwards":          higherHolds,
	"LaterCoolDownHoldsAfterwards":        laterHolds,
	"CooledDownAloneStaysOff":             cooledDownAlone,
	"SwitchedOffWhileANodeWasAway":        offWhileAway,
	"EmptiedInAnAttack":                   emptiedInAnAttack,
	"EmptiedAndANewNodeSpeaksFirst":       newNodeSpeaksFirst,
	"EmptiedTheLastMinuteIsReportedAgain": reportedAgain,
	"LostLastWritesAreWrittenAgain":       lostLastWrites,
	"UnknownWhetherTheSwitchWasWritten":   unknownWhether,
}

// modeDays take hours or days of a site's time, and belong to the long form. A Cluster keeps the same keys in one
// place and answers the same script: it is asked by the shorter ones.
var modeDays = map[string]func(*testing.T, opener){
	"PressureAnywhereKeepsItOn":     pressureAnywhere,
	"ABusySiteSettles":              busySiteSettles,
	"HuggingRaisesNothing":          huggingRaisesNothing,
	"FewAttemptsHoldItForFourHours": fewAttemptsHoldIt,
	"DailyFailuresAreTheSites":      dailyFailuresAreTheSites,
}

type opener func(testing.TB) redis.UniversalClient

func TestModeOnOneServer(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	runMode(t, modeClaims, on(server))
	if os.Getenv("FULL_SIZE") != "" {
		runMode(t, modeDays, on(server))
	}
}

func TestModeOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	runMode(t, modeClaims, func(t testing.TB) redis.UniversalClient { return cluster.Client(t) })
}

func runMode(t *testing.T, claims map[string]func(*testing.T, opener), open opener) {
	for name, claim := range claims {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim(t, open)
		})
	}
}

func sumSwitchesAll(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	for _, n := range s.nodes {
		n.fail(10)
	}
	s.round(t)
	s.want(t, false) // 30 is not above 30
	s.nodes[1].fail(1)
	s.round(t)
	if a, b, c := s.nodes[0].mode.On(), s.nodes[1].mode.On(), s.nodes[2].mode.On(); a || !b || !c {
		t.Errorf("after the round in which the second node saw it: %v %v %v", a, b, c)
	}
	s.round(t)
	s.want(t, true)
	s.wantRecorded(t, 1, 0, 3)
	for _, n := range s.nodes {
		n.wantPressure(t, 31)
	}
}

func switchesAtOnce(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	s.nodes[0].fail(31)
	if !s.nodes[0].mode.On() || s.nodes[1].mode.On() {
		t.Fatal("the node that saw it all is not on at once")
	}
	if on, _, _ := s.recorded(); on != 0 {
		t.Error("recorded before the others could have been first")
	}
	s.round(t)
	s.want(t, true)
	s.wantRecorded(t, 1, 0, 3)
	if one := s.nodes[0].switches[len(s.nodes[0].switches)-1]; one.Adopted || one.Cause != captchamode.ByFailureRate {
		t.Errorf("%+v is not the record of the node that saw it", one)
	}
}

func crossAtOnce(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	for _, n := range s.nodes {
		n.fail(31)
	}
	s.want(t, true)
	s.round(t)
	s.round(t)
	s.want(t, true)
	s.wantRecorded(t, 1, 0, 3)
}

// Two nodes hear of the same crossing before either has written.
func writtenMeanwhile(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	s.nodes[2].fail(15)
	s.round(t)
	s.nodes[0].fail(16)
	s.nodes[0].fault.between = func() { s.nodes[1].flush(t) }
	s.nodes[0].flush(t)
	if !s.nodes[0].mode.On() || !s.nodes[1].mode.On() {
		t.Error("not both are on")
	}
	s.round(t)
	s.want(t, true)
	s.wantRecorded(t, 1, 0, 3)
	if one := s.nodes[0].switches[len(s.nodes[0].switches)-1]; !one.Adopted {
		t.Errorf("%+v was written by the other node", one)
	}
}

func oneAddressIsOne(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	for range 40 {
		for _, n := range s.nodes {
			n.mode.Observe(captchamode.Failure, [16]byte{7, 7})
		}
	}
	s.round(t)
	s.round(t)
	for _, n := range s.nodes {
		n.wantPressure(t, 3) // a tenth of 30
	}
	if slow := s.nodes[0].mode.Throttling(); slow {
		t.Error("one address slows everybody")
	}
	s.pass(t, 61*time.Second, 61*time.Second)
	s.round(t)
	for i := range 10 { // ten addresses, two nodes each, which have a third of their share
		for range 9 {
			s.nodes[i%3].mode.Observe(captchamode.Overload, [16]byte{7, byte(8 + i)})
			s.nodes[(i+1)%3].mode.Observe(captchamode.Unsolved, [16]byte{7, byte(8 + i)})
		}
	}
	s.round(t)
	s.round(t)
	s.want(t, false)
	s.nodes[0].wantPressure(t, 20)
}

func oneAddressOverMinutes(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	for range 120 { // every 4 s for 8 minutes, at each node
		for _, n := range s.nodes {
			n.mode.Observe(captchamode.Failure, [16]byte{7, 7})
		}
		s.pass(t, 4*time.Second, 4*time.Second)
		s.round(t)
		if got := s.nodes[0].mode.State().FailureRate.Total(); got > 3 {
			t.Fatalf("one address contributes %d, want at most 3", got)
		}
	}
}

func coolDownEndsOnce(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	s.nodes[0].fail(40)
	s.round(t)
	s.pass(t, 2*time.Minute, time.Second)
	low := s.nodes[2].mode.State().Low
	if want := start.Add(61 * time.Second); !low.Equal(want) { // when the last second fell out
		t.Fatalf("the cool-down began at %v, want %v", low, want)
	}
	s.pass(t, low.Add(2*time.Hour).Sub(s.Now())-time.Second, time.Minute)
	s.want(t, true)
	s.pass(t, time.Second, time.Second)
	s.want(t, false)
	s.wantRecorded(t, 1, 1, 6)
	if one := s.nodes[0].switches[len(s.nodes[0].switches)-1]; one.Cause != captchamode.ByCoolDown {
		t.Errorf("it ended by %s", one.Cause)
	}
}

// While the pressure is above the lower threshold anywhere, the cool-down stands
// still everywhere; above the threshold it begins anew.
func pressureAnywhere(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	s.nodes[0].fail(40)
	s.round(t)
	for range 6 { // six times a minute and a second of 16 over all nodes: the threshold is 30, the lower one 15
		s.pass(t, 19*time.Minute-time.Second, time.Second)
		s.nodes[0].fail(5)
		s.nodes[1].fail(5)
		s.nodes[2].fail(6)
		s.pass(t, time.Minute+time.Second, time.Second)
	}
	s.want(t, true) // 114 of 120 minutes of cool-down
	s.pass(t, 7*time.Minute, time.Second)
	s.want(t, true)
	s.pass(t, 2*time.Minute, time.Second)
	s.want(t, false)
	s.wantRecorded(t, 1, 1, 6)
}

func newNodeAdopts(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	s.nodes[0].fail(40)
	s.round(t)
	n := s.add(t)
	n.flush(t)
	s.want(t, true)
	s.wantRecorded(t, 1, 0, 3)
	if n.Nodes() != 3 {
		t.Errorf("it sees %d nodes, want 3", n.Nodes())
	}
}

// What a node saved in an attack is no attack if the site says that it is over.
func newNodeForgets(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	n := s.addWith(t, s.Now, func(m *captchamode.Mode) {
		m.Restore(captchamode.Snapshot{Detector: captchamode.Detector{Level: captchamode.Attack, Normal: 90, Learned: 9000}})
	})
	if !n.mode.On() {
		t.Fatal("not restored")
	}
	n.flush(t)
	s.want(t, false)
	s.wantRecorded(t, 0, 0, 1)
	if got := n.mode.State().Threshold; got != 30 {
		t.Errorf("its threshold is %v, want the site's 30", got)
	}
}

// An older version, or an emptied Redis, has lost what is usual at each hour: a node that
// still knows tells it, and it is kept.
func newNodeTellsTheWeek(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	week := captchamode.Week{Hours: make([]captchamode.Hour, 168)}
	week.Hours[7] = captchamode.Hour{Logins: 12.345, FailureRate: 0.5, Weeks: 3, Calm: 2}
	s.addWith(t, s.Now, func(m *captchamode.Mode) {
		m.Restore(captchamode.Snapshot{Detector: captchamode.Detector{Week: week}})
	}).flush(t)
	known := func(when string) {
		t.Helper()
		s.round(t)
		for i, n := range s.nodes {
			if all := n.mode.Week(); len(all) != 168 || all[7].Hour != week.Hours[7] {
				t.Errorf("%s: node %d knows %d hours", when, i, len(all))
			}
		}
	}
	known("at once")
	s.nodes = nil
	s.add(t)
	known("after all were restarted")
}

func allRestart(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	s.nodes[0].fail(40)
	s.round(t)
	s.nodes = nil
	s.Advance(10*time.Minute + 2*time.Second)
	for range 3 {
		s.add(t)
	}
	s.round(t)
	s.want(t, true)
	s.wantRecorded(t, 0, 0, 3) // it was before
	if got := len(s.nodes[0].mode.Minutes()); got != 11 {
		t.Errorf("the plot has %d minutes, want 11", got)
	}
}

func clocksApart(t *testing.T, open opener) {
	s := newSite(t, open, 0)
	for _, off := range []time.Duration{-3 * time.Second, 0, 3 * time.Second} {
		s.addWith(t, func() time.Time { return s.Now().Add(off) }, nil)
	}
	s.round(t)
	s.pass(t, 10*time.Second, time.Second)
	for _, n := range s.nodes {
		n.fail(8)
	}
	s.round(t)
	s.round(t)
	s.pass(t, 60*time.Second, time.Second)
	for _, n := range s.nodes {
		n.wantPressure(t, 24) // whatever the nodes' clocks say, all are 60 s old
	}
	s.pass(t, time.Second, time.Second)
	s.round(t)
	for _, n := range s.nodes {
		n.wantPressure(t, 0)
	}
	s.nodes[2].fail(31)
	s.round(t)
	s.pass(t, 61*time.Second, time.Second)
	s.round(t)
	for i, n := range s.nodes { // each by its own clock
		if got, want := n.mode.State().Low, s.Now().Add(time.Duration(i-1)*3*time.Second); !got.Equal(want) {
			t.Errorf("node %d: the cool-down began at %v, want %v", i, got, want)
		}
	}
	s.pass(t, 2*time.Hour, time.Minute)
	s.want(t, false)
	s.wantRecorded(t, 1, 1, 6)
}

func remainingNodes(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	s.nodes[0].fail(31)
	s.round(t)
	s.nodes[1].flush(t)
	gone := s.nodes[0] // the one that switched
	s.nodes = s.nodes[1:]
	s.pass(t, 2*time.Minute+2*time.Hour, time.Minute)
	s.want(t, false)
	s.nodes[1].fail(31)
	s.round(t)
	s.round(t)
	s.want(t, true)
	s.wantRecorded(t, 1, 1, 6)
	if !gone.mode.On() {
		t.Error("a node that does not flush has heard something")
	}
}

func nodesOfThreeSeconds(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	s.round(t)
	for i, n := range s.nodes {
		if got := n.Nodes(); got != 3 {
			t.Errorf("node %d sees %d nodes, want 3", i, got)
		}
	}
	s.Advance(3 * time.Second)
	s.nodes[0].flush(t)
	if got := s.nodes[0].Nodes(); got != 3 {
		t.Errorf("after 3 s it sees %d, want 3", got)
	}
	s.Advance(time.Millisecond)
	s.nodes[0].flush(t)
	if got := s.nodes[0].Nodes(); got != 1 {
		t.Errorf("after more it sees %d, want 1", got)
	}
	s.nodes[1].lost(t)
	if got := s.nodes[1].Nodes(); got != 3 {
		t.Errorf("without Redis it sees %d, want the 3 it saw last", got)
	}
	if got := s.addWith(t, s.Now, nil).Nodes(); got != 1 {
		t.Errorf("before its first flush it sees %d, want 1", got)
	}
}

// keysOf lists the site's keys on every server.
func keysOf(t testing.TB, s *site) (keys []string) {
	t.Helper()
	c := s.open(t)
	for _, name := range []string{"counted", "agreed"} {
		key := s.prefix + "{" + s.prefix + "mode}" + name
		if n, err := c.Exists(t.Context(), key).Result(); err != nil || n == 1 {
			must(t, err)
			keys = append(keys, key)
		}
	}
	return keys
}

func everyKeyExpires(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	for range 3 {
		s.nodes[0].fail(20)
		s.round(t)
		s.pass(t, time.Minute, time.Minute)
	}
	s.nodes[0].fail(1)
	s.round(t)
	keys := keysOf(t, s)
	if len(keys) != 2 {
		t.Fatalf("the keys are %v, want two", keys)
	}
	c := s.open(t)
	for _, key := range keys {
		ttl, err := c.PTTL(t.Context(), key).Result()
		must(t, err)
		want := 200 * time.Second
		if strings.HasSuffix(key, "agreed") {
			want = 26 * time.Hour
		}
		if ttl <= 0 || ttl > want {
			t.Errorf("%s lives for %v more, want at most %v", key, ttl, want)
		}
	}
}

// The node that a solved challenge comes back to need not be the one that
// counted it.
func takenBackElsewhere(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	for range 12 {
		s.nodes[0].mode.Observe(captchamode.Unsolved, address())
	}
	s.round(t)
	for range 10 {
		s.nodes[1].mode.TakeBack(captchamode.Unsolved)
	}
	s.nodes[0].mode.TakeBack(captchamode.Unsolved)
	s.round(t)
	s.round(t)
	for _, n := range s.nodes {
		if got, want := n.mode.State().FailureRate, (captchamode.Counts{captchamode.Unsolved: 1}); got != want {
			t.Errorf("the pressure is %v, want %v", got, want)
		}
	}
}

// A node that hands out all challenges, the others seeing them solved, is not
// attacked: neither while it hears so nor when it hears nothing.
func solvedElsewhere(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	for range 100 {
		s.nodes[0].mode.Observe(captchamode.Unsolved, address())
		s.nodes[1].mode.TakeBack(captchamode.Unsolved)
		s.nodes[0].flush(t)
		s.nodes[1].flush(t)
	}
	s.round(t)
	s.nodes[0].lost(t)
	for _, n := range s.nodes {
		if n.mode.State().Level != captchamode.Calm {
			t.Errorf("the level is %v", n.mode.State().Level)
		}
	}
}

func minutesAreTheSites(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	s.nodes[0].fail(4)
	s.nodes[1].fail(5)
	s.pass(t, 59*time.Second, time.Second)
	s.nodes[1].fail(2)
	s.Advance(2 * time.Second)
	s.round(t) // a little late, and yet in its minute
	s.nodes[0].fail(1)
	s.pass(t, 2*time.Second, time.Second)
	for i, n := range s.nodes {
		var got []int
		for _, m := range n.mode.Minutes() {
			got = append(got, m.Failures)
		}
		if !slices.Equal(got, []int{11, 1}) {
			t.Errorf("node %d: the minutes are %v, want [11 1]", i, got)
		}
	}
}

func siteLearnsOnce(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	whole, now := s.whole(t)
	for range 40 {
		for _, n := range s.nodes {
			for range 2 {
				a := address()
				n.mode.LoggedIn(a, a, true, s.Now())
				whole.LoggedIn(a, a, true, s.Now())
			}
		}
		s.pass(t, time.Minute, 20*time.Second)
		now.Advance(time.Minute)
		whole.Tick()
	}
	s.pass(t, 2*time.Second, time.Second)
	for i, n := range s.nodes {
		if got, want := n.mode.State().Normal, whole.State().Normal; got != want || got != 6 {
			t.Errorf("node %d has learned %v, want %v and 6", i, got, want)
		}
		if got := n.mode.State().Threshold; got != 30 {
			t.Errorf("node %d: the threshold is %v, want 5 × 6", i, got)
		}
	}
}

// whole is one Mode that is to see everything, and its clock.
func (s *site) whole(t testing.TB) (*captchamode.Mode, *clocktest.Clock) {
	t.Helper()
	now := clocktest.At(s.Now())
	m, err := captchamode.NewMode(s.config, now.Now, nil)
	must(t, err)
	return m, now
}

func attackIsNotLearned(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	for range 60 {
		s.nodes[0].fail(20)
		s.nodes[1].fail(20)
		s.pass(t, time.Minute, 30*time.Second)
	}
	s.want(t, true)
	if got := s.nodes[2].mode.State().Normal; got != 0 {
		t.Errorf("an attack was learned: %v", got)
	}
}

func forcedOff(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	for _, n := range s.nodes {
		must(t, n.mode.Force(captchamode.Override{State: captchamode.ForcedOff, Who: "a", Why: "b",
			Until: s.Now().Add(time.Hour)}))
	}
	s.nodes[0].fail(20)
	s.nodes[1].fail(20)
	s.round(t)
	s.round(t)
	s.want(t, false)
	for _, n := range s.nodes {
		if got := n.mode.State().Level; got != captchamode.Attack {
			t.Errorf("under the force the level is %v, want attack", got)
		}
	}
	for _, n := range s.nodes {
		n.mode.Release("a", "over")
	}
	s.want(t, true)
}

func nonsense(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	s.nodes[0].fail(31)
	s.round(t)
	c := s.open(t)
	must(t, c.HSet(t.Context(), s.prefix+"{"+s.prefix+"mode}agreed", "v", "x", "s", "{", "k", "y", "m", "]").Err())
	s.round(t)
	s.round(t)
	s.want(t, true)
	n := s.add(t)
	n.flush(t)
	s.want(t, true)
	s.wantRecorded(t, 1, 0, 3)
}

func TestOptionsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	mode, err := captchamode.NewMode(captchamode.DefaultConfig(), nil, nil)
	must(t, err)
	_, err = redisstore.NewMode(nil, mode, redisstore.ModeOptions{Prefix: "a{b", Every: -1})
	if err == nil || strings.Count(err.Error(), "redisstore:") != 3 {
		t.Errorf("%v does not name three problems", err)
	}
}
