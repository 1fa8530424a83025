package policy

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/operation"
	"authguard/internal/times"
)

// DefaultForce is the default duration of an override of CAPTCHA mode.
const DefaultForce = 2 * time.Hour

// NoReason is recorded for a switch to automatic without a reason.
const NoReason = "no reason given"

// SetMode overrides CAPTCHA mode for a time (R21), returns it to the detector, or resets it: the failure rate of all
// nodes is cleared and CAPTCHA mode ends without its cool-down, but an override stays. The detector notices an attack
// that continues.
type SetMode struct {
	Mode string `json:"mode" kong:"-"` // on, off, auto or clear
	For  string `json:"for" default:"2h" placeholder:"DURATION" help:"Duration, at most 7d"`
	operation.Because
}

// Validate checks the flags of a command.
func (q SetMode) Validate() error {
	_, err := times.ParseDuration(q.For)
	return err
}

// Do implements Request.
func (q SetMode) Do(_ context.Context, l *Limits, by operation.By) (*operation.Change, error) {
	hold, err := operation.HoldOf(q.For)
	if err != nil {
		return nil, err
	}
	if by.Why == "" && (q.Mode == "on" || q.Mode == "off") {
		return nil, fmt.Errorf("%w: reason: missing (recorded in the audit log)", operation.ErrAsked)
	}
	why := cmp.Or(by.Why, NoReason)
	change := &operation.Change{Action: operation.Action{What: "captcha-" + q.Mode, Why: why},
		Undo: restoring(l.Mode.State().Override, by.Now)}
	switch q.Mode {
	case "clear":
		l.Mode.Clear(by.Who, why)
		change.Notice.Text = "CAPTCHA mode was reset. If the attack continues, it turns on again."
		change.Undo, change.Notice.Note = nil, "No undo: the failure rate was cleared on all nodes."
	case "auto":
		if l.Mode.State().Override.State == captchamode.Automatic {
			change.Undo = nil
		}
		l.Mode.Release(by.Who, why)
		change.Notice.Text = "CAPTCHA mode is automatic again."
	case "on", "off":
		if hold = cmp.Or(hold, DefaultForce); hold > captchamode.MaxOverride {
			return nil, fmt.Errorf("%w: CAPTCHA mode can be forced for at most %s, such as 2h", operation.ErrAsked,
				times.FormatDuration(captchamode.MaxOverride))
		}
		now := by.Now
		if err := l.Mode.Force(captchamode.Override{State: captchamode.Forced(q.Mode), Who: by.Who, Why: why,
			Since: now, Until: now.Add(hold)}); err != nil {
			return nil, fmt.Errorf("%w: %w", operation.ErrAsked, err)
		}
		change.Detail = "for " + times.FormatDuration(hold)
		change.Notice.Text = "CAPTCHA mode is forced " + q.Mode + " for " + guard.Spell(hold) + "."
	default:
		return nil, fmt.Errorf("%w: mode: must be on, off, auto or clear, not %.20q", operation.ErrAsked, q.Mode)
	}
	change.Answer = l.Mode.State()
	return change, nil
}

// restoring returns the request that restores an override of CAPTCHA mode for the rest of its time.
func restoring(before captchamode.Override, now time.Time) *SetMode {
	if before.State == captchamode.Automatic || !before.Until.After(now) {
		return &SetMode{Mode: "auto", Because: operation.Because{Reason: operation.Undone}}
	}
	return &SetMode{Mode: string(before.State), For: times.FormatDuration(before.Until.Sub(now)),
		Because: operation.Because{Reason: before.Why}}
}
