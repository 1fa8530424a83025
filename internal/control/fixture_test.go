package control_test

import (
	"context"
	"database/sql"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/attacks"
	"authguard/internal/audit"
	"authguard/internal/codes"
	"authguard/internal/control"
	"authguard/internal/database"
	"authguard/internal/database/databasetest"
	"authguard/internal/lists"
	"authguard/internal/metrics"
	"authguard/internal/mfa"
	"authguard/internal/outbox"
	"authguard/internal/passwords"
	"authguard/internal/policy"
	"authguard/internal/sessions"
	"authguard/internal/testing/world"
)

var quiet = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) { databasetest.Main(m) }

// A desk is a small site, its database, and a Control over both.
type desk struct {
	w *world.World
	*control.Control
	db       *sql.DB
	accounts *accounts.Table
	listings *lists.Table
	sessions *sessions.Store
	audit    *audit.Log
	attacks  *attacks.Recorder
	codes    *codes.Table
	tops     *metrics.Tops
	effects  *policy.Effects
	changes  *database.Watcher
	config   control.Config
}

func newDesk(t *testing.T, db *sql.DB) *desk {
	t.Helper()
	return newDeskWith(t, db, func(*control.Config) {})
}

// newDeskWith is newDesk with another configuration.
func newDeskWith(t *testing.T, db *sql.DB, change func(*control.Config)) *desk {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	d := &desk{db: db, tops: new(metrics.Tops)}
	var err error
	canonical := func(name string) string { return d.accounts.Canonical(name) }
	d.w = world.New(t, world.Options{Codes: codes.New(d.db, nil), Start: time.Now().Truncate(time.Second), Canonical: canonical})
	checker, err := passwords.NewChecker(bcrypt.MinCost, nil)
	must(err)
	d.accounts, err = accounts.New(t.Context(), accounts.Config{
		DB: d.db, Normalise: guard.NormaliseAccount, Hash: checker.Hash, Now: d.w.Clock.Now,
	})
	must(err)
	d.sessions, err = sessions.New(sessions.Config{DB: d.db, Now: d.w.Clock.Now})
	must(err)
	d.codes = codes.New(d.db, d.w.Clock.Now)
	d.effects = policy.NewEffects(d.db, []byte("secret"), d.w.Clock.Now, quiet)
	d.audit, d.listings = audit.New(d.db, audit.Config{Logger: quiet}), lists.New(d.db)
	d.changes = database.NewWatcher(d.db, d.w.Clock.Now, quiet)
	told, err := alerts.New(alerts.Config{PerHour: 1}, outbox.Store{DB: d.db, Alone: true, Now: d.w.Clock.Now, Log: quiet})
	must(err)
	second, err := mfa.New(mfa.Config{DB: d.db, Secret: []byte("the server's secret"), Now: d.w.Clock.Now})
	must(err)
	d.attacks = attacks.New(attacks.Config{DB: d.db, Secret: []byte("secret"), Now: d.w.Clock.Now, Log: quiet})
	d.listings.Memory, d.listings.Direct = d.w.Lists, func() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("172.16.0.0/16")} }
	d.config = control.Config{
		Guard: d.w.Guard, Mode: d.w.Mode, IPLists: control.IPLists{Listings: d.listings}, Tables: accounts.Tables{Accounts: d.accounts, Sessions: d.sessions, Codes: d.codes, Tokens: accounts.NewTokens(d.db), MFA: second},
		Users: accounts.Users{DirectoryOf: d.directoryOf}, Sinks: control.Sinks{Audit: d.audit, Attacks: d.attacks, Alerts: told, Tops: d.tops, Effects: d.effects}, Policies: control.Policies{Overrides: policy.NewTable(d.db)}, Changes: d.changes,
		Now: d.w.Clock.Now, Log: quiet,
	}
	change(&d.config)
	d.Control, err = control.New(d.config)
	must(err)
	return d
}

// named makes a Control anew, with named lists.
func (d *desk) named(t *testing.T, files *lists.Files) {
	t.Helper()
	d.config.Named = files
	var err error
	if d.Control, err = control.New(d.config); err != nil {
		t.Fatal(err)
	}
}

// recorded is the newest thing on record.
func (d *desk) recorded(t *testing.T) audit.Row {
	t.Helper()
	rows, err := d.audit.Recent(t.Context(), audit.Filter{Kind: audit.KindAdmin, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		return audit.Row{}
	}
	return rows[0]
}

// directoryOf is where an account logs in: all are the site's.
func (d *desk) directoryOf(ctx context.Context, name string) (string, error) {
	_, err := d.accounts.Get(ctx, name)
	return "", err
}

// user adds an account.
func (d *desk) user(t *testing.T, name, email string) {
	t.Helper()
	_, err := d.AddUser(t.Context(), "admin:eve", accounts.Addition{Username: name, Email: email, Password: "long enough"}, "")
	if err != nil {
		t.Fatal(err)
	}
}
