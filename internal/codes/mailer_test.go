package codes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/database/databasetest"
	"authguard/internal/outbox"
	"authguard/internal/testing/clocktest"
	"authguard/trusted"
)

// post is a Mailer for alice and bob, and what it has sent.
type post struct {
	*Mailer
	clock           *clocktest.Clock
	sent            []outbox.Email
	broken          error // the mail server
	failed, records int
}

func newPost(t *testing.T, db *sql.DB) *post {
	t.Helper()
	p := &post{clock: clocktest.At(noon)}
	p.Mailer = NewMailer(MailerConfig{
		Store: outbox.Store{DB: db, Now: p.clock.Now, Log: slog.New(slog.DiscardHandler)}, Codes: New(db, p.clock.Now),
		Find: func(_ context.Context, _, name string) (account, email string, err error) {
			if name == "alice" || name == "bob" {
				return name, name + "@example.org", nil
			}
			return "", "", nil
		},
		Send: func(_ context.Context, l outbox.Email) error {
			if p.broken == nil {
				p.sent = append(p.sent, l)
			}
			return p.broken
		},
		Sent:   func(context.Context, string, time.Time) { p.records++ },
		Failed: func(error) { p.failed++ },
	})
	return p
}

func (p *post) ask(account string, from byte) {
	p.Ask("", guard.Code{Account: account, Address: trusted.Key{from}})
}

func TestACodeIsMadeWhenItIsSentAndIsNotInTheOutbox(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		p := newPost(t, db)
		p.broken = errors.New("down")
		p.ask("alice", 1)
		p.box.Step(t.Context())
		p.ask("alice\x00\xff", 1) // unknown
		p.clock.Advance(time.Minute)
		p.broken = nil
		p.box.Step(t.Context())
		if len(p.sent) != 1 || p.sent[0].To != "alice@example.org" || p.failed != 1 || p.records != 1 {
			t.Fatalf("%+v, %d failures, %d records", p.sent, p.failed, p.records)
		}
		code := regexp.MustCompile(`[A-Z2-7]{4}(-[A-Z2-7]{4}){3}`).FindString(p.sent[0].Text)
		var rows, codes int
		var text string
		err := db.QueryRow(`SELECT COUNT(*), MAX(body || subject || error), (SELECT COUNT(*) FROM verification_codes)
			FROM outbox`).Scan(&rows, &text, &codes)
		if err != nil || rows != 1 || codes != 1 || strings.Contains(text, code) || strings.Contains(text, strings.ReplaceAll(code, "-", "")) {
			t.Errorf("%d rows: %s; %d codes, %v", rows, text, codes, err)
		}
		if !show(t, p.config.Codes, at(code, 1, p.clock.Now())) {
			t.Error("the code is not valid")
		}
	})
}

func TestALateCodeIsNotSent(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		p := newPost(t, db)
		p.broken = errors.New("down")
		p.ask("alice", 1)
		for range 60 {
			p.box.Step(t.Context())
			p.clock.Advance(requestLife / 60)
		}
		p.broken = nil
		if p.box.Step(t.Context()); len(p.sent) != 0 || p.failed != 1 {
			t.Errorf("%+v, %d failures", p.sent, p.failed)
		}
	})
}

func TestOneAddressFillsNoQueue(t *testing.T) {
	t.Parallel()
	p := newPost(t, databasetest.SQLite(t))
	for range 10 {
		p.ask("alice", 1)
	}
	p.ask("bob", 2)
	if p.box.Step(t.Context()); len(p.sent) != 3 {
		t.Errorf("%d emails, want 2 for one address and 1 for the other", len(p.sent))
	}
}

// An unknown client that asks for codes at an account with an unusable email address
// raises no alert.
func TestAnUnusableAddressRaisesNoAlert(t *testing.T) {
	t.Parallel()
	p := newPost(t, databasetest.SQLite(t))
	p.broken = fmt.Errorf("to alice: %w", outbox.ErrAddress)
	p.ask("alice", 1)
	p.box.Step(t.Context())
	p.broken = nil
	p.clock.Advance(time.Minute)
	if p.box.Step(t.Context()); p.failed != 0 || len(p.sent) != 0 {
		t.Errorf("%d alerts, %d emails after a retry", p.failed, len(p.sent))
	}
}

// Nor does a client that asks for more codes than an account gets.
func TestTooManyCodesRaiseNoAlert(t *testing.T) {
	t.Parallel()
	p := newPost(t, databasetest.SQLite(t))
	for i := range byte(50) {
		p.ask("alice", i)
		p.box.Step(t.Context())
	}
	if p.failed != 0 || len(p.sent) == 0 || len(p.sent) == 50 {
		t.Errorf("%d alerts, %d emails", p.failed, len(p.sent))
	}
}
