package captchamode

import "time"

// A Minute is one point of the plot: the counts of a minute, and the mode at its end.
type Minute struct {
	Start     time.Time `json:"start"`
	Failures  int       `json:"failures"`
	Unsolved  int       `json:"unsolved"`
	Overload  int       `json:"shed"`
	Threshold float64   `json:"threshold"`
	SlowAt    float64   `json:"throttle_at"`
	LeaveAt   float64   `json:"end_below"`
	On        bool      `json:"on"`
	Level     Level     `json:"level"`
}

const keepMinutes = 61

// minutes are the newest ones, oldest first; the last one is running.
type minutes []Minute

// advance adds all minutes up to now, even empty ones. It returns those that may still change: the previously running
// one and all later ones.
func (m *minutes) advance(now time.Time) minutes {
	start := now.Truncate(time.Minute)
	n := len(*m)
	if n == 0 || start.Sub((*m)[n-1].Start) > keepMinutes*time.Minute {
		*m = minutes{{Start: start}}
		return *m
	}
	from := n - 1
	for last := (*m)[n-1]; last.Start.Before(start); {
		last.Start = last.Start.Add(time.Minute)
		last.Failures, last.Unsolved, last.Overload = 0, 0, 0
		*m = append(*m, last)
	}
	if extra := len(*m) - keepMinutes; extra > 0 {
		*m = append((*m)[:0], (*m)[extra:]...)
		from = max(0, from-extra)
	}
	return (*m)[from:]
}

func (m minutes) running() time.Time {
	if len(m) == 0 {
		return time.Time{}
	}
	return m[len(m)-1].Start
}

// pass advances the minutes to now with the counts in r. A minute's count never decreases, even if counting restarts
// after a restart. The detector weighs each completed minute, and learns from it if lesson is set. Minutes without a
// report count as empty.
func (m *minutes) pass(c *Config, d *Detector, lesson bool, r *Report, now time.Time) {
	open, last := m.advance(now), r.FailureRate
	for i := range open {
		one, counts := &open[i], r.in(open[i].Start)
		if one.Threshold == 0 || i > 0 || d.Usual == 0 {
			d.expect(c, one.Start)
		}
		on := d.threshold(c, r.FailureRate[Login])
		one.Failures = max(one.Failures, counts[Failure])
		one.Unsolved = max(one.Unsolved, counts[Unsolved])
		one.Overload = max(one.Overload, counts[Overload])
		one.Threshold, one.SlowAt, one.LeaveAt, one.Level = on, on*c.ThrottleAt, on*offBelow, d.Level
		if i == len(open)-1 {
			return
		}
		if d.weigh(c, on, float64(counts.Total()), float64(last.Total())); lesson {
			d.learn(c, one.Start, counts[Login], last, r.tells(one.Start))
		}
		last = Counts{}
	}
}
