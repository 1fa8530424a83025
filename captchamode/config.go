package captchamode

import (
	"errors"
	"fmt"
	"time"
)

// Config configures a Mode. Start from [DefaultConfig].
type Config struct {
	// The threshold is ThresholdMultiplier times the baseline (accounts that sign in per minute), at least ThresholdMin
	// and at most ThresholdMax.
	ThresholdMultiplier float64
	ThresholdMin        int
	ThresholdMax        int
	// Baseline is the initial baseline. Zero: learn it from the first minutes.
	Baseline float64
	// Above ThrottleAt of the threshold, unknown clients are throttled and an alert is raised: above 0 and below 1.
	ThrottleAt float64
	// CoolDown is the longest and CoolDownMin the shortest cool-down; it grows with the size of the attack. If CoolDown
	// is shorter than CoolDownMin, it applies to every attack.
	CoolDown    time.Duration
	CoolDownMin time.Duration
	// AddressShare is the part of the threshold that one IP address can contribute in a minute: above 0, at most 1. One
	// failure always counts. At 1, a single address can turn the mode on. With several nodes, each counts its part of
	// the share, and at least one failure.
	AddressShare float64
	// Monitor disables the effects of the failure rate; it is still learned from, reported and alerted on. An
	// administrator's override still applies.
	Monitor bool
}

// DefaultConfig returns the default configuration (docs/reference/configuration.md).
func DefaultConfig() Config {
	return Config{
		ThresholdMultiplier: 5, ThresholdMin: 30, ThresholdMax: 500,
		ThrottleAt: 1. / 3, CoolDown: 2 * time.Hour, CoolDownMin: 10 * time.Minute,
		AddressShare: 1. / 10,
	}
}

// Validate returns all problems, each with its path below captcha_mode.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, path, text string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("captcha_mode."+path+": "+text, args...))
		}
	}
	check(c.ThresholdMultiplier > 1 && c.ThresholdMultiplier <= 1000, "threshold",
		"must be more than 1 and at most 1000 times the baseline, not %v", c.ThresholdMultiplier)
	check(c.ThresholdMin >= 1, "threshold", "must be at least 1, not %d", c.ThresholdMin)
	check(c.ThresholdMax >= c.ThresholdMin, "threshold", "must be from a smaller to a larger number, not %d to %d",
		c.ThresholdMin, c.ThresholdMax)
	check(c.Baseline >= 0 && c.Baseline <= 1e9, "baseline", "must be 0 or more, not %v", c.Baseline)
	check(c.ThrottleAt > 0 && c.ThrottleAt < 1, "throttle_at", "must be above 0 and below 1, not %v", c.ThrottleAt)
	check(c.CoolDown > 0 && c.CoolDown <= MaxOverride, "cool_down",
		"must be above 0 and at most %v, not %v", MaxOverride, c.CoolDown)
	check(c.CoolDownMin >= 0 && c.CoolDownMin <= MaxOverride, "cool_down",
		"must begin from 0 to %v, not %v", MaxOverride, c.CoolDownMin)
	check(c.AddressShare > 0 && c.AddressShare <= 1, "address_share",
		"must be above 0 and at most 1, not %v", c.AddressShare)
	return errors.Join(errs...)
}
