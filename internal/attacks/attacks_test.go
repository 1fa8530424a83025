package attacks

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dchest/siphash"

	"authguard/guard"
	"authguard/internal/database/databasetest"
	"authguard/internal/events"
)

func TestMain(m *testing.M) { databasetest.Main(m) }

// A scene is a recorder, a database and a clock that moves when it is told to.
type scene struct {
	*Recorder
	t        *testing.T
	now      time.Time
	attacked bool
	reports  []string
}

func newScene(t *testing.T, db *sql.DB) *scene {
	t.Helper()
	s := &scene{t: t, now: time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)}
	s.Recorder = s.node(db)
	return s
}

// node is another process over the same database.
func (s *scene) node(db *sql.DB) *Recorder {
	return New(Config{DB: db, Secret: []byte("secret"), Now: func() time.Time { return s.now }, Log: slog.New(slog.DiscardHandler),
		Attacked: func(string) bool { return s.attacked },
		Began:    func(b Beginning) { s.report(b.Attack, "began") },
		Ended: func(e Ending) {
			s.report(e.Attack, map[bool]string{false: "ended", true: "ended silently"}[e.Kind == Site && !e.Alerted])
		}})
}

func (s *scene) report(a Attack, what string) {
	s.reports = append(s.reports, fmt.Sprintf("%s %s: %d %s", a.Kind, a.Subject, a.Attempts, what))
}

// on has a node see an attempt.
func (s *scene) on(r *Recorder, account, address string, change ...func(*guard.Event)) {
	e := guard.Event{At: s.now, Account: account, Address: netip.MustParseAddr(address), Action: guard.Proceed, Settled: true, Outcome: guard.Failed, Integration: "login"}
	for _, c := range change {
		c(&e)
	}
	r.Handle([]guard.Event{e})
}

func (s *scene) fails(account, address string, change ...func(*guard.Event)) {
	s.on(s.Recorder, account, address, change...)
}

func right(e *guard.Event) { e.Outcome, e.NewClient = guard.Succeeded, true }
func challenged(e *guard.Event) {
	e.Settled, e.Action = false, guard.Challenge
}
func sprayed(e *guard.Event) { e.Sprayed, e.Guess = true, 1<<24|7 }

func (s *scene) turns(r *Recorder, attacked bool) {
	s.attacked = attacked
	r.HandleSwitch(events.ModeSwitch{At: s.now, Attacked: attacked})
}

func (s *scene) flush(all ...*Recorder) {
	s.t.Helper()
	for _, r := range append([]*Recorder{s.Recorder}, all...) {
		if err := r.Flush(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *scene) list(want int) []Attack {
	s.t.Helper()
	all, err := s.List(s.t.Context(), guard.DefaultRealm, 0, 100)
	if err != nil || len(all) != want {
		s.t.Fatalf("%d attacks, want %d (%v): %+v", len(all), want, err, all)
	}
	return all
}

func (s *scene) victims(id string) (lost, strange []string) {
	s.t.Helper()
	all, err := s.Victims(s.t.Context(), guard.DefaultRealm, id)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, v := range all {
		text := v.Account
		for _, l := range v.Logins {
			text += fmt.Sprintf(" %s%v", l.Address, l.Why)
		}
		if v.Lost {
			lost = append(lost, text)
		} else {
			strange = append(strange, text)
		}
	}
	return lost, strange
}

func same[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// botnet is one wrong password at each of n accounts, each from an address of its own, ten
// a second.
func (s *scene) botnet(r *Recorder, first, n int, change ...func(*guard.Event)) {
	for i := first; i < first+n; i++ {
		s.on(r, fmt.Sprint("user", i), netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String(), change...)
		if i%10 == 9 {
			s.now = s.now.Add(time.Second)
		}
	}
}

// Measured before: two owners who had signed in from a new client before the first wrong password were listed as
// possibly compromised.
func TestASignInBeforeTheFirstWrongPasswordIsNotSuspicious(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := newScene(t, db)
		s.fails("bob", "198.51.100.7", right)
		s.now = s.now.Add(8 * time.Second)
		s.fails("bob", "192.0.2.66")
		s.fails("carol", "192.0.2.66")
		s.fails("carol", "198.51.100.9", right)
		s.botnet(s.Recorder, 0, 600)
		s.turns(s.Recorder, true)
		s.flush()
		id := s.list(1)[0].ID
		lost, strange := s.victims(id)
		same(t, "possibly compromised", lost, []string{"carol 198.51.100.9[failures]"})
		same(t, "new clients", strange, []string{"bob 198.51.100.7[]"})
	})
}

// Measured before: an owner whom support had let in with a verification code was listed as possibly compromised.
func TestALoginWithAVerificationCodeIsNotSuspicious(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := newScene(t, db)
		code := func(e *guard.Event) { e.Reasons = guard.Reasons{{Cause: guard.CodeAccepted}} }
		for _, account := range []string{"alice", "bob", "carol"} {
			s.fails(account, "192.0.2.66")
		}
		s.botnet(s.Recorder, 0, 600)
		s.turns(s.Recorder, true)
		s.fails("alice", "198.51.100.1", right, code, sprayed, func(e *guard.Event) { e.AccountFailures = fewFailures })
		s.fails("bob", "198.51.100.2", right)
		s.fails("carol", "192.0.2.66", right, code) // someone was talked into a code for the attacker
		s.flush()
		lost, strange := s.victims(s.list(1)[0].ID)
		same(t, "possibly compromised", lost, []string{"bob 198.51.100.2[failures]", "carol 192.0.2.66[guessing-address]"})
		same(t, "new clients", strange, []string{"alice 198.51.100.1[]"})
	})
}

func TestAnAttackOnTheSiteIsKeptWithWhoWasLost(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := newScene(t, db)
		s.fails("early", "192.0.2.99") // a quarter of an hour ago: no part of it
		s.now = s.now.Add(15 * time.Minute)
		began := s.now
		s.botnet(s.Recorder, 0, 600)
		s.fails("bob", "198.51.100.1")
		s.fails("bob", "198.51.100.2", right) // before anybody knows that this is an attack
		s.turns(s.Recorder, true)
		s.flush()
		if a := s.list(1)[0]; a.Kind != Site || !a.Running() || !a.Began.Equal(began) || a.Attempts != 601 {
			t.Errorf("while it runs: %+v", a)
		}
		s.botnet(s.Recorder, 600, 300, challenged)
		s.fails("ann", "198.51.100.3")
		s.fails("ann", "198.51.100.3", right) // who mistyped
		s.fails("carl", "198.51.100.4", right)
		s.fails("dora", "198.51.100.5", right) // a right guess, and then the address guesses on
		s.fails("emil", "198.51.100.5")
		s.fails("fred", "198.51.100.6", right, func(e *guard.Event) { e.AccountFailures = 5 })
		s.fails("gina", "198.51.100.7", right, func(e *guard.Event) { e.NewClient = false })
		s.now = s.now.Add(time.Hour)
		s.turns(s.Recorder, false)
		s.flush()
		a := s.list(1)[0]
		if a.Running() || !a.Ended.Equal(s.now) || a.Failed != 603 || a.Challenged != 300 || a.Attempts != 903 || a.Succeeded != 5 {
			t.Errorf("%+v", a)
		}
		if a.Peak.Attempts != 600 || !a.Peak.At.Equal(began) {
			t.Errorf("the busiest minute: %+v", a.Peak)
		}
		if a.Addresses < 890 || a.Addresses > 903 || a.Accounts < 890 || a.Networks < 4 || a.Networks > 8 || a.TopAddresses[0].Attempts != 1 || len(a.TopNetworks) == 0 {
			t.Errorf("%d addresses, %d accounts, %d networks, %+v", a.Addresses, a.Accounts, a.Networks, a.TopAddresses)
		}
		same(t, "shapes", a.Shapes, []string{Stuffing, Botnet})
		lost, strange := s.victims(a.ID)
		same(t, "lost", lost, []string{"bob 198.51.100.2[failures]", "dora 198.51.100.5[guessing-address]", "fred 198.51.100.6[failures]"})
		same(t, "strange", strange, []string{"ann 198.51.100.3[]", "carl 198.51.100.4[]"})
		if a.Lost != 3 || a.Strange != 2 || a.Open != 3 {
			t.Errorf("%d lost, %d strange, %d open", a.Lost, a.Strange, a.Open)
		}
		s.now = s.now.Add(time.Minute)
		s.flush() // sums up
		b := s.list(1)[0]
		if b.Attempts != a.Attempts || b.Addresses != a.Addresses || b.Peak.Attempts != 600 || !slices.Equal(b.Shapes, a.Shapes) {
			t.Errorf("summed up: %+v", b)
		}
		if n := 0; db.QueryRow(`SELECT COUNT(*) FROM attack_parts`).Scan(&n) != nil || n != 0 {
			t.Errorf("%d parts are left", n)
		}
	})
}

func TestWhatWasDoneIsShownUntilTheNextLogin(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := newScene(t, db)
		s.turns(s.Recorder, true)
		taken := func() {
			s.fails("bob", "198.51.100.1")
			s.fails("bob", "198.51.100.2", right)
		}
		taken()
		s.flush()
		id := s.list(1)[0].ID
		done := func() (all []string) {
			victims, err := s.Victims(t.Context(), guard.DefaultRealm, id)
			if err != nil || len(victims) != 1 {
				t.Fatal(victims, err)
			}
			for _, d := range victims[0].Done {
				all = append(all, d.What+" by "+d.Who+": "+d.Why)
			}
			return all
		}
		s.now = s.now.Add(time.Second)
		for _, what := range Resets() {
			same(t, "open", []int{s.list(1)[0].Open}, []int{1})
			if err := s.Done(t.Context(), guard.DefaultRealm, "bob", Reset{what, s.now, "admin:eve", "a\x00b"}); err != nil {
				t.Fatal(err)
			}
		}
		same(t, "done", done(), []string{"sessions by admin:eve: a\uFFFDb", "known-clients by admin:eve: a\uFFFDb", "password by admin:eve: a\uFFFDb"})
		same(t, "open", []int{s.list(1)[0].Open}, []int{0})
		s.now = s.now.Add(time.Second)
		taken()
		s.flush()
		same(t, "done before the last login", done(), nil)
		same(t, "open again", []int{s.list(1)[0].Open}, []int{1})
	})
}

func TestAnAttackGoesOnAcrossARestartAndIsClosedHonestly(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := newScene(t, db)
		s.turns(s.Recorder, true)
		s.botnet(s.Recorder, 0, 100)
		s.flush()
		before := s.list(1)[0]
		s.Recorder = s.node(db) // kill -9
		s.flush()
		if running := s.Running(""); len(running) != 1 || running[0].ID != before.ID {
			t.Fatalf("after the restart: %+v", running)
		}
		s.botnet(s.Recorder, 50, 100)
		s.flush()
		if a := s.list(1)[0]; a.ID != before.ID || a.Attempts != 200 || a.Accounts < 145 || a.Accounts > 155 {
			t.Errorf("it went on as %+v", a)
		}
		last := s.list(1)[0].Last
		s.Recorder, s.attacked = s.node(db), false // stopped for so long that the mode has calmed down
		s.flush()
		s.now = s.now.Add(lookBack)
		s.Tick(s.now)
		s.now = s.now.Add(calmFor - time.Second)
		s.Tick(s.now)
		if len(s.Running("")) != 1 {
			t.Error("it is over too soon")
		}
		s.now = s.now.Add(time.Second)
		s.Tick(s.now)
		s.flush()
		if a := s.list(1)[0]; a.Running() || !a.Ended.Equal(last) {
			t.Errorf("ended %v, the last attempt was %v", a.Ended, last)
		}
	})
}

func TestSeveralNodesSeeOneAttack(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := newScene(t, db)
		other, third := s.node(db), s.node(db)
		s.botnet(other, 0, 100) // what led to it
		s.turns(s.Recorder, true)
		other.HandleSwitch(events.ModeSwitch{At: s.now.Add(time.Second), Attacked: true}) // both find it out
		s.botnet(s.Recorder, 0, 100)
		s.flush(other, third, other)
		s.botnet(other, 100, 100)
		s.on(third, "bob", "198.51.100.1")
		s.on(third, "bob", "198.51.100.2", right)
		s.flush(other, third)
		a := s.list(1)[0]
		if a.Attempts != 301 || a.Accounts < 195 || a.Accounts > 207 || a.Lost != 1 {
			t.Errorf("%+v", a)
		}
		for _, r := range []*Recorder{s.Recorder, other, third} {
			if running := r.Running(""); len(running) != 1 || running[0].ID != a.ID {
				t.Errorf("a node has %+v", running)
			}
		}
		s.now = s.now.Add(time.Minute)
		s.turns(s.Recorder, false)
		s.flush(other, third)
		if len(other.Running("")) != 0 || len(third.Running("")) != 0 || !s.list(1)[0].Ended.Equal(s.now) {
			t.Error("it goes on elsewhere")
		}
		s.now = s.now.Add(time.Hour)
		s.flush(other, third)
		if b := s.list(1)[0]; b.Attempts != 301 || b.Accounts != a.Accounts || b.Ended.Equal(s.now) {
			t.Errorf("summed up: %+v", b)
		}
	})
}

// full is an attempt that a full limit of a subject stops.
func full(subject guard.SubjectKind) func(*guard.Event) {
	return func(e *guard.Event) {
		challenged(e)
		e.AccountFailures = 5
		e.Reasons = guard.Reasons{{Cause: guard.LimitReached, Subject: subject,
			Limit: &guard.Limit{Failures: 5, Window: 24 * time.Hour, Action: guard.Challenge}}}
	}
}

func TestAttacksThatAreNotOnTheWholeSite(t *testing.T) {
	t.Parallel()
	db := databasetest.SQLite(t)
	s := newScene(t, db)
	began := s.now
	for i := range 5 {
		s.fails("bob", fmt.Sprintf("198.51.100.%d", i))
		s.fails("cron", "192.0.2.1", full(guard.OnAccount), func(e *guard.Event) { e.Repeat = true }) // an old password in a script
		s.fails("home", "192.0.2.2", full(guard.OnAccount), func(e *guard.Event) { e.Known = true })  // a known client
		s.fails("crowded", "192.0.2.3", full(guard.OnAccount), func(e *guard.Event) { e.AccountFailures = 1 })
		s.now = s.now.Add(time.Minute)
	}
	if len(s.Running("")) != 0 {
		t.Fatalf("%+v", s.Running(""))
	}
	s.fails("bob", "198.51.100.200", full(guard.OnAccount))
	for i := range 10 {
		s.fails(fmt.Sprint("u", i), "2001:db8::1:"+fmt.Sprint(i))
	}
	s.fails("u", "2001:db8::1", full(guard.OnAddress))
	for i := range 20 { // a school
		s.fails(fmt.Sprint("pupil", i), "203.0.113.1", func(e *guard.Event) { e.Outcome = guard.Succeeded })
		s.fails(fmt.Sprint("pupil", i), "203.0.113.1", full(guard.OnAddress))
	}
	for i := range 12 {
		s.fails(fmt.Sprint("s", i), fmt.Sprintf("203.0.113.%d", 10+i), sprayed)
	}
	s.fails("s3", "203.0.113.13", right, sprayed)
	s.fails("bob", "198.51.100.7", right)
	s.fails("u5", "2001:db8::9", right)
	s.fails("someone", "192.0.2.77", right)
	s.flush()
	all := map[string]Attack{}
	for _, a := range s.list(3) {
		all[a.Kind] = a
	}
	if a := all[Account]; a.Subject != "bob" || a.Attempts != 6 || !a.Began.Equal(began) || !slices.Equal(a.Shapes, []string{OneAccount}) {
		t.Errorf("%+v", a)
	}
	if a := all[Address]; a.Subject != "2001:db8::/64" || a.Attempts != 11 || a.Addresses != 1 || !slices.Equal(a.Shapes, []string{OneAddress}) {
		t.Errorf("%+v", a)
	}
	if a := all[Spray]; a.Attempts != 12 || a.Sprayed != 12 || a.Passwords != 1 || !slices.Equal(a.Shapes, []string{Spraying}) {
		t.Errorf("%+v", a)
	}
	for kind, want := range map[string]string{Account: "bob 198.51.100.7[failures guessing-address]", Address: "u5 2001:db8::9[failures guessing-address]", Spray: "s3 203.0.113.13[sprayed-password]"} {
		if lost, _ := s.victims(all[kind].ID); !slices.ContainsFunc(lost, func(l string) bool {
			return strings.HasPrefix(l, strings.Fields(want)[0]+" "+strings.Fields(want)[1][:9])
		}) {
			t.Errorf("%s: %v", kind, lost)
		}
	}
	last := s.now
	s.now = s.now.Add(quietAfter)
	s.Tick(s.now)
	s.flush()
	for _, a := range s.list(3) {
		if a.Running() != (a.Kind == Spray) || !a.Running() && !a.Ended.Equal(last) {
			t.Errorf("half an hour later: %+v", a)
		}
	}
	s.turns(s.Recorder, true)
	s.flush()
	four := s.list(4)
	if site := four[0]; site.Kind != Site || !slices.ContainsFunc(four, func(a Attack) bool { return a.Kind == Spray && a.PartOf == site.ID && !a.Running() }) {
		t.Errorf("the spraying went on as none: %+v", four)
	}
}

func TestADeadDatabaseLosesNoAttack(t *testing.T) {
	t.Parallel()
	db := databasetest.SQLite(t)
	s := newScene(t, db)
	dead, err := sql.Open("sqlite", "/nowhere/at/all")
	if err != nil {
		t.Fatal(err)
	}
	s.config.DB = dead
	s.turns(s.Recorder, true)
	s.botnet(s.Recorder, 0, 100)
	s.fails("bob", "198.51.100.1")
	s.fails("bob", "198.51.100.2", right)
	if s.Flush(t.Context()) == nil {
		t.Fatal("the database is not dead")
	}
	s.turns(s.Recorder, false)
	s.now = s.now.Add(time.Minute)
	s.turns(s.Recorder, true) // the next one
	s.botnet(s.Recorder, 200, 30)
	if s.Flush(t.Context()) == nil {
		t.Fatal("the database is not dead")
	}
	s.config.DB = db
	s.flush()
	s.flush()
	all := s.list(2)
	if all[0].Attempts != 30 || !all[0].Running() || all[1].Attempts != 101 || all[1].Running() || all[1].Lost != 1 {
		t.Errorf("%+v", all)
	}
	if len(s.over) != 0 {
		t.Errorf("%d still wait", len(s.over))
	}
}

func TestRealmsHaveAttacksOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newScene(t, databasetest.SQLite(t))
	shop := func(e *guard.Event) { e.Realm = "shop" }
	s.botnet(s.Recorder, 0, 30, shop)
	s.HandleSwitch(events.ModeSwitch{At: s.now, Realm: "shop", Attacked: true})
	s.fails("bob", "198.51.100.1")
	s.fails("bob", "198.51.100.2", right)
	s.flush()
	s.list(0)
	all, err := s.List(t.Context(), "shop", 0, 10)
	if err != nil || len(all) != 1 || all[0].Attempts != 30 || all[0].Lost != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := s.Get(t.Context(), guard.DefaultRealm, all[0].ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("another realm's: %v", err)
	}
	s.Forget("shop")
	s.flush()
	if a, err := s.Get(t.Context(), "shop", all[0].ID); err != nil || a.Running() {
		t.Errorf("of a realm that is no more: %+v, %v", a, err)
	}
}

func TestOldAttacksGoAndThoseWithLostAccountsLast(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := newScene(t, db)
		add := func(id string, began time.Time, lost bool) {
			t.Helper()
			at := began.UnixMilli()
			_, err := db.Exec(`INSERT INTO attacks (id, realm, kind, subject, began_at, last_at, ended_at) VALUES ($1, 'default', 'account', $1, $2, $2, $2)`, id, at)
			if err == nil && lost {
				_, err = db.Exec(`INSERT INTO attack_logins (attack, account, address, why, first_at, last_at) VALUES ($1, 'bob', '192.0.2.1', 'failures', $2, $2)`, id, at)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		add("ancient", s.now.AddDate(-2, 0, 0), true)
		add("lost", s.now.Add(-48*time.Hour), true)
		if _, err := db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1003)
			INSERT INTO attacks (id, realm, kind, subject, began_at, last_at, ended_at) SELECT 'a' || i, 'default', 'account', '', CAST($1 AS BIGINT) + i, CAST($1 AS BIGINT) + i, CAST($1 AS BIGINT) + i FROM n`, s.now.Add(-24*time.Hour).UnixMilli()); err != nil {
			t.Fatal(err)
		}
		rows, err := s.Purge(t.Context(), s.now.AddDate(-1, 0, 0))
		if err != nil || rows != 4 {
			t.Errorf("%d deleted, want the ancient one and three of the others: %v", rows, err)
		}
		for id, want := range map[string]bool{"ancient": false, "lost": true, "a3": false, "a4": true} {
			if _, err := s.Get(t.Context(), guard.DefaultRealm, id); (err == nil) != want {
				t.Errorf("%s: %v", id, err)
			}
		}
		if n := 0; db.QueryRow(`SELECT COUNT(*) FROM attack_logins`).Scan(&n) != nil || n != 1 {
			t.Errorf("%d logins are left", n)
		}
	})
}

func TestNamesThatStandOutAreToldFromABotnet(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		attempts, names int64
		top             []int64
		loud            int
		left            int64
		scattered       bool
	}{
		{400, 400, []int64{1, 1, 1}, 0, 400, true},
		{1200, 400, []int64{3, 3, 3}, 0, 1200, true},
		{49, 49, []int64{1, 1, 1}, 0, 49, false},
		{2000, 400, []int64{5, 5, 5}, 0, 2000, false},
		{400, 1, []int64{400}, 1, 0, false},
		{201, 102, []int64{100, 1, 1}, 1, 101, true}, // one made half of them
	} {
		var top []Named
		for _, n := range one.top {
			top = append(top, Named{"x", n})
		}
		if loud, left, ok := standOut(one.attempts, one.names, top); loud != one.loud || left != one.left || ok != one.scattered {
			t.Errorf("%+v: %d stand out, %d left, %v", one, loud, left, ok)
		}
	}
}

// failureOf is a wrong password at a time.
func failureOf(account, address string, at time.Time) *guard.Event {
	return &guard.Event{At: at, Account: account, Address: netip.MustParseAddr(address), Settled: true, Outcome: guard.Failed}
}

func newMemory() *memory {
	return &memory{hash: func(name string) uint64 { return siphash.Hash(1, 2, []byte(name)) }}
}

// Who failed is remembered for an hour at least, however the halves of the memory fall, and
// not for ever.
func TestWhoFailedIsRememberedForAnHour(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		first, failed, login time.Duration
		want                 bool
	}{
		{0, 59 * time.Minute, 118 * time.Minute, true}, // of the half before
		{0, time.Minute, 59 * time.Minute, true},
		{0, time.Minute, 3 * time.Hour, false},
	} {
		m := newMemory()
		m.failed(failureOf("else", "192.0.2.1", noon.Add(c.first)))
		m.failed(failureOf("ann", "203.0.113.9", noon.Add(c.failed)))
		m.failed(failureOf("else", "192.0.2.2", noon.Add(c.login)))
		got := m.why(unknownClient{account: "ann", address: "198.51.100.7", at: noon.Add(c.login)})
		if slices.Contains(got, AfterFailures) != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// resumes has a node see that what ended less than a day ago goes on.
func (s *scene) resumes(r *Recorder) {
	s.attacked = true
	r.HandleSwitch(events.ModeSwitch{At: s.now, Attacked: true, Resumed: true})
}

// An attack in pulses has one record a day, with all its pulses: before the parts of the
// last one are summed up, after that, and in another process. Any other start has its own.
func TestAResumedAttackHasOneRecord(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := newScene(t, db)
		pulse := func() {
			s.botnet(s.Recorder, 0, 50)
			s.fails("bob", "198.51.100.1")
			s.now = s.now.Add(5 * time.Minute)
			s.turns(s.Recorder, false)
		}
		began := s.now
		s.turns(s.Recorder, true)
		pulse()
		for i, between := range []func(){
			func() {}, // nothing is written yet
			func() { s.flush() },
			func() { s.flush(); s.now = s.now.Add(time.Hour); s.flush() },
			func() { s.flush(); s.Recorder = s.node(db) },
			func() { s.flush(); s.now = s.now.Add(23 * time.Hour); s.flush(); s.Recorder = s.node(db) },
		} {
			between()
			s.resumes(s.Recorder)
			pulse()
			s.flush()
			a := s.list(1)[0]
			if want := int64(51 * (i + 2)); a.Attempts != want || a.Failed != want || !a.Began.Equal(began) || !a.Ended.Equal(s.now) {
				t.Errorf("resumed %d times: %d attempts, want %d, from %v to %v", i+1, a.Attempts, want, a.Began, a.Ended)
			}
			if a.TopAccounts[0] != (Named{"bob", int64(i + 2)}) || a.Accounts != 51 {
				t.Errorf("resumed %d times: %+v of %d accounts", i+1, a.TopAccounts[0], a.Accounts)
			}
		}
		s.turns(s.Recorder, true) // it was cleared, or is of another level
		pulse()
		s.flush()
		s.list(2)
		s.now = s.now.Add(25 * time.Hour)
		s.flush()
		s.resumes(s.Recorder) // its record has been deleted, or is older than the switch says
		pulse()
		s.flush()
		s.list(3)
	})
}

// Of a resumed attack one node has the switch; the others see that the site is attacked,
// and may be the first to write.
func TestAResumedAttackSpreadOverNodesHasOneRecord(t *testing.T) {
	t.Parallel()
	for first := range 3 {
		databasetest.Each(t, func(t *testing.T, db *sql.DB) {
			s := newScene(t, db)
			nodes := []*Recorder{s.Recorder, s.node(db), s.node(db)}
			flush := func() {
				t.Helper()
				for i := range nodes {
					if err := nodes[(first+i)%3].Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			began := s.now
			s.turns(nodes[0], true)
			var want int64
			for pulse := range 4 {
				if pulse > 0 {
					s.resumes(nodes[0])
				}
				for range 2 { // one is before the others know
					for i, r := range nodes {
						s.botnet(r, 10*i, 10)
						r.Tick(s.now)
						want += 10
					}
					flush()
				}
				s.now = s.now.Add(5 * time.Minute)
				s.turns(nodes[0], false)
				flush()
				flush()
				if pulse == 2 {
					s.now = s.now.Add(time.Hour)
					flush() // sums up
				}
			}
			a := s.list(1)[0]
			if a.Attempts != want || !a.Began.Equal(began) || a.Running() {
				t.Errorf("%d attempts, want %d, from %v to %v", a.Attempts, want, a.Began, a.Ended)
			}
			if a.TopAccounts[0].Attempts != want/30 {
				t.Errorf("%+v, want %d each", a.TopAccounts, want/30)
			}
		})
	}
}

// The node that sees a full limit begins the attack. The record has what all nodes saw of it, is reported once, and is
// continued for a day.
func TestAnAttackSpreadOverNodesIsRecognizedAndReportedOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := newScene(t, db)
		nodes := []*Recorder{s.Recorder, s.node(db), s.node(db)}
		began := s.now
		for i := range 30 {
			s.on(nodes[i%3], "bob", fmt.Sprintf("198.51.%d.%d", i%2, i))
			s.on(nodes[i%3], fmt.Sprint("u", i), "192.0.2.7")
			s.now = s.now.Add(time.Second)
		}
		for _, r := range nodes { // all of them see that the limits are full
			s.on(r, "bob", "198.51.100.9", full(guard.OnAccount))
			s.on(r, "v", "192.0.2.7", full(guard.OnAddress))
		}
		for range 5 {
			s.flush(nodes[1:]...)
			s.now = s.now.Add(writeEvery)
		}
		s.on(nodes[0], "w", "192.0.2.7", right)
		s.flush(nodes[1:]...)
		for _, a := range s.list(2) {
			if a.Attempts != 33 || !a.Began.Equal(began) {
				t.Errorf("%+v", a)
			}
		}
		slices.Sort(s.reports)
		same(t, "reports", s.reports, []string{"account bob: 33 began", "address 192.0.2.7: 33 began"})
		for range 2 { // it ends, and goes on
			s.now = s.now.Add(quietAfter)
			for _, r := range nodes {
				r.Tick(s.now)
			}
			s.flush(nodes[1:]...)
			s.now = s.now.Add(foldAfter + time.Second)
			s.flush(nodes[1:]...)
			s.on(nodes[1], "bob", "198.51.100.9", full(guard.OnAccount))
			s.flush(nodes[1:]...)
		}
		if a := s.list(2)[0]; a.Attempts != 35 || !a.Running() || a.Subject != "bob" {
			t.Errorf("%+v", a)
		}
		s.now = s.now.Add(time.Minute)
		s.flush(nodes[1:]...)
		slices.Sort(s.reports[2:4])
		same(t, "reports", s.reports[2:], []string{"account bob: 33 ended", "address 192.0.2.7: 33 ended", "account bob: 34 ended"})
	})
}

func TestAFloodOfNamesBeginsABoundedNumberOfAttacks(t *testing.T) {
	t.Parallel()
	s := newScene(t, databasetest.SQLite(t))
	crowded := 0
	s.config.Crowded = func(realm, kind string) {
		if crowded++; realm != guard.DefaultRealm || kind != Account || len(s.Running("")) != MostAtOnce {
			t.Errorf("attacks on realm %s, kind %s, are not recorded", realm, kind)
		}
	}
	for i := range MostAtOnce + 100 {
		s.fails(fmt.Sprint("name", i), "192.0.2.7", full(guard.OnAccount))
	}
	if n := len(s.Running("")); n != MostAtOnce || crowded != 1 {
		t.Errorf("%d attacks, want %d; %d reports of more", n, MostAtOnce, crowded)
	}
}

// The start of a resumed attack is reported once it is large, or reaches the threshold for the first time; its end, if
// the start was.
func TestR24AResumedAttackIsReportedOnlyIfItIsLarge(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := newScene(t, db)
		attack := func(attempts int, switches ...events.ModeSwitch) {
			s.reports = nil
			for _, one := range switches {
				one.At, one.Attacked, one.Threshold = s.now, true, 3
				s.HandleSwitch(one)
			}
			s.botnet(s.Recorder, 0, attempts)
			s.flush()
			s.now = s.now.Add(announceAfter)
			s.flush()
			s.turns(s.Recorder, false)
			s.flush()
			s.now = s.now.Add(time.Minute)
			s.flush()
		}
		resumed := events.ModeSwitch{Resumed: true}
		for i, one := range []struct {
			attempts int
			switches []events.ModeSwitch
			want     []string
		}{
			{31, []events.ModeSwitch{{}}, []string{"site : 0 began", "site : 31 ended"}},
			{59, []events.ModeSwitch{resumed, resumed}, []string{"site : 90 ended silently"}},
			{60, []events.ModeSwitch{resumed, resumed}, []string{"site : 150 began", "site : 150 ended"}},
			{10, []events.ModeSwitch{resumed, {Cause: events.CauseFailureRate}}, []string{"site : 160 began", "site : 160 ended"}},
		} {
			if attack(one.attempts, one.switches...); !slices.Equal(s.reports, one.want) {
				t.Errorf("%d: %q, want %q", i, s.reports, one.want)
			}
		}
	})
}

// The record cannot be read when the attack is over: its end is reported later.
func TestAnEndThatCannotBeReadIsReportedLater(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := newScene(t, db)
		s.turns(s.Recorder, true)
		s.turns(s.Recorder, false)
		s.flush()
		s.now = s.now.Add(time.Minute)
		rename := func(from, to string) {
			t.Helper()
			if _, err := db.Exec(`ALTER TABLE attack_operations RENAME COLUMN ` + from + ` TO ` + to); err != nil {
				t.Fatal(err)
			}
		}
		rename("why", "away")
		if s.Flush(t.Context()) == nil {
			t.Fatal("the record can be read")
		}
		rename("away", "why")
		s.flush()
		same(t, "reports", s.reports, []string{"site : 0 began", "site : 0 ended"})
	})
}

// An attack begins and ends while the database fails: both are reported.
func TestAnAttackDuringAFailureOfTheDatabaseIsReported(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := newScene(t, db)
		s.fails("bob", "198.51.100.9", full(guard.OnAccount))
		s.now = s.now.Add(quietAfter)
		s.Tick(s.now)
		s.flush()
		s.flush()
		s.flush()
		same(t, "reports", s.reports, []string{"account bob: 1 began", "account bob: 1 ended"})
	})
}

// The node that had the mode switch dies before it reports anything: another one does.
func TestTheStartIsReportedIfTheNodeWithTheSwitchDies(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := newScene(t, db)
		other := s.node(db)
		s.attacked = true
		for range 30 {
			s.on(s.Recorder, "bob", "198.51.100.9")
			s.Tick(s.now)
			other.Tick(s.now)
			s.flush(other)
			s.now = s.now.Add(time.Second)
		}
		s.attacked = false
		s.HandleSwitch(events.ModeSwitch{At: s.now})
		s.flush(other)
		s.now = s.now.Add(time.Minute)
		s.flush(other)
		if len(s.reports) != 2 || !strings.HasSuffix(s.reports[0], "began") || s.reports[1] != "site : 30 ended" {
			t.Errorf("reports: %q", s.reports)
		}
	})
}

// A resumed attack on the site is too small for an alert, so it must not suppress that of an account. It has one after
// a restart too, once it is large, and its parts have its ID.
func TestASilentAttackOnTheSiteSuppressesNoAlert(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		s := newScene(t, db)
		s.turns(s.Recorder, true)
		s.turns(s.Recorder, false)
		s.flush()
		s.now = s.now.Add(time.Minute)
		s.flush()
		s.reports, s.attacked = nil, true
		s.HandleSwitch(events.ModeSwitch{At: s.now, Attacked: true, Resumed: true, Threshold: 30})
		s.fails("bob", "198.51.100.9", full(guard.OnAccount))
		s.flush()
		s.Recorder = s.node(db)
		s.flush()
		s.now = s.now.Add(announceAfter)
		s.flush()
		same(t, "reports", s.reports, []string{"account bob: 1 began"})
		if running, silent := s.OnSite(guard.DefaultRealm); !running || !silent {
			t.Errorf("after a restart: %v, %v", running, silent)
		}
		s.fails("carl", "198.51.100.9", full(guard.OnAccount))
		s.botnet(s.Recorder, 0, largeElsewhere)
		s.flush()
		s.flush()
		if len(s.reports) != 2 || s.reports[1] != "site : 1002 began" || len(s.Running("")) != 1 {
			t.Errorf("reports: %q; running: %+v", s.reports, s.Running(""))
		}
		site := s.Running("")[0].ID
		for _, a := range s.list(3) {
			if a.Kind == Account && a.PartOf != site {
				t.Errorf("%s is part of %q, want %s", a.Subject, a.PartOf, site)
			}
		}
	})
}
