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
	word := captchamode.Force{Word: captchamode.ForcedOn, Who: "ann", Why: "a botnet", Since: now, Until: now.Add(time.Hour)}
	if !m.AdoptOverride(word) || m.AdoptOverride(word) || !m.On() || m.State().Force != word {
		t.Errorf("on: %v, %+v", m.On(), m.State().Force)
	}
	back := captchamode.Force{Who: "bob", Why: "over", Since: now}
	if !m.AdoptOverride(back) || m.AdoptOverride(back) || m.On() || m.State().Force != (captchamode.Force{}) {
		t.Errorf("on: %v, %+v", m.On(), m.State().Force)
	}
	if len(told) != 2 || !told[0].Adopted || told[0].Force != word || !told[1].Adopted || told[1].Force.Who != "bob" {
		t.Errorf("told %+v", told)
	}
	if err := m.Force(word); err != nil || len(told) != 3 || told[2].Adopted {
		t.Errorf("a word of our own: %v, %+v", err, told)
	}
}

func TestAWordThatHasRunOutIsARelease(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m, err := captchamode.NewMode(captchamode.DefaultConfig(), func() time.Time { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	word := captchamode.Force{Word: captchamode.ForcedOn, Who: "ann", Why: "x", Since: now, Until: now}
	if m.AdoptOverride(word) || m.On() {
		t.Error("a word that has run out is in force")
	}
	word.Until = now.Add(365 * 24 * time.Hour)
	if !m.AdoptOverride(word) || !m.State().Force.Until.Equal(now.Add(captchamode.MaxForce)) {
		t.Errorf("%+v", m.State().Force)
	}
	word.Word, word.Until = captchamode.ForcedOff, now
	if !m.AdoptOverride(word) || m.On() {
		t.Error("still on")
	}
	word.Word, word.Until = "maybe", now.Add(time.Hour)
	if m.AdoptOverride(word) {
		t.Error("a word that is none was followed")
	}
}
