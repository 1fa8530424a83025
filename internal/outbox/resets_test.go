package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"authguard/internal/database/databasetest"
	"authguard/internal/testing/clocktest"
)

// newResets returns a mailer of reset links for accounts whose versions are in the map.
func newResets(t *testing.T, db *sql.DB, realm string, versions map[string]int64) *post {
	t.Helper()
	p := &post{clock: clocktest.At(noon)}
	var err error
	p.Mailer, err = NewMailer(MailerConfig{
		Store: Store{DB: db, Now: p.clock.Now, Log: slog.New(slog.DiscardHandler)},
		Realm: realm, Purpose: AboutReset, Secret: []byte("the server's secret"),
		Find: func(_ context.Context, _, account string) (string, error) {
			if versions[account] == 0 {
				return "", nil
			}
			return account + "@example.org", nil
		},
		Version: func(_ context.Context, l Notice) (int64, error) { return versions[l.Account], nil },
		Write:   func(_ Notice, token string) (string, string) { return "Reset", "link " + token },
		Send: func(_ context.Context, l Email) error {
			if p.broken == nil {
				p.sent = append(p.sent, l)
			}
			return p.broken
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *post) opens(t *testing.T, token string) bool {
	t.Helper()
	l, err := p.Of(t.Context(), token)
	if err != nil && !errors.Is(err, ErrLink) {
		t.Error(err)
	}
	return err == nil && l.Account == "alice"
}

func TestAResetLinkIsValidForHalfAnHour(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		p := newResets(t, db, "default", map[string]int64{"alice": 7})
		p.login(t, "alice", "203.0.113.9")
		token := p.token(t, 0)
		for range 2 { // a mail scanner opens it as well
			if l, err := p.Of(t.Context(), token); err != nil || l.Version != 7 {
				t.Fatalf("%+v %v", l, err)
			}
		}
		signed, mac, _ := strings.Cut(token, ".")
		id, _, _ := strings.Cut(signed, "-")
		for _, bad := range []string{id, signed, id + "-8." + mac, id + "." + mac, signed + ".", token + "A"} {
			if p.opens(t, bad) {
				t.Errorf("%q is valid", bad)
			}
		}
		if newResets(t, db, "shop", map[string]int64{"alice": 7}).opens(t, token) || newPost(t, db, "default").opens(t, token) {
			t.Error("valid in another realm, or for another purpose")
		}
		var dump string
		if err := db.QueryRow(`SELECT channel || id || subject || body FROM outbox`).Scan(&dump); err != nil || strings.Contains(dump, mac) {
			t.Errorf("%q %v", dump, err)
		}
		p.clock.Advance(30*time.Minute - time.Second)
		if !p.opens(t, token) {
			t.Error("void before its time")
		}
		p.clock.Advance(time.Second)
		if p.opens(t, token) {
			t.Error("valid after half an hour")
		}
	})
}

func TestAChangedAccountAndANewerLinkVoidAResetLink(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		versions := map[string]int64{"alice": 1}
		p := newResets(t, db, "default", versions)
		p.login(t, "alice", "203.0.113.9")
		p.clock.Advance(time.Second)
		p.broken = errors.New("the mail server is down")
		p.login(t, "alice", "203.0.113.9")
		if !p.opens(t, p.token(t, 0)) {
			t.Error("a link that was not sent voids the one before")
		}
		p.broken = nil
		p.clock.Advance(time.Minute)
		p.SendDue(t.Context())
		if p.opens(t, p.token(t, 0)) || !p.opens(t, p.token(t, 1)) {
			t.Error("not the newest link alone is valid")
		}
		versions["alice"]++ // a new password
		if p.opens(t, p.token(t, 1)) {
			t.Error("valid after a change")
		}
	})
}

func TestAnAccountGetsFiveResetLinksADay(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		p := newResets(t, db, "default", map[string]int64{"alice": 1})
		for i := range 20 {
			p.login(t, "alice", fmt.Sprintf("203.0.113.%d", i))
			p.login(t, "mallory", "203.0.113.9")
			p.clock.Advance(time.Hour) // the links have expired; they count all the same
		}
		if len(p.sent) != MostADay {
			t.Errorf("%d emails", len(p.sent))
		}
		p.clock.Advance(24 * time.Hour)
		if p.login(t, "alice", "203.0.113.9"); len(p.sent) != MostADay+1 {
			t.Errorf("%d emails the next day", len(p.sent))
		}
		p.broken = errors.New("the mail server is down")
		p.login(t, "alice", "203.0.113.9")
		p.clock.Advance(resetLinkLife)
		p.broken = nil
		if p.SendDue(t.Context()); len(p.sent) != MostADay+1 {
			t.Error("an expired link was sent")
		}
	})
}
