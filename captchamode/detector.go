package captchamode

import (
	"fmt"
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

var levelNames = [...]string{"calm", "slow", "attack"}

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
	return fmt.Errorf("captchamode: no level is called %q", name)
}

const (
	// The normal is averaged over learnAtFirst minutes while little is known,
	// later over learnLater: teaching a site to find an attack normal takes
	// days.
	learnAtFirst = 60
	learnLater   = 24 * 60
	// learnSlowing is the least number while strangers are being slowed.
	learnSlowing = 6 * 60
	// slowCoolDown is how long the pressure must stay low before strangers are
	// no longer slowed.
	slowCoolDown = 5 * time.Minute
)

// A Detector turns pressure into a level, and learns what is normal. It is a
// value: no clock, no lock. The zero Detector is calm and has learned nothing.
type Detector struct {
	Normal  float64 `json:"normal"`  // failures per minute
	Learned int     `json:"learned"` // from how many minutes
	Level   Level   `json:"level"`
	// Low is when the pressure fell below the level's lower threshold; zero
	// while it is above.
	Low time.Time `json:"low,omitzero"`
}

// valid reports whether the numbers make sense.
func (d *Detector) valid() bool { return d.Level <= Attack && d.Normal >= 0 && d.Learned >= 0 }

func (d *Detector) threshold(c *Config) float64 {
	return min(max(c.Factor*d.Normal, float64(c.Floor)), float64(c.Ceiling))
}

// see moves to the level that the pressure asks for; on is the threshold (R20): up
// at once, down only after the pressure has stayed below a lower threshold for a
// cool-down. rising is the part of the pressure that may raise the level; all of it
// has to be low to lower it.
func (d *Detector) see(c *Config, on, rising, all float64, now time.Time) {
	switch {
	case rising > on:
		d.Level, d.Low = Attack, time.Time{}
	case d.Level == Attack:
		d.settle(all < on*c.LeavePart, c.coolDown(Attack), now)
	case rising > on*c.SlowPart:
		d.Level, d.Low = Slow, time.Time{}
	case d.Level == Slow:
		d.settle(all < on*c.SlowPart*c.LeavePart, c.coolDown(Slow), now)
	}
}

// coolDown is how long the pressure must stay low to leave a level.
func (c *Config) coolDown(l Level) time.Duration {
	if l == Attack {
		return c.CoolDown
	}
	return min(slowCoolDown, c.CoolDown)
}

// settle leaves the level once the pressure has been low for its cool-down.
func (d *Detector) settle(low bool, coolDown time.Duration, now time.Time) {
	switch {
	case !low:
		d.Low = time.Time{}
	case d.Low.IsZero():
		d.Low = now
	case now.Sub(d.Low) >= coolDown:
		d.Level, d.Low = Calm, time.Time{}
	}
}

// learn takes in one whole minute. It is not called during an attack: an attack
// must never become the normal. A minute in which strangers were slowed may be
// an attack that stays below the threshold, or a site that grows. It counts for
// no more than the highest calm pressure, and slowly from the first hour on, so
// an attack needs days to lift the threshold by much.
func (d *Detector) learn(c *Config, pressure int) {
	p, over := float64(pressure), min(float64(learnAtFirst+d.Learned), learnLater)
	if d.Level != Calm {
		p, over = min(p, d.threshold(c)*c.SlowPart), max(over, learnSlowing)
	}
	d.Normal += (p - d.Normal) / over
	d.Learned++
}
