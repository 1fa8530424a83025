package control

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"authguard/captchamode"
	"authguard/internal/audit"
)

// DefaultForce is the default duration of an override of CAPTCHA mode.
const DefaultForce = 2 * time.Hour

const noReason = "no reason given"

func spoken(why string) (string, error) {
	why, err := reason(why)
	return cmp.Or(why, noReason), err
}

// Force overrides CAPTCHA mode for hold (R21); 0 is DefaultForce. The error is ErrAsked for a state other than on or
// off, and for a duration that is negative or over captchamode.MaxOverride.
func (c *Control) Force(ctx context.Context, who string, to captchamode.Forced, hold time.Duration, why string) error {
	why, err := spoken(why)
	if err != nil {
		return err
	}
	if to != captchamode.ForcedOn && to != captchamode.ForcedOff {
		return fmt.Errorf("%w: mode must be on, off or auto", ErrAsked)
	}
	if hold = cmp.Or(hold, DefaultForce); hold < 0 || hold > captchamode.MaxOverride {
		return fmt.Errorf("%w: CAPTCHA mode can be forced for at most %v, such as 2h", ErrAsked, captchamode.MaxOverride)
	}
	now := c.config.Now()
	if err := c.config.Mode.Force(captchamode.Override{State: to, Who: who, Why: why, Since: now,
		Until: now.Add(hold)}); err != nil {
		return fmt.Errorf("%w: %w", ErrAsked, err)
	}
	return c.record(ctx, audit.Action{Who: who, What: "captcha-" + string(to), Detail: fmt.Sprintf("for %v", hold),
		Why: why})
}

// Release returns CAPTCHA mode to the detector.
func (c *Control) Release(ctx context.Context, who, why string) error {
	why, err := spoken(why)
	if err != nil {
		return err
	}
	c.config.Mode.Release(who, why)
	return c.record(ctx, audit.Action{Who: who, What: "captcha-auto", Why: why})
}

// Clear resets the failure rate on all nodes and ends CAPTCHA mode without its cool-down. An override stays. The
// detector notices an attack that continues.
func (c *Control) Clear(ctx context.Context, who, why string) error {
	why, err := spoken(why)
	if err != nil {
		return err
	}
	c.config.Mode.Clear(who, why)
	return c.record(ctx, audit.Action{Who: who, What: "captcha-clear", Why: why})
}
