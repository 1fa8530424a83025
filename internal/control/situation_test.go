package control_test

import (
	"slices"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/internal/attacks"
	"authguard/internal/control"
)

func TestTheSituationAtEachMoment(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 3, 8, 0, 0, time.UTC)
	site := attacks.Attack{ID: "site", Kind: attacks.Site, Last: now, Counts: attacks.Counts{Failed: 63, Challenged: 2756},
		Compromised: attacks.Compromised{Lost: 7, Open: 7}}
	small := attacks.Attack{ID: "small", Kind: attacks.Account, Last: now, Attempts: 30, Counts: attacks.Counts{Failed: 30}}
	over, secured, old := site, site, small
	over.Ended, secured.Open, old.Last = now, 0, now.Add(-6*time.Minute)
	entered, busier := small, small
	entered.ID, entered.Kind, entered.Attempts, entered.Lost, entered.Open = "entered", attacks.Spray, 3, 1, 1
	busier.ID, busier.Attempts = "busier", 31
	part := over
	part.ID, part.Kind, part.PartOf, part.Open = "part", attacks.Spray, over.ID, 1
	on := captchamode.State{Level: captchamode.Attack, On: true}
	low, off := on, on
	low.Low, off.On, off.Override = now, false, captchamode.Override{State: captchamode.ForcedOff}
	for name, one := range map[string]struct {
		o             control.Overview
		last          attacks.Attack
		open          int
		state, of     string
		stopped, todo string
	}{
		"quiet":        {control.Overview{}, secured, 0, control.NoAttack, "site", control.Yes, ""},
		"nothing yet":  {control.Overview{}, attacks.Attack{}, 0, control.NoAttack, "", control.No, ""},
		"guesser":      {control.Overview{Attacks: []attacks.Attack{small}}, small, 0, control.UnderAttack, "small", control.No, ""},
		"guesser gone": {control.Overview{Attacks: []attacks.Attack{old}}, old, 0, control.NoAttack, "small", control.No, ""},
		"two":          {control.Overview{Attacks: []attacks.Attack{small, busier}}, small, 0, control.UnderAttack, "busier", control.No, ""},
		"one got in":   {control.Overview{Attacks: []attacks.Attack{small, entered, busier}}, small, 1, control.UnderAttack, "entered", control.No, control.SecureAccounts},
		"attack":       {control.Overview{State: on, Attacks: []attacks.Attack{site, small}}, site, 7, control.UnderAttack, "site", control.Yes, control.SecureAccounts},
		"forced off":   {control.Overview{State: off, Attacks: []attacks.Attack{site}}, site, 0, control.UnderAttack, "site", control.Partly, control.SecureAccounts},
		"stopped":      {control.Overview{State: low, Attacks: []attacks.Attack{site}}, site, 7, control.AttackOver, "site", control.Yes, control.SecureAccounts},
		"part of it":   {control.Overview{Unsecured: []attacks.Attack{part, over}}, part, 7, control.AccountsOpen, "site", control.Yes, control.SecureAccounts},
		"after":        {control.Overview{Unsecured: []attacks.Attack{over}}, small, 7, control.AccountsOpen, "site", control.Yes, control.SecureAccounts},
	} {
		one.o.Now = now
		s := control.SituationOf(&one.o, one.last, one.open)
		of, todo := s.Attack().ID, ""
		if len(s.Next.Do) > 0 {
			todo = s.Next.Do[0]
		}
		if s.State != one.state || of != one.of || (s.Of == nil) != (of == "") || s.Stopped.Answer != one.stopped || todo != one.todo ||
			s.Going.Yes != (one.state == control.UnderAttack) || s.Entered.Compromised != s.Attack().Lost ||
			s.Entered.OpenInAll != max(one.open, s.Attack().Open) || slices.Contains(s.Next.Do, control.EndOverride) != (name == "forced off") {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
