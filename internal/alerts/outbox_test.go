package alerts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/clocktest"
	"authguard/internal/database/databasetest"
)

func TestMain(m *testing.M) { databasetest.Main(m) }

// node is one of several alerters over a database, whose channels a test moves by
// hand.
func node(t *testing.T, db *sql.DB, clock *clocktest.Clock, alone bool, p sender, to ...string) *Alerter {
	t.Helper()
	a, err := newAlerter(Config{To: to, PerHour: 20}, Store{DB: db, Secret: []byte("k"), Alone: alone, Now: clock.Now},
		slog.New(slog.DiscardHandler), func(target, []netip.Prefix) sender { return p })
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

func TestR24WhatOneNodeRaisedAnotherDeliversWhenItIsDead(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock, p := clocktest.At(noon), new(counted)
		dead := node(t, db, clock, false, p, urlA)
		dead.Raise("test", "A test", "before")
		c := dead.channels[0]
		fresh := c.local
		if err := c.change(func(s *shelf) { s.absorb(fresh); s.take(c.rules, clock.Now(), "dead", "msg_1") }); err != nil {
			t.Fatal(err) // it has committed, claimed the message, and is killed before it sends
		}
		other := node(t, db, clock, false, p, urlA)
		if other.channels[0].step(); len(p.got) != 0 {
			t.Fatalf("it took what another node holds: %v", p.got)
		}
		clock.Advance(lease)
		other.channels[0].step()
		if other.channels[0].step(); len(p.got) != 1 || p.got["before"] != 1 || p.ids["msg_1"] != 1 {
			t.Fatalf("%v %v", p.got, p.ids)
		}
		if all := other.Channels(); all[0].Waiting != 0 || all[0].State != "working" || all[0].Delivered != 1 {
			t.Errorf("%+v", all)
		}
	})
}

func TestR24OfManyNodesOneSendsEachMessage(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock, p := clocktest.At(noon), new(counted)
		var nodes []*Alerter
		for range 4 {
			nodes = append(nodes, node(t, db, clock, false, p, urlA))
		}
		for round := range 10 {
			var all sync.WaitGroup
			for i, a := range nodes {
				a.Raise("test", "A test", fmt.Sprintf("%d of node %d", round, i))
				all.Go(a.channels[0].step)
			}
			all.Wait()
			clock.Advance(time.Minute)
		}
		for range 2 {
			nodes[0].channels[0].step()
			clock.Advance(time.Hour)
		}
		if len(p.got) != 40 {
			t.Errorf("%d alerts, want 40", len(p.got))
		}
		for body, n := range p.got {
			if n != 1 {
				t.Errorf("%s: %d times", body, n)
			}
		}
	})
}

func TestR24ARestartWithAMendedAddressDeliversWhatWaited(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock, p := clocktest.At(noon), new(counted)
		p.setFail(errors.New("no"))
		before := node(t, db, clock, false, p, urlA)
		before.Raise("test", "A test", "waited")
		before.channels[0].step()
		clock.Advance(time.Minute)
		after := node(t, db, clock, false, p, urlB)
		p.setFail(nil)
		for _, want := range []int{0, 1, 1} { // the node before may still be there, for a while
			after.adopt(t.Context())
			after.channels[0].step()
			if p.got["waited"] != want {
				t.Errorf("delivered %d times, want %d", p.got["waited"], want)
			}
			clock.Advance(leftAfter)
		}
	})
}

// breaking is an outbox that can be away.
type breaking struct {
	outbox
	mu   sync.Mutex
	away bool
}

func (b *breaking) set(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

func (b *breaking) change(ctx context.Context, id string, do func(*shelf)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return errors.New("the database is away")
	}
	return b.outbox.change(ctx, id, do)
}

func (b *breaking) look(ctx context.Context, id string) (shelf, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return shelf{}, errors.New("the database is away")
	}
	return b.outbox.look(ctx, id)
}

// Who is to mend the database hears of it while it is away; the ceiling holds, memory is
// bounded, and nothing is lost or told twice when it is back.
func TestR24WithoutTheDatabaseAlertsGoOutFromMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		p := new(post)
		a, err := newAlerter(config(Config{PerHour: 4}), Store{}, slog.New(slog.NewTextHandler(&log, nil)), func(target, []netip.Prefix) sender { return p })
		if err != nil {
			t.Fatal(err)
		}
		box := &breaking{outbox: a.box}
		a.box, a.channels[0].box = box, box
		var group background.Group
		group.Start(a.Run)
		a.Raise("test", "A test", "before")
		time.Sleep(time.Minute)
		box.set(true)
		a.Raise("database-failed", "The database cannot be written", "now")
		for range 10_000 {
			a.Raise("test", "A test", "meanwhile")
		}
		time.Sleep(time.Minute)
		if got := p.got(); len(got) != 2 || !strings.Contains(got[1].body, "The database cannot be written") || !strings.Contains(got[1].body, "- and 9980 more") {
			t.Fatalf("%+v", got)
		}
		if n := len(a.channels[0].local.Waiting.Kept); n > maxKept {
			t.Errorf("%d alerts are in memory", n)
		}
		for range 8 {
			a.Raise("test", "A test", "again")
			time.Sleep(time.Minute)
		}
		if n := len(p.got()); n != 3 {
			t.Errorf("%d messages, want 3: the ceiling is 4, and one of those is kept for attacks", n)
		}
		box.set(false)
		time.Sleep(2 * time.Hour)
		told := 0
		for _, m := range p.got() {
			told += strings.Count(m.body, ": again\n")
		}
		if told != 8 || waiting(a) != 0 {
			t.Errorf("%d of 8 told, %d wait", told, waiting(a))
		}
		group.Stop()
		if text := log.String(); strings.Count(text, "alerts cannot be saved to the database") != 1 || strings.Count(text, "saved to the database again") != 1 {
			t.Errorf("it does not say so once:\n%s", text)
		}
	})
}

// The issue's own number: an hour of 100,000 failures, over 10,000 accounts, with
// the outbox in a database.
func TestR24AnHourOf100000FailuresIsNoMoreMessagesThanTheCeiling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := databasetest.SQLite(t)
		p := new(post)
		a, err := newAlerter(config(Config{}), Store{DB: db, Alone: true}, slog.New(slog.DiscardHandler), func(target, []netip.Prefix) sender { return p })
		if err != nil {
			t.Fatal(err)
		}
		var group background.Group
		group.Start(a.Run)
		batch := make([]guard.Event, 500)
		for i := range 200 {
			for j := range batch {
				batch[j] = *fullAccount(fmt.Sprintf("account-%d", (500*i+j)%10_000), time.Now())
			}
			a.Handle(batch)
			time.Sleep(time.Hour / 200)
		}
		time.Sleep(2 * time.Hour) // what the ceiling held back
		messages, inAnyHour, told := p.got(), 0, 0
		for i := range p.times {
			n := 0
			for _, at := range p.times[i:] {
				if at.Sub(p.times[i]) <= time.Hour {
					n++
				}
			}
			inAnyHour = max(inAnyHour, n)
		}
		for _, m := range messages {
			told += m.what.len()
		}
		if inAnyHour > 20 || told != 10_000 || waiting(a) != 0 {
			t.Errorf("%d messages in an hour, want 20 at most; %d accounts told or counted of 10000; %d wait", inAnyHour, told, waiting(a))
		}
		group.Stop()
		var rows, counted int
		if err := db.QueryRow(`SELECT COUNT(*), SUM(count) FROM alerts`).Scan(&rows, &counted); err != nil || counted != 10_000 {
			t.Errorf("%d rows for %d alerts, %v", rows, counted, err)
		}
		t.Logf("%d messages, %d in the worst hour, %d rows", len(messages), inAnyHour, rows)
	})
}

func TestQuietHoursHoldBackWhatIsNotImportant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // it is midnight
		cfg := config(Config{})
		cfg.Quiet, _ = ParseQuiet("22:00-07:00 UTC")
		p := new(post)
		a, err := newAlerter(cfg, Store{}, slog.New(slog.DiscardHandler), func(target, []netip.Prefix) sender { return p })
		if err != nil {
			t.Fatal(err)
		}
		var group background.Group
		group.Start(a.Run)
		defer group.Stop()
		for i := range 25 {
			a.Raise("test", "A test", fmt.Sprintf("number %d.", i))
			time.Sleep(time.Minute)
		}
		a.HandleSwitch(modeOn())
		if got := p.got(); len(got) != 1 || strings.Contains(got[0].body, "number") || !strings.Contains(got[0].body, "CAPTCHA mode is on") {
			t.Fatalf("at night: %+v", got)
		}
		time.Sleep(7*time.Hour - 25*time.Minute - time.Second)
		if n := len(p.got()); n != 1 {
			t.Errorf("%d messages before seven", n)
		}
		time.Sleep(2 * time.Second)
		got := p.got()
		if len(got) != 2 || !strings.Contains(got[1].body, "number 0.") || !strings.Contains(got[1].body, "- and 5 more") ||
			!strings.Contains(got[1].body, "20 of these were held back until the end of the quiet hours.") {
			t.Fatalf("in the morning: %+v", got)
		}
	})
}

func TestQuietHoursAreThoseOfTheirTimeZone(t *testing.T) {
	t.Parallel()
	berlin, err := ParseQuiet("22:00-07:00 Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	noonToOne, _ := ParseQuiet("12:00-13:00 UTC")
	at := func(text string) time.Time {
		one, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	for _, c := range []struct {
		q    Quiet
		at   string
		end  string // empty: not quiet
		name string
	}{
		{berlin, "2026-01-10T20:59:59Z", "", "winter"}, {berlin, "2026-01-10T21:00:00Z", "2026-01-11T06:00:00Z", "winter"},
		{berlin, "2026-07-10T20:00:00Z", "2026-07-11T05:00:00Z", "summer"}, {berlin, "2026-07-11T05:00:00Z", "", "summer"},
		{berlin, "2026-03-29T00:30:00Z", "2026-03-29T05:00:00Z", "the clock is put on"}, {berlin, "2026-10-24T22:00:00Z", "2026-10-25T06:00:00Z", "and back"},
		{noonToOne, "2026-01-10T12:30:00Z", "2026-01-10T13:00:00Z", "at noon"}, {noonToOne, "2026-01-10T13:00:00Z", "", "after it"},
		{Quiet{}, "2026-01-10T03:00:00Z", "", "none"},
	} {
		now := at(c.at)
		if quiet := c.q.holds(now); quiet != (c.end != "") {
			t.Errorf("%s, %s: quiet: %t", c.name, c.at, quiet)
		} else if quiet && !c.q.end(now).Equal(at(c.end)) {
			t.Errorf("%s, %s: until %v, want %s", c.name, c.at, c.q.end(now).UTC(), c.end)
		}
	}
	for _, bad := range []string{"22:00", "22:00-22:00", "25:00-07:00", "22-07", "22:00-07:00 Mars/Olympus", "x"} {
		if _, err := ParseQuiet(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestAChannelGetsTheKindsThatItIsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, q, stop := started(t, Config{To: []string{urlA + "#kinds=captcha-mode-on,captcha-mode-off", urlB}}, io.Discard)
		defer stop()
		a.Raise("test", "A test", "for all")
		a.HandleSwitch(modeOn())
		time.Sleep(time.Minute)
		if got := p.got(); len(got) != 1 || strings.Contains(got[0].body, "for all") || strings.Contains(got[0].body, "attack") || !strings.Contains(got[0].body, "CAPTCHA mode is on") {
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
		a := node(t, db, clocktest.At(noon), true, p, "generic+https://hooks.example.org/hunter22")
		a.Raise("test", "A test", "waits")
		a.channels[0].step()
		var id, text string
		if err := db.QueryRow(`SELECT id, shelf FROM alert_channels`).Scan(&id, &text); err != nil || !strings.Contains(text, "waits") {
			t.Fatalf("%v %s", err, text)
		}
		if all := id + text; strings.Contains(all, "hunter22") || strings.Contains(all, "example.org") || len(id) != 32 {
			t.Error(all)
		}
	})
}

func TestWhatWasRaisedIsWrittenDownAndEachKindKeepsItsNewest(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		clock := clocktest.At(noon)
		a := node(t, db, clock, true, nil)
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
