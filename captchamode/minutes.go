package captchamode

import "time"

// A Minute is one point of the plot: what happened in a minute, and what the
// switch made of it at its end.
type Minute struct {
	Start     time.Time `json:"start"`
	Failures  int       `json:"failures"`
	Unsolved  int       `json:"unsolved"`
	Shed      int       `json:"shed"`
	Threshold float64   `json:"threshold"`
	SlowAt    float64   `json:"slow_at"`
	LeaveAt   float64   `json:"leave_at"`
	On        bool      `json:"on"`
	Level     Level     `json:"level"`
}

// keepMinutes is one hour and the running minute.
const keepMinutes = 61

// minutes are the newest, oldest first; the last is still running.
type minutes []Minute

// at is the running minute, after adding those that passed with nothing in
// them. It reports how many whole minutes have ended since the last call.
func (m *minutes) at(now time.Time) (running *Minute, ended int) {
	start := now.Truncate(time.Minute)
	if n := len(*m); n == 0 || start.Sub((*m)[n-1].Start) > keepMinutes*time.Minute {
		*m = append((*m)[:0], Minute{Start: start})
		return &(*m)[0], 0
	}
	for last := (*m)[len(*m)-1]; last.Start.Before(start); ended++ {
		last = Minute{
			Start: last.Start.Add(time.Minute), Threshold: last.Threshold,
			SlowAt: last.SlowAt, LeaveAt: last.LeaveAt, On: last.On, Level: last.Level,
		}
		*m = append(*m, last)
	}
	if extra := len(*m) - keepMinutes; extra > 0 {
		*m = append((*m)[:0], (*m)[extra:]...)
	}
	return &(*m)[len(*m)-1], ended
}

func (m *Minute) add(c Counts) {
	m.Failures += c[Failure]
	m.Unsolved += c[Unsolved]
	m.Shed += c[Shed]
}

// mark notes the thresholds that go with a threshold of on.
func (m *Minute) mark(on float64, c *Config) {
	m.Threshold, m.SlowAt, m.LeaveAt = on, on*c.SlowPart, on*c.LeavePart
}

func (m *Minute) set(c Counts) { m.Failures, m.Unsolved, m.Shed = c[Failure], c[Unsolved], c[Shed] }

func (m *Minute) total() int { return m.Failures + m.Unsolved + m.Shed }
