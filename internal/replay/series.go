package replay

import (
	"time"
)

// Bucket is one column of a plot.
type Bucket struct {
	At       time.Time `json:"at"` // its start
	Guesses  int64     `json:"guesses"`
	Checked  int64     `json:"checked"` // of the guesses
	Logins   int64     `json:"logins"`
	Hindered int64     `json:"hindered"` // of the logins
	Mode     bool      `json:"mode"`     // CAPTCHA mode was on for part of it
	// Nearest is how near the failure rate came to the threshold of CAPTCHA mode.
	Nearest
}

// series is buckets of equal width, which doubles when there are too many.
type series struct {
	start time.Time
	width time.Duration
	list  []Bucket
	on    bool
}

const mostBuckets = 1440

func newSeries(start time.Time) series {
	return series{start: start.Truncate(time.Minute), width: time.Minute}
}

// at returns the bucket of a time, or the newest if that is later.
func (s *series) at(now time.Time) *Bucket {
	for int(now.Sub(s.start)/s.width) >= mostBuckets {
		s.halve()
	}
	i := max(int(now.Sub(s.start)/s.width), len(s.list)-1)
	for len(s.list) <= i {
		s.list = append(s.list, Bucket{At: s.start.Add(time.Duration(len(s.list)) * s.width), Mode: s.on})
	}
	return &s.list[i]
}

func (s *series) halve() {
	s.width *= 2
	for i, b := range s.list {
		if i%2 == 0 {
			s.list[i/2] = b
			continue
		}
		to := &s.list[i/2]
		to.Guesses, to.Checked = to.Guesses+b.Guesses, to.Checked+b.Checked
		to.Logins, to.Hindered, to.Mode = to.Logins+b.Logins, to.Hindered+b.Hindered, to.Mode || b.Mode
		to.Nearest = to.Nearest.Or(b.Nearest)
	}
	s.list = s.list[:(len(s.list)+1)/2]
}

func (s *series) guess(at time.Time, checked bool) {
	b := s.at(at)
	if b.Guesses++; checked {
		b.Checked++
	}
}

func (s *series) login(at time.Time, hindered bool) {
	b := s.at(at)
	if b.Logins++; hindered {
		b.Hindered++
	}
}

func (s *series) level(at time.Time, on bool) {
	b := s.at(at)
	b.Mode, s.on = b.Mode || on, on
}

// pressure records the nearest approach to the threshold. A time before the newest bucket counts there.
func (s *series) pressure(at time.Time, now Nearest) {
	b := s.at(at)
	b.Nearest = b.Nearest.Or(now)
}

func (s *series) all() []Bucket { return s.list }
