// Package captchamode is the site-wide switch: it watches the pressure on a
// site, turns the pre-login CAPTCHA on when the pressure says "attack" and off
// when it has been quiet for the whole cool-down (rule R20), and lets a person
// overrule it for a time (R21). What people are asked to solve is in
// captchamode/challenge.
//
// Several nodes can be one site, if something that all of them reach carries
// reports and agreements between them (nodes.go). Without it each Mode goes on by
// itself (R22).
package captchamode

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"authguard/internal/duration"
)

// A Mode is the site-wide switch. All methods are safe for concurrent use; On
// and Slowing are one atomic read.
type Mode struct {
	on   atomic.Bool
	slow atomic.Bool
	// What on and slow would be, while the pressure is only watched.
	wouldOn   atomic.Bool
	wouldSlow atomic.Bool

	now      func() time.Time
	onSwitch func(Switch)

	mu                sync.Mutex
	config            Config
	detector          Detector
	window            window
	shares            shares
	unsentCorrections corrections
	people            people
	minutes           minutes
	override          Override
	switches          []Switch
	last              Switch // the newest that onSwitch was called with
	steady            bool   // onSwitch was told of steady pressure
	fleet             fleet
}

// A State is what the switch knows at one moment.
type State struct {
	On          bool              `json:"on"`
	Level       Level             `json:"level"`
	Override    Override          `json:"force"`
	FailureRate Counts            `json:"failure_rate"` // in the last minute
	Threshold   float64           `json:"threshold"`
	SlowAt      float64           `json:"throttle_at"`
	LeaveAt     float64           `json:"end_below"`
	Normal      float64           `json:"normal"`             // accounts that log in, a minute: the average of a day
	Usual       float64           `json:"usual"`              // at this minute of the week; Normal before a week was seen
	Low         time.Time         `json:"low_since,omitzero"` // the cool-down began, less its pauses
	CoolDown    duration.Duration `json:"cool_down"`          // of this attack so far; if there is none, the longest
	Steady      bool              `json:"steady,omitzero"`    // for many hours just below the threshold
	// Monitor: the pressure is only watched. WouldBeOn: and the mode would be on by it.
	Monitor   bool `json:"monitor,omitzero"`
	WouldBeOn bool `json:"would_be_on,omitzero"`
}

// NewMode returns a switch that is off. onSwitch is called after each switch,
// one at a time and in order; it must not block and must not call the Mode. It
// may be nil, as may now, for time.Now. Every node of a site calls it for a
// switch of the site; on exactly one of them the switch is not Adopted.
func NewMode(c Config, now func() time.Time, onSwitch func(Switch)) (*Mode, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	if onSwitch == nil {
		onSwitch = func(Switch) {}
	}
	m := &Mode{config: c, detector: Detector{Normal: c.Baseline, Usual: c.Baseline}, now: now,
		onSwitch: onSwitch, fleet: fleet{nodes: 1}}
	m.pass(m.now()) // the first minute begins
	m.advance()
	return m, nil
}

// On reports whether every attempt that is not privileged needs a solved
// challenge.
func (m *Mode) On() bool { return m.on.Load() }

// Throttling reports whether strangers are to be slowed.
func (m *Mode) Throttling() bool { return m.slow.Load() }

// Monitored reports what On and Slowing would be if the pressure were not only watched
// (Config.Monitor); both are false if it is not.
func (m *Mode) Monitored() (on, slowing bool) { return m.wouldOn.Load(), m.wouldSlow.Load() }

// Observe counts one sign from an address, and reports whether it did: an
// address contributes no more than its share. The switch goes on before Observe
// returns if that crossed the threshold.
func (m *Mode) Observe(s Sign, address [16]byte) (counted bool) {
	return m.ObserveAt(s, address, m.now())
}

// ObserveAt is Observe for a caller that has read the clock, at most some
// seconds ago. A sign that is older than the running second counts in it.
func (m *Mode) ObserveAt(s Sign, address [16]byte, at time.Time) (counted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.observe(s, &address, m.advanceTo(at))
}

// Failed is ObserveAt for a failure of a pair that is taken back if the pair logs
// in within the minute. A pair is an account from one place, by its keyed digest.
func (m *Mode) Failed(pair, address [16]byte, at time.Time) (counted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.advanceTo(at)
	if counted = m.observe(Failure, &address, now); counted {
		m.unsentCorrections.note(pairOf(&pair), m.window.now)
	}
	return counted
}

func (m *Mode) observe(s Sign, address *[16]byte, now time.Time) (counted bool) {
	on := m.siteThreshold()
	share := m.config.AddressShare * on / float64(m.fleet.nodes)
	if !m.shares.take(address, share, uint32(m.window.now/60)) {
		return false
	}
	m.window.add(s)
	m.seeAt(on, now)
	return true
}

// LoggedIn says that an account has logged in, at a time as in ObserveAt: the site
// is that busy, and what a stranger's pair failed before is no pressure any more,
// on whichever node (R25). It lowers no limit.
func (m *Mode) LoggedIn(account, pair [16]byte, stranger bool, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanceTo(at)
	if m.people.counts(&account, m.window.now) {
		m.window.add(Login)
	}
	if !stranger {
		return
	}
	one := CorrectedTypo{pairOf(&pair), m.window.now}
	m.unsentCorrections.add(&m.window, one)
	if m.fleet.nodes > 1 {
		m.window.Corrected = tell(m.window.Corrected, one)
	}
}

// Clear empties the pressure, ends the attack without a cool-down, and keeps an
// override as it is. Who and why are kept with the switch. Over several nodes
// it clears all. An attack that goes on is noticed anew.
func (m *Mode) Clear(who, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.advance()
	m.empty()
	m.detector.clear(now.Round(0))
	m.steady = false
	f := m.override
	f.Who, f.Why, f.Since = who, why, m.now()
	m.switchTo(f, ByClearing, false, now)
	if m.fleet.clearing = m.fleet.agreed.Version != ""; m.fleet.clearing {
		m.fleet.hurry()
	}
}

// empty forgets the pressure, here and what is known of other nodes.
func (m *Mode) empty() {
	m.window.clear()
	m.unsentCorrections = corrections{}
	m.fleet.mine, m.fleet.others = Counts{}, Counts{Login: m.fleet.others[Login]}
}

// TakeBack removes one sign that was counted, here or on another node, and has
// turned out to be none: a challenge that was counted as unsolved and then
// solved. If no such sign is left in the last minute there is nothing to remove.
func (m *Mode) TakeBack(s Sign) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
	if m.failureRate()[s] > 0 {
		m.window.takeBack(s)
	}
}

// Tick lets time pass: minutes are learned from, cool-downs and forces run
// out. Run calls it four times a second.
func (m *Mode) Tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.see(m.advance())
}

const tickEvery = 250 * time.Millisecond

// Run ticks until ctx ends.
func (m *Mode) Run(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.Tick()
		}
	}
}

// State tells everything at once.
func (m *Mode) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
	on, low, coolDown := m.threshold(), m.detector.Low, m.config.CoolDown
	if m.detector.Level == Attack {
		coolDown = m.detector.coolDown(&m.config)
	}
	if !low.IsZero() {
		low = low.Add(-m.fleet.ahead)
	}
	return State{
		On: m.on.Load(), Level: m.detector.Level, Override: m.override, FailureRate: m.failureRate(),
		Threshold: on, SlowAt: on * m.config.ThrottleAt, LeaveAt: on * m.config.OffBelow,
		Normal: m.detector.Normal, Usual: m.detector.Usual, Low: low,
		CoolDown: duration.Duration(coolDown), Steady: m.detector.Steady,
		Monitor: m.config.Monitor, WouldBeOn: m.wouldOn.Load(),
	}
}

// Minutes are the last hour, oldest first, the running minute last.
func (m *Mode) Minutes() []Minute {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass(m.advance().Add(-lateReports))
	return slices.Clone(m.minutes)
}

// Week is what the threshold would be now if it were each hour of the week, from Monday
// at midnight UTC on: of its middle, and without what the last half-hour adds. It is nil
// before an hour was seen.
func (m *Mode) Week() (all []Expected) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.detector // a copy
	d.Recent = 0
	for i, h := range d.Week.Hours {
		const monday = 4 * 24 // 5 January 1970
		d.expect(&m.config, time.Unix(int64(monday+i)*3600+1800, 0))
		all = append(all, Expected{d.threshold(&m.config, 0), h})
	}
	return all
}

// Expected is an hour of the week and its threshold.
type Expected struct {
	Threshold float64 `json:"threshold"`
	Hour
}

// Switches are the newest changes, oldest first.
func (m *Mode) Switches() []Switch {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.switches)
}

// Config is the numbers that are in force.
func (m *Mode) Config() Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config
}

// SetConfig changes the numbers of a running switch; what was learned stays. Where
// Monitor is another, what the pressure asks for begins or ends at once: that is a
// switch by policy, which is Adopted, since whoever changed the policy tells of it.
func (m *Mode) SetConfig(c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.config = c
	now := m.advance()
	m.see(now)
	if was := m.last.On; m.show() != was {
		m.switchTo(m.override, ByPolicy, true, now)
	}
	return nil
}

// advance lets what is too old fall out, once a second, and returns the site's
// time.
func (m *Mode) advance() (now time.Time) { return m.advanceTo(m.now()) }

// advanceTo goes no further back than the running second, unless the clock was
// set back.
func (m *Mode) advanceTo(at time.Time) (now time.Time) {
	now = at.Add(m.fleet.ahead)
	if late := m.window.now - now.Unix(); late != 0 && (late < 0 || late > windowSeconds) {
		m.pass(now.Add(-lateReports)) // as nodes do, so that one that sees everything comes to the same
		m.window.advance(now)
	}
	return now
}

// pass moves the minutes on. A node among several does not learn by itself.
func (m *Mode) pass(now time.Time) {
	if !m.fleet.together {
		m.minutes.pass(&m.config, &m.detector, !m.fleet.alone(), &m.window.Report, now)
	}
}

func (m *Mode) see(now time.Time) { m.seeAt(m.siteThreshold(), now) }

// seeAt asks the detector, at the site's threshold, and carries out what follows.
func (m *Mode) seeAt(site float64, now time.Time) {
	m.look(site, now)
	switch {
	case m.override.State != Automatic && !m.now().Before(m.override.Until):
		m.switchTo(Override{}, ByExpiry, false, now)
	case m.detector.Level == m.last.Level && m.detector.Steady == m.steady:
	case m.fleet.together: // Apply tells of the switch: it knows whose it is
		m.show()
		m.fleet.hurry()
	default:
		m.follow(false, now)
	}
}

// follow tells of whatever the detector thinks other than before.
func (m *Mode) follow(adopted bool, now time.Time) {
	switch level := m.detector.Level; {
	case level < m.last.Level:
		m.switchTo(m.override, ByCoolDown, adopted, now)
	case level > m.last.Level:
		m.switchTo(m.override, ByFailureRate, adopted, now)
	}
	if m.steady != m.detector.Steady {
		if m.steady = m.detector.Steady; m.steady {
			m.switchTo(m.override, BySteadiness, adopted, now)
		}
	}
}

// show does what a person or else the level says.
func (m *Mode) show() (on bool) {
	attacked, watched := m.override.State == Automatic && m.detector.Level == Attack, m.config.Monitor
	on = m.override.State == ForcedOn || attacked && !watched
	m.on.Store(on)
	m.slow.Store(m.detector.Level != Calm && !watched)
	m.wouldOn.Store(attacked && watched)
	m.wouldSlow.Store(m.detector.Level != Calm && watched)
	if n := len(m.minutes); n > 0 {
		m.minutes[n-1].On, m.minutes[n-1].Level = on, m.detector.Level
	}
	return on
}

// look has the detector look at the pressure. Among other nodes that can only
// raise the level: what they agree on lowers it.
func (m *Mode) look(on float64, now time.Time) {
	if m.fleet.alone() {
		m.lookAlone(now)
		return
	}
	pressure := float64(m.sum().Total())
	if !m.fleet.together {
		m.detector.see(&m.config, on, pressure, pressure, now)
		return
	}
	d := m.detector
	if d.see(&m.config, on, pressure, pressure, now); d.Level > m.detector.Level {
		m.detector = d
	}
}

// threshold is the one that this node goes by.
func (m *Mode) threshold() float64 {
	on := m.siteThreshold()
	if m.fleet.alone() {
		on = max(1, on/float64(m.fleet.nodes))
	}
	return on
}

// siteThreshold is the one of all nodes together.
func (m *Mode) siteThreshold() float64 {
	return m.detector.threshold(&m.config, m.sum()[Login])
}

// failureRate is the last minute's, of the whole site as far as this node knows.
func (m *Mode) failureRate() Counts {
	p := m.sum()
	for s := range p {
		p[s] = max(0, p[s])
	}
	return p
}

// sum is the pressure less all that was taken back: it may be below zero.
func (m *Mode) sum() Counts {
	if m.fleet.together {
		return m.window.FailureRate.plus(m.fleet.others)
	}
	return m.window.FailureRate
}
