package accounts_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/database"
	"authguard/internal/testing/postgrestest"
)

// lookUps makes a hundred at once, of both kinds, and hands over how each ended.
func lookUps(t *testing.T, db *sql.DB, table *accounts.Table, ended func(error)) {
	t.Helper()
	source, err := accounts.NewSQLSource(accounts.SQLSourceConfig{DB: db, Query: "SELECT password_hash FROM accounts WHERE username = ?"})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 100 {
		from := []accounts.Source{table, source}[n%2]
		all.Go(func() {
			_, _, err := from.FindForLogin(context.Background(), "ann")
			ended(err)
		})
	}
	all.Wait()
}

func TestALoginDoesNotHangOnADeadDatabase(t *testing.T) {
	t.Parallel()
	server := postgrestest.Own(t)
	db, err := database.Open(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := database.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	table := mustTable(t, db)
	mustAdd(t, table, "ann", "")
	server.Stop(t)
	defer server.Continue(t)
	lookUps(t, db, table, func(err error) {
		if err == nil {
			t.Error("a dead database answered")
		}
	})
}

// More look-ups than the pool has connections: those that get none must not
// wait for one after the other either.
func TestALookUpWaitsThreeSecondsAConnectionIncluded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		db := sql.OpenDB(hanging{&hangs})
		defer db.Close()
		db.SetMaxOpenConns(16)
		table := mustTable(t, db)
		hangs.Store(true)
		began := time.Now()
		lookUps(t, db, table, func(err error) {
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 3*time.Second {
				t.Errorf("after %v: %v", took, err)
			}
		})
	})
}

// busy is a source whose look-ups end when they are released.
type busy struct {
	accounts.Source
	running atomic.Int64
	release chan struct{}
}

func (b *busy) CanonicalOf(ctx context.Context, name string) (string, error) {
	b.running.Add(1)
	defer b.running.Add(-1)
	select {
	case <-b.release:
		return name, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// They come before the limits, so what the limits stop later would take every connection.
func TestR26AFloodOfOneAddressLeavesLookUpsToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &busy{release: make(chan struct{})}
		p := accounts.PublicOf(b, accounts.PublicConfig{Normalise: normalise, Log: slog.New(slog.DiscardHandler)})
		canonical := p.Canonical(t.Context())
		var all sync.WaitGroup
		look := func(from string, wants error) {
			all.Go(func() {
				began := time.Now()
				_, err := canonical("kim", netip.MustParseAddr(from))
				if took := time.Since(began); !errors.Is(err, wants) || took > 3*time.Second {
					t.Errorf("%s after %v: %v", from, took, err)
				}
			})
		}
		flood := func(wants error) {
			for i := range 100 {
				look(fmt.Sprintf("2001:db8::%x", i+1), wants) // one /64
			}
			synctest.Wait()
		}
		flood(context.DeadlineExceeded)
		if n := b.running.Load(); n != 4 {
			t.Errorf("one client has %d look-ups, want 4 of 16", n)
		}
		look("203.0.113.9", context.DeadlineExceeded)
		synctest.Wait()
		if n := b.running.Load(); n != 5 {
			t.Errorf("with another client, there are %d look-ups, want 5", n)
		}
		all.Wait()
		flood(nil)
		close(b.release)
		all.Wait()
		if n := p.LookingUp(); n != 0 {
			t.Errorf("%d clients are kept", n)
		}
	})
}

// hanging is a database without accounts that may stop to answer.
type hanging struct{ hangs *atomic.Bool }

func (h hanging) Connect(context.Context) (driver.Conn, error) { return h, nil }
func (h hanging) Driver() driver.Driver                        { return nil }
func (h hanging) Prepare(string) (driver.Stmt, error)          { return nil, driver.ErrSkip }
func (h hanging) Begin() (driver.Tx, error)                    { return nil, driver.ErrSkip }
func (h hanging) Close() error                                 { return nil }

func (h hanging) QueryContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &nulls{strings.Count(query, "MAX(")}, nil
}

// nulls are so many rows of one NULL.
type nulls struct{ left int }

func (*nulls) Columns() []string { return []string{"max"} }
func (*nulls) Close() error      { return nil }

func (n *nulls) Next(row []driver.Value) error {
	if n.left == 0 {
		return io.EOF
	}
	n.left--
	row[0] = nil
	return nil
}
