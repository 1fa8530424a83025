package control_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/scs/v2"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/database/databasetest"
	"authguard/internal/events"
	"authguard/internal/lists"
	"authguard/internal/operation"
	"authguard/internal/testing/world"
	"authguard/trusted"
)

var home = netip.MustParseAddr("192.0.2.7")

func TestAControlNeedsEverythingItSteers(t *testing.T) {
	t.Parallel()
	_, err := control.New(control.Config{})
	for _, field := range []string{"Guard", "Mode", "Listings", "Accounts", "Sessions", "Audit", "Tops", "Changes"} {
		if err == nil || !strings.Contains(err.Error(), "control: "+field+": must be set") {
			t.Errorf("%s is not missed in: %v", field, err)
		}
	}
}

// openSession puts a session of an account into the store.
func (d *desk) openSession(t *testing.T, account, token string) {
	t.Helper()
	data, err := scs.GobCodec{}.Encode(d.w.Clock.Now().Add(time.Hour), map[string]any{"account": account})
	if err == nil {
		err = d.sessions.CommitCtx(t.Context(), token, data, d.w.Clock.Now().Add(time.Hour))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestANewPasswordAndDisablingEndSessionsAndPlaces(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		d.user(t, "ann", "Ann@Example.org")
		for what, do := range map[string]func() error{
			"user-set-password": func() error {
				return d.SetPassword(t.Context(), "cli:root", "ANN@example.org", "another one", true, "")
			},
			"user-disable": func() error { return d.Disable(t.Context(), "cli:root", "Ann@example.org") },
		} {
			if !d.w.Right(t, "ann", home.String()) || d.w.Status(t, "ann", home.String()) != trusted.Known {
				t.Fatal("the place is not known")
			}
			d.openSession(t, "ann", what)
			code, err := d.IssueCode(t.Context(), "cli:root", "Ann@Example.org")
			if row := d.recorded(t); err != nil || row.Decision != "user-create-code" || row.Account != "ann" || strings.Contains(row.Detail, code.Code) {
				t.Errorf("%v, on record: %+v", err, row)
			}
			before, _ := d.accounts.Get(t.Context(), "ann")
			if err := do(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			after, _ := d.accounts.Get(t.Context(), "ann")
			_, open, err := d.sessions.FindCtx(t.Context(), what)
			if open || err != nil || after.Version <= before.Version {
				t.Errorf("%s: session open: %v, %v, version %d after %d", what, open, err, after.Version, before.Version)
			}
			with := world.From("ann", home.String())
			with.VerificationCode = code.Code
			if tried, _ := d.w.Try(t, with, "wrong"); tried.CodeValid {
				t.Errorf("%s: a one-time code is still good", what)
			}
			if got := d.w.Status(t, "ann", home.String()); got != trusted.Unknown {
				t.Errorf("%s: the place is %v", what, got)
			}
			if row := d.recorded(t); row.Decision != what || row.Who != "cli:root" || row.Account != "ann" {
				t.Errorf("on record: %+v", row)
			}
		}
	})
}

func TestForgettingOnePlaceLeavesTheOthers(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		d.w.Right(t, "ann", home.String())
		d.w.Right(t, "ann", "192.0.2.8")
		if err := d.RemoveKnownClients(t.Context(), "admin:eve", "Ann", home); err != nil {
			t.Fatal(err)
		}
		if a, b := d.w.Status(t, "ann", home.String()), d.w.Status(t, "ann", "192.0.2.8"); a != trusted.Unknown || b != trusted.Known {
			t.Errorf("%v and %v", a, b)
		}
		if row := d.recorded(t); row.Account != "ann" || row.Detail != "at 192.0.2.7" {
			t.Errorf("on record: %+v", row)
		}
	})
}

func TestAForceHoldsForItsTimeAndNoLonger(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		if err := d.Force(t.Context(), "admin:eve", captchamode.ForcedOn, 0, " drill "); err != nil {
			t.Fatal(err)
		}
		override := d.Overview(t.Context()).State.Override
		if !d.w.Mode.On() || override.Who != "admin:eve" || override.Why != "drill" || !override.Until.Equal(d.w.Clock.Now().Add(2*time.Hour)) {
			t.Errorf("on: %v, %+v", d.w.Mode.On(), override)
		}
		d.w.Clock.Advance(2*time.Hour + time.Second)
		d.w.Mode.Tick()
		if d.w.Mode.On() {
			t.Error("still on")
		}
	})
}

func TestWhatMakesNoSenseIsRefusedAndNotOnRecord(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		ctx, none := t.Context(), netip.Addr{}
		every := netip.MustParsePrefix("0.0.0.0/0")
		for name, err := range map[string]error{
			"no state":    d.Force(ctx, "x", "maybe", time.Hour, "y"),
			"auto":        d.Force(ctx, "x", captchamode.Automatic, time.Hour, "y"),
			"too long":    d.Force(ctx, "x", captchamode.ForcedOn, captchamode.MaxOverride+1, "y"),
			"negative":    d.Force(ctx, "x", captchamode.ForcedOn, -1, "y"),
			"long reason": d.Force(ctx, "x", "auto", 0, strings.Repeat("y", 501)),
			"unlock":      d.Unlock(ctx, "x", "", none),
			"forget":      d.RemoveKnownClients(ctx, "x", "", home),
			"unlist":      second(d.do(ctx, "x", lists.Unlist{})),
			"allow":       second(d.List(ctx, "x", lists.Request{Verdict: lists.Allow, Prefix: every, Force: true})),
			"block":       second(d.List(ctx, "x", lists.Request{Verdict: lists.Block, Prefix: every})),
			"role":        second(d.AddUser(ctx, "x", accounts.Addition{Username: "bob", Password: "long enough", Role: "root"}, "")),
			"explain":     second(d.Explain(ctx, "", none)),
		} {
			if !errors.Is(err, operation.ErrAsked) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := d.Unlock(ctx, "x", "\x00", home); !errors.Is(err, guard.ErrAccountName) {
			t.Errorf("unlock: %v", err)
		}
		if row := d.recorded(t); row.ID != 0 {
			t.Errorf("on record: %+v", row)
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestAChangeThatCannotBeRecordedIsMadeAndSaysSo(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		if _, err := d.db.ExecContext(t.Context(), `DROP TABLE audit`); err != nil {
			t.Fatal(err)
		}
		if err := d.Force(t.Context(), "admin:eve", captchamode.ForcedOn, time.Hour, "drill"); !errors.Is(err, operation.ErrUnrecorded) || !d.w.Mode.On() {
			t.Errorf("%v, on: %v", err, d.w.Mode.On())
		}
		if _, err := d.List(t.Context(), "admin:eve", lists.Request{Verdict: lists.Block, Prefix: netip.PrefixFrom(home, 32)}); !errors.Is(err, operation.ErrUnrecorded) {
			t.Error(err)
		}
		if d.w.Lists.Look(home, d.w.Clock.Now()) != guard.Blocked {
			t.Error("the block is not in force")
		}
	})
}

func TestAChangeIsRecordedAlthoughTheClientHungUp(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		gone, hangUp := context.WithCancel(t.Context())
		hangUp()
		if err := d.Force(gone, "admin:eve", "auto", 0, "done"); err != nil {
			t.Fatal(err)
		}
		if row := d.recorded(t); row.Decision != "captcha-auto" || row.Who != "admin:eve" || row.Detail != "done" {
			t.Errorf("on record: %+v", row)
		}
	})
}

func TestWhatOthersListedIsInForceAfterAReload(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		_, err := d.listings.Add(t.Context(), lists.Request{Prefix: netip.PrefixFrom(home, 32), Verdict: lists.Block}, d.w.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		if d.w.Lists.Look(home, d.w.Clock.Now()) != guard.NotListed {
			t.Error("known already")
		}
		if err := d.changes.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d.w.Lists.Look(home, d.w.Clock.Now()) != guard.Blocked {
			t.Error("not in force after Reload")
		}
	})
}

func TestAServerThatCannotReadItsListsSaysSo(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		d.db.Close()
		if err := d.changes.Poll(t.Context()); err == nil {
			t.Error("no error")
		}
	})
}

func TestListsThatCannotBeReadForLongAreWarnedOf(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		if err := d.changes.Poll(t.Context()); err != nil || len(d.Overview(t.Context()).Warnings) != 0 {
			t.Fatal("a warning too early")
		}
		d.w.Clock.Advance(11 * time.Second)
		if got := d.Overview(t.Context()).Warnings; len(got) != 1 || got[0].Code != "lists-stale" {
			t.Errorf("%+v", got)
		}
	})
}

func TestAForgottenProxyIsWarnedOfWithItsSetting(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		for address, setting := range map[string]string{"10.0.0.1": "trusted_proxies: [10.0.0.1]", "fd00::1": `trusted_proxies: ["fd00::1"]`} {
			d := newDesk(t, db)
			for i := range 12 {
				a := guard.Attempt{Account: "user" + string(rune('a'+i)), Address: netip.MustParseAddr(address), Forwarded: true, Integration: "test"}
				if _, ok := d.w.Try(t, a, "right"); !ok {
					t.Fatal("not let in")
				}
			}
			got := d.Overview(t.Context()).Warnings
			if len(got) != 1 || got[0].Code != "unconfigured-proxy" || got[0].Setting != setting {
				t.Errorf("%+v", got)
			}
		}
	})
}

func TestExplainSaysItInWords(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		d.user(t, "ann", "ann@example.org")
		d.w.Right(t, "ann", home.String())
		says := func(account string, address netip.Addr, open bool, parts ...string) {
			t.Helper()
			e, err := d.Explain(t.Context(), account, address)
			text := strings.Join(e.Text(), "\n")
			if err != nil || e.Open() != open {
				t.Errorf("open: %v, %v", e.Open(), err)
			}
			for _, part := range parts {
				if !strings.Contains(text, part) {
					t.Errorf("%q is not in:\n%s", part, text)
				}
			}
		}
		says("ann@example.org", home, true, "would proceed to the password check", "the client is a known client of this account")
		says("nobody", home, true, "no account of this name", "the address is an unknown client for this account")
		for range 5 {
			d.w.Wrong(t, "ann", "198.51.100.1")
			d.w.Clock.Advance(time.Minute)
		}
		says("ann", netip.Addr{}, false, "solve a CAPTCHA", "5 failed logins within 24 hours")
		says("ann", home, true)
		if _, err := d.List(t.Context(), "admin:eve", lists.Request{Verdict: lists.Block, Prefix: netip.PrefixFrom(home, 32)}); err != nil {
			t.Fatal(err)
		}
		says("ann", home, false, "blocked", "an administrator blocked this address")
		if err := d.Disable(t.Context(), "admin:eve", "ann"); err != nil {
			t.Fatal(err)
		}
		says("ann", netip.Addr{}, false, "the account is disabled")
	})
}

func TestTheOverviewSaysWhatTheNextAttemptGets(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		for range 6 {
			d.w.Wrong(t, "ann", home.String())
			d.w.Clock.Advance(time.Minute)
		}
		d.tops.Handle(d.w.Events())
		o := d.Overview(t.Context())
		if len(o.Accounts) != 1 || o.Accounts[0].Failures != 5 || o.Accounts[0].Stopped != 1 || o.Accounts[0].Next != "challenge" {
			t.Errorf("accounts: %+v", o.Accounts)
		}
		if len(o.Addresses) != 1 || o.Addresses[0].Name != home.String() || o.Addresses[0].Next != "proceed" {
			t.Errorf("addresses: %+v", o.Addresses)
		}
		if err := d.Unlock(t.Context(), "admin:eve", "ann", netip.Addr{}); err != nil {
			t.Fatal(err)
		}
		if got := d.Overview(t.Context()).Accounts[0].Next; got != "proceed" {
			t.Errorf("after unlocking: %v", got)
		}
	})
}

func TestAnImportIsAllOrNothingAndOnRecord(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		file := "username,password\nann,long enough\nbob,short-but-ok\n"
		read := func(file string) (operation.Change, error) {
			return d.do(t.Context(), "cli:root", accounts.ImportUsers{ImportRequest: accounts.ImportRequest{File: strings.NewReader(file), Format: accounts.CSV}})
		}
		if _, err := read(file); err != nil || d.recorded(t).Detail != "2 accounts" {
			t.Error(err)
		}
		bad := new(accounts.ImportError)
		_, err := read(file + "cid,long enough\n")
		if !errors.As(err, &bad) || len(bad.Problems) != 2 {
			t.Error(err)
		}
		if p, err := d.AccountsOf(t.Context(), control.AccountsQuery{After: "ann"}); err != nil || len(p.All) != 1 || p.All[0].Username != "bob" {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// Ensure that a network that is full is free again once it is unlocked, on record with the
// reason, and that the addresses in it keep what they did.
func TestANetworkIsUnlocked(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"198.51.100.%d", "2001:db8:1:%d::1"} {
		d := newDesk(t, databasetest.SQLite(t))
		if err := d.Force(t.Context(), "admin:eve", captchamode.ForcedOff, time.Hour, "its limits alone"); err != nil {
			t.Fatal(err)
		}
		for i := range 60 {
			d.w.Wrong(t, fmt.Sprint("someone", i), fmt.Sprintf(address, i))
		}
		fresh := netip.MustParseAddr(fmt.Sprintf(address, 99))
		at := func(address netip.Addr, subject guard.SubjectKind) (used int, full bool) {
			t.Helper()
			e, err := d.Explain(t.Context(), "", address)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range e.Lines {
				if line.Subject == subject {
					used, full = max(used, line.Used), full || line.Full
				}
			}
			return used, full
		}
		if used, full := at(fresh, guard.OnNetwork); used < 60 || !full {
			t.Fatalf("%d, full %t", used, full)
		}
		_, network := events.PrefixesOf(fresh)
		if err := d.UnlockNetwork(t.Context(), "admin:eve", network, "a school"); err != nil {
			t.Fatal(err)
		}
		if used, full := at(fresh, guard.OnNetwork); used != 0 || full {
			t.Errorf("%d after it was unlocked, full %t", used, full)
		}
		if used, _ := at(netip.MustParseAddr(fmt.Sprintf(address, 1)), guard.OnAddress); used != 1 {
			t.Errorf("an address in it has %d", used)
		}
		if row := d.recorded(t); row.Decision != "unlock" || row.Address != network.String() || row.Detail != "a school" {
			t.Errorf("%+v", row)
		}
		if err := d.UnlockNetwork(t.Context(), "admin:eve", netip.PrefixFrom(fresh, 20), ""); !errors.Is(err, operation.ErrAsked) {
			t.Error(err)
		}
	}
}
