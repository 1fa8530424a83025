package control

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"authguard/captchamode"
	"authguard/internal/audit"
)

// DefaultForce is how long a person's word on CAPTCHA mode holds by default.
const DefaultForce = 2 * time.Hour

// noReason stands in the history where a person gave none.
const noReason = "no reason given"

// spoken is the reason as the history has it.
func spoken(why string) (string, error) {
	why, err := reason(why)
	return cmp.Or(why, noReason), err
}

// Force makes a person's word the mode for a time (R21); 0 is DefaultForce. The
// error is ErrAsked for a word that is neither on nor off, and for a time that
// is negative or longer than captchamode.MaxForce.
func (c *Control) Force(ctx context.Context, who string, word captchamode.Word, hold time.Duration, why string) error {
	why, err := spoken(why)
	if err != nil {
		return err
	}
	if word != captchamode.ForcedOn && word != captchamode.ForcedOff {
		return fmt.Errorf("%w: mode must be on, off or auto", ErrAsked)
	}
	if hold = cmp.Or(hold, DefaultForce); hold < 0 || hold > captchamode.MaxForce {
		return fmt.Errorf("%w: CAPTCHA mode can be forced for at most %v, such as 2h", ErrAsked, captchamode.MaxForce)
	}
	now := c.config.Now()
	if err := c.config.Mode.Force(captchamode.Force{Word: word, Who: who, Why: why, Since: now, Until: now.Add(hold)}); err != nil {
		return fmt.Errorf("%w: %w", ErrAsked, err)
	}
	return c.record(ctx, audit.Action{Who: who, What: "captcha-" + string(word), Detail: fmt.Sprintf("for %v", hold), Why: why})
}

// Release leaves CAPTCHA mode to the machine again.
func (c *Control) Release(ctx context.Context, who, why string) error {
	why, err := spoken(why)
	if err != nil {
		return err
	}
	c.config.Mode.Release(who, why)
	return c.record(ctx, audit.Action{Who: who, What: "captcha-auto", Why: why})
}

// Clear empties the pressure on the site, on all nodes, and ends CAPTCHA mode
// without waiting for its cool-down. A person's word stays. An attack that goes on
// is noticed anew.
func (c *Control) Clear(ctx context.Context, who, why string) error {
	why, err := spoken(why)
	if err != nil {
		return err
	}
	c.config.Mode.Clear(who, why)
	return c.record(ctx, audit.Action{Who: who, What: "captcha-clear", Why: why})
}
