package control_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/audit"
	"authguard/internal/control"
	"authguard/internal/database/databasetest"
	"authguard/internal/operation"
	"authguard/internal/outbox"
	"authguard/internal/policy"
)

// limit finds one in what is in force.
func (d *desk) limit(t *testing.T, limitSet, limit string) policy.LimitState {
	t.Helper()
	p, err := d.Limits.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range p.LimitSets {
		for _, r := range l.Limits {
			if l.Name == limitSet && r.Limit == limit {
				return r
			}
		}
	}
	t.Fatalf("no %s of %s in %+v", limit, limitSet, p.LimitSets)
	return policy.LimitState{}
}

// observe hands what the world saw since the last time to the effects.
func (d *desk) observe() {
	all := d.w.Events()
	d.w.ForgetEvents()
	d.effects.Handle(all)
}

// A changed configuration has made the second one invalid.
func TestOnlyOverridesInForceAreShown(t *testing.T) {
	t.Parallel()
	d := newDesk(t, databasetest.SQLite(t))
	for limitSet, limits := range map[string]string{"account": "2/24h challenge, 10/24h block", "address": "none"} {
		if err := d.Limits.Table.Set(t.Context(), guard.DefaultRealm, policy.Override{LimitSet: limitSet, Limits: limits, Since: d.w.Clock.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	err := d.Limits.Read(t.Context())
	p, failed := d.Limits.View(t.Context())
	if err != nil || failed != nil || len(p.Overrides) != 1 || p.Overrides[0].LimitSet != "account" {
		t.Errorf("%+v, %v, %v", p.Overrides, err, failed)
	}
	if d.limit(t, "account", "2/24h challenge").Source != policy.SourceOverride || d.limit(t, "address", "10/1m challenge").Source == policy.SourceOverride {
		t.Error("a limit in force has another source")
	}
}

func TestWhatEachLimitDidIsCountedExactlyOverNodesAndARestart(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		d := newDesk(t, db)
		if err := d.SwitchPolicy(t.Context(), "admin:ann", policy.Whole, policy.ToWatch, 0, "the first week"); err != nil {
			t.Fatal(err)
		}
		// Seven wrong passwords for one account and two for another, and then one is right.
		for i := range 7 {
			d.w.Wrong(t, "bob", fmt.Sprintf("192.0.%d.1", i))
		}
		d.observe()
		for i := range 8 {
			d.w.Wrong(t, "eve", fmt.Sprintf("192.0.%d.1", i%2))
		}
		d.observe()
		if !d.w.Right(t, "eve", "192.0.0.1") || !d.w.Right(t, "carol", "192.0.0.1") {
			t.Error("a policy that only watches kept somebody out")
		}
		d.observe()
		got := d.limit(t, "account", "5/24h challenge")
		// bob's 6th and 7th; eve's 6th to 8th and the right one.
		want := policy.Effect{Attempts: 2 + 4, Accounts: 2, Addresses: 4, Later: 1}
		if fmt.Sprint(got.Would) != fmt.Sprint(want) || got.Stopped.Attempts != 0 || !got.Monitored || got.Code != "limit:account:5/24h" {
			t.Errorf("got %+v, want %+v", got, want)
		}
		// Another node, and what a node that was stopped has left.
		other := policy.NewEffects(db, []byte("secret"), d.w.Clock.Now, quiet)
		limit := guard.Limit{Failures: 5, Window: 24 * time.Hour, Action: guard.Challenge, Monitor: true}
		why := guard.Reasons{{Cause: guard.LimitReached, Subject: guard.OnAccount, Limit: &limit, Monitored: true}}
		event := guard.Event{At: d.w.Clock.Now(), Action: guard.Proceed, Settled: true, Account: "frank", Address: netip.MustParseAddr("198.51.100.1"), Reasons: why}
		other.Handle([]guard.Event{event, event})
		stopped := event
		stopped.Action, stopped.Settled, stopped.Account = guard.Challenge, false, "gina"
		stopped.Reasons = guard.Reasons{{Cause: guard.LimitReached, Subject: guard.OnAccount, Limit: &limit}}
		other.Handle([]guard.Event{stopped})
		if err := other.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		// They log in from where they were stopped.
		in := event
		in.Outcome, in.NewClient, in.Reasons, in.At = guard.Succeeded, true, nil, in.At.Add(time.Second)
		other.Handle([]guard.Event{in})
		in.Account = "gina"
		other.Handle([]guard.Event{in})
		if err := other.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		got = d.limit(t, "account", "5/24h challenge")
		if got.Would.Attempts != 8 || got.Would.Accounts != 3 || got.Would.Later != 2 || got.Stopped.Attempts != 1 || got.Stopped.Later != 1 {
			t.Errorf("with another node: %+v", got)
		}
		d.w.Clock.Advance(25 * time.Hour)
		if got := d.limit(t, "account", "5/24h challenge"); got.Would.Attempts != 0 || got.Stopped.Attempts != 0 {
			t.Errorf("a day later: %+v", got)
		}
		d.w.Clock.Advance(time.Hour) // it may have begun at a full hour
		if n, err := d.effects.Purge(t.Context()); err != nil || n == 0 {
			t.Errorf("%d rows purged, %v", n, err)
		}
	})
}

func TestAFloodFillsNoTableAndHidesNobodyWhoLogsIn(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		d := newDesk(t, open(t))
		limit := guard.Limit{Failures: 10, Window: time.Minute, Action: guard.Challenge}
		event := func(i int) guard.Event {
			return guard.Event{
				At: d.w.Clock.Now(), Action: guard.Challenge, Account: fmt.Sprint("made-up-", i), Address: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}),
				Reasons: guard.Reasons{{Cause: guard.LimitReached, Subject: guard.OnAddress, Limit: &limit}},
			}
		}
		for i := range 5000 {
			d.effects.Handle([]guard.Event{event(i)})
		}
		person := event(4999)
		person.Action, person.Settled, person.Outcome, person.NewClient = guard.Proceed, true, guard.Succeeded, true
		person.Reasons = guard.Reasons{{Cause: guard.ChallengeSolved}}
		d.effects.Handle([]guard.Event{person})
		met := d.limit(t, "address", "10/1m challenge").Stopped
		if met.Attempts != 5000 || met.Accounts < 4900 || met.Accounts > 5100 || met.Later != 1 {
			t.Errorf("%+v", met)
		}
		var rows, bytes int64
		err := d.db.QueryRowContext(t.Context(), `SELECT COUNT(*), SUM(LENGTH(counts)) FROM policy_effects`).Scan(&rows, &bytes)
		if err != nil || rows != 1 || bytes > 3*24<<10 {
			t.Errorf("%d rows of %d bytes, %v", rows, bytes, err)
		}
	})
}

func TestThePolicyIsSwitchedOnAllNodesAndBack(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		ctx := t.Context()
		told := [2]*strings.Builder{new(strings.Builder), new(strings.Builder)}
		telling := func(i int) *desk {
			return newDeskWith(t, db, func(c *control.Config) {
				c.Alerts, _ = alerts.New(alerts.Config{PerHour: 1}, outbox.Store{Log: slog.New(slog.NewTextHandler(told[i], nil))})
			})
		}
		one, two := telling(0), telling(1)
		enforced := func(d *desk, limitSet string) bool {
			t.Helper()
			if err := d.changes.Poll(ctx); err != nil {
				t.Fatal(err)
			}
			p, err := d.Limits.View(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range p.LimitSets {
				if l.Name == limitSet {
					return !l.Monitors()
				}
			}
			return false
		}
		switched := func(limitSet, to string, hold time.Duration) {
			t.Helper()
			if err := one.SwitchPolicy(ctx, "admin:ann", limitSet, to, hold, "to see"); err != nil {
				t.Fatal(err)
			}
		}
		is := func(what string, account, address, mode bool) {
			t.Helper()
			for i, d := range []*desk{one, two} {
				if enforced(d, "account") != account || enforced(d, "address") != address || enforced(d, "mode") != mode {
					t.Errorf("%s: node %d: account %v, address %v, mode %v", what, i+1, enforced(d, "account"), enforced(d, "address"), enforced(d, "mode"))
				}
				if p := d.w.Guard.Policy(); p.Account[0].Monitor == account || p.Address[0].Monitor == address || d.w.Mode.Config().Monitor == mode {
					t.Errorf("%s: node %d: not in force", what, i+1)
				}
			}
		}
		is("at first", true, true, true)
		switched("account", policy.ToWatch, 0)
		is("a limitSet", false, true, true)
		if row := one.recorded(t); row.Who != "admin:ann" || row.Decision != "policy-monitor" || row.Detail != "account: to see" {
			t.Errorf("%+v", row)
		}
		if o := two.Overview(ctx); len(o.Warnings) != 1 || o.Warnings[0].Code != "limits-monitored" || !strings.Contains(o.Warnings[0].Text, "account, set by admin:ann") {
			t.Errorf("%+v", o.Warnings)
		}
		switched(policy.Whole, policy.ToWatch, 0)
		switched("address", policy.ToEnforce, time.Hour)
		is("the whole but one", false, true, false)
		two.w.Clock.Advance(time.Hour) // the other node's clock says so first
		if err := errors.Join(two.Limits.EndExpired(ctx), two.Limits.EndExpired(ctx)); err != nil {
			t.Fatal(err)
		}
		is("after an hour", false, false, false)
		if row := one.recorded(t); row.Decision != "policy-ended" || row.Who != "authguard" {
			t.Errorf("%+v", row)
		}
		three := newDesk(t, db) // a restart
		if enforced(three, "account") || enforced(three, "mode") {
			t.Error("a restart forgot what was said")
		}
		switched(policy.Whole, policy.ToFile, 0)
		is("back to the file", true, true, true)
		rows, err := one.audit.Recent(ctx, audit.Filter{Kind: audit.KindAdmin})
		if err != nil || len(rows) != 5 {
			t.Errorf("%d rows on record, %v", len(rows), err)
		}
		for i, want := range [2][2]int{{2, 2}, {1, 0}} { // each edge once, by the node that it was said at, or that ended it first
			if off, on := strings.Count(told[i].String(), "kind=limits-monitored"), strings.Count(told[i].String(), "kind=limits-enforced"); [2]int{off, on} != want {
				t.Errorf("node %d told of %d and %d, want %v:\n%s", i+1, off, on, want, told[i])
			}
		}
	})
}

func TestWhatCannotBeSwitchedIsRefusedWithWhatCan(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		d := newDesk(t, open(t))
		for _, c := range []struct{ limitSet, to, why, want string }{
			{"acount", policy.ToWatch, "x", "the limits are: pair-delay, account, address"},
			{"account", "off", "x", "must be monitor, enforce or reset"},
			{"account", policy.ToWatch, " ", "missing reason"},
			{"account", policy.ToFile, "x", "the configured value already applies"},
		} {
			err := d.SwitchPolicy(t.Context(), "admin:ann", c.limitSet, c.to, 0, c.why)
			if !errors.Is(err, operation.ErrAsked) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if row := d.recorded(t); row.Who != "" {
			t.Errorf("%+v", row)
		}
	})
}

// TestAWordThatCannotBeEnforcedAnyMore: the configuration was changed since.
func TestR8AWordThatCannotBeEnforcedIsRefused(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		d := newDeskWith(t, open(t), func(c *control.Config) {
			p := c.Guard.Policy()
			p.Account = []guard.Limit{{Failures: 2, Window: time.Minute, Action: guard.Challenge, Monitor: true}, {Failures: 300, Window: time.Hour, Action: guard.Challenge}}
			if err := c.Guard.SetPolicy(p); err != nil {
				t.Fatal(err)
			}
		})
		err := d.SwitchPolicy(t.Context(), "admin:ann", "account", policy.ToEnforce, 0, "x")
		if !errors.Is(err, operation.ErrAsked) || !strings.Contains(err.Error(), "can never be reached") {
			t.Errorf("%v", err)
		}
	})
}

func TestWithoutTheDatabaseWhatWasSaidLastHolds(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		d := newDesk(t, open(t))
		if err := d.SwitchPolicy(t.Context(), "admin:ann", "account", policy.ToWatch, time.Hour, "x"); err != nil {
			t.Fatal(err)
		}
		d.db.Close()
		if d.changes.Poll(t.Context()) == nil || !d.w.Guard.Policy().Account[0].Monitor {
			t.Error("it was forgotten with the database")
		}
		d.w.Clock.Advance(time.Hour)
		if d.Limits.EndExpired(t.Context()) == nil || d.w.Guard.Policy().Account[0].Monitor {
			t.Error("it did not end by the clock")
		}
	})
}
