package alerts

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authguard/internal/database/databasetest"
	"authguard/internal/outbox"
	"authguard/internal/testing/clocktest"
)

func TestMain(m *testing.M) { databasetest.Main(m) }

// node is one of several alerters over a database, whose channels a test moves by
// hand.
func node(t *testing.T, db *sql.DB, clock *clocktest.Clock, p sender, to ...string) *Alerter {
	t.Helper()
	a, err := newAlerter(Config{To: to, PerHour: 20}, outbox.Store{DB: db, Now: clock.Now, Log: slog.New(slog.DiscardHandler)},
		func(target, []netip.Prefix) sender { return p })
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// counted counts how often each alert was delivered.
type counted struct {
	mu   sync.Mutex
	got  map[string]int
	ids  map[string]int
	fail error
}

func (c *counted) send(_ context.Context, m message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	if c.got == nil {
		c.got, c.ids = map[string]int{}, map[string]int{}
	}
	c.ids[m.id]++
	for _, a := range m.what.Kept {
		c.got[a.Body]++
	}
	return nil
}

func (c *counted) setFail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

func TestR24WhatOneNodeRaisedAnotherDeliversOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock, p := clocktest.At(noon), new(counted)
		p.setFail(errors.New("no"))
		nodes := []*Alerter{node(t, db, clock, p, urlA), node(t, db, clock, p, urlA)}
		nodes[0].Raise("test", "A test", "before")
		nodes[0].channels[0].box.Step(t.Context())
		p.setFail(nil)
		clock.Advance(time.Minute)
		for _, a := range nodes {
			a.channels[0].box.Step(t.Context())
		}
		if len(p.got) != 1 || p.got["before"] != 1 || len(p.ids) != 1 {
			t.Fatalf("%v %v", p.got, p.ids)
		}
		if all := nodes[1].Channels(); all[0].Waiting != 0 || all[0].State != "working" || all[0].Hour != 1 {
			t.Errorf("%+v", all)
		}
	})
}

func TestThreeFailuresInARowAreReportedThroughTheOtherChannels(t *testing.T) {
	t.Parallel()
	clock, p := clocktest.At(noon), new(counted)
	p.setFail(errors.New("no"))
	a := node(t, databasetest.SQLite(t), clock, p, urlA, urlB)
	a.Raise("test", "A test", "waits")
	for _, want := range []int{1, 1, 2} {
		if a.channels[0].box.Step(t.Context()); a.channels[1].state().Waiting != want {
			t.Errorf("%d alerts wait in the other channel, want %d", a.channels[1].state().Waiting, want)
		}
		clock.Advance(time.Minute)
	}
}

func TestACorrectedAddressIsTriedWithoutWaiting(t *testing.T) {
	t.Parallel()
	clock, p := clocktest.At(noon), new(counted)
	p.setFail(errors.New("no"))
	a := node(t, databasetest.SQLite(t), clock, p, urlA)
	a.Raise("test", "A test", "waits")
	for range 8 {
		a.channels[0].box.Step(t.Context())
		clock.Advance(longestRetry)
	}
	a.channels[0].box.Step(t.Context())
	p.setFail(nil)
	if err := a.Reconfigure(Config{To: []string{urlB}, PerHour: 20}); err != nil {
		t.Fatal(err)
	}
	if a.channels[0].box.Step(t.Context()); p.got["waits"] != 1 {
		t.Errorf("delivered %d times", p.got["waits"])
	}
}

func TestR24ARestartWithACorrectedAddressDeliversWhatWaited(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock, p := clocktest.At(noon), new(counted)
		p.setFail(errors.New("no"))
		before := node(t, db, clock, p, urlA, urlB)
		before.Raise("test", "A test", "waited")
		for _, c := range before.channels {
			c.box.Step(t.Context())
		}
		after := node(t, db, clock, p, "generic+http://127.0.0.1:1/c")
		p.setFail(nil)
		after.adopt(t.Context())
		after.channels[0].box.Step(t.Context())
		if p.got["waited"] != 2 || len(p.ids) != 2 {
			t.Errorf("delivered %d times, want the messages of both channels", p.got["waited"])
		}
	})
}

func TestAChannelGetsTheKindsThatItIsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, q, stop := started(t, Config{To: []string{urlA + "#kinds=captcha-mode-on,captcha-mode-off", urlB}}, io.Discard)
		defer stop()
		a.Raise("test", "A test", "for all")
		a.HandleSwitch(modeOn())
		time.Sleep(time.Minute)
		if got := p.got(); len(got) != 1 || strings.Contains(got[0].body, "for all") || strings.Contains(got[0].body, "Login attack") || !strings.Contains(got[0].body, "CAPTCHA mode is on") {
			t.Errorf("%+v", got)
		}
		if got := q.got(); len(got) != 1 || !strings.Contains(got[0].body, "for all") {
			t.Errorf("%+v", got)
		}
	})
}

func TestTheDatabaseHoldsNoAddressOfAChannel(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		p := new(counted)
		p.setFail(errors.New("no"))
		a := node(t, db, clocktest.At(noon), p, "generic+https://hooks.example.org/hunter22")
		a.Raise("test", "A test", "waits")
		a.channels[0].box.Step(t.Context())
		var text string
		if err := db.QueryRow(`SELECT channel || id || subject || body || error FROM outbox`).Scan(&text); err != nil || !strings.Contains(text, "waits") {
			t.Fatalf("%v %s", err, text)
		}
		if strings.Contains(text, "hunter22") || strings.Contains(text, "example.org") {
			t.Error(text)
		}
	})
}

func TestWhatWasRaisedIsWrittenDownAndEachKindKeepsItsNewest(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock := clocktest.At(noon)
		a := node(t, db, clock, nil)
		write := func() {
			if err := a.history.write(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		a.RaiseIn("shop", "rare", "A rare one", "first")
		write()
		for range 60 {
			for range 25 {
				a.Raise("flood", "A flood", "again")
			}
			clock.Advance(time.Second)
			write()
		}
		all, err := a.Recent(t.Context(), "", 0, 3)
		if err != nil || len(all) != 3 || all[0].Count != 6 || all[1].Count != 1 || all[0].ID < all[1].ID {
			t.Fatalf("%+v %v", all, err)
		}
		if next, err := a.Recent(t.Context(), "", all[2].ID, 3); err != nil || len(next) != 3 || next[0].ID >= all[2].ID {
			t.Errorf("the next page: %+v %v", next, err)
		}
		if n, err := a.Purge(t.Context()); err != nil || n != 60*maxListed-keptAlerts {
			t.Errorf("%d purged, %v", n, err)
		}
		if shop, err := a.Recent(t.Context(), "shop", 0, 10); err != nil || len(shop) != 1 || shop[0].Body != "realm shop: first" {
			t.Errorf("%+v %v", shop, err)
		}
		clock.Advance(keptFor + time.Hour)
		if n, err := a.Purge(t.Context()); err != nil || n != keptAlerts+1 {
			t.Errorf("%d purged later, %v", n, err)
		}
	})
}
