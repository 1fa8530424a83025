package control_test

import (
	"database/sql"
	"reflect"
	"strings"
	"testing"

	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/database/databasetest"
	"authguard/internal/operation"
)

// A change is recorded even if the sessions or tokens that it ends could not be ended: the role or password has changed.
func TestAnIncompleteChangeIsRecorded(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		for name, role := range map[string]accounts.Role{"bob": accounts.User, "ann": accounts.Admin, "zoe": accounts.Admin} {
			if _, err := d.accounts.Add(t.Context(), accounts.Addition{Username: name, Password: "long enough", Role: role}); err != nil {
				t.Fatal(err)
			}
		}
		for _, broken := range []string{`ALTER TABLE sessions RENAME TO gone_sessions`, `ALTER TABLE api_tokens RENAME TO gone_tokens`} {
			if _, err := d.db.ExecContext(t.Context(), broken); err != nil {
				t.Fatal(err)
			}
		}
		why := operation.Explained{Reason: "drill"}
		for what, q := range map[string]any{
			"admin-add":         accounts.AddAdministrator{OfAdministrator: operation.OfAdministrator{Username: "bob"}, Explained: why},
			"admin-passwd":      accounts.ReplacePassword{OfAdministrator: operation.OfAdministrator{Username: "ann"}, Explained: why},
			"user-ask-password": accounts.AskPassword{OfAccount: operation.OfAccount{Username: "zoe"}},
		} {
			if _, err := d.Do(t.Context(), operation.By{Who: "admin:eve", Fresh: true}, q); err == nil || !strings.Contains(err.Error(), "repeat it") {
				t.Errorf("%s: %v", what, err)
			}
			if row := d.recorded(t); row.Decision != what || row.Who != "admin:eve" {
				t.Errorf("%s: on record: %+v", what, row)
			}
		}
	})
}

// Every request of the table reaches the part of the realm that it changes, and what it requires of its sender is
// checked.
func TestEveryRequestOfTheTableHasAPart(t *testing.T) {
	t.Parallel()
	d := newDesk(t, databasetest.SQLite(t))
	for _, o := range control.Operations() {
		_, may := reflect.TypeOf(o.Request()).MethodByName("May")
		if _, checked := o.Request().(operation.Checked); may && !checked {
			t.Errorf("%s: its method May is not called", o.Name)
		}
		o.Reason = ""
		_, err := d.Operate(t.Context(), o, operation.By{Who: "admin:eve", Fresh: true}, o.Request())
		if err != nil && strings.Contains(err.Error(), "no part of a realm") {
			t.Errorf("%s: %v", o.Name, err)
		}
	}
	if _, err := d.Operate(t.Context(), control.Operation{}, operation.By{Who: "x"}, new(struct{})); err == nil {
		t.Error("a request without a part was accepted")
	}
}
