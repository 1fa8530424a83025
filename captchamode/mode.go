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

	// What Observe needs without the lock; kept by refresh.
	share atomic.Int32 // what one address may contribute in a minute
	alarm atomic.Int32 // the pressure above which the level must be looked at

	mu       sync.Mutex
	config   Config
	detector detector
	window   window
	shares   shares
	minutes  minutes
	force    Force
	switches []Switch
	now      func() time.Time
	onSwitch func(Switch)
	ticker   ticker
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
// may be nil, as may now, for time.Now.
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

// Observe counts one sign from an address. The switch goes on before Observe
// returns if that crossed the threshold. Within a second it takes no lock.
func (m *Mode) Observe(s Sign, address [16]byte) { m.ObserveAt(s, address, m.now()) }

// ObserveAt is Observe for who has read the clock already, at most some seconds
// ago. What is older than the running second counts in it.
func (m *Mode) ObserveAt(s Sign, address [16]byte, now time.Time) {
	if now.Unix() > m.window.now.Load() {
		m.mu.Lock()
		m.advance(now)
		m.mu.Unlock()
	}
	if !m.shares.take(&address, m.share.Load()) {
		return
	}
	if int32(m.window.add(s)) > m.alarm.Load() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.see(now)
	}
}

// TakeBack removes one sign that has turned out to be none: a challenge that
// was counted as unsolved and then solved.
func (m *Mode) TakeBack(s Sign) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(m.now())
	m.window.takeBack(s)
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
	on := m.detector.threshold(&m.config)
	return State{
		On: m.on.Load(), Level: m.detector.Level, Force: m.force, Pressure: m.window.counts(),
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
// that this is no attack, so learning goes on.
func (m *Mode) advance(now time.Time) {
	var last Minute
	if n := len(m.minutes); n > 0 {
		m.minutes[n-1].add(m.window.untold())
		last = m.minutes[n-1]
	}
	m.window.advance(now.Unix())
	m.shares.advance(now.Unix() / 60)
	running, ended := m.minutes.at(now)
	for i := range ended {
		if m.detector.Level == Attack && m.force.Word != ForcedOff {
			break
		}
		if i == 0 {
			m.detector.learn(last.Failures + last.Unsolved + last.Shed)
		} else {
			m.detector.learn(0)
		}
	}
	on := m.detector.threshold(&m.config)
	running.Threshold, running.SlowAt, running.LeaveAt = on, on*m.config.SlowPart, on*m.config.LeavePart
	running.On, running.Level = m.on.Load(), m.detector.Level
	m.refresh()
}

// refresh works out what Observe needs.
func (m *Mode) refresh() {
	on := m.detector.threshold(&m.config)
	m.share.Store(int32(max(1, m.config.AddressShare*on)))
	alarm := on
	switch m.detector.Level {
	case Calm:
		alarm = on * m.config.SlowPart
	case Attack:
		alarm = math.MaxInt32
	}
	m.alarm.Store(int32(alarm))
}

// see asks the detector and carries out what follows.
func (m *Mode) see(now time.Time) {
	was := m.detector.Level
	m.detector.see(&m.config, m.window.counts().Total(), now)
	if m.force.Word != Automatic && !now.Before(m.force.Until) {
		m.switchTo(Force{}, ByExpiry, was, now)
		return
	}
	if m.detector.Level == was {
		return
	}
	m.refresh()
	cause := ByPressure
	if m.detector.Level < was {
		cause = ByCoolDown
	}
	m.switchTo(m.force, cause, was, now)
}

func (m *Mode) apply(f Force, cause Cause, now time.Time) {
	m.switchTo(f, cause, m.detector.Level, now)
	if f.Word == Automatic {
		m.force = Force{}
	}
}

// switchTo notes a change and tells of it.
func (m *Mode) switchTo(f Force, cause Cause, wasLevel Level, now time.Time) {
	s := Switch{
		At: now, WasOn: m.on.Load(), WasLevel: wasLevel, Level: m.detector.Level, Cause: cause,
		Force: f, Pressure: m.window.counts().Total(), Threshold: m.detector.threshold(&m.config),
	}
	m.force = f
	s.On = f.Word == ForcedOn || f.Word == Automatic && m.detector.Level == Attack
	m.on.Store(s.On)
	m.slow.Store(m.detector.Level != Calm)
	if n := len(m.minutes); n > 0 {
		m.minutes[n-1].On, m.minutes[n-1].Level = s.On, s.Level
	}
	if len(m.switches) == keepSwitches {
		m.switches = slices.Delete(m.switches, 0, 1)
	}
	m.switches = append(m.switches, s)
	m.onSwitch(s)
}
