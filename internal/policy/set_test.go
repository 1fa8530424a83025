package policy_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/database/databasetest"
	"authguard/internal/operation"
	"authguard/internal/policy"
)

func configured() policy.Written {
	return policy.Written{Policy: guard.DefaultPolicy(), Mode: captchamode.DefaultConfig(), Enforce: true}
}

func TestTheTableKeepsOtherLimitsUntilTheyAreReplaced(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		table, ctx := policy.NewTable(db), t.Context()
		now := time.UnixMilli(1_700_000_000_000)
		want := policy.Override{LimitSet: "account", Limits: "10/24h challenge, 200/24h block monitor", Who: "admin:ann",
			Why: "exam week", Since: now, Until: now.Add(time.Hour)}
		if err := table.Set(ctx, "default", want); err != nil {
			t.Fatal(err)
		}
		all, err := policy.NewTable(db).Overrides(ctx, "default") // another node, or a restart
		if err != nil || len(all) != 1 || all[0] != want {
			t.Errorf("%+v, %v", all, err)
		}
		if all, err = table.Overrides(ctx, "shop"); err != nil || len(all) != 0 {
			t.Errorf("another realm has %+v, %v", all, err)
		}
		want.Limits, want.Enforce = "", true // enforced replaces the numbers
		if err = table.Set(ctx, "default", want); err != nil {
			t.Fatal(err)
		}
		if all, err = table.Overrides(ctx, "default"); err != nil || len(all) != 1 || all[0] != want {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

func TestOtherLimitsAreReadLikeTheConfiguration(t *testing.T) {
	t.Parallel()
	w := configured()
	for text, want := range map[string]string{
		"10/1d, 50/24h block": "10/24h challenge, 50/24h block", " 5/24h challenge  monitor ": "5/24h challenge monitor",
	} {
		if got, err := w.Valid("account", text); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, c := range [][3]string{
		{"account", "lots", "must be like 10/1m challenge"}, {"account", "", "missing"}, {"account", "0/24h block", "must be from 1"},
		{"account", "10/24h chalenge", "challenge"}, {"account", "10/8d block", "longer than 24h"},
		{"account", "2/1m block, 4000/24h block", "can never be reached"}, {"account", strings.Repeat("5/24h, ", 100), "500 bytes"},
		{"spray", "5/24h", "cannot be overridden"}, {"list:tor", "5/24h", "cannot be overridden"}, {"all", "5/24h", "cannot be overridden"},
		{"site", "5/24h block", "cannot be overridden"}, {"no", "5/24h", "the configuration"},
	} {
		if got, err := w.Valid(c[0], c[1]); !errors.Is(err, operation.ErrAsked) || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%q: %q, %v", c, got, err)
		}
	}
}

// TestAnOverrideCannotRemoveALimit: an attacker with an administrator's session can allow ten times the configured
// guesses, and no more.
func TestAnOverrideCannotRemoveALimit(t *testing.T) {
	t.Parallel()
	w := configured()
	for text, ok := range map[string]bool{
		"5/24h challenge, 100/24h block":                true,
		"50/24h challenge, 1000/24h block":              true,
		"1/1h challenge, 10/1h block":                   true,
		"40/1h block":                                   false, // 960 a day, and no challenge before it
		"50/24h block":                                  true,  // stops at least as much as a challenge
		"50/24h fake-failure":                           true,
		"51/24h challenge, 1000/24h block":              false,
		"50/24h challenge, 1001/24h block":              false,
		"50/24h challenge":                              false,
		"50/24h challenge, 1000/24h block monitor":      false,
		"50/24h challenge monitor, 1000/24h block":      false,
		"3/1h challenge, 1000/24h block":                false, // 72 a day
		"1/1m block":                                    false,
		"50/24h challenge, 100/2h block, 900/24h block": true,
	} {
		valid, err := w.Valid("account", text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if err = w.Bounded("account", valid); (err == nil) != ok || err != nil && !errors.Is(err, operation.ErrAsked) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestOtherLimitsChangeNothingElse(t *testing.T) {
	t.Parallel()
	w := configured()
	p, _, err := w.With([]policy.Override{{LimitSet: "account", Limits: "9/24h challenge, 90/24h block"}})
	if err != nil || p.Account[0].Failures != 9 || p.Account[1].Failures != 90 || p.Account[0].Monitor {
		t.Errorf("%+v, %v", p.Account, err)
	}
	if w.Policy.Account[0].Failures != 5 || p.Address[0] != w.Policy.Address[0] {
		t.Error("other limits changed")
	}
	w.Enforce = false // monitoring as a whole applies to them
	if p, _, _ = w.With([]policy.Override{{LimitSet: "account", Limits: "9/24h challenge, 90/24h block"}}); !p.Account[0].Monitor {
		t.Error("enforced in spite of monitor: true")
	}
	// A route with limits of its own keeps them.
	route := configured().Policy
	route.Account = []guard.Limit{{Failures: 3, Window: time.Hour, Action: guard.Challenge}}
	all := []policy.Override{{LimitSet: "account", Limits: "9/24h challenge"}, {LimitSet: "address", Limits: "9/24h challenge"}}
	if left := configured().Inherited(all, route); len(left) != 1 || left[0].LimitSet != "address" {
		t.Errorf("%+v", left)
	}
	// Overrides that a changed configuration makes invalid are not in force.
	bad := []policy.Override{{LimitSet: "pair", Limits: "5/24h block"}, {LimitSet: "account", Limits: "no"}, {LimitSet: "network"},
		{LimitSet: "address", Limits: "2/24h challenge"}}
	if left := configured().Enforceable(bad); len(left) != 3 || left[0].LimitSet != "network" || left[1].LimitSet != "pair" || left[2].LimitSet != "address" {
		t.Errorf("%+v", left)
	}
}
