//go:build !race

package alerts

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authguard/internal/attacks"
	"authguard/internal/background"
	"authguard/internal/database/databasetest"
	"authguard/internal/outbox"
)

// 10,000 attacks in an hour, with the outbox in a database.
func TestR24AnHourOf10000AttacksIsNoMoreMessagesThanTheCeiling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := databasetest.SQLite(t)
		p := new(post)
		a, err := newAlerter(config(Config{}), outbox.Store{DB: db, Log: slog.New(slog.DiscardHandler)}, func(target, []netip.Prefix) sender { return p })
		if err != nil {
			t.Fatal(err)
		}
		stop := background.Go(a.Run)
		for i := range 10_000 {
			a.AttackBegan(attacks.Beginning{Attack: attacks.Attack{ID: fmt.Sprint(i), Kind: attacks.Account, Subject: fmt.Sprint("account-", i)}})
			if i%50 == 0 {
				time.Sleep(time.Hour / 200)
			}
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
		stop()
		var rows, counted int
		if err := db.QueryRow(`SELECT COUNT(*), SUM(count) FROM alerts`).Scan(&rows, &counted); err != nil || counted != 10_000 {
			t.Errorf("%d rows for %d alerts, %v", rows, counted, err)
		}
		t.Logf("%d messages, %d in the worst hour, %d rows", len(messages), inAnyHour, rows)
	})
}

func TestAlertsBeyondTheBoundAreCountedAndTheImportantOnesKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, _, stop := started(t, Config{}, io.Discard)
		defer stop()
		p.set(true, false)
		for range 10000 {
			a.Raise("test", "Something happened", "again")
		}
		a.HandleSwitch(modeOn())
		if n := waiting(a); n != 10001 {
			t.Fatalf("%d alerts wait", n)
		}
		p.set(false, false)
		time.Sleep(time.Hour)
		got := p.got()
		if len(got) != 1 || !strings.Contains(got[0].body, "- and 9980 more") || !strings.Contains(got[0].body, "CAPTCHA mode is on") {
			t.Fatalf("%+v", got)
		}
	})
}
