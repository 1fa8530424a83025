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
	// learnAtFirst and learnLater are over how many minutes the normal is
	// averaged: quickly while little is known, then slowly, so that nobody can
	// teach the site to find an attack normal in less than days.
	learnAtFirst = 60
	learnLater   = 24 * 60
	// learnSlowing is the least while strangers are being slowed.
	learnSlowing = 6 * 60
	// slowCoolDown is how long the pressure must stay low before strangers are
	// no longer slowed.
	slowCoolDown = 5 * time.Minute
)

// A detector turns pressure into a level. It is a value: no clock, no lock.
type detector struct {
	// Normal is the learned failures per minute, from Learned minutes.
	Normal  float64
	Learned int
	Level   Level
	// Low is since when the pressure has been below the lower threshold of
	// the level; zero while it is not.
	Low time.Time
}

func (d *detector) threshold(c *Config) float64 {
	return min(max(c.Factor*d.Normal, float64(c.Floor)), float64(c.Ceiling))
}

// see moves to the level that the pressure asks for (R20): up at once, down
// only after the pressure has stayed below a lower threshold for a cool-down.
func (d *detector) see(c *Config, pressure int, now time.Time) {
	d.seePart(c, d.threshold(c), pressure, pressure, now)
}

// seePart is see where the threshold is on. rising is the part of the pressure
// that may raise the level; all of it has to be low to lower it.
func (d *detector) seePart(c *Config, on float64, rising, all int, now time.Time) {
	up, down := float64(rising), float64(all)
	switch {
	case up > on:
		d.Level, d.Low = Attack, time.Time{}
	case d.Level == Attack:
		d.settle(down < on*c.LeavePart, c.coolDown(Attack), now)
	case up > on*c.SlowPart:
		d.Level, d.Low = Slow, time.Time{}
	case d.Level == Slow:
		d.settle(down < on*c.SlowPart*c.LeavePart, c.coolDown(Slow), now)
	}
}

// raise moves up as the pressure asks for, and never down.
func (d *detector) raise(c *Config, pressure int) {
	p, on := float64(pressure), d.threshold(c)
	switch {
	case p > on && d.Level < Attack:
		d.Level, d.Low = Attack, time.Time{}
	case p > on*c.SlowPart && d.Level == Calm:
		d.Level, d.Low = Slow, time.Time{}
	}
}

// coolDown is how long the pressure must stay low to leave a level.
func (c *Config) coolDown(l Level) time.Duration {
	if l == Attack {
		return c.CoolDown
	}
	return min(slowCoolDown, c.CoolDown)
}

func (d *detector) settle(low bool, coolDown time.Duration, now time.Time) {
	switch {
	case !low:
		d.Low = time.Time{}
	case d.Low.IsZero():
		d.Low = now
	case now.Sub(d.Low) >= coolDown:
		d.Level, d.Low = Calm, time.Time{}
	}
}

// learn takes in one whole minute. It is not called while attacked: an attack
// must never become the normal. A minute in which strangers were slowed may be
// an attack that stays below the threshold, or a site that grows: it counts no
// more than what would have been calm, and slowly from the first hour on. So an
// attack needs days to lift the threshold by much.
func (d *detector) learn(c *Config, pressure int) {
	p, over := float64(pressure), min(float64(learnAtFirst+d.Learned), learnLater)
	if d.Level != Calm {
		p, over = min(p, d.threshold(c)*c.SlowPart), max(over, learnSlowing)
	}
	d.Normal += (p - d.Normal) / over
	d.Learned++
}
