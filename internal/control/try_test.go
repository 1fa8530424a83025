package control_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/control"
	"authguard/internal/database/databasetest"
	"authguard/internal/operation"
	"authguard/internal/policy"
)

func (d *desk) set(t *testing.T, limitSet, limits, hold string) (operation.Change, error) {
	t.Helper()
	return d.do(t.Context(), "admin:ann", policy.SetLimits{LimitSet: limitSet, Limits: limits, For: hold,
		Because: because("exam week")})
}

func TestOtherLimitsApplyOnAllNodesUntilTheyExpire(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		one, two := newDesk(t, db), newDesk(t, db)
		first := func(d *desk) int {
			t.Helper()
			if err := d.changes.Poll(t.Context()); err != nil {
				t.Fatal(err)
			}
			return d.w.Guard.Policy().Account[0].Failures
		}
		guesses := func(d *desk, account string) (checked int) {
			for i := range 12 {
				if d.w.Wrong(t, account, fmt.Sprintf("198.51.%d.1", i)).Action == guard.Proceed {
					checked++
				}
			}
			return checked
		}
		change, err := one.set(t, "account", "8/1d, 100/24h block", "1h")
		if err != nil {
			t.Fatal(err)
		}
		if row := one.recorded(t); row.Who != "admin:ann" || row.Decision != "policy-limits" ||
			row.Detail != "account: 8/24h challenge, 100/24h block for 1h: exam week" {
			t.Errorf("%+v", row)
		}
		if undo, ok := change.Undo.(*policy.SwitchPolicy); !ok || undo.LimitSet != "account" || undo.To != policy.ToFile {
			t.Errorf("undo: %+v", change.Undo)
		}
		if a, b, three := first(one), first(two), newDesk(t, db); a != 8 || b != 8 || first(three) != 8 {
			t.Errorf("%d, %d", a, b)
		}
		if n, m := guesses(one, "bob"), guesses(two, "bob"); n != 8 || m != 8 {
			t.Errorf("%d and %d guesses were checked", n, m)
		}
		if l := one.limit(t, "account", "8/24h challenge"); l.Source != policy.SourceOverride {
			t.Errorf("%+v", l)
		}
		two.w.Clock.Advance(time.Hour)
		if err := two.Limits.EndExpired(t.Context()); err != nil {
			t.Fatal(err)
		}
		if first(one) != 5 || first(two) != 5 || guesses(two, "eve") != 5 {
			t.Errorf("the configured limits do not apply again: %d, %d", first(one), first(two))
		}
		if row := one.recorded(t); row.Decision != "policy-ended" || row.Detail != "account: exam week" {
			t.Errorf("%+v", row)
		}
	})
}

func TestUndoRestoresTheOverrideBefore(t *testing.T) {
	t.Parallel()
	d := newDesk(t, databasetest.SQLite(t))
	if _, err := d.set(t, "account", "8/24h challenge, 100/24h block", "2h"); err != nil {
		t.Fatal(err)
	}
	d.w.Clock.Advance(time.Hour)
	change, err := d.set(t, "account", "9/24h challenge, 100/24h block", "2h")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = d.do(t.Context(), "admin:ann", *change.Undo.(*policy.SetLimits)); err != nil {
		t.Fatal(err)
	}
	p, err := d.Limits.View(t.Context())
	if err != nil || len(p.Overrides) != 1 || p.Overrides[0].Limits != "8/24h challenge, 100/24h block" ||
		!p.Overrides[0].Until.Equal(d.w.Clock.Now().Add(time.Hour)) || p.Overrides[0].Why != "exam week" {
		t.Errorf("%+v, %v", p.Overrides, err)
	}
	if change, err = d.do(t.Context(), "admin:ann", policy.SwitchPolicy{LimitSet: "account", To: policy.ToFile,
		Because: because("done")}); err != nil || d.w.Guard.Policy().Account[0].Failures != 5 {
		t.Errorf("%+v, %v", change, err)
	}
}

func TestUndoRestoresASwitchBefore(t *testing.T) {
	t.Parallel()
	for _, to := range []string{policy.ToWatch, policy.ToEnforce} {
		d := newDesk(t, databasetest.SQLite(t))
		if _, err := d.do(t.Context(), "admin:ann", policy.SwitchPolicy{LimitSet: "account", To: to, For: "2h", Because: because("drill")}); err != nil {
			t.Fatal(err)
		}
		change, err := d.set(t, "account", "8/24h challenge, 100/24h block", "1h")
		if err != nil {
			t.Fatal(err)
		}
		undo, ok := change.Undo.(*policy.SwitchPolicy)
		if !ok || undo.LimitSet != "account" || undo.To != to || undo.For != "2h" || undo.Reason != "drill" {
			t.Errorf("%s: %+v", to, change.Undo)
		}
	}
}

// TestLoosenedLimitsAreNotLoosenedFurther: several overrides, one after the other, are bound by the configuration.
func TestLoosenedLimitsAreNotLoosenedFurther(t *testing.T) {
	t.Parallel()
	d := newDesk(t, databasetest.SQLite(t))
	if _, err := d.set(t, "account", "50/24h challenge, 1000/24h block", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := d.set(t, "account", "500/24h challenge, 1000/24h block", ""); !errors.Is(err, operation.ErrAsked) {
		t.Errorf("100 times the configured limit: %v", err)
	}
	if n := d.w.Guard.Policy().Account[0].Failures; n != 50 {
		t.Errorf("%d failures are in force", n)
	}
}

// TestLoosenedLimitsNeedARecentSignIn: a stolen session must not switch limits off.
func TestLoosenedLimitsNeedARecentSignIn(t *testing.T) {
	t.Parallel()
	d := newDesk(t, databasetest.SQLite(t))
	for _, q := range []any{
		policy.SetLimits{LimitSet: "account", Limits: "8/24h challenge, 100/24h block", Because: because("x")},
		policy.SwitchPolicy{LimitSet: "account", To: policy.ToWatch, Because: because("x")},
	} {
		_, err := d.Do(t.Context(), operation.By{Who: "admin:ann"}, q)
		if refused := (operation.Refused{}); !errors.As(err, &refused) || refused.Type != operation.FreshRequired {
			t.Errorf("%T: %v", q, err)
		}
	}
	for limits, want := range map[string]string{"51/24h challenge, 100/24h block": "challenges at 50", "5/24h": "blocks at 1000"} {
		if _, err := d.set(t, "account", limits, ""); !errors.Is(err, operation.ErrAsked) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", limits, err)
		}
	}
	if _, err := d.set(t, "account", "8/24h, 100/24h block", "31d"); !errors.Is(err, operation.ErrAsked) {
		t.Errorf("31 days: %v", err)
	}
	if p := d.w.Guard.Policy(); p.Account[0].Failures != 5 || p.Account[0].Monitor {
		t.Errorf("%+v", p.Account)
	}
}

func TestTriedLimitsShowTheirEffectOnTheLastWeek(t *testing.T) {
	t.Parallel()
	d := newDesk(t, databasetest.SQLite(t))
	d.w.Wrong(t, "old", "192.0.2.1")
	d.w.Clock.Advance(7*24*time.Hour + time.Minute)
	for i := range 8 { // a guesser: five are checked today, three challenged
		d.w.Wrong(t, "bob", fmt.Sprintf("198.51.%d.1", i))
	}
	for range 3 { // a user who corrects the password
		d.w.Wrong(t, "carol", "203.0.113.1")
		d.w.Clock.Advance(time.Minute)
	}
	if !d.w.Right(t, "carol", "203.0.113.1") {
		t.Fatal("carol is not signed in")
	}
	d.audit.Handle(d.w.Events())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	d.audit.Run(ended) // writes
	got, err := d.TryLimits(t.Context(), "account", "3/24h, 100/24h block")
	if err != nil {
		t.Fatal(err)
	}
	if got.Counted != 12 || got.Stopped != 3 || got.Partial || got.Summed != 0 || got.Refused != nil ||
		got.Limits != "3/24h challenge, 100/24h block" || got.InForce != "5/24h challenge, 100/24h block" ||
		got.YAML != "limits:\n  account:\n    - 3/24h challenge\n    - 100/24h block\n" {
		t.Errorf("%+v", got)
	}
	for name, c := range map[string]struct {
		got, want any
	}{
		"guesses": {[2]any{got.Today.Guesses.All, got.Tried.Guesses.All}, [2]any{int64(11), int64(11)}},
		"checked": {[2]any{got.Today.Guesses.Checked, got.Tried.Guesses.Checked}, [2]any{int64(8), int64(6)}},
		"stopped": {[2]any{got.Today.Guesses.Stopped, got.Tried.Guesses.Stopped}, [2]any{[3]int64{3}, [3]int64{5}}},
		"people":  {[2]any{got.Today.Logins.People, got.Tried.Logins.People}, [2]any{int64(0), int64(1)}},
		"logins":  {[2]any{got.Today.Logins.All, got.Tried.Logins.KeptOut}, [2]any{int64(1), int64(0)}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if d.w.Guard.Policy().Account[0].Failures != 5 || d.recorded(t).Who != "" {
		t.Error("trying changed something")
	}
	if got, err = d.TryLimits(t.Context(), "account", "60/24h"); err != nil || got.Refused == nil {
		t.Errorf("%+v, %v", got, err)
	}
	ended, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err = d.TryLimits(ended, "account", "3/24h, 100/24h block"); !errors.Is(err, context.Canceled) {
		t.Errorf("the administrator has left: %v", err)
	}
	d.config.Overrides.Trying.Lock()
	if _, err = d.TryLimits(t.Context(), "account", "3/24h, 100/24h block"); !errors.Is(err, control.ErrTrying) {
		t.Errorf("twice at a time: %v", err)
	}
}

func TestATrialWithoutAttemptsHasNumbers(t *testing.T) {
	t.Parallel()
	d := newDesk(t, databasetest.SQLite(t))
	got, err := d.TryLimits(t.Context(), "account", "3/24h, 100/24h block")
	if err != nil || got.Counted != 0 || got.Tried.Guesses.All != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err = d.TryLimits(t.Context(), "account", "lots"); !errors.Is(err, operation.ErrAsked) {
		t.Error(err)
	}
}
