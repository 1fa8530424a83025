package captchamode

import (
	"errors"
	"fmt"
	"time"
)

// Config holds the numbers of the switch. Start from [DefaultConfig].
type Config struct {
	// Factor times the learned normal is the threshold, but never less than Floor
	// nor more than Ceiling. The normal is how many accounts log in a minute.
	ThresholdMultiplier float64
	ThresholdMin        int
	ThresholdMax        int
	// Normal is what to start from before anything was learned. Zero: what the
	// first minutes show.
	Baseline float64
	// SlowPart of the threshold slows strangers and alerts; LeavePart of it is
	// the lower threshold, below which the pressure must stay for the whole
	// cool-down before the mode goes off. Both are above 0 and below 1.
	ThrottleAt float64 `unit:"part"`
	OffBelow   float64 `unit:"part"`
	// CoolDown is the longest cool-down and CoolDownAtLeast the shortest; between
	// them it is as long as the attack deserves. If CoolDown is the shorter one, it
	// is the cool-down of every attack.
	CoolDown    time.Duration
	CoolDownMin time.Duration
	// AddressShare is the part of the threshold that one address can
	// contribute in a minute, above 0 and at most 1; always at least one
	// failure. At 1 a single address can switch the mode by itself. Of several
	// nodes each counts its part of the share, and at least one failure.
	AddressShare float64 `unit:"part"`
	// Monitor only watches: what the pressure would do is known, told and learned from,
	// and nobody is slowed or asked for anything. An administrator's override holds still.
	Monitor bool
}

// DefaultConfig is the switch out of the box (docs/configuration.md).
func DefaultConfig() Config {
	return Config{
		ThresholdMultiplier: 5, ThresholdMin: 30, ThresholdMax: 500,
		ThrottleAt: 1. / 3, OffBelow: 1. / 2, CoolDown: 2 * time.Hour, CoolDownMin: 10 * time.Minute,
		AddressShare: 1. / 10,
	}
}

// Validate returns everything that is wrong with the numbers, each with its
// path below captcha_mode.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, path, text string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("captcha_mode."+path+": "+text, args...))
		}
	}
	check(c.ThresholdMultiplier > 1 && c.ThresholdMultiplier <= 1000, "threshold_multiplier",
		"must be above 1 and at most 1000, not %v", c.ThresholdMultiplier)
	check(c.ThresholdMin >= 1, "threshold_min", "must be at least 1, not %d", c.ThresholdMin)
	check(c.ThresholdMax >= c.ThresholdMin, "threshold_max", "must be at least captcha_mode.threshold_min (%d), not %d",
		c.ThresholdMin, c.ThresholdMax)
	check(c.Baseline >= 0 && c.Baseline <= 1e9, "baseline", "must be 0 or more, not %v", c.Baseline)
	check(c.ThrottleAt > 0 && c.ThrottleAt < 1, "throttle_at", "must be above 0 and below 1, not %v", c.ThrottleAt)
	check(c.OffBelow > 0 && c.OffBelow < 1, "off_below", "must be above 0 and below 1, not %v", c.OffBelow)
	check(c.CoolDown > 0 && c.CoolDown <= MaxOverride, "cool_down",
		"must be above 0 and at most %v, not %v", MaxOverride, c.CoolDown)
	check(c.CoolDownMin >= 0 && c.CoolDownMin <= MaxOverride, "cool_down_min",
		"must be from 0 to %v, not %v", MaxOverride, c.CoolDownMin)
	check(c.AddressShare > 0 && c.AddressShare <= 1, "address_share",
		"must be above 0 and at most 1, not %v", c.AddressShare)
	return errors.Join(errs...)
}
