package captchamode

import (
	"slices"
	"time"
)

// A Snapshot is the part of a Mode that outlives the process: what was learned,
// and that the site is under attack (R7).
type Snapshot struct {
	Normal   float64   `json:"normal"`
	Learned  int       `json:"learned"`
	Level    Level     `json:"level"`
	Low      time.Time `json:"low,omitzero"`
	Force    Force     `json:"force,omitzero"`
	Minutes  []Minute  `json:"minutes"`
	Switches []Switch  `json:"switches"`
}

// Save returns what is to be kept.
func (m *Mode) Save() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass(m.advance())
	return Snapshot{
		Normal: m.detector.Normal, Learned: m.detector.Learned, Level: m.detector.Level,
		Low: m.detector.Low, Force: m.force, Minutes: slices.Clone(m.minutes), Switches: slices.Clone(m.switches),
	}
}

// Restore puts back what Save returned. Call it before the Mode observes
// anything. A level or a number that makes no sense is taken as nothing.
func (m *Mode) Restore(from Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if from.Level > Attack || !(from.Normal >= 0) || from.Learned < 0 {
		return
	}
	m.detector = detector{Normal: max(from.Normal, m.config.Normal), Learned: from.Learned, Level: from.Level, Low: from.Low}
	if from.Force.validate(now) == nil {
		m.force = from.Force
	}
	if n := len(from.Minutes); n > 0 && n <= keepMinutes && !from.Minutes[n-1].Start.After(now) {
		m.minutes = slices.Clone(from.Minutes)
		m.pass(now)
	}
	if len(from.Switches) <= keepSwitches {
		m.switches = slices.Clone(from.Switches)
	}
	m.told = told{m.show(), m.detector.Level}
}
