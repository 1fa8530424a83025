package captchamode

import (
	"errors"
	"fmt"
	"time"
)

// MaxForce is the longest that a person's word holds before the mode returns
// to automatic.
const MaxForce = 7 * 24 * time.Hour

// ErrForce means that a person's word lacks who, why or a sensible end.
var ErrForce = errors.New("captchamode: cannot force the mode")

// A Force is a person's word on the mode (R21). The zero Force leaves it to
// the detector.
type Force struct {
	Word  Word      `json:"word"`
	Who   string    `json:"who"`
	Why   string    `json:"why"`
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// A Word is what a person said of the mode.
type Word string

// The words. Automatic is that nobody has said anything: the pressure decides.
const (
	Automatic Word = ""
	ForcedOn  Word = "on"
	ForcedOff Word = "off"
)

// Force makes a person's word the mode until it runs out (R21).
func (m *Mode) Force(f Force) error {
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

// Release returns the mode to automatic. Who and why are kept with the switch.
func (m *Mode) Release(who, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
	now := m.now()
	if m.force.Word != Automatic {
		m.switchTo(Force{Who: who, Why: why, Since: now}, ByPerson, false, now)
	}
}

// AdoptOverride makes a word that a person said on another node the mode here
// too: on, off, or automatic again. It reports whether that changed anything.
// The switch that it makes is marked Adopted.
//
// The other node has checked the word, by its own clock. A word that has run out
// by this node's clock is a return to automatic, and none lasts longer than
// MaxForce.
func (m *Mode) AdoptOverride(f Force) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
	now := m.now()
	if f.Word != ForcedOn && f.Word != ForcedOff || !f.Until.After(now) {
		f.Word = Automatic
	}
	if latest := now.Add(MaxForce); f.Until.After(latest) {
		f.Until = latest
	}
	if f.same(m.force) {
		return false
	}
	m.switchTo(f, ByPerson, true, now)
	return true
}

// same reports whether two are one word. Its beginning is compared to the
// millisecond, which is what a database keeps; its end may have been shortened.
func (f Force) same(g Force) bool {
	return f.Word == g.Word && (f.Word == Automatic ||
		f.Who == g.Who && f.Why == g.Why && f.Since.UnixMilli() == g.Since.UnixMilli())
}

func (f Force) validate(now time.Time) error {
	switch {
	case f.Word != ForcedOn && f.Word != ForcedOff:
		return fmt.Errorf("%w: say on or off, not %q", ErrForce, f.Word)
	case f.Who == "" || f.Why == "":
		return fmt.Errorf("%w: say who and why", ErrForce)
	case !f.Until.After(now):
		return fmt.Errorf("%w: its end must be in the future", ErrForce)
	case f.Until.Sub(now) > MaxForce:
		return fmt.Errorf("%w: at most %v ahead", ErrForce, MaxForce)
	}
	return nil
}
