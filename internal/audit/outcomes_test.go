package audit

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/database/databasetest"
	"authguard/internal/sqltx"
)

func failure(account string, at time.Time) guard.Event {
	e := success(account)
	e.At, e.Outcome = at, guard.Failed
	return e
}

// Ensure that an account's outcomes are its own, of its realm, and that what stopped it
// is none.
func TestOutcomesAreThoseOfOneAccount(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		device := success("alice")
		device.At, device.Known, device.AtDevice = noon.Add(-time.Hour), true, true
		elsewhere := failure("alice", noon.Add(time.Hour))
		elsewhere.Realm = "shop"
		l.Handle([]guard.Event{
			device, success("alice"), failure("alice", noon), failure("alice", noon.Add(2*time.Second)),
			refusal("alice"), success("bob"), failure("alicia", noon), failure(`<b>`, noon), elsewhere,
		})
		drain(l)
		l.Handle([]guard.Event{failure("alice", noon.Add(-25*time.Hour))})
		drain(l)
		o, err := l.Outcome(t.Context(), "", "alice", noon.Add(-24*time.Hour))
		if err != nil || !o.LastLogin.Equal(noon) || !o.LastFailure.Equal(noon.Add(2*time.Second)) || o.Failures != 2 {
			t.Errorf("%+v, %v", o, err)
		}
		if o, err := l.Outcome(t.Context(), "", "nobody", noon); err != nil || o != (Outcome{}) {
			t.Errorf("of nobody: %+v, %v", o, err)
		}
		rows, err := l.Successes(t.Context(), "", "alice")
		if err != nil || len(rows) != 2 || rows[0].AtDevice() || !rows[1].AtDevice() {
			t.Errorf("%+v, %v", rows, err)
		}
		for _, c := range []struct {
			prefix, after string
			failed        bool
			want          []string
		}{
			{"", "", false, []string{"alice", "bob"}},
			{"", "", true, []string{"<b>", "alice", "alicia", "bob"}},
			{"ali", "", true, []string{"alice", "alicia"}},
			{"ali", "alice", true, []string{"alicia"}},
			{"", "alicia", true, []string{"bob"}},
			{"ali", "a", false, []string{"alice"}},
			{"z", "", true, nil},
		} {
			got, err := l.Names(t.Context(), "", c.prefix, c.after, c.failed, 10)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%+v: %q, %v", c, got, err)
			}
		}
		if got, _ := l.Names(t.Context(), "", "", "", true, 2); len(got) != 2 {
			t.Errorf("a page of two has %q", got)
		}
		if got, _ := l.Names(t.Context(), "shop", "", "", true, 9); !slices.Equal(got, []string{"alice"}) {
			t.Errorf("of the other realm: %q", got)
		}
	})
}

// Ensure that no question about one account reads the rows of others, or those of what
// was stopped: an attack may have left millions.
func TestQuestionsAboutAnAccountReadAnIndex(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		for _, c := range []struct {
			query, index string
			args         []any
		}{
			{succeededOf, "audit_succeeded", []any{"default", "alice", 10}},
			{lastQuery(), "audit_failed", []any{"default", "alice"}},
			{outcomeOf, "audit_failed", []any{"default", "alice", 0, 10}},
			{`SELECT ` + fmt.Sprintf(nextOf, "failed", ">"), "audit_failed", []any{"default", "alice"}},
		} {
			plan := planOf(t, l.db, c.query, c.args)
			if !strings.Contains(plan, c.index) || strings.Contains(plan, "SCAN audit\n") || strings.Contains(plan, "Seq Scan") {
				t.Errorf("%s\n%s", c.query, plan)
			}
		}
	})
}

// planOf is how a database would answer a query.
func planOf(t *testing.T, db *sql.DB, query string, args []any) string {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	explain := "EXPLAIN QUERY PLAN "
	if _, err := tx.ExecContext(t.Context(), "SET LOCAL enable_seqscan = off"); err == nil { // the table is empty
		explain = "EXPLAIN "
	} else if strings.Contains(err.Error(), "SQLSTATE") {
		t.Fatal(err)
	}
	var plan strings.Builder
	err = sqltx.Each(t.Context(), tx, func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(sql.NullString)
		}
		if err == nil {
			err = rows.Scan(values...)
		}
		plan.WriteString(values[len(values)-1].(*sql.NullString).String + "\n")
		return err
	}, explain+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
