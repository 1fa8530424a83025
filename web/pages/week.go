package pages

import (
	"fmt"
	"math"
	"slices"
	"time"

	"authguard/captchamode"
)

// Week is CAPTCHA mode's threshold at each hour of this week, in the reader's time zone.
type Week struct {
	Canvas     canvas
	Desc, Zone string
	Bars       []Bar
	Path       string // of the threshold
	Days       []Day
	Now, Label string // the position of now, and the threshold of its hour
}

// A Day is a day of the week: where it begins, and its name below noon.
type Day struct{ Begins, Noon, Text string }

const weekHours = 7 * 24

// NewWeek draws the hours, the first being Monday 00:00 UTC, in one of the shapes of newCanvas.
func NewWeek(id string, now time.Time, hours []captchamode.Expected) Week {
	high := 0.
	for _, h := range hours {
		high = max(high, finite(h.Threshold), finite(h.FailureRate))
	}
	c := newCanvas(id, now, "", high)
	c.Right, c.Top, c.Bottom, c.Height, c.each = c.Width-4, 18, 138, 164, time.Hour
	year, month, day := now.Date()
	c.from = time.Date(year, month, day-(int(now.Weekday())+6)%7, 0, 0, 0, 0, now.Location())
	c.to = c.from.Add(weekHours * time.Hour)
	w := Week{Canvas: c, Zone: now.Format("MST"), Now: coord(c.x(now))}
	points := weekOf(c.from, hours)
	for _, m := range points {
		w.Bars = append(w.Bars, c.stack(m)...)
	}
	w.Path, _ = c.steps(points, func(m captchamode.Minute) float64 { return m.Threshold })
	for day := range 7 {
		begins := c.from.Add(time.Duration(day) * 24 * time.Hour)
		noon := begins.Add(12 * time.Hour)
		w.Days = append(w.Days, Day{coord(c.x(begins)), coord(c.x(noon)), noon.Format("Mon")})
	}
	if len(points) > 0 {
		w.Label = "now " + short(points[min(int(now.Sub(c.from)/time.Hour), weekHours-1)].Threshold)
		by := func(a, b captchamode.Minute) int { return int(math.Copysign(1, a.Threshold-b.Threshold)) }
		low, high := slices.MinFunc(points, by), slices.MaxFunc(points, by)
		w.Desc = fmt.Sprintf("From %s a minute on %s to %s on %s.", rateWords(low.Threshold), low.Start.Format("Mon 15:04"),
			rateWords(high.Threshold), high.Start.Format("Mon 15:04"))
	}
	return w
}

// weekOf returns the hours of the week that begins at from, as points of a plot.
func weekOf(from time.Time, hours []captchamode.Expected) (all []captchamode.Minute) {
	if len(hours) != weekHours {
		return nil
	}
	for i := range hours {
		start := from.Add(time.Duration(i) * time.Hour)
		const monday = 3 // 1 January 1970 was a Thursday
		h := hours[(start.Unix()/3600+monday*24)%weekHours]
		all = append(all, captchamode.Minute{Start: start, Threshold: h.Threshold,
			Failures: int(math.Round(finite(h.FailureRate)))})
	}
	return all
}

type weekRow struct {
	Hour string
	Days []float64
}

// Week returns the threshold through the week in both shapes; nil before the first learned hour.
func (v NowView) Week() (all []Week) {
	if len(v.Series.Week) != weekHours {
		return nil
	}
	for _, id := range shapes {
		all = append(all, NewWeek(id, v.Now, v.Series.Week))
	}
	return all
}

// WeekTable returns the same as numbers.
func (v NowView) WeekTable() (rows []weekRow) {
	c := NewWeek(shapes[0], v.Now, v.Series.Week).Canvas
	points := weekOf(c.from, v.Series.Week)
	for hour := range len(points) / 7 {
		row := weekRow{Hour: fmt.Sprintf("%02d:00", hour)}
		for day := range 7 {
			row.Days = append(row.Days, points[day*24+hour].Threshold)
		}
		rows = append(rows, row)
	}
	return rows
}

// PerLogin returns how many logins failed for each success in the plotted span; empty for none.
func (v NowView) PerLogin() string {
	failures, logins := 0, 0
	for _, p := range v.Series.Points {
		failures, logins = failures+p.Failures, logins+p.Logins
	}
	if failures+logins == 0 {
		return ""
	}
	if logins == 0 {
		return comma(failures) + " to 0"
	}
	return fmt.Sprintf("%.1f", float64(failures)/float64(logins))
}
