package captchamode

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// A Level is the detector's assessment of the failure rate.
type Level uint8

const (
	// Calm: neither throttling nor an attack.
	Calm Level = iota
	// Slow: above Config.ThrottleAt of the threshold. Unknown clients are throttled.
	Slow
	// Attack: above the threshold, until the cool-down is over.
	Attack
)

var levelNames = [...]string{"calm", "throttling", "attack"}

// String returns the level's stable name.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return levelNames[Attack]
}

// MarshalText returns the level's name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText parses a level's name.
func (l *Level) UnmarshalText(name []byte) error {
	for i, known := range levelNames {
		if known == string(name) {
			*l = Level(i)
			return nil
		}
	}
	return fmt.Errorf("captchamode: unknown level %q", name)
}

const (
	// normalOver is the number of minutes in the average of Normal, and recentOver that of Recent, which follows a busy
	// hour.
	normalOver = 24 * 60
	recentOver = 30
	// In the firstMinutes there is no average yet, so the current minute's logins count.
	firstMinutes = 5
	// firstDay is how many minutes a new site learns any rate of logins. After that, the maximum at most doubles in a
	// week, so an attacker with many accounts needs weeks to raise it. It halves in a quarter, so holidays lower it
	// little.
	firstDay = 24 * 60
	aWeek    = 7 * 24 * 60
	aQuarter = 13 * aWeek
	// coolDownFor is the cool-down per minute of attack at the threshold. Two hours result from eight hours at the
	// threshold, or from 48 minutes at ten times it.
	coolDownFor = 15 * time.Second
	// offBelow is the fraction of the threshold below which the cool-down runs. Between it and the threshold, the
	// cool-down pauses.
	offBelow = 0.5
	// sameFor is how long after its end a resumed attack is the same attack. It gets no second CoolDownMin: otherwise 64
	// bursts of 31 guesses a day would keep the mode on all day.
	sameFor      = 24 * time.Hour
	slowCoolDown = 5 * time.Minute
	// steadyAfter is the surplus of minutes between offBelow and the whole threshold after which the failure rate is
	// steady.
	steadyAfter = 12 * 60
)

// A Detector derives a level from the failure rate, and learns the baseline. It is a value without clock or lock. The
// zero Detector is calm and has learned nothing.
//
// The baseline follows the accounts that sign in, not the failures. Real sites have 1.3 to 2.2 failures per login,
// and an attacker can make any number (R25, docs/decisions/0013).
type Detector struct {
	Normal  float64 `json:"normal"`          // accounts that sign in per minute, average of a day
	Recent  float64 `json:"recent"`          // average of the last half-hour
	Usual   float64 `json:"usual,omitempty"` // for this minute of the week; Normal before the first week
	Most    float64 `json:"most"`            // maximum logins per minute that count
	Learned int     `json:"learned"`         // number of minutes learned from
	Week    Week    `json:"week,omitzero"`
	Daily   Daily   `json:"daily,omitzero"`
	Level   Level   `json:"level"`
	// Low is when the cool-down began, minus earlier parts of it; zero while the failure rate is not below the level's
	// lower threshold. Quiet is the part that has passed by then.
	Low   time.Time     `json:"low,omitzero"`
	Quiet time.Duration `json:"quiet,omitzero"`
	// Weight is the size of the attack in thresholds times minutes, minus past cool-downs. Least is the rest of
	// CoolDownMin.
	Weight float64       `json:"weight,omitzero"`
	Least  time.Duration `json:"least,omitzero"`
	// Ended is when the last attack ended; Calmed is when the level last became Calm.
	Ended  time.Time `json:"ended,omitzero"`
	Calmed time.Time `json:"calmed,omitzero"`
	Steadiness
	// Cleared is when an administrator last cleared the failure rate.
	Cleared time.Time `json:"cleared,omitzero"`
}

// Steadiness detects a failure rate that stays just below the threshold.
type Steadiness struct {
	// Hugging counts minutes with a failure rate just below the threshold. Steady is set when there are many, until
	// Hugging is 0.
	Hugging int  `json:"hugging,omitzero"`
	Steady  bool `json:"steady,omitzero"`
}

func (d *Detector) valid() bool {
	ok := d.Level <= Attack && d.Learned >= 0 && d.Quiet >= 0 && d.Least >= 0 && d.Hugging >= 0
	for _, n := range []float64{d.Normal, d.Recent, d.Usual, d.Most, d.Weight} {
		ok = ok && counts(n)
	}
	return ok && d.Week.valid() && d.Daily.valid()
}

// counts reports whether n is a valid count or rate.
func counts(n float64) bool { return n >= 0 && !math.IsInf(n, 0) }

// threshold returns the threshold for a minute with this many logins. Every wrong password calls it. It compares by
// hand, because min and max of floats handle NaN, which took 20 of an attempt's 700 ns.
func (d *Detector) threshold(c *Config, logins int) float64 {
	usual := d.Usual
	if d.Recent > usual {
		usual = d.Recent
	}
	if d.Learned < firstMinutes && float64(logins) > usual {
		usual = float64(logins)
	}
	switch on := c.ThresholdMultiplier * usual; {
	case on < float64(c.ThresholdMin):
		return float64(c.ThresholdMin)
	case on > float64(c.ThresholdMax):
		return float64(c.ThresholdMax)
	default:
		return on
	}
}

// dailyTimes the usual failures of a day, and dailyOver, are the threshold of a Daily.
const dailyTimes, dailyOver = 2, 20

// Threshold returns the number of failures above which the day is elevated.
func (d *Daily) Threshold() float64 { return dailyTimes*d.Usual + dailyOver }

// see changes the level (R20); on is the threshold. The level rises at once. It falls after the failure rate was
// below a lower threshold for the whole cool-down. Only the part rising of the failure rate may raise the level. To
// lower it, all must be low.
func (d *Detector) see(c *Config, on, rising, all float64, now time.Time) {
	switch {
	case rising > on:
		d.rise(c, Attack, now)
	case d.Level == Attack:
		d.settle(all < on*offBelow, d.coolDown(c), now)
	case rising > on*c.ThrottleAt:
		d.rise(c, Slow, now)
	case d.Level == Slow:
		d.settle(all < on*c.ThrottleAt*offBelow, d.coolDown(c), now)
	}
}

// rise raises the level or keeps it. The cool-down that has already passed is deducted.
func (d *Detector) rise(c *Config, to Level, now time.Time) {
	switch {
	case to != Attack:
	case d.Level != Attack:
		d.Weight, d.Least = 0, 0
		if !d.resumes(to, now) {
			d.Least = c.CoolDownMin
		}
	default:
		passed := d.Quiet
		if !d.Low.IsZero() {
			passed = max(0, now.Sub(d.Low))
		}
		d.Weight = max(0, d.Weight-float64(passed)/float64(coolDownFor))
		d.Least = max(0, d.Least-passed)
	}
	d.Level, d.Low, d.Quiet = to, time.Time{}, 0
}

// resumes reports whether a rise to this level continues an attack that ended less than a day ago.
func (d *Detector) resumes(to Level, now time.Time) bool {
	ended := d.Calmed
	if to == Attack {
		ended = d.Ended
	}
	return ended.After(d.Cleared) && now.Sub(ended) < sameFor
}

func (d *Detector) calm() {
	d.Level, d.Low, d.Quiet, d.Weight, d.Least = Calm, time.Time{}, 0, 0, 0
}

// coolDown returns how long the failure rate must be low before the level ends. For an attack, it grows with the
// attack's size.
func (d *Detector) coolDown(c *Config) time.Duration {
	if d.Level != Attack {
		return min(slowCoolDown, c.CoolDown)
	}
	deserved := time.Duration(min(d.Weight*float64(coolDownFor), float64(c.CoolDown)))
	return min(max(deserved, d.Least), c.CoolDown)
}

// settle ends the level after its cool-down. The cool-down pauses while the failure rate is neither low nor above the
// threshold. If it restarted instead, a few failures an hour would keep the mode on forever.
func (d *Detector) settle(low bool, coolDown time.Duration, now time.Time) {
	switch {
	case !low && !d.Low.IsZero():
		d.Low, d.Quiet = time.Time{}, max(0, now.Sub(d.Low))
	case !low:
	case d.Low.IsZero():
		d.Low = now.Add(-d.Quiet)
	case now.Sub(d.Low) >= coolDown:
		if d.Calmed = now.Round(0); d.Level == Attack {
			d.Ended = d.Calmed
		}
		d.calm()
	}
}

func (d *Detector) expect(c *Config, at time.Time) {
	d.Usual = d.Week.usual(at, d.Normal, float64(c.ThresholdMin)/c.ThresholdMultiplier/2)
}

// learn adds one whole minute: the accounts that signed in, the failure rate at its end, and whether anything is
// known of it.
func (d *Detector) learn(c *Config, start time.Time, logins int, rate Counts, told bool) {
	usual, least := d.average(c, logins), float64(c.ThresholdMin)/c.ThresholdMultiplier
	d.Week.foresee(start)
	if told {
		d.Week.learn(start, usual, float64(rate.Total()), d.Level == Attack, [2]float64{least, least / 2})
	}
	d.Daily.learn(start, rate[daily], d.Normal)
}

// average adds one minute's logins to the averages, and returns how many of them count. It ignores failures, so no
// attack becomes the baseline.
func (d *Detector) average(c *Config, logins int) (rate float64) {
	rate, least := float64(logins), max(c.Baseline, float64(c.ThresholdMin)/c.ThresholdMultiplier)
	if d.Most == 0 && d.Learned > 0 { // saved by a version without Most
		least = max(least, d.Normal)
	}
	d.Learned++
	d.Most = max(d.Most, least)
	if d.Learned > firstDay {
		if most := d.Most; rate > most {
			d.Most = min(rate, most*math.Exp2(1./aWeek))
		} else {
			d.Most = max(least, rate, most*math.Exp2(-1./aQuarter))
		}
		rate = min(rate, d.Most)
	}
	over := min(float64(d.Learned), normalOver)
	if c.Baseline > 0 { // the administrator knows the site
		over = normalOver
	}
	d.Normal += (rate - d.Normal) / over
	d.Recent += (rate - d.Recent) / min(float64(d.Learned), recentOver)
	if d.Learned >= recentOver && d.Learned <= firstDay {
		d.Most = max(d.Most, d.Recent)
	}
	return rate
}

// weigh adds one minute to the attack's size, or to the minutes just below the threshold. An attack is weighed by the
// minute's count: unlike the failure rate at its end, that does not depend on when a node looks.
func (d *Detector) weigh(c *Config, on, counted, pressure float64) {
	hugged := false
	if d.Level == Attack {
		d.Weight = min(d.Weight+counted/on, float64(c.CoolDown)/float64(coolDownFor))
	} else {
		hugged = pressure >= on*offBelow
	}
	if hugged {
		d.Hugging = min(d.Hugging+1, steadyAfter)
	} else {
		d.Hugging = max(d.Hugging-1, 0)
	}
	d.Steady = d.Hugging == steadyAfter || d.Steady && d.Hugging > 0
}

// clear ends throttling or an attack, and the count of minutes below the threshold.
func (d *Detector) clear(now time.Time) {
	d.calm()
	d.Hugging, d.Steady, d.Cleared = 0, false, now
	d.Daily.Hours, d.Daily.Elevated = [24]int{}, false
}

// A Sign is a kind of event that the detector counts.
type Sign uint8

const (
	// Failure is a wrong password.
	Failure Sign = iota
	// Unsolved is an attempt that was asked for a challenge. An attack that meets the CAPTCHA still counts.
	Unsolved
	// Overload is an attempt whose password was not checked, because of overload or an error. Where password checks are
	// the bottleneck, an attack appears here first.
	Overload
	// Login is an account that signed in, at most three times in half an hour. It does not count toward the failure
	// rate, but shows how busy the site is (R25).
	Login
	// daily is a Failure that counts for Daily, too: within its network's share of a day.
	daily
	signs
)

// Counts are numbers by Sign.
type Counts [signs]int

// MarshalJSON implements json.Marshaler.
func (c Counts) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"failures":%d,"unsolved":%d,"shed":%d,"logins":%d}`,
		c[Failure], c[Unsolved], c[Overload], c[Login]), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Counts) UnmarshalJSON(text []byte) error {
	var n struct{ Failures, Unsolved, Shed, Logins int }
	err := json.Unmarshal(text, &n)
	c[Failure], c[Unsolved], c[Overload], c[Login] = n.Failures, n.Unsolved, n.Shed, n.Logins
	return err
}

// Total returns the failure rate: failures, unsolved challenges and overload. A negative count is 0.
func (c Counts) Total() int { return max(0, c[Failure]) + max(0, c[Unsolved]) + max(0, c[Overload]) }

func (c Counts) plus(d Counts) Counts {
	for s := range signs {
		c[s] += d[s]
	}
	return c
}

// times returns c multiplied by part, rounded toward zero.
func (c Counts) times(part float64) Counts {
	for s := range signs {
		c[s] = int(float64(c[s]) * part)
	}
	return c
}

// windowSeconds is the number of whole seconds in the failure rate, besides the running one. It is a statistic, not a
// limit, so whole seconds suffice.
const windowSeconds = 60

// A Report is what one node has counted, or the sum over all nodes. Each report is complete, so a lost or duplicate
// one does no harm.
type Report struct {
	// FailureRate is the count of the last minute, minus what was taken back. Another node may have counted that, so
	// numbers may be negative.
	FailureRate Counts
	Minute      time.Time // start of the running minute
	Running     Counts    // in the running minute, including what was taken back
	Last        Counts    // in the minute before
	// Corrected are pairs that signed in on this node in the last seconds. All nodes take back their earlier failures.
	Corrected []CorrectedTypo
	// Cleared is when an administrator last cleared the failure rate, as far as this node knows. Only reports with the
	// same value are added.
	Cleared time.Time
}

// in returns the count of the minute that began at start; zero if it is neither of the two.
func (r *Report) in(start time.Time) Counts {
	switch r.Minute.Sub(start) {
	case 0:
		return r.Running
	case time.Minute:
		return r.Last
	}
	return Counts{}
}

// tells reports whether the report includes the minute that began at start.
func (r *Report) tells(start time.Time) bool {
	past := r.Minute.Sub(start)
	return past == 0 || past == time.Minute
}

// A window counts the last seconds.
type window struct {
	Report
	now     int64 // the running second, in Unix time
	seconds [windowSeconds + 1]Counts
}

func (w *window) at(unix int64) *Counts { return &w.seconds[uint64(unix)%uint64(len(w.seconds))] }

// advance removes expired seconds. If the clock is set back by less than the window, counting continues in the
// running second.
func (w *window) advance(now time.Time) {
	unix := now.Unix()
	if unix-w.now > windowSeconds || w.now-unix > windowSeconds {
		w.seconds, w.FailureRate, w.now = [windowSeconds + 1]Counts{}, Counts{}, unix
	}
	for w.now < unix {
		w.now++
		w.FailureRate = w.FailureRate.plus(w.at(w.now).times(-1))
		*w.at(w.now) = Counts{}
	}
	if minute := now.Truncate(time.Minute); !minute.Equal(w.Minute) {
		w.Minute, w.Last, w.Running = minute, w.in(minute.Add(-time.Minute)), Counts{}
	}
}

func (w *window) add(s Sign) {
	w.at(w.now)[s]++
	w.FailureRate[s]++
	w.Running[s]++
}

func (w *window) takeBack(s Sign) { w.takeBackOf(s, w.now) }

// takeBackOf takes back what was counted in an earlier second, so that it frees no room for later counts.
func (w *window) takeBackOf(s Sign, unix int64) {
	w.at(unix)[s]--
	w.FailureRate[s]--
}

// clear removes all failures. Logins stay, and so do the numbers of the plot.
func (w *window) clear() {
	for i := range w.seconds {
		w.seconds[i] = Counts{Login: w.seconds[i][Login]}
	}
	w.FailureRate = Counts{Login: w.FailureRate[Login]}
}

// people counts each account's logins within half an hour, up to mostLogins. A user with short sessions logs in and
// fails several times, while an attacker's account says little. The size is fixed. Colliding accounts count as one,
// which is the strict side: fewer logins, a lower threshold.
type people [1 << 16]uint16

const (
	// loginEvery is the period in seconds in which mostLogins logins of an account count.
	loginEvery = 30 * 60
	mostLogins = 3
)

func (p *people) counts(account *[16]byte, unix int64) bool {
	const halves = 1<<16/mostLogins - 1
	slot, half := &p[binary.LittleEndian.Uint16(account[:])], uint16(unix/loginEvery%halves+1)*mostLogins
	switch {
	case *slot/mostLogins != half/mostLogins:
		*slot = half
	case *slot == half+mostLogins-1:
		return false
	default:
		*slot++
	}
	return true
}
