package captchamode

import "time"

// A slow attack with leaked passwords stays far below the threshold of a minute. But unknown clients then fail much
// more often within a day than usual (R32).

// A Daily counts the failures of unknown clients in the last 24 hours, and learns how many are usual. Each network
// contributes at most Config.AddressShare of its threshold; corrected typos do not count. It is a value without clock;
// the zero Daily has learned nothing.
type Daily struct {
	// Hours are the failures by hour of the day in UTC; that of Hour is running.
	Hours [24]int   `json:"hours"`
	Hour  time.Time `json:"hour"`
	// Usual is the average of a day's failures, and Learned the number of hours that it knows.
	Usual   float64 `json:"usual"`
	Learned int     `json:"learned"`
	// Elevated: there were more than the threshold, and have not been fewer than the lower one since.
	Elevated bool `json:"elevated,omitzero"`
}

const (
	// The day is elevated until its failures are below leaveDaily of the threshold.
	leaveDaily = 3. / 4
	// The first hours only teach, each at most mostOfLogins failures for each login; the first 24 fill the window. After
	// that, the average is that of two weeks, and a day above leaveDaily of the threshold does not teach. So an attack just
	// below the threshold does not raise it, and a smaller one by half in a week.
	teachingHours, usualHours = 3 * 24, 14 * 24
	mostOfLogins              = 1. / 4
)

// Failures returns the failures of the last 23 to 24 hours.
func (d *Daily) Failures() (n int) {
	for _, one := range d.Hours {
		n += one
	}
	return max(0, n)
}

func (d *Daily) state() DailyState {
	return DailyState{d.Failures(), d.Usual, d.Threshold(), d.Elevated}
}

// learn adds the failures of one minute, less those that were corrected in it. logins is the average of the accounts
// that sign in per minute.
func (d *Daily) learn(minute time.Time, failures int, logins float64) {
	hour := minute.Truncate(time.Hour)
	if hour.Sub(d.Hour) > 24*time.Hour { // the first one, or after a long pause
		d.Hours, d.Hour = [24]int{}, hour
	}
	for ; d.Hour.Before(hour); d.Hours[d.Hour.Hour()] = 0 {
		d.endHour(logins)
		d.Hour = d.Hour.Add(time.Hour).UTC()
	}
	d.Hours[d.Hour.Hour()] += failures
	switch n := float64(d.Failures()); {
	case d.Learned < teachingHours:
	case n > d.Threshold():
		d.Elevated = true
	case n < d.Threshold()*leaveDaily:
		d.Elevated = false
	}
}

// endHour learns from the 24 hours that end with the running one.
func (d *Daily) endHour(logins float64) {
	day := float64(d.Failures())
	switch {
	case d.Learned < teachingHours:
		day = min(day, mostOfLogins*logins*24*60+dailyOver)
	case d.Elevated || day > d.Threshold()*leaveDaily:
		return
	}
	if d.Learned = min(d.Learned+1, usualHours); d.Learned >= 24 {
		d.Usual += (day - d.Usual) / float64(d.Learned-23)
	}
}

func (d *Daily) valid() bool { return counts(d.Usual) && d.Learned >= 0 }
