package mfa_test

import (
	"context"
	"database/sql"
	"encoding/base32"
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/database/databasetest"
	"authguard/internal/mfa"
	"authguard/internal/testing/clocktest"
	"authguard/internal/testing/redistest"
)

func TestMain(m *testing.M) { databasetest.Main(m) }

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// A desk is one node's table and ann's account.
type desk struct {
	*mfa.Table
	t     *testing.T
	db    *sql.DB
	clock *clocktest.Clock
	ann   mfa.Owner
}

func newDesk(t *testing.T, db *sql.DB) *desk {
	t.Helper()
	d := &desk{t: t, db: db, clock: clocktest.At(noon)}
	people, err := accounts.New(t.Context(), accounts.Config{DB: db, Normalise: guard.NormaliseAccount, Hash: func(string) (string, error) { return "x", nil }})
	d.must(err)
	ann, err := people.Add(t.Context(), accounts.Addition{Username: "ann", Password: "long enough", Role: accounts.Admin})
	d.must(err)
	d.ann = mfa.Owner{ID: ann.ID, Name: "ann", Version: ann.Version}
	d.Table = d.node("the server's secret")
	return d
}

func (d *desk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// node is another node's table.
func (d *desk) node(secret string) *mfa.Table {
	d.t.Helper()
	table, err := mfa.New(mfa.Config{DB: d.db, Secret: []byte(secret), Now: d.clock.Now})
	d.must(err)
	return table
}

// app enrols ann and is what her app shows.
func (d *desk) app() func(time.Time) string {
	d.t.Helper()
	e, err := d.Enrol(d.t.Context(), d.ann.ID, "authguard", "ann")
	d.must(err)
	return func(at time.Time) string {
		code, err := totp.GenerateCodeCustom(e.Secret, at, totp.ValidateOpts{Period: 30, Digits: otp.DigitsSix})
		d.must(err)
		return code
	}
}

func (d *desk) good(table *mfa.Table, code string) bool {
	d.t.Helper()
	ok, _, err := table.Check(d.t.Context(), d.ann.ID, code)
	d.must(err)
	return ok
}

func TestAnAppCountsOnceItsCodeWasSeen(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		ctx, shows := t.Context(), d.app()
		if k, err := d.Of(ctx, d.ann.ID); err != nil || k.Any() {
			t.Errorf("unconfirmed: %+v, %v", k, err)
		}
		if d.good(d.Table, shows(noon)) {
			t.Error("an app that was not confirmed lets in")
		}
		again, err := d.Enrolling(ctx, d.ann.ID, "authguard", "ann")
		d.must(err)
		if link, err := url.Parse(again.URL); err != nil || link.Scheme != "otpauth" || link.Query().Get("secret") != again.Secret || len(again.QR) < 100 {
			t.Errorf("%q, %v, a picture of %d bytes", again.URL, err, len(again.QR))
		}
		if err := d.Confirm(ctx, d.ann.ID, "000000"); !errors.Is(err, mfa.ErrCode) {
			t.Error(err)
		}
		d.must(d.Confirm(ctx, d.ann.ID, shows(noon)))
		if k, err := d.Of(ctx, d.ann.ID); err != nil || !k.Any() || !k.TOTP.Created.Equal(noon) {
			t.Errorf("confirmed: %+v, %v", k, err)
		}
		if _, err := d.Enrol(ctx, d.ann.ID, "authguard", "ann"); !errors.Is(err, mfa.ErrEnrolled) {
			t.Errorf("enrolled twice: %v", err)
		}
		if d.good(d.Table, shows(noon)) {
			t.Error("the code that confirmed is good once more")
		}
		d.clock.Advance(time.Minute)
		if !d.good(d.Table, shows(noon.Add(time.Minute))) {
			t.Error("the right code is not good")
		}
		d.must(d.RemoveTOTP(ctx, d.ann.ID))
		if err := d.RemoveTOTP(ctx, d.ann.ID); !errors.Is(err, mfa.ErrUnknown) {
			t.Error(err)
		}
	})
}

// RFC 6238, section 5.2: a code is good once. Two nodes are asked fifty times at once.
func TestACodeIsGoodOnceOverAllNodes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		shows := d.app()
		d.must(d.Confirm(t.Context(), d.ann.ID, shows(noon)))
		recovery, err := d.NewRecovery(t.Context(), d.ann.ID)
		d.must(err)
		nodes := []*mfa.Table{d.Table, d.node("the server's secret")}
		d.clock.Advance(time.Minute)
		for what, code := range map[string]string{"code": shows(noon.Add(time.Minute)), "recovery code": recovery[3]} {
			var good atomic.Int32
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					if ok, _, err := nodes[i%2].Check(t.Context(), d.ann.ID, code); err != nil {
						t.Error(err)
					} else if ok {
						good.Add(1)
					}
				})
			}
			all.Wait()
			if good.Load() != 1 {
				t.Errorf("the %s was good %d times", what, good.Load())
			}
		}
	})
}

func TestAClockMayBeHalfAMinuteOffAndNoMore(t *testing.T) {
	t.Parallel()
	db := databasetest.SQLite(t)
	d := newDesk(t, db)
	shows := d.app()
	d.must(d.Confirm(t.Context(), d.ann.ID, shows(noon)))
	for _, one := range []struct {
		off  time.Duration
		good bool
	}{{-60 * time.Second, false}, {-30 * time.Second, true}, {60 * time.Second, false}, {30 * time.Second, true}} {
		d.clock.Advance(10 * time.Minute)
		if got := d.good(d.Table, shows(d.clock.Now().Add(one.off))); got != one.good {
			t.Errorf("%s off: good %t", one.off, got)
		}
	}
	d.clock.Advance(10 * time.Minute)
	now := d.clock.Now()
	if !d.good(d.Table, shows(now)) || d.good(d.Table, shows(now.Add(-30*time.Second))) {
		t.Error("a code older than one that was taken is good")
	}
}

func TestTheDatabaseAloneShowsNoCode(t *testing.T) {
	t.Parallel()
	db := databasetest.SQLite(t)
	d := newDesk(t, db)
	e, err := d.Enrol(t.Context(), d.ann.ID, "authguard", "ann")
	d.must(err)
	codes, err := d.NewRecovery(t.Context(), d.ann.ID)
	d.must(err)
	var kept string
	d.must(db.QueryRow(`SELECT secret || ' ' || (SELECT max(code_hash) FROM recovery_codes) FROM totp`).Scan(&kept))
	raw, err := base32.StdEncoding.DecodeString(e.Secret)
	d.must(err)
	if strings.Contains(kept, e.Secret) || strings.Contains(kept, string(raw)) || strings.Contains(kept, strings.ReplaceAll(codes[0], "-", "")) {
		t.Errorf("the database has %q", kept)
	}
	if _, err := d.node("another server's").Enrolling(t.Context(), d.ann.ID, "authguard", "ann"); err == nil {
		t.Error("other keys open the secret")
	}
	d.must(exec(db, `INSERT INTO accounts (id, username, password_hash, role, created_at, changed_at) VALUES ('eve', 'eve', 'x', 'admin', 0, 0)`))
	d.must(exec(db, `INSERT INTO totp (account, secret, created_at) SELECT 'eve', secret, 0 FROM totp`))
	if _, err := d.Enrolling(t.Context(), "eve", "authguard", "eve"); err == nil {
		t.Error("a secret is good at another account, where whoever can write the database has put it")
	}
}

func exec(db *sql.DB, statement string) error { _, err := db.Exec(statement); return err }

func TestRecoveryCodesAreReplacedAllAtOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		old, err := d.NewRecovery(t.Context(), d.ann.ID)
		d.must(err)
		fresh, err := d.NewRecovery(t.Context(), d.ann.ID)
		d.must(err)
		if len(fresh) != mfa.RecoveryCodes || d.good(d.Table, old[0]) || !d.good(d.Table, strings.ToUpper(strings.ReplaceAll(fresh[0], "-", " "))) {
			t.Error("an old code is good, or a new one is not as people type it")
		}
		for _, bad := range []string{"", "-", "0000", fresh[1][:10], fresh[1] + "a", strings.Repeat("a", 1<<20), "\x00'"} {
			if d.good(d.Table, bad) {
				t.Errorf("%.20q is good", bad)
			}
		}
		if k, err := d.Of(t.Context(), d.ann.ID); err != nil || k.Recovery != mfa.RecoveryCodes-1 || k.Any() {
			t.Errorf("%+v, %v", k, err)
		}
	})
}

// Two nodes that have both read that a code is new must not both take it: they are held
// where they write, until all of them have read.
func TestACodeThatManyHaveReadIsTakenByOne(t *testing.T) {
	t.Parallel()
	db := databasetest.Postgres(t)
	d := newDesk(t, db)
	shows := d.app()
	d.must(d.Confirm(t.Context(), d.ann.ID, shows(noon)))
	d.clock.Advance(time.Minute)
	const readers = 2
	good, read := 0, false
	for !read { // until both have waited for the row at once, each within the query's time
		var n int
		n, read = d.takeAtOnce(db, readers, shows(noon.Add(time.Minute)))
		good += n
	}
	if good != 1 {
		t.Errorf("the code was good %d times", good)
	}
}

// takeAtOnce holds the row of a code until that many readers wait for it. It reports how
// many of them took the code, and whether all have waited.
func (d *desk) takeAtOnce(db *sql.DB, readers int, code string) (good int, waited bool) {
	d.t.Helper()
	tx, err := db.BeginTx(d.t.Context(), nil)
	d.must(err)
	_, err = tx.ExecContext(d.t.Context(), `SELECT 1 FROM totp WHERE account = $1 FOR UPDATE`, d.ann.ID)
	d.must(err)
	type answer struct {
		ok  bool
		err error
	}
	answers := make(chan answer, readers)
	for range readers {
		go func() {
			ok, _, err := d.Check(d.t.Context(), d.ann.ID, code)
			answers <- answer{ok, err}
		}()
	}
	redistest.Until(d.t, "all to have read, or one to have given up", func() bool {
		var waiting int
		d.must(tx.QueryRowContext(d.t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`).Scan(&waiting))
		return waiting >= readers || len(answers) > 0
	})
	d.must(tx.Commit())
	waited = true
	for range readers {
		switch a := <-answers; {
		case errors.Is(a.err, context.DeadlineExceeded): // a busy machine
			waited = false
		case a.err != nil:
			d.t.Error(a.err)
		case a.ok:
			good++
		}
	}
	return good, waited
}
