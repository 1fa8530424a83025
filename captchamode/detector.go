package captchamode

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// A Level is what the detector makes of the pressure.
type Level uint8

const (
	// Calm: nothing out of the ordinary.
	Calm Level = iota
	// Slow: above SlowPart of the threshold. Strangers are slowed.
	Slow
	// Attack: above the threshold, and not yet quiet for the whole cool-down.
	Attack
)

var levelNames = [...]string{"calm", "throttling", "attack"}

// String is the level's stable name.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return levelNames[Attack]
}

// MarshalText writes the level's name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads a level's name.
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
	// normalOver is how many minutes the normal is averaged over, and recentOver
	// those of the rate that follows a busy hour.
	normalOver = 24 * 60
	recentOver = 30
	// In the firstMinutes all that is known is who has logged in so far.
	firstMinutes = 5
	// firstDay is how many minutes a fresh site may take any rate of logins for
	// normal. From then on the most that it may take at most doubles in a week,
	// so that somebody with many accounts of his own needs weeks; it halves in a
	// quarter, so that a summer's holidays forget little.
	firstDay = 24 * 60
	aWeek    = 7 * 24 * 60
	aQuarter = 13 * aWeek
	// coolDownFor is the cool-down that an attack has earned with each threshold's
	// worth of pressure: two hours with eight hours at the threshold, or with
	// forty-eight minutes at ten times it.
	coolDownFor = 15 * time.Second
	// sameFor is how long after its end an attack that starts again is the same. It gets no
	// second CoolDownAtLeast, or 64 bursts of 31 guesses a day hold the mode on all day.
	sameFor = 24 * time.Hour
	// slowCoolDown is how long the pressure must stay low before strangers are
	// no longer slowed.
	slowCoolDown = 5 * time.Minute
	// steadyAfter is how many minutes more than not the pressure has to be between
	// LeavePart of the threshold and the threshold to be steady.
	steadyAfter = 12 * 60
)

// A Detector turns pressure into a level, and learns what is normal. It is a
// value: no clock, no lock. The zero Detector is calm and has learned nothing.
//
// What is normal follows the accounts that log in, not the failures: real sites
// see 1.3 to 2.2 failures for each login, and an attacker makes as many as he
// likes (R25, docs/decisions/0013).
type Detector struct {
	Normal  float64 `json:"normal"`          // accounts that log in, a minute: the average of a day
	Recent  float64 `json:"recent"`          // in the last half-hour
	Usual   float64 `json:"usual,omitempty"` // at this minute of the week; Normal before a week was seen
	Most    float64 `json:"most"`            // the most of them that counts
	Learned int     `json:"learned"`         // from how many minutes
	Week    Week    `json:"week,omitzero"`
	Level   Level   `json:"level"`
	// Low is when the cool-down began, less what has passed of it before; zero
	// while the pressure is not below the level's lower threshold. Quiet is what
	// has passed by then.
	Low   time.Time     `json:"low,omitzero"`
	Quiet time.Duration `json:"quiet,omitzero"`
	// Weight is how large the attack is, in thresholds times minutes, without what cool-downs
	// have paid for. Least is what is left of CoolDownAtLeast.
	Weight float64       `json:"weight,omitzero"`
	Least  time.Duration `json:"least,omitzero"`
	// Ended is when the newest attack ended, and Calmed when the level last became Calm.
	Ended  time.Time `json:"ended,omitzero"`
	Calmed time.Time `json:"calmed,omitzero"`
	// Hugging counts minutes of pressure just below the threshold; Steady says
	// that there have been many, until there are none left.
	Hugging int  `json:"hugging,omitzero"`
	Steady  bool `json:"steady,omitzero"`
	// Cleared is when a person last cleared the pressure.
	Cleared time.Time `json:"cleared,omitzero"`
}

// valid reports whether the numbers make sense.
func (d *Detector) valid() bool {
	ok := d.Level <= Attack && d.Learned >= 0 && d.Quiet >= 0 && d.Least >= 0 && d.Hugging >= 0
	for _, n := range []float64{d.Normal, d.Recent, d.Usual, d.Most, d.Weight} {
		ok = ok && counts(n)
	}
	return ok && d.Week.valid()
}

// counts reports whether a number may be one of something.
func counts(n float64) bool { return n >= 0 && !math.IsInf(n, 0) }

// threshold is the one of a minute in which so many accounts have logged in. Each
// wrong password asks for it, so it compares by hand: min and max of floats mind NaN,
// and took 20 of an attempt's 700 ns.
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

// see moves to the level that the pressure asks for; on is the threshold (R20): up
// at once, down only after the pressure has been below a lower threshold for a
// whole cool-down. rising is the part of the pressure that may raise the level; all
// of it has to be low to lower it.
func (d *Detector) see(c *Config, on, rising, all float64, now time.Time) {
	switch {
	case rising > on:
		d.rise(c, Attack, now)
	case d.Level == Attack:
		d.settle(all < on*c.OffBelow, d.coolDown(c), now)
	case rising > on*c.ThrottleAt:
		d.rise(c, Slow, now)
	case d.Level == Slow:
		d.settle(all < on*c.ThrottleAt*c.OffBelow, d.coolDown(c), now)
	}
}

// rise moves up to a level, or stays there: what has passed of the cool-down stays paid for.
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

// resumes reports whether a rise to the level continues what ended less than a day ago.
func (d *Detector) resumes(to Level, now time.Time) bool {
	ended := d.Calmed
	if to == Attack {
		ended = d.Ended
	}
	return ended.After(d.Cleared) && now.Sub(ended) < sameFor
}

// calm ends whatever there is.
func (d *Detector) calm() {
	d.Level, d.Low, d.Quiet, d.Weight, d.Least = Calm, time.Time{}, 0, 0, 0
}

// coolDown is how long the pressure must be low to leave the level: of an attack
// as long as it deserves.
func (d *Detector) coolDown(c *Config) time.Duration {
	if d.Level != Attack {
		return min(slowCoolDown, c.CoolDown)
	}
	deserved := time.Duration(min(d.Weight*float64(coolDownFor), float64(c.CoolDown)))
	return min(max(deserved, d.Least), c.CoolDown)
}

// settle leaves the level once the pressure has been low for its cool-down. While
// it is not low, and not above the threshold either, the cool-down stands still:
// to begin anew would let a few failures an hour hold the mode for ever.
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

// expect goes by what is usual at a moment.
func (d *Detector) expect(c *Config, at time.Time) {
	d.Usual = d.Week.usual(at, d.Normal, float64(c.ThresholdMin)/c.ThresholdMultiplier/2)
}

// learn takes in one whole minute: how many accounts logged in, and how large the
// pressure was at its end. told is whether anybody counted in it.
func (d *Detector) learn(c *Config, start time.Time, logins int, pressure float64, told bool) {
	rate, least := d.average(c, logins), float64(c.ThresholdMin)/c.ThresholdMultiplier
	d.Week.foresee(start)
	if told {
		d.Week.learn(start, rate, pressure, d.Level == Attack, [2]float64{least, least / 2})
	}
}

// average takes in how many accounts logged in in a minute, and returns how many of
// them count. It never takes in pressure, so no attack becomes the normal.
func (d *Detector) average(c *Config, logins int) (rate float64) {
	rate, least := float64(logins), max(c.Baseline, float64(c.ThresholdMin)/c.ThresholdMultiplier)
	if d.Most == 0 && d.Learned > 0 { // saved by a version that did not know it
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
	if c.Baseline > 0 { // somebody knows the site
		over = normalOver
	}
	d.Normal += (rate - d.Normal) / over
	d.Recent += (rate - d.Recent) / min(float64(d.Learned), recentOver)
	if d.Learned >= recentOver && d.Learned <= firstDay {
		d.Most = max(d.Most, d.Recent)
	}
	return rate
}

// weigh takes in a minute: how large an attack has become, or how long there has been
// pressure just below the threshold. The attack is weighed by what was counted in the
// minute: that is the same whenever a node looks, the pressure at its end is not.
func (d *Detector) weigh(c *Config, on, counted, pressure float64) {
	hugged := false
	if d.Level == Attack {
		d.Weight = min(d.Weight+counted/on, float64(c.CoolDown)/float64(coolDownFor))
	} else {
		hugged = pressure >= on*c.OffBelow
	}
	if hugged {
		d.Hugging = min(d.Hugging+1, steadyAfter)
	} else {
		d.Hugging = max(d.Hugging-1, 0)
	}
	d.Steady = d.Hugging == steadyAfter || d.Steady && d.Hugging > 0
}

// clear ends whatever there is, as if nothing had been counted.
func (d *Detector) clear(now time.Time) {
	d.calm()
	d.Hugging, d.Steady, d.Cleared = 0, false, now
}

// A Sign is one thing that adds to the pressure on a site.
type Sign uint8

const (
	// Failure is a wrong password.
	Failure Sign = iota
	// Unsolved is an attempt that was asked for a challenge: an attack that
	// runs into the CAPTCHA still counts.
	Unsolved
	// Overload is an attempt whose password could not be checked, for overload or
	// because the check broke: where checking passwords is the bottleneck, an
	// attack shows there first.
	Overload
	// Login is an account that logged in, three times in half an hour at most. It is
	// no pressure: it says how busy the site is (R25).
	Login
	signs
)

// Counts are numbers by Sign.
type Counts [signs]int

// MarshalJSON names the numbers.
func (c Counts) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"failures":%d,"unsolved":%d,"shed":%d,"logins":%d}`,
		c[Failure], c[Unsolved], c[Overload], c[Login]), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Counts) UnmarshalJSON(text []byte) error {
	var n struct{ Failures, Unsolved, Shed, Logins int }
	err := json.Unmarshal(text, &n)
	c[Failure], c[Unsolved], c[Overload], c[Login] = n.Failures, n.Unsolved, n.Shed, n.Logins
	return err
}

// Total is the pressure: all signs but logins. A sign that was taken back more
// often than it was counted counts as none.
func (c Counts) Total() int { return max(0, c[Failure]) + max(0, c[Unsolved]) + max(0, c[Overload]) }

func (c Counts) plus(d Counts) Counts {
	for s := range signs {
		c[s] += d[s]
	}
	return c
}

// times is c times a part of it, rounded towards zero.
func (c Counts) times(part float64) Counts {
	for s := range signs {
		c[s] = int(float64(c[s]) * part)
	}
	return c
}

// windowSeconds is how many whole seconds the pressure covers, beside the running
// one. It is a statistic, not a limit: a grain of one second will do.
const windowSeconds = 60

// A Report is what one node has counted, or the sum over all nodes. It is whole
// each time: one that gets lost or arrives twice does no harm.
type Report struct {
	// FailureRate is what was counted in the last minute, less what was taken back
	// in it. Another node may have counted that, so numbers may be negative.
	FailureRate Counts
	Minute      time.Time // when the running minute began
	Running     Counts    // in the running minute, also what was taken back
	Last        Counts    // in the minute before
	// Corrected are pairs that logged in here in the last seconds. The failures
	// before that are no pressure, on whichever node they were counted.
	Corrected []CorrectedTypo
	// Cleared is when a person cleared the pressure last, as far as this node
	// knows. Only reports that agree on it are added up.
	Cleared time.Time
}

// in is what was counted in the minute that began at start, if that is one of
// the two.
func (r *Report) in(start time.Time) Counts {
	switch r.Minute.Sub(start) {
	case 0:
		return r.Running
	case time.Minute:
		return r.Last
	}
	return Counts{}
}

// tells reports whether anything is known of the minute that began at start.
func (r *Report) tells(start time.Time) bool {
	past := r.Minute.Sub(start)
	return past == 0 || past == time.Minute
}

// A window is what was counted in the last seconds.
type window struct {
	Report
	now     int64 // the running second, in Unix time
	seconds [windowSeconds + 1]Counts
}

func (w *window) at(unix int64) *Counts { return &w.seconds[uint64(unix)%uint64(len(w.seconds))] }

// advance lets what is too old fall out. A clock that is set back by less than
// the window goes on in the running second.
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

// takeBackOf takes back what was counted in one of the last seconds, so that it
// makes no room for anything that came later.
func (w *window) takeBackOf(s Sign, unix int64) {
	w.at(unix)[s]--
	w.FailureRate[s]--
}

// clear takes all pressure back. Logins stay, and what the plot shows.
func (w *window) clear() {
	for i := range w.seconds {
		w.seconds[i] = Counts{Login: w.seconds[i][Login]}
	}
	w.FailureRate = Counts{Login: w.FailureRate[Login]}
}

// shares holds how much each address has contributed in this minute and the
// one before. Its size is fixed; addresses that fall together have one share
// together. That can only make the pressure smaller, and nobody can aim at it:
// the addresses are keyed digests.
type shares [1 << 14]share

type share struct {
	minute      uint32
	before, now uint16
}

// take reports whether the address may contribute once more: in any
// minute no more often than most, and never more than 65,535 times.
func (s *shares) take(address *[16]byte, most float64, minute uint32) bool {
	one := &s[binary.LittleEndian.Uint16(address[:])%uint16(len(s))]
	switch minute - one.minute {
	case 0:
	case 1:
		one.before, one.now = one.now, 0
	default:
		one.before, one.now = 0, 0
	}
	one.minute = minute
	if used := int(one.before) + int(one.now); used >= 1<<16-1 || used > 0 && float64(used+1) > most {
		return false
	}
	one.now++
	return true
}
