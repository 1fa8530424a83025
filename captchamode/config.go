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
	Factor  float64
	Floor   int
	Ceiling int
	// Normal is what to start from before anything was learned. Zero: what the
	// first minutes show.
	Normal float64
	// SlowPart of the threshold slows strangers and alerts; LeavePart of it is
	// the lower threshold, below which the pressure must stay for the whole
	// cool-down before the mode goes off. Both are above 0 and below 1.
	SlowPart  float64 `unit:"part"`
	LeavePart float64 `unit:"part"`
	// CoolDown is the longest cool-down and CoolDownAtLeast the shortest; between
	// them it is as long as the attack deserves. If CoolDown is the shorter one, it
	// is the cool-down of every attack.
	CoolDown        time.Duration
	CoolDownAtLeast time.Duration
	// AddressShare is the part of the threshold that one address can
	// contribute in a minute, above 0 and at most 1; always at least one
	// failure. At 1 a single address can switch the mode by itself. Of several
	// nodes each counts its part of the share, and at least one failure.
	AddressShare float64 `unit:"part"`
	// Monitor only watches: what the pressure would do is known, told and learned from,
	// and nobody is slowed or asked for anything. A person's word (Force) holds still.
	Monitor bool
}

// DefaultConfig is the switch out of the box (docs/configuration.md).
func DefaultConfig() Config {
	return Config{
		Factor: 5, Floor: 30, Ceiling: 500,
		SlowPart: 1. / 3, LeavePart: 1. / 2, CoolDown: 2 * time.Hour, CoolDownAtLeast: 10 * time.Minute,
		AddressShare: 1. / 10,
	}
}

// Validate returns everything that is wrong with the numbers, each with its
// path below "site".
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, path, text string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("site."+path+": "+text, args...))
		}
	}
	check(c.Factor > 1 && c.Factor <= 1000, "factor", "must be above 1 and at most 1000, not %v", c.Factor)
	check(c.Floor >= 1, "floor", "must be at least 1, not %d", c.Floor)
	check(c.Ceiling >= c.Floor, "ceiling", "must be at least site.floor (%d), not %d", c.Floor, c.Ceiling)
	check(c.Normal >= 0 && c.Normal <= 1e9, "normal", "must be 0 or more, not %v", c.Normal)
	check(c.SlowPart > 0 && c.SlowPart < 1, "slow_part", "must be above 0 and below 1, not %v", c.SlowPart)
	check(c.LeavePart > 0 && c.LeavePart < 1, "leave_part", "must be above 0 and below 1, not %v", c.LeavePart)
	check(c.CoolDown > 0 && c.CoolDown <= MaxForce, "cool_down",
		"must be above 0 and at most %v, not %v", MaxForce, c.CoolDown)
	check(c.CoolDownAtLeast >= 0 && c.CoolDownAtLeast <= MaxForce, "cool_down_at_least",
		"must be from 0 to %v, not %v", MaxForce, c.CoolDownAtLeast)
	check(c.AddressShare > 0 && c.AddressShare <= 1, "address_share",
		"must be above 0 and at most 1, not %v", c.AddressShare)
	return errors.Join(errs...)
}
