package pages

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"time"

	"authguard/captchamode"
	"authguard/internal/replay"
	"authguard/internal/times"
)

const weekHours = 7 * 24

// weekPlot draws CAPTCHA mode's threshold at each hour of this week, in the reader's time zone.
func weekPlot(shape string, now time.Time, hours []captchamode.Expected) template.HTML {
	c, high := newChart(shape, now, ""), 0.
	for _, h := range hours {
		high = max(high, replay.Finite(h.Threshold), replay.Finite(h.FailureRate))
	}
	c.scale(high)
	c.Right, c.Top, c.Bottom, c.Height, c.each = c.Width-4, 18, 138, 164, time.Hour
	c.From = mondayOf(now)
	c.To = c.From.Add(weekHours * time.Hour)
	points := weekOf(c.From, hours)
	c.Grid(short)
	for day := range 7 {
		begins := c.From.Add(time.Duration(day) * 24 * time.Hour)
		noon := begins.Add(12 * time.Hour)
		c.Path("grid", "", "M", c.At(begins), c.Top, "V", c.Bottom)
		c.Text("tick", "middle", c.At(noon), c.Bottom+17, weekdays[day])
	}
	c.stack(points)
	c.Path("axis", "", "M", c.Left, c.Bottom, "H", c.Right)
	c.Path("now-mark", "now", "M", c.At(now), c.Top, "V", c.Bottom)
	c.line("on", points, func(m captchamode.Minute) float64 { return m.Threshold })
	hour := points[min(int(now.Sub(c.From)/time.Hour), weekHours-1)]
	c.Text("line-label", "middle", c.At(now), c.Top-6, "now "+short(hour.Threshold))
	by := func(a, b captchamode.Minute) int { return cmp.Compare(a.Threshold, b.Threshold) }
	least, most := slices.MinFunc(points, by), slices.MaxFunc(points, by)
	return c.SVG("plot "+shape, "week-"+shape, "Threshold through the week", fmt.Sprintf(
		"From %s a minute on %s %s to %s on %s %s.", rateWords(least.Threshold), least.Start.Weekday(),
		times.Clock(least.Start), rateWords(most.Threshold), most.Start.Weekday(), times.Clock(most.Start)))
}

// mondayOf returns the beginning of the week by the reader's clock.
func mondayOf(now time.Time) time.Time {
	year, month, day := now.Date()
	return time.Date(year, month, day-(int(now.Weekday())+6)%7, 0, 0, 0, 0, now.Location())
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
			Failures: int(math.Round(replay.Finite(h.FailureRate)))})
	}
	return all
}

type weekRow struct {
	Hour string
	Days []float64
}

// Week returns the threshold through the week in both shapes; nil before the first learned hour.
func (v NowView) Week() (all []template.HTML) {
	if len(v.Series.Week) == weekHours {
		for _, shape := range shapes {
			all = append(all, weekPlot(shape, v.Now, v.Series.Week))
		}
	}
	return all
}

var weekdays = [...]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

// Weekdays are the columns of WeekTable.
func (v NowView) Weekdays() [7]string { return weekdays }

// WeekTable returns the same as numbers.
func (v NowView) WeekTable() (rows []weekRow) {
	points := weekOf(mondayOf(v.Now), v.Series.Week)
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
