package alerts

import (
	"errors"
	"strings"
	"time"
)

// Quiet are hours of each day in which only important alerts go out. The zero Quiet is none.
type Quiet struct {
	from, to time.Duration // since midnight
	in       *time.Location
}

// ParseQuiet parses hours such as "22:00-07:00 Europe/Berlin", by default in the local time zone. Empty is none.
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

// end returns the end of the quiet hours, or at itself outside them.
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
	return at.Add(time.Hour) // the clock is set back at just that time
}
