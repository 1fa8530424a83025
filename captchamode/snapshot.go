package captchamode

import "time"

// A Snapshot is what of a Mode outlives the process: what was learned, and that
// the site is under attack (R7).
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
	minutes, switches := m.Minutes(), m.Switches()
	m.mu.Lock()
	defer m.mu.Unlock()
	return Snapshot{
		Normal: m.detector.Normal, Learned: m.detector.Learned, Level: m.detector.Level,
		Low: m.detector.Low, Force: m.force, Minutes: minutes, Switches: switches,
	}
}

// Restore puts back what Save returned. It is for a Mode that has seen nothing
// yet; a level or a number that makes no sense is taken as nothing.
func (m *Mode) Restore(from Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if from.Level > Attack || from.Normal < 0 || from.Normal != from.Normal || from.Learned < 0 {
		return
	}
	m.detector = detector{Normal: max(from.Normal, m.config.Normal), Learned: from.Learned, Level: from.Level, Low: from.Low}
	if from.Force.validate(now) == nil {
		m.force = from.Force
	}
	if n := len(from.Minutes); n > 0 && n <= keepMinutes && !from.Minutes[n-1].Start.After(now) {
		m.minutes = append(m.minutes[:0], from.Minutes...)
	}
	if len(from.Switches) <= keepSwitches {
		m.switches = append(m.switches[:0], from.Switches...)
	}
	m.told = told{m.show(m.force), m.detector.Level}
	m.refresh()
}
