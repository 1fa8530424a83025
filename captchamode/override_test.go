package captchamode_test

import (
	"testing"
	"time"

	"authguard/captchamode"
)

func TestAWordFromAnotherNodeIsFollowedOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var told []captchamode.Switch
	m, err := captchamode.NewMode(captchamode.DefaultConfig(), func() time.Time { return now },
		func(s captchamode.Switch) { told = append(told, s) })
	if err != nil {
		t.Fatal(err)
	}
	override := captchamode.Override{State: captchamode.ForcedOn, Who: "ann", Why: "a botnet", Since: now, Until: now.Add(time.Hour)}
	if !m.AdoptOverride(override) || m.AdoptOverride(override) || !m.On() || m.State().Override != override {
		t.Errorf("on: %v, %+v", m.On(), m.State().Override)
	}
	back := captchamode.Override{Who: "bob", Why: "over", Since: now}
	if !m.AdoptOverride(back) || m.AdoptOverride(back) || m.On() || m.State().Override != (captchamode.Override{}) {
		t.Errorf("on: %v, %+v", m.On(), m.State().Override)
	}
	if len(told) != 2 || !told[0].Adopted || told[0].Override != override || !told[1].Adopted || told[1].Override.Who != "bob" {
		t.Errorf("told %+v", told)
	}
	if err := m.Force(override); err != nil || len(told) != 3 || told[2].Adopted {
		t.Errorf("an override of this node: %v, %+v", err, told)
	}
}

func TestAWordThatHasRunOutIsARelease(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m, err := captchamode.NewMode(captchamode.DefaultConfig(), func() time.Time { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	override := captchamode.Override{State: captchamode.ForcedOn, Who: "ann", Why: "x", Since: now, Until: now}
	if m.AdoptOverride(override) || m.On() {
		t.Error("an ended override is in force")
	}
	override.Until = now.Add(365 * 24 * time.Hour)
	if !m.AdoptOverride(override) || !m.State().Override.Until.Equal(now.Add(captchamode.MaxOverride)) {
		t.Errorf("%+v", m.State().Override)
	}
	override.State, override.Until = captchamode.ForcedOff, now
	if !m.AdoptOverride(override) || m.On() {
		t.Error("still on")
	}
	override.State, override.Until = "maybe", now.Add(time.Hour)
	if m.AdoptOverride(override) {
		t.Error("an invalid override was adopted")
	}
}
