package audit

import (
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/database/databasetest"
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
	})
}
