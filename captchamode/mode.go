package captchamode

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MaxForce is the longest that a person's word holds before the mode returns
// to automatic.
const MaxForce = 7 * 24 * time.Hour

// ErrForce means that a person's word lacks who, why or a sensible end.
var ErrForce = errors.New("captchamode: cannot force the mode")

// A Mode is the site-wide switch. All methods are safe for concurrent use; On
// and Slowing are one atomic read.
type Mode struct {
	on   atomic.Bool
	slow atomic.Bool

	// share is what Observe needs without the lock; kept by refresh.
	share atomic.Int32 // what one address may contribute in a minute

	mu       sync.Mutex
	alarm    int // the pressure above which the level must be looked at
	config   Config
	detector detector
	window   window
	shares   shares
	minutes  minutes
	force    Force
	switches []Switch
	told     told
	site     site // what the other nodes say, if there are any
	now      func() time.Time
	onSwitch func(Switch)
	ticker   ticker
}

// told is what the last switch said the site does.
type told struct {
	on    bool
	level Level
}

// A State is what the switch knows at one moment.
type State struct {
	On        bool          `json:"on"`
	Level     Level         `json:"level"`
	Force     Force         `json:"force"`
	Pressure  Counts        `json:"pressure"` // in the last minute
	Threshold float64       `json:"threshold"`
	SlowAt    float64       `json:"slow_at"`
	LeaveAt   float64       `json:"leave_at"`
	Normal    float64       `json:"normal"`
	Low       time.Time     `json:"low_since,omitzero"` // the cool-down began
	CoolDown  time.Duration `json:"cool_down"`
}

// NewMode returns a switch that is off. onSwitch is called after each switch,
// one at a time and in order; it must not block and must not call the Mode. It
// may be nil, as may now, for time.Now. Of several nodes every one calls it for
// a switch of the site; that of one of them is not Adopted.
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
	m := &Mode{config: c, detector: detector{Normal: c.Normal}, now: now, onSwitch: onSwitch}
	m.advance(now()) // Observe relies on there being a running minute
	return m, nil
}

// On reports whether every attempt that is not privileged needs a solved
// challenge.
func (m *Mode) On() bool { return m.on.Load() }

// Slowing reports whether strangers are to be slowed.
func (m *Mode) Slowing() bool { return m.slow.Load() }

// Observe counts one sign from an address, and reports whether it did: an
// address contributes no more than its share. The switch goes on before Observe
// returns if that crossed the threshold. Far from a threshold it takes no lock
// within a second.
func (m *Mode) Observe(s Sign, address [16]byte) (counted bool) {
	return m.ObserveAt(s, address, m.now())
}

// ObserveAt is Observe for who has read the clock already, at most some seconds
// ago. What is older than the running second counts in it.
func (m *Mode) ObserveAt(s Sign, address [16]byte, now time.Time) (counted bool) {
	if now.Unix() > m.window.now.Load() {
		m.mu.Lock()
		m.advance(now)
		m.mu.Unlock()
	}
	if !m.shares.take(&address, m.share.Load()) {
		return false
	}
	if !m.window.add(s, &address) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.window.watch(m.alarm) {
			m.see(now)
		}
	}
	return true
}

// TakeBack removes one sign that was counted and has turned out to be none: a
// challenge that was counted as unsolved and then solved.
func (m *Mode) TakeBack(s Sign) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(m.now())
	m.window.takeBack(s, m.site.stage != unjoined)
}

// Tick lets time pass: minutes are learned from, cool-downs and forces run
// out. Start calls it four times a second.
func (m *Mode) Tick() {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now)
	m.see(now)
}

// Force makes a person's word the mode until it runs out (R21).
func (m *Mode) Force(f Force) error {
	now := m.now()
	if f.Since.IsZero() {
		f.Since = now
	}
	if err := f.validate(now); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now)
	m.apply(f, ByPerson, now)
	return nil
}

// Release returns the mode to automatic. Who and why are kept with the switch.
func (m *Mode) Release(who, why string) {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now)
	if m.force.Word != Automatic {
		m.apply(Force{Who: who, Why: why, Since: now}, ByPerson, now)
	}
}

func (f Force) validate(now time.Time) error {
	switch {
	case f.Word != ForcedOn && f.Word != ForcedOff:
		return fmt.Errorf("%w: say on or off, not %q", ErrForce, f.Word)
	case f.Who == "" || f.Why == "":
		return fmt.Errorf("%w: say who and why", ErrForce)
	case !f.Until.After(now):
		return fmt.Errorf("%w: its end must be in the future", ErrForce)
	case f.Until.Sub(now) > MaxForce:
		return fmt.Errorf("%w: at most %v ahead", ErrForce, MaxForce)
	}
	return nil
}

// State tells everything at once.
func (m *Mode) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(m.now())
	on := m.threshold()
	return State{
		On: m.on.Load(), Level: m.detector.Level, Force: m.force, Pressure: m.pressure(),
		Threshold: on, SlowAt: on * m.config.SlowPart, LeaveAt: on * m.config.LeavePart,
		Normal: m.detector.Normal, Low: m.detector.Low, CoolDown: m.config.CoolDown,
	}
}

// Minutes are the last hour, oldest first, the running minute last.
func (m *Mode) Minutes() []Minute {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(m.now())
	return slices.Clone(m.minutes)
}

// Switches are the newest changes, oldest first.
func (m *Mode) Switches() []Switch {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.switches)
}

// SetConfig changes the numbers of a running switch; what was learned stays.
func (m *Mode) SetConfig(c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.config = c
	m.see(m.now())
	m.refresh()
	return nil
}

// advance moves the window and the minutes to now, and learns from minutes
// that have ended. While a person says that the mode is off, that person says
// that this is no attack, so learning goes on. Of several nodes none learns by
// itself.
func (m *Mode) advance(now time.Time) {
	if m.site.stage == together {
		m.window.untold() // the minutes are the site's
		m.window.advance(now.Unix())
		m.shares.advance(now.Unix() / 60)
		m.refresh()
		return
	}
	var last Minute
	if n := len(m.minutes); n > 0 {
		m.minutes[n-1].add(m.window.untold())
		last = m.minutes[n-1]
	}
	m.window.advance(now.Unix())
	m.shares.advance(now.Unix() / 60)
	running, ended := m.minutes.at(now)
	for i := range ended {
		if m.site.stage == alone || m.detector.Level == Attack && m.force.Word != ForcedOff {
			break
		}
		if i == 0 {
			m.detector.learn(&m.config, last.total())
		} else {
			m.detector.learn(&m.config, 0)
		}
	}
	running.mark(m.threshold(), &m.config)
	running.On, running.Level = m.on.Load(), m.detector.Level
	m.refresh()
}

// refresh works out what Observe needs.
func (m *Mode) refresh() {
	on := m.threshold()
	m.share.Store(m.config.share(on))
	alarm := on
	switch m.detector.Level {
	case Calm:
		alarm = on * m.config.SlowPart
	case Attack:
		alarm = math.MaxInt32
	}
	m.alarm = int(min(m.own(alarm), math.MaxInt32))
	m.window.watch(m.alarm)
}

// see asks the detector and carries out what follows.
func (m *Mode) see(now time.Time) {
	m.look(now)
	if m.force.Word != Automatic && !now.Before(m.force.Until) {
		m.switchTo(Force{}, ByExpiry, false, now)
		return
	}
	if m.detector.Level == m.told.level {
		return
	}
	m.refresh()
	if m.site.stage == together { // the site says whose switch it is
		m.show(m.force)
		m.site.hurry()
		return
	}
	m.switchTo(m.force, m.cause(), false, now)
}

// cause is why the level is not what was told.
func (m *Mode) cause() Cause {
	if m.detector.Level < m.told.level {
		return ByCoolDown
	}
	return ByPressure
}

func (m *Mode) apply(f Force, cause Cause, now time.Time) {
	m.switchTo(f, cause, false, now)
	if f.Word == Automatic {
		m.force = Force{}
	}
}

// show does what a person or else the level says.
func (m *Mode) show(f Force) (on bool) {
	on = f.Word == ForcedOn || f.Word == Automatic && m.detector.Level == Attack
	m.on.Store(on)
	m.slow.Store(m.detector.Level != Calm)
	if n := len(m.minutes); n > 0 {
		m.minutes[n-1].On, m.minutes[n-1].Level = on, m.detector.Level
	}
	return on
}

// switchTo notes a change and tells of it.
func (m *Mode) switchTo(f Force, cause Cause, adopted bool, now time.Time) {
	s := Switch{
		At: now, WasOn: m.told.on, WasLevel: m.told.level, Level: m.detector.Level, Cause: cause,
		Force: f, Pressure: m.pressure().Total(), Threshold: m.threshold(), Adopted: adopted,
	}
	m.force = f
	s.On = m.show(f)
	m.told = told{s.On, s.Level}
	if len(m.switches) == keepSwitches {
		m.switches = slices.Delete(m.switches, 0, 1)
	}
	m.switches = append(m.switches, s)
	m.onSwitch(s)
}
