package admin_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	"authguard/web/admin"
)

// An office is a small site and its API on a real socket.
type office struct {
	*world.World
	inside   *world.World // the administrators' sign-in
	db       *sql.DB
	control  *control.Control
	config   control.Config // of control
	hash     func(string) (string, error)
	accounts *accounts.Table
	listings *lists.Table
	mfa      *mfa.Table
	tops     *metrics.Tops
	effects  *policy.Effects
	alerts   *alerts.Alerter
	told     bell
	attacks  *attacks.Recorder
	api      *admin.API
	socket   string
	http     http.Client
}

// A bell is a log that knows which alerts were raised.
type bell struct {
	slog.Handler
	mu   sync.Mutex
	rung []string
}

func (*bell) Enabled(context.Context, slog.Level) bool { return true }

func (b *bell) Handle(_ context.Context, r slog.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := ""
	r.Attrs(func(a slog.Attr) bool { text += a.Value.String() + "\n"; return true })
	b.rung = append(b.rung, text)
	return nil
}

// take is what was raised since it was asked last: kind, title and body of each.
func (b *bell) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.rung
	b.rung = nil
	return all
}

var quiet = slog.New(slog.DiscardHandler)

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{World: world.New(t, world.Options{Start: time.Now().Truncate(time.Second)}), tops: new(metrics.Tops)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	o.db = databasetest.SQLite(t)
	checker, err := passwords.NewChecker(bcrypt.MinCost, nil)
	must(err)
	o.accounts, err = accounts.New(t.Context(), accounts.Config{
		DB: o.db, Normalise: guard.NormaliseAccount, Hash: checker.Hash, Now: o.Clock.Now,
		Leaked: func(password string) bool { return password == "leaked password" },
	})
	must(err)
	store, err := sessions.New(sessions.Config{DB: o.db, Now: o.Clock.Now})
	must(err)
	o.mfa, err = mfa.New(mfa.Config{DB: o.db, Secret: []byte("the server's secret"), Now: o.Clock.Now})
	must(err)
	record := audit.New(o.db, audit.Config{Logger: quiet})
	o.listings = lists.New(o.db)
	o.listings.Memory = o.Lists
	o.effects = policy.NewEffects(o.db, []byte("secret"), o.Clock.Now, quiet)
	watcher := database.NewWatcher(o.db, o.Clock.Now, quiet)
	o.alerts, err = alerts.New(alerts.Config{PerHour: 1}, outbox.Store{DB: o.db, Alone: true, Now: o.Clock.Now, Log: slog.New(&o.told)})
	must(err)
	o.hash = checker.Hash
	o.attacks = attacks.New(attacks.Config{DB: o.db, Secret: []byte("secret"), Now: o.Clock.Now, Log: quiet})
	o.inside = o.Second(t, nil)
	o.config = control.Config{
		Guard: o.Guard, Administration: o.inside.Guard, Mode: o.Mode, IPLists: control.IPLists{Listings: o.listings}, Tables: accounts.Tables{Accounts: o.accounts, Sessions: store, Codes: codes.New(o.db, o.Clock.Now), Tokens: accounts.NewTokens(o.db), MFA: o.mfa},
		Users: accounts.Users{DirectoryOf: o.directoryOf}, Sinks: control.Sinks{Audit: record, Attacks: o.attacks, Alerts: o.alerts, Tops: o.tops, Effects: o.effects}, Policies: control.Policies{Overrides: policy.NewTable(o.db)}, Changes: watcher, Now: o.Clock.Now, Log: quiet,
	}
	o.control, err = control.New(o.config)
	must(err)
	o.api = &admin.API{Control: o.control, Audit: record, Log: quiet}
	o.listen(t)
	return o
}

// shortDir is a folder whose path leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ag")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (o *office) listen(t *testing.T) {
	t.Helper()
	o.socket = filepath.Join(shortDir(t), "a.sock")
	l, err := admin.Listen(o.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := o.api.SocketServer()
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	o.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", o.socket)
	}}
	t.Cleanup(o.http.CloseIdleConnections)
}

// ask sends JSON, if any, and reads JSON into answer, if any. It returns the
// status and the body.
func (o *office) ask(t *testing.T, method, path, question string, answer any) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://authguard"+path, strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	if question != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return o.do(t, r, answer)
}

func (o *office) do(t *testing.T, r *http.Request, answer any) (int, string) {
	t.Helper()
	response, err := o.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	kind := response.Header.Get("Content-Type")
	if want := "application/problem+json"; response.StatusCode >= 400 && kind != want {
		t.Errorf("%s %s: %d is %q, want %q", r.Method, r.URL, response.StatusCode, kind, want)
	}
	if answer != nil {
		if err := json.Unmarshal(body, answer); err != nil {
			t.Errorf("%s %s: %v in %s", r.Method, r.URL, err, body)
		}
	}
	return response.StatusCode, string(body)
}

// mustAsk is ask for what must work.
func (o *office) mustAsk(t *testing.T, method, path, question string, answer any) {
	t.Helper()
	if status, body := o.ask(t, method, path, question, answer); status >= 300 {
		t.Fatalf("%s %s %s: %d %s", method, path, question, status, body)
	}
}

// recorded is the newest thing that an administrator did, and who it was.
func (o *office) recorded(t *testing.T) (what, who, subject string) {
	t.Helper()
	rows, err := o.api.Audit.Recent(t.Context(), audit.Filter{Kind: audit.KindAdmin, Limit: 1})
	if err != nil || len(rows) == 0 {
		t.Fatalf("nothing is on record: %v", err)
	}
	return rows[0].Decision, rows[0].Who, rows[0].Account + rows[0].Address
}

// directoryOf is where an account of our own table logs in.
func (o *office) directoryOf(ctx context.Context, name string) (string, error) {
	account, err := o.accounts.Get(ctx, name)
	if account.Role == accounts.Admin {
		return admin.Directory, err
	}
	return "", err
}
