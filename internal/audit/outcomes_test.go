package audit

import (
	"net/netip"
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

func TestFailuresBeyondTheLimitOfRowsAreALowerBound(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		rows := make([]Row, MostFailures+10)
		for i := range rows {
			rows[i] = Row{At: noon, Realm: "default", Kind: KindAttempt, Decision: "failed", Account: "alice", Count: 2}
		}
		rows[0].At, rows[1].Account = noon.Add(-time.Hour), "bob"
		rows[2].At, rows[2].Detail = noon.Add(time.Minute), "login"+summedUp
		if err := l.insert(t.Context(), rows[:10]); err != nil {
			t.Fatal(err)
		}
		if o, err := l.Outcome(t.Context(), "", "alice", noon); err != nil || o.Failures != 16 || o.AtLeast || !o.LastFailure.Equal(rows[2].At) {
			t.Errorf("%+v, %v", o, err)
		}
		if err := l.insert(t.Context(), rows[10:]); err != nil {
			t.Fatal(err)
		}
		if o, err := l.Outcome(t.Context(), "", "alice", noon); err != nil || o.Failures != 2*MostFailures || !o.AtLeast {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

func TestAboutBothIsTheAccountFromTheAddressAndItsOperations(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		l := openLog(t, open, Config{})
		history(t, l)
		address := netip.MustParseAddr("198.51.100.7")
		for name, c := range map[string]struct {
			account string
			address netip.Addr
			want    int
		}{
			"both": {"alice", address, 3}, "account": {"alice", netip.Addr{}, 8}, "IP address": {"", address, 4},
			"both of bob": {"bob", address, 0},
		} {
			if rows, err := l.About(t.Context(), "", c.account, c.address, 10); err != nil || len(rows) != c.want {
				t.Errorf("%s: %d rows, want %d; %v", name, len(rows), c.want, err)
			}
		}
	})
}
