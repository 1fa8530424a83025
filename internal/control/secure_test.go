package control_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/audit"
	"authguard/internal/control"
	"authguard/internal/database/databasetest"
	"authguard/internal/operation"
)

// If the server dies in the middle of a request, the audit log has all accounts that were secured before.
func TestEachSecuredAccountIsRecordedAtOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		var d *desk
		d = newDeskWith(t, db, func(c *control.Config) {
			c.Now = func() time.Time {
				begun := 0
				if err := db.QueryRow(`SELECT COUNT(*) FROM attack_operations WHERE account = 'carl'`).Scan(&begun); err != nil || begun > 0 {
					panic("the server dies")
				}
				return d.w.Clock.Now()
			}
		})
		for _, name := range []string{"ann", "bob", "carl"} {
			d.user(t, name, "")
		}
		d.ended(t, "one", time.Hour, "ann", "bob", "carl")
		func() {
			defer func() { _ = recover() }()
			_, _ = d.do(t.Context(), "admin:eve", accounts.SecureAccounts{ID: "one", What: []string{"sessions", "password"}, Because: because("stolen")})
		}()
		rows, err := d.audit.Recent(t.Context(), audit.Filter{Kind: audit.KindAdmin, Limit: 2})
		if err != nil || len(rows) != 2 {
			t.Fatalf("%+v %v", rows, err)
		}
		for i, name := range []string{"bob", "ann"} {
			if row := rows[i]; row.Account != name || row.Decision != "attack-reset" || row.Who != "admin:eve" ||
				row.Detail != "sessions, password, after the attack one: stolen" {
				t.Errorf("%+v", row)
			}
		}
	})
}

// A forced password change removes all that an attacker may have added with the password: passkeys and API tokens, too.
func TestSecuringAnAccountRemovesPasskeysAndTokens(t *testing.T) {
	t.Parallel()
	d := newDesk(t, databasetest.SQLite(t))
	d.user(t, "bob", "")
	if _, err := d.AddAdministrator(t.Context(), "admin:eve", "ann", "", "on call"); err != nil {
		t.Fatal(err)
	}
	bob, err := d.accounts.Get(t.Context(), "bob")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.db.Exec(`INSERT INTO passkeys (id, account, host, name, data, created_at) VALUES ('k', $1, 'localhost', 'x', '{}', 1)`, bob.ID); err != nil {
		t.Fatal(err)
	}
	asked := accounts.TokenRequest{Realm: "default", Name: "x", Maker: "ann", Scopes: []operation.Scope{operation.Admin}, For: time.Hour}
	if _, _, err := d.config.Tokens.Add(t.Context(), asked, d.w.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	d.ended(t, "one", time.Hour, "ann", "bob")
	for _, name := range []string{"ann", "bob"} {
		if _, err := d.do(t.Context(), "admin:eve", accounts.SecureAccounts{ID: "one", Account: name, Because: because("stolen")}); err != nil {
			t.Fatal(err)
		}
	}
	has, err := d.config.MFA.Of(t.Context(), bob.ID)
	all, failed := d.config.Tokens.All(t.Context())
	if err != nil || failed != nil || len(has.Passkeys) > 0 || len(all) > 0 {
		t.Errorf("%+v %+v %v %v", has, all, err, failed)
	}
}

// With another account source, a compromised user is not the administrator of the same name.
func TestSecuringAUserElsewhereLeavesTheAdministratorOfThatName(t *testing.T) {
	t.Parallel()
	d := newDeskWith(t, databasetest.SQLite(t), func(c *control.Config) { c.Elsewhere, c.Source = "query", directory{} })
	if _, err := d.AddAdministrator(t.Context(), "admin:eve", "ann", "", "on call"); err != nil {
		t.Fatal(err)
	}
	secure := func() accounts.Resetting {
		t.Helper()
		change, err := d.do(t.Context(), "admin:eve", accounts.SecureAccounts{ID: "one", Account: "ann", What: []string{"password"}, Because: because("stolen")})
		if err != nil {
			t.Fatal(err)
		}
		return change.Answer.(accounts.Secured).Accounts[0]
	}
	d.ended(t, "one", time.Hour, "ann")
	one := secure()
	if ann, err := d.accounts.Get(t.Context(), "ann"); err != nil || ann.NeedsCode || len(one.Problems) != 1 || !strings.Contains(one.Problems[0], "accounts.source is query") {
		t.Errorf("%+v %+v %v", one, ann, err)
	}
	if _, err := d.db.Exec(`UPDATE attack_logins SET door = 'admin'`); err != nil {
		t.Fatal(err)
	}
	one = secure()
	if ann, err := d.accounts.Get(t.Context(), "ann"); err != nil || !ann.NeedsCode || len(one.Done) != 1 {
		t.Errorf("%+v %+v %v", one, ann, err)
	}
}
