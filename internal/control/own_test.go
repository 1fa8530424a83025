package control_test

import (
	"bytes"
	"database/sql"
	"log/slog"
	"strings"
	"testing"

	"authguard/internal/alerts"
	"authguard/internal/control"
	"authguard/internal/database/databasetest"
	"authguard/trusted"
)

// An owner's word closes the account where authguard keeps it; where another program does,
// it ends what authguard knows of it.
func TestNotMeClosesWhatIsKeptHereAndForgetsTheRest(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		var raised bytes.Buffer
		d := newDeskWith(t, db, func(c *control.Config) {
			var err error
			c.Alerts, err = alerts.New(alerts.Config{PerHour: 1}, alerts.Store{DB: db, Alone: true, Now: c.Now}, slog.New(slog.NewTextHandler(&raised, nil)))
			if err != nil {
				t.Fatal(err)
			}
		})
		d.user(t, "ann", "")
		for _, one := range []struct {
			name, password string
			version        int64
			must, needs    bool
		}{{"ann", "", 0, true, true}, {"ann", "battery staple", 2, false, false}, {"kept elsewhere", "", 0, false, false}} {
			d.w.Right(t, one.name, "192.0.2.1")
			denial := control.Denial{Who: "user:" + one.name, Account: one.name, Password: one.password, Version: one.version, What: "the login of noon"}
			if err := d.NotMe(t.Context(), denial); err != nil {
				t.Fatal(err)
			}
			if d.w.Status(t, one.name, "192.0.2.1") != trusted.Stranger {
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
			if l := d.lookUp(t, one.name, ""); l.Account.NeedsCode != one.needs || one.needs != strings.Contains(l.Said, "one-time code beside it") {
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
		if err := d.AskNewPassword(t.Context(), "admin:eve", "ann", ""); err == nil || !strings.Contains(err.Error(), "change its password there") {
			t.Error(err)
		}
	})
}
