// Package captchamode is CAPTCHA mode, the site-wide switch. It turns the CAPTCHA before login on when the failure
// rate exceeds the threshold, and off after the cool-down (R20). An administrator can override it for a limited time
// (R21). The challenges are in captchamode/challenge.
//
// On a site of several nodes, a shared store carries their reports and agreements (nodes.go). Without it, each Mode
// decides alone (R22).
package captchamode

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"authguard/internal/times"
)

// A Mode is the site-wide switch. All methods are safe for concurrent use; On and Throttling are one atomic read.
type Mode struct {
	states

	now      func() time.Time
	onSwitch func(Switch)

	mu                sync.Mutex
	config            Config
	detector          Detector
	window            window
	shares            times.Counts // how much each IP address contributed; a collision only lowers the failure rate
	networks          times.Counts // how much each network contributed to Daily
	unsentCorrections corrections
	people            people
	minutes           minutes
	override          Override
	switched
	fleet fleet
}

// states are read without the lock.
type states struct {
	on   atomic.Bool
	slow atomic.Bool
	// What on and slow would be without monitoring.
	wouldOn      atomic.Bool
	wouldSlow    atomic.Bool
	elevated     atomic.Bool
	wouldElevate atomic.Bool
}

// switched is what onSwitch has to report.
type switched struct {
	switches []Switch
	last     Switch // the newest one passed to onSwitch
	steady   bool   // onSwitch was called with BySteadiness
}

// A State is the state of a Mode at one moment.
type State struct {
	On          bool           `json:"on"`
	Level       Level          `json:"level"`
	Override    Override       `json:"force"`
	FailureRate Counts         `json:"failure_rate"` // in the last minute
	Threshold   float64        `json:"threshold"`
	SlowAt      float64        `json:"throttle_at"`
	LeaveAt     float64        `json:"end_below"`
	Normal      float64        `json:"normal"`             // accounts that sign in per minute, average of a day
	Usual       float64        `json:"usual"`              // for this minute of the week; Normal before the first week
	Low         time.Time      `json:"low_since,omitzero"` // start of the cool-down, without its pauses
	CoolDown    times.Duration `json:"cool_down"`          // of this attack so far; without an attack, the longest
	Steady      bool           `json:"steady,omitzero"`    // just below the threshold for many hours
	Daily       DailyState     `json:"daily"`
	// Monitor: the failure rate is only monitored. WouldBeOn: it would turn the mode on.
	Monitor   bool `json:"monitor,omitzero"`
	WouldBeOn bool `json:"would_be_on,omitzero"`
}

// A DailyState has the failures of unknown clients in the last 24 hours.
type DailyState struct {
	Failures  int     `json:"failures"`
	Usual     float64 `json:"usual"`
	Threshold float64 `json:"threshold"`
	Elevated  bool    `json:"elevated"`
}

// fleet is what a Mode knows of the other nodes.
type fleet struct {
	node     string
	hurry    func()
	together bool          // the last report was answered
	agreed   Agreed        // what this node goes by; no Version before the first answer
	ahead    time.Duration // the site's clock less this node's
	judged   Level         // this node's level at its last Merge
	clearing bool          // an administrator reset the failure rate here, and the others may not know
	cleared  bool          // or on another node, and this one has not reported it

	// As of the last answer: its time, the number of nodes, and the failure rate of this node and of
	// all others.
	at           time.Time
	nodes        int
	mine, others Counts
}

// alone reports whether the node was one of several and gets no answers now.
func (f *fleet) alone() bool { return !f.together && f.agreed.Version != "" }

// NewMode returns a switch that is off. It calls onSwitch after each switch, sequentially and in order; onSwitch must
// not block or call the Mode, and may be nil. A nil now is time.Now. On a site of several nodes, every node calls
// onSwitch; on exactly one of them the switch is not Adopted.
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
	m.pass(m.now()) // starts the first minute
	m.advance()
	return m, nil
}

// On reports whether every attempt of an unknown client needs a solved challenge.
func (m *Mode) On() bool { return m.on.Load() }

// Throttling reports whether unknown clients are throttled.
func (m *Mode) Throttling() bool { return m.slow.Load() }

// Elevated reports whether many more unknown clients have failed in the last day than usual (R32).
func (m *Mode) Elevated() bool { return m.elevated.Load() }

// Monitored reports what On, Throttling and Elevated would be without monitoring (Config.Monitor); all are false if it
// is off.
func (m *Mode) Monitored() (on, slowing, elevated bool) {
	return m.wouldOn.Load(), m.wouldSlow.Load(), m.wouldElevate.Load()
}

// Observe counts one sign from an IP address, and reports whether it counted: each address contributes at most its
// share. If that crosses the threshold, the mode is on before Observe returns.
func (m *Mode) Observe(s Sign, address [16]byte) (counted bool) {
	return m.ObserveAt(s, address, m.now())
}

// ObserveAt is Observe for a caller that has read the clock a few seconds ago at most. An older sign counts in the
// running second.
func (m *Mode) ObserveAt(s Sign, address [16]byte, at time.Time) (counted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.observe(s, &address, m.advanceTo(at))
}

// Failed is ObserveAt for an unknown client's failure, which is taken back if its pair signs in within the minute. For
// a zero network, it does not count for Daily.
func (m *Mode) Failed(pair, address, network [16]byte, at time.Time) (counted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.advanceTo(at)
	if counted = m.observe(Failure, &address, now); counted {
		share := m.config.AddressShare * m.detector.Daily.Threshold() / float64(m.fleet.nodes)
		within := false
		if network != ([16]byte{}) { // each second number: only the running day's count matters
			_, within = m.networks.Add(&network, uint32(m.window.now/(24*3600)*2), share)
		}
		if within {
			m.window.add(daily)
		}
		m.unsentCorrections.note(pairOf(&pair), m.window.now, within)
	}
	return counted
}

func (m *Mode) observe(s Sign, address *[16]byte, now time.Time) (counted bool) {
	on := m.siteThreshold()
	share := m.config.AddressShare * on / float64(m.fleet.nodes)
	if _, counted := m.shares.Add(address, uint32(m.window.now/60), share); !counted {
		return false
	}
	m.window.add(s)
	m.seeAt(on, now)
	return true
}

// LoggedIn counts an account's login. If the client was unknown, it also takes back the pair's earlier failures on
// all nodes (R25). It changes no limit. at is as for ObserveAt.
func (m *Mode) LoggedIn(account, pair [16]byte, unknown bool, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanceTo(at)
	if m.people.counts(&account, m.window.now) {
		m.window.add(Login)
	}
	if !unknown {
		return
	}
	one := CorrectedTypo{pairOf(&pair), m.window.now}
	m.unsentCorrections.add(&m.window, one)
	if m.fleet.nodes > 1 {
		m.window.Corrected = tell(m.window.Corrected, one)
	}
}

// Clear clears the failure rate on all nodes, and ends an attack without a cool-down. It keeps an override. The
// switch records who and why. A continuing attack is detected again.
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

func (m *Mode) empty() {
	m.window.clear()
	m.unsentCorrections = corrections{}
	m.fleet.mine, m.fleet.others = Counts{}, Counts{Login: m.fleet.others[Login]}
}

// TakeBack removes one sign that was counted on any node, such as an unsolved challenge that was then solved. It does
// nothing if the last minute has no such sign.
func (m *Mode) TakeBack(s Sign) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
	if m.failureRate()[s] > 0 {
		m.window.takeBack(s)
	}
}

// Tick advances the time: it learns from minutes, and ends cool-downs and overrides. Run calls it four times a
// second.
func (m *Mode) Tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.see(m.advance())
}

const tickEvery = 250 * time.Millisecond

// Run calls Tick until ctx ends.
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

// State returns the current state.
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
		Threshold: on, SlowAt: on * m.config.ThrottleAt, LeaveAt: on * offBelow,
		Normal: m.detector.Normal, Usual: m.detector.Usual, Low: low,
		CoolDown: times.Duration(coolDown), Steady: m.detector.Steady,
		Monitor: m.config.Monitor, WouldBeOn: m.wouldOn.Load(), Daily: m.detector.Daily.state(),
	}
}

// Minutes returns the last hour, oldest first; the last minute is running.
func (m *Mode) Minutes() []Minute {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass(m.advance().Add(-lateReports))
	return slices.Clone(m.minutes)
}

// Week returns the thresholds of all hours of the week from Monday 00:00 UTC: for the middle of each, without the
// last half-hour's logins. It is nil before the first complete hour.
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

// Expected is an hour of the week with its threshold.
type Expected struct {
	Threshold float64 `json:"threshold"`
	Hour
}

// Switches returns the newest switches, oldest first.
func (m *Mode) Switches() []Switch {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.switches)
}

// Config returns the current configuration.
func (m *Mode) Config() Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config
}

// SetConfig changes the configuration at run time; the baseline stays. Changing Monitor takes effect at once: a
// switch ByPolicy. It is Adopted, because the policy change itself is recorded.
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

// advance removes expired seconds, once a second, and returns the time by the site's clock.
func (m *Mode) advance() (now time.Time) { return m.advanceTo(m.now()) }

// advanceTo does not go back before the running second, unless the clock was set back.
func (m *Mode) advanceTo(at time.Time) (now time.Time) {
	now = at.Add(m.fleet.ahead)
	if late := m.window.now - now.Unix(); late != 0 && (late < 0 || late > windowSeconds) {
		m.pass(now.Add(-lateReports)) // with the same lag as the nodes, so that a single node computes the same
		m.window.advance(now)
	}
	return now
}

// pass advances the minutes. A node among several does not learn by itself.
func (m *Mode) pass(now time.Time) {
	if !m.fleet.together {
		m.minutes.pass(&m.config, &m.detector, !m.fleet.alone(), &m.window.Report, now)
	}
}

func (m *Mode) see(now time.Time) { m.seeAt(m.siteThreshold(), now) }

// seeAt updates the level by the site's threshold, and switches if necessary.
func (m *Mode) seeAt(site float64, now time.Time) {
	m.look(site, now)
	switch {
	case m.override.State != Automatic && !m.now().Before(m.override.Until):
		m.switchTo(Override{}, ByExpiry, false, now)
	case m.detector.Level == m.last.Level && m.detector.Steady == m.steady &&
		m.detector.Daily.Elevated == m.last.Elevated:
	case m.fleet.together: // Apply makes the switch: it knows which node decided
		m.show()
		m.fleet.hurry()
	default:
		m.follow(false, now)
	}
}

// follow makes a switch for each change of the level or of Steady.
func (m *Mode) follow(adopted bool, now time.Time) {
	switch level := m.detector.Level; {
	case level < m.last.Level:
		m.switchTo(m.override, ByCoolDown, adopted, now)
	case level > m.last.Level:
		m.switchTo(m.override, ByFailureRate, adopted, now)
	}
	if m.last.Elevated != m.detector.Daily.Elevated {
		m.switchTo(m.override, ByDailyFailures, adopted, now)
	}
	if m.steady != m.detector.Steady {
		if m.steady = m.detector.Steady; m.steady {
			m.switchTo(m.override, BySteadiness, adopted, now)
		}
	}
}

// show applies the override, else the level.
func (m *Mode) show() (on bool) {
	attacked, watched := m.override.State == Automatic && m.detector.Level == Attack, m.config.Monitor
	on = m.override.State == ForcedOn || attacked && !watched
	m.on.Store(on)
	m.slow.Store(m.detector.Level != Calm && !watched)
	m.elevated.Store(m.detector.Daily.Elevated && !watched)
	m.wouldElevate.Store(m.detector.Daily.Elevated && watched)
	m.wouldOn.Store(attacked && watched)
	m.wouldSlow.Store(m.detector.Level != Calm && watched)
	if n := len(m.minutes); n > 0 {
		m.minutes[n-1].On, m.minutes[n-1].Level = on, m.detector.Level
	}
	return on
}

// look updates the level from the failure rate. Among several nodes it only raises the level: the agreed state lowers
// it.
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

func (m *Mode) threshold() float64 {
	on := m.siteThreshold()
	if m.fleet.alone() {
		on = max(1, on/float64(m.fleet.nodes))
	}
	return on
}

// siteThreshold returns the threshold for all nodes together.
func (m *Mode) siteThreshold() float64 {
	return m.detector.threshold(&m.config, m.sum()[Login])
}

// failureRate returns the site's failure rate of the last minute, as far as this node knows.
func (m *Mode) failureRate() Counts {
	p := m.sum()
	for s := range p {
		p[s] = max(0, p[s])
	}
	return p
}

// sum returns all counts minus what was taken back; it may be negative.
func (m *Mode) sum() Counts {
	if m.fleet.together {
		return m.window.FailureRate.plus(m.fleet.others)
	}
	return m.window.FailureRate
}
