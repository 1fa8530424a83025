package control_test

import (
	"bytes"
	"database/sql"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/attacks"
	"authguard/internal/control"
	"authguard/internal/database/databasetest"
	"authguard/internal/events"
	"authguard/internal/outbox"
	"authguard/trusted"
)

// An owner's report closes the account where authguard keeps it; where another program does,
// it ends what authguard knows of it.
func TestNotMeClosesWhatIsKeptHereAndForgetsTheRest(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		var raised bytes.Buffer
		d := newDeskWith(t, db, func(c *control.Config) {
			var err error
			c.Alerts, err = alerts.New(alerts.Config{PerHour: 1}, outbox.Store{DB: db, Alone: true, Now: c.Now, Log: slog.New(slog.NewTextHandler(&raised, nil))})
			if err != nil {
				t.Fatal(err)
			}
		})
		d.user(t, "ann", "")
		ann, err := d.accounts.Get(t.Context(), "ann")
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range []struct {
			name, password string
			version        int64
			must, needs    bool
		}{{"ann", "", 0, true, true}, {"ann", "battery staple", ann.Version + 1, false, false}, {"kept elsewhere", "", 0, false, false}} {
			d.w.Right(t, one.name, "192.0.2.1")
			denial := accounts.Denial{Who: "user:" + one.name, Account: one.name, Password: one.password, Version: one.version, What: "the login of noon"}
			if err := d.Accounts.NotMe(t.Context(), denial); err != nil {
				t.Fatal(err)
			}
			if d.w.Status(t, one.name, "192.0.2.1") != trusted.Unknown {
				t.Errorf("%s: the place is known", one.name)
			}
			if row := d.recorded(t); row.Decision != "not-me" || row.Account != one.name || row.Detail != "the login of noon" {
				t.Errorf("%+v", row)
			}
			if said := raised.String(); strings.Count(said, "kind=not-me") != 1 || !strings.Contains(said, one.name) {
				t.Error(said)
			}
			raised.Reset()
			if one.name != "ann" {
				continue
			}
			if a, err := d.accounts.Get(t.Context(), one.name); err != nil || a.MustChange != one.must || a.NeedsCode != one.needs {
				t.Errorf("%+v %v", a, err)
			}
			d.w.Force(t) // what a code lets in through is not what is said first
			if l := d.lookUp(t, one.name, ""); l.Account.NeedsCode != one.needs || one.needs != strings.Contains(l.Said, "with the current password and a verification code") {
				t.Errorf("%s", l.Said)
			}
		}
	})
}

// A new password can be asked for only where authguard keeps it.
func TestANewPasswordIsAskedForWhereItIsKept(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDeskWith(t, db, func(c *control.Config) { c.Elsewhere, c.Source = "query", directory{} })
		if err := d.AskNewPassword(t.Context(), "admin:eve", "ann", ""); err == nil || !strings.Contains(err.Error(), "force the password change there") {
			t.Error(err)
		}
	})
}

// Where another program keeps the people's accounts, what is done to an administrator leaves
// a user of the same name alone, and what an attack on the user costs leaves the administrator.
func TestAnAdministratorIsNotTheUserOfTheSameName(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDeskWith(t, db, func(c *control.Config) { c.Elsewhere, c.Source = "query", directory{} })
		for _, name := range []string{"ann", "mia"} {
			if _, err := d.AddAdministrator(t.Context(), "admin:eve", name, "", "on call"); err != nil {
				t.Fatal(err)
			}
		}
		open := func() {
			for _, door := range []string{"login", "proxy", "admin", "admin_session"} {
				if _, err := db.Exec(`INSERT INTO sessions (token_hash, data, account, realm, door, expires_at) VALUES ($1, '', 'ann', 'default', $2, $3) ON CONFLICT (token_hash) DO UPDATE SET ended_at = 0`,
					door, door, d.w.Clock.Now().Add(time.Hour).UnixMilli()); err != nil {
					t.Fatal(err)
				}
			}
		}
		left := func() (doors []string) {
			all, err := d.sessions.Of(t.Context(), "ann", "")
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range all {
				doors = append(doors, one.Integration)
			}
			slices.Sort(doors)
			return doors
		}
		for what, do := range map[string]func() error{
			"disabling": func() error { return d.Disable(t.Context(), "admin:eve", "ann") },
			"enabling": func() error {
				return second(d.do(t.Context(), "admin:eve", accounts.DisableUser{OfAccount: of("ann"), Enable: true}))
			},
			"a new password": func() error { return d.SetPassword(t.Context(), "admin:eve", "ann", "long enough", true, "") },
			"a replaced one": func() error {
				return second(d.do(t.Context(), "admin:eve", accounts.ReplacePassword{OfAdministrator: admin("ann"), Explained: explained("lost")}))
			},
			"a reset of codes": func() error {
				return second(d.do(t.Context(), "admin:eve", accounts.ResetFactors{OfAdministrator: admin("ann"), Explained: explained("lost")}))
			},
		} {
			open()
			d.w.Right(t, "ann", "192.0.2.1") // the user's place
			if err := do(); err != nil {
				t.Fatal(what, err)
			}
			if doors := left(); !slices.Contains(doors, "login") || !slices.Contains(doors, "proxy") || (what != "enabling") == slices.Contains(doors, "admin") {
				t.Errorf("after %s of the administrator: %v", what, doors)
			}
			if d.w.Status(t, "ann", "192.0.2.1") != trusted.Known {
				t.Errorf("%s of the administrator forgot the user's place", what)
			}
		}
		open()
		see := func(address string, outcome guard.Outcome) {
			d.attacks.Handle([]guard.Event{{At: d.w.Clock.Now(), Integration: "login", Account: "ann", Address: netip.MustParseAddr(address), Action: guard.Proceed, Settled: true, Outcome: outcome, ClientEvent: guard.ClientEvent{NewClient: outcome == guard.Succeeded}}})
		}
		d.attacks.HandleSwitch(events.ModeSwitch{At: d.w.Clock.Now(), Attacked: true})
		see("198.51.100.1", guard.Failed)
		see("198.51.100.2", guard.Succeeded)
		if err := d.attacks.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		all, err := d.Attacks(t.Context(), 1, 1)
		if err != nil || len(all.Attacks) != 1 {
			t.Fatal(all, err)
		}
		if _, err := d.do(t.Context(), "admin:eve", accounts.SecureAccounts{ID: all.Attacks[0].ID, What: []string{attacks.Sessions, attacks.KnownClients}, Because: because("lost")}); err != nil {
			t.Fatal(err)
		}
		if doors := left(); !slices.Equal(doors, []string{"admin", "admin_session"}) || d.w.Status(t, "ann", "192.0.2.1") == trusted.Known {
			t.Errorf("after the reset of the user: %v", doors)
		}
	})
}
