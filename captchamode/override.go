package captchamode

import (
	"errors"
	"fmt"
	"time"

	"authguard/internal/times"
)

// MaxOverride is the longest duration of an override.
const MaxOverride = 7 * 24 * time.Hour

// ErrOverride means that an override lacks its administrator, reason or a valid end.
var ErrOverride = errors.New("captchamode: cannot force the mode")

// An Override is an administrator's decision about the mode (R21). The zero Override leaves the mode to the detector.
type Override struct {
	State Forced    `json:"word"`
	Who   string    `json:"who"`
	Why   string    `json:"why"`
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// Forced is the state that an override sets.
type Forced string

// Automatic means that there is no override, and the failure rate decides.
const (
	Automatic Forced = ""
	ForcedOn  Forced = "on"
	ForcedOff Forced = "off"
)

// Force applies an override until it ends (R21).
func (m *Mode) Force(f Override) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
	now := m.now()
	if f.Since.IsZero() {
		f.Since = now
	}
	if err := f.validate(now); err != nil {
		return err
	}
	m.switchTo(f, ByPerson, false, now)
	return nil
}

// Release ends the override. The switch records who and why.
func (m *Mode) Release(who, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
	now := m.now()
	if m.override.State != Automatic {
		m.switchTo(Override{Who: who, Why: why, Since: now}, ByPerson, false, now)
	}
}

// AdoptOverride applies another node's override, including its end, and reports whether that changed anything. The
// switch is marked Adopted.
//
// The other node validated it by its own clock. If it has ended by this node's clock, the mode becomes automatic. No
// override lasts longer than MaxOverride.
func (m *Mode) AdoptOverride(f Override) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
	now := m.now()
	if f.State != ForcedOn && f.State != ForcedOff || !f.Until.After(now) {
		f.State = Automatic
	}
	if latest := now.Add(MaxOverride); f.Until.After(latest) {
		f.Until = latest
	}
	if f.same(m.override) {
		return false
	}
	m.switchTo(f, ByPerson, true, now)
	return true
}

// same reports whether f and g are one override. Since is compared in milliseconds, the precision of the databases;
// Until may have been shortened.
func (f Override) same(g Override) bool {
	return f.State == g.State && (f.State == Automatic ||
		f.Who == g.Who && f.Why == g.Why && f.Since.UnixMilli() == g.Since.UnixMilli())
}

func (f Override) validate(now time.Time) error {
	switch {
	case f.State != ForcedOn && f.State != ForcedOff:
		return fmt.Errorf("%w: say on or off, not %q", ErrOverride, f.State)
	case f.Who == "" || f.Why == "":
		return fmt.Errorf("%w: say who and why", ErrOverride)
	case !f.Until.After(now):
		return fmt.Errorf("%w: its end must be in the future", ErrOverride)
	case f.Until.Sub(now) > MaxOverride:
		return fmt.Errorf("%w: at most %s ahead", ErrOverride, times.FormatDuration(MaxOverride))
	}
	return nil
}
