package captchamode

import "slices"

// A Snapshot is the part of a Mode that survives a restart: the baseline, the level, the override and the history
// (R7).
type Snapshot struct {
	Detector
	Override Override `json:"force,omitzero"`
	Minutes  []Minute `json:"minutes"`
	Switches []Switch `json:"switches"`
}

// Save returns the state to store.
func (m *Mode) Save() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass(m.advance())
	return Snapshot{m.detector, m.override, slices.Clone(m.minutes), slices.Clone(m.switches)}
}

// Restore loads what Save returned. Call it before the Mode observes anything. It ignores invalid data.
func (m *Mode) Restore(from Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if !from.valid() {
		return
	}
	m.detector = from.Detector
	m.detector.Normal = max(from.Normal, m.config.Baseline)
	m.detector.expect(&m.config, now)
	if from.Override.validate(now) == nil {
		m.override = from.Override
	}
	if n := len(from.Minutes); n > 0 && n <= keepMinutes && !from.Minutes[n-1].Start.After(now) {
		m.minutes = slices.Clone(from.Minutes)
		m.pass(now)
	}
	if len(from.Switches) <= keepSwitches {
		m.switches = slices.Clone(from.Switches)
	}
	m.last = Switch{On: m.show(), Level: m.detector.Level, Elevated: m.detector.Daily.Elevated}
	if n := len(m.switches); n > 0 {
		m.last.Attacked = m.switches[n-1].Attacked
	}
	m.steady = m.detector.Steady
}
