package replay

import "time"

// Bucket is one column of a plot.
type Bucket struct {
	At       time.Time `json:"at"` // its start
	Guesses  int64     `json:"guesses"`
	Checked  int64     `json:"checked"`          // of the guesses
	Let      int64     `json:"let_in,omitempty"` // of the guesses; 0 for logs, which do not contain right guesses
	Logins   int64     `json:"logins"`
	Hindered int64     `json:"hindered"` // affected ones of the logins
	Mode     bool      `json:"mode"`     // CAPTCHA mode was on for part of it
	// Nearest is how near the failure rate came to the threshold of CAPTCHA mode.
	Nearest
}

// Nearest is the minute in which the failure rate came nearest to the threshold of CAPTCHA mode. The zero Nearest means
// no data.
type Nearest struct {
	Pressure  int     `json:"failure_rate,omitempty"`
	Threshold float64 `json:"threshold,omitempty"`
}

// Or returns the nearer one.
func (n Nearest) Or(other Nearest) Nearest {
	if n.Threshold == 0 || other.Threshold > 0 &&
		float64(other.Pressure)*n.Threshold > float64(n.Pressure)*other.Threshold {
		return other
	}
	return n
}

// Series is buckets of equal width, which doubles when there are too many.
type Series struct {
	Buckets []Bucket
	start   time.Time
	width   time.Duration
	on      bool
}

// mostBuckets is enough for two months of hours, and for a plot.
const mostBuckets = 1440

// at returns the bucket of a time, or the newest if that is later.
func (s *Series) at(now time.Time) *Bucket {
	for int(now.Sub(s.start)/s.width) >= mostBuckets {
		s.halve()
	}
	i := max(int(now.Sub(s.start)/s.width), len(s.Buckets)-1)
	for len(s.Buckets) <= i {
		at := s.start.Add(time.Duration(len(s.Buckets)) * s.width)
		s.Buckets = append(s.Buckets, Bucket{At: at, Mode: s.on})
	}
	return &s.Buckets[i]
}

func (s *Series) halve() {
	s.width *= 2
	for i, b := range s.Buckets {
		if i%2 == 0 {
			s.Buckets[i/2] = b
			continue
		}
		to := &s.Buckets[i/2]
		to.Guesses, to.Checked, to.Let = to.Guesses+b.Guesses, to.Checked+b.Checked, to.Let+b.Let
		to.Logins, to.Hindered, to.Mode = to.Logins+b.Logins, to.Hindered+b.Hindered, to.Mode || b.Mode
		to.Nearest = to.Nearest.Or(b.Nearest)
	}
	s.Buckets = s.Buckets[:(len(s.Buckets)+1)/2]
}

// Guess counts a guess. A time before the newest bucket counts there, as for all methods.
func (s *Series) Guess(at time.Time, checked, let bool) {
	b := s.at(at)
	b.Guesses, b.Checked, b.Let = b.Guesses+1, b.Checked+one(checked), b.Let+one(let)
}

// Login counts a user's login.
func (s *Series) Login(at time.Time, hindered bool) {
	b := s.at(at)
	b.Logins, b.Hindered = b.Logins+1, b.Hindered+one(hindered)
}

// Level records whether CAPTCHA mode is on from now on.
func (s *Series) Level(at time.Time, on bool) {
	b := s.at(at)
	b.Mode, s.on = b.Mode || on, on
}

// Pressure records the failure rate and the threshold.
func (s *Series) Pressure(at time.Time, now Nearest) {
	b := s.at(at)
	b.Nearest = b.Nearest.Or(now)
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
