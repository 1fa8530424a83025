package captchamode

import "time"

// A Site is what all nodes of a site agree on. Its times are the site's, by the
// clock of whoever keeps it. The zero Site is that of no site.
type Site struct {
	// Epoch names the history that this belongs to: another one has begun when
	// what was kept was lost. Seq counts its versions, and Node has written
	// this one.
	Epoch string `json:"epoch"`
	Seq   int64  `json:"seq"`
	Node  string `json:"node"`

	Normal  float64   `json:"normal"`
	Learned int       `json:"learned"`
	Level   Level     `json:"level"`
	Low     time.Time `json:"low,omitzero"`

	// Switches counts how often the level has changed, and By is the node that
	// keeps the record of the last time.
	Switches int64  `json:"switches"`
	By       string `json:"by,omitzero"`

	// Minutes are the last hour, oldest first; the last was running when this
	// was written. They are kept apart, since they change only once a minute.
	Minutes []Minute `json:"-"`
}

// Same reports whether two are the same version.
func (s *Site) Same(t *Site) bool {
	return s.Epoch == t.Epoch && s.Seq == t.Seq && s.Node == t.Node
}

// Running is when the minute began that was running.
func (s *Site) Running() time.Time {
	if len(s.Minutes) == 0 {
		return time.Time{}
	}
	return s.Minutes[len(s.Minutes)-1].Start
}

// valid reports whether it makes sense.
func (s *Site) valid() bool {
	return s.Epoch != "" && s.Level <= Attack && s.Normal >= 0 && s.Learned >= 0 && len(s.Minutes) <= keepMinutes
}

func (s *Site) detector() detector { return detector{s.Normal, s.Learned, s.Level, s.Low} }

func (s *Site) set(d detector) {
	s.Normal, s.Learned, s.Level, s.Low = d.Normal, d.Learned, d.Level, d.Low
}

// follows reports whether s is what came of t: nothing that t knows is lost.
func (s *Site) follows(t *Site) bool {
	return t.Epoch == "" || s.Same(t) || s.Epoch == t.Epoch && s.Seq > t.Seq && s.Switches >= t.Switches
}

// coolDown ends a level that has been quiet for the whole cool-down: it is no
// reason to hold against another node that has ended it already.
func (s *Site) coolDown(c *Config, now time.Time) {
	d := s.detector()
	if !d.Low.IsZero() {
		d.settle(true, c.coolDown(d.Level), now)
		s.set(d)
	}
}

// merged is s with what own knows beyond it: the higher level, the later
// beginning of the cool-down, and of two histories what was learned longer.
func (s *Site) merged(own *Site) Site {
	m := *s
	m.Switches = max(m.Switches, own.Switches)
	if own.Epoch != "" && own.Epoch != s.Epoch && own.Learned > s.Learned {
		m.Normal, m.Learned = own.Normal, own.Learned
	}
	switch {
	case own.Level > s.Level:
		m.Level, m.Low = own.Level, own.Low
	case own.Level == s.Level && (own.Low.IsZero() || !s.Low.IsZero() && own.Low.After(s.Low)):
		m.Low = own.Low
	}
	return m
}

// lateNews is how long nodes may take to tell of a minute that is over.
const lateNews = 2 * time.Second

// pass moves the minutes on to now. Those that have ended are learned from if
// teach says so; last is what was counted in the minute before the running one,
// running what was counted in that. on is whether the mode is on.
func (s *Site) pass(c *Config, teach, on bool, last, running Counts, now time.Time) {
	d, from, all := s.detector(), s.Running(), minutes(s.Minutes)
	_, ended := all.at(now.Add(-lateNews))
	for i := range all {
		m := &all[i]
		if m.Start.Before(from) {
			continue
		}
		switch now.Truncate(time.Minute).Sub(m.Start) {
		case 0:
			m.set(running)
		case time.Minute:
			m.set(last)
		}
		m.mark(d.threshold(c), c)
		m.On, m.Level = on, d.Level
		if teach && i < len(all)-1 && ended > 0 {
			d.learn(c, m.total())
		}
	}
	s.set(d)
	s.Minutes = all
}
