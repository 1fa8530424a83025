package control_test

import (
	"database/sql"
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
			"admin-add":         control.AddAdministrator{OfAdministrator: operation.OfAdministrator{Username: "bob"}, Explained: why},
			"admin-passwd":      control.ReplacePassword{OfAdministrator: operation.OfAdministrator{Username: "ann"}, Explained: why},
			"user-ask-password": control.AskPassword{OfAccount: operation.OfAccount{Username: "zoe"}},
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
