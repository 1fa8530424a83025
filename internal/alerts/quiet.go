package alerts

import (
	"errors"
	"strings"
	"time"
)

// Quiet are hours of each day in which only what is important goes out. The zero Quiet
// is none.
type Quiet struct {
	from, to time.Duration // since midnight
	in       *time.Location
}

// ParseQuiet reads hours such as "22:00-07:00 Europe/Berlin"; without a time zone they
// are this machine's. Empty is none.
func ParseQuiet(text string) (q Quiet, err error) {
	if text == "" {
		return q, nil
	}
	const form = "must be hours such as 22:00-07:00, or 22:00-07:00 Europe/Berlin"
	hours, zone, _ := strings.Cut(text, " ")
	from, to, two := strings.Cut(hours, "-")
	q.from, err = sinceMidnight(from)
	to1, err2 := sinceMidnight(to)
	if !two || err != nil || err2 != nil || q.from == to1 {
		return Quiet{}, errors.New(form)
	}
	q.to, q.in = to1, time.Local
	if zone = strings.TrimSpace(zone); zone != "" {
		if q.in, err = time.LoadLocation(zone); err != nil {
			return Quiet{}, errors.New(form + "; unknown time zone")
		}
	}
	return q, nil
}

func sinceMidnight(text string) (time.Duration, error) {
	t, err := time.Parse("15:04", text)
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, err
}

// holds reports whether it is quiet at a time.
func (q Quiet) holds(at time.Time) bool {
	if q.in == nil {
		return false
	}
	hour, minute, second := at.In(q.in).Clock()
	now := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second
	if q.from < q.to {
		return q.from <= now && now < q.to
	}
	return q.from <= now || now < q.to
}

// end is when it is not quiet any more: at itself if it is not.
func (q Quiet) end(at time.Time) time.Time {
	if !q.holds(at) {
		return at
	}
	local := at.In(q.in)
	for day := range 2 {
		end := time.Date(local.Year(), local.Month(), local.Day()+day, 0, int(q.to/time.Minute), 0, 0, q.in)
		if end.After(at) {
			return end
		}
	}
	return at.Add(time.Hour) // a clock that is put back at just that time
}
