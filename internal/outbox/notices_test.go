package outbox

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/internal/database/databasetest"
	"authguard/internal/testing/clocktest"
)

// A post is a Mailer and what it has sent.
type post struct {
	code      string
	forgotten int
	*Mailer
	clock  *clocktest.Clock
	sent   []Email
	broken error // the mail server
	failed int
}

func newPost(t *testing.T, db *sql.DB, realm string) *post {
	t.Helper()
	p := &post{clock: clocktest.At(noon)}
	var err error
	p.Mailer, err = NewMailer(MailerConfig{
		Store: Store{DB: db, Now: p.clock.Now, Log: slog.New(slog.DiscardHandler)},
		Realm: realm, Purpose: AboutNewClient, Secret: []byte("the server's secret"), Failed: func(error) { p.failed++ },
		Find: func(_ context.Context, _, account string) (string, error) {
			if account == "nobody" {
				return "", nil
			}
			return account + "@example.org", nil
		},
		Code: func(context.Context, Notice) (string, func(context.Context) error, error) {
			return p.code, func(context.Context) error { p.forgotten++; return nil }, nil
		},
		Write: func(l Notice, token string) (string, string) { return "A login", l.Address + l.Code + " " + token },
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

// login notifies of a login and sends what is due.
func (p *post) login(t *testing.T, account, address string) {
	t.Helper()
	p.Notify(Notice{Account: account, Address: address, Agent: "curl/8", At: p.clock.Now()})
	p.SendDue(t.Context())
}

// token is that of the nth letter.
func (p *post) token(t *testing.T, n int) string {
	t.Helper()
	if len(p.sent) <= n {
		t.Fatalf("%d letters", len(p.sent))
	}
	_, token, _ := strings.Cut(p.sent[n].Text, " ")
	return token
}

func TestALinkIsGoodForOneAnswerAboutItsLogin(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		p := newPost(t, db, "default")
		p.login(t, "alice", "203.0.113.9")
		p.login(t, "nobody", "203.0.113.9")
		if len(p.sent) != 1 || p.sent[0].To != "alice@example.org" {
			t.Fatalf("%+v", p.sent)
		}
		token := p.token(t, 0)
		for range 2 { // looking uses nothing up
			if l, err := p.Of(t.Context(), token); err != nil || l.Account != "alice" || l.Address != "203.0.113.9" || !l.At.Equal(noon) {
				t.Fatalf("%+v %v", l, err)
			}
		}
		id, _, _ := strings.Cut(token, ".")
		for _, bad := range []string{"", ".", id, id + ".", id + ".AAAA", strings.ToLower(token), token + "A", "A" + token, strings.Repeat("A", 1<<20)} {
			if err := p.Use(t.Context(), bad, done); !errors.Is(err, ErrLink) {
				t.Errorf("%.40q: %v", bad, err)
			}
		}
		if err := newPost(t, db, "shop").Use(t.Context(), token, done); !errors.Is(err, ErrLink) {
			t.Errorf("good in another realm: %v", err)
		}
		var all sync.WaitGroup
		var used atomic.Int64
		for range 20 { // of many at once
			all.Go(func() {
				err := p.Use(t.Context(), token, func(Notice) error { used.Add(1); return nil })
				if err != nil && !errors.Is(err, ErrLink) {
					t.Error(err)
				}
			})
		}
		if all.Wait(); used.Load() != 1 {
			t.Errorf("%d answers", used.Load())
		}
		if _, err := p.Of(t.Context(), token); !errors.Is(err, ErrLink) {
			t.Errorf("good twice: %v", err)
		}
		p.login(t, "alice", "203.0.113.9")
		token, no := p.token(t, 1), errors.New("no")
		if err := p.Use(t.Context(), token, func(Notice) error { return no }); !errors.Is(err, no) {
			t.Error(err)
		}
		if _, err := p.Of(t.Context(), token); err != nil {
			t.Errorf("an answer that failed has used it up: %v", err)
		}
		p.clock.Advance(linkLife)
		if _, err := p.Of(t.Context(), token); !errors.Is(err, ErrLink) {
			t.Errorf("good after a week: %v", err)
		}
		var dump string
		if err := db.QueryRow(`SELECT channel || id || subject || body FROM outbox`).Scan(&dump); err != nil || strings.Contains(dump, token) {
			t.Errorf("%q %v", dump, err)
		}
	})
}

func done(Notice) error { return nil }

// Whoever has the password and many addresses fills no mailbox; the next day its owner is
// told again.
func TestAnAccountGetsFewLettersADay(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		p := newPost(t, db, "default")
		for range 100 {
			p.clock.Advance(time.Minute)
			p.login(t, "alice", "203.0.113.9")
		}
		p.login(t, "bob", "203.0.113.9")
		if len(p.sent) != MostADay+1 || p.sent[MostADay].To != "bob@example.org" {
			t.Errorf("%d letters", len(p.sent))
		}
		p.clock.Advance(24 * time.Hour)
		p.login(t, "alice", "203.0.113.9")
		if len(p.sent) != MostADay+2 {
			t.Errorf("%d letters the next day", len(p.sent))
		}
	})
}

// A mail server that is down costs no email: it is sent after a restart, with the same link and Message-ID.
func TestAnEmailWaitsForTheMailServer(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		p := newPost(t, db, "default")
		p.broken = errors.New("the mail server is down")
		p.login(t, "alice", "203.0.113.9")
		p.login(t, "bob", "203.0.113.9")
		again := newPost(t, db, "default")
		again.clock.Advance(time.Minute)
		again.SendDue(t.Context())
		if len(again.sent) != 2 || again.sent[0].ID == "" || p.failed != 1 {
			t.Fatalf("%+v, %d failures reported", again.sent, p.failed)
		}
		if err := p.Use(t.Context(), again.token(t, 0), done); err != nil {
			t.Error(err)
		}
	})
}

// A stopped login is an email with a code. Without a code, which the owner has, there is none, and it does not count:
// retries leave the owner the next ones. A code that cannot be sent is forgotten, and after an hour none is made.
func TestR32AStoppedLoginIsAnEmailWithACode(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		p := newPost(t, db, "default")
		stopped := func() {
			t.Helper()
			p.Notify(Notice{Account: "alice", Address: "203.0.113.9", At: p.clock.Now(), Stopped: true})
			p.SendDue(t.Context())
		}
		for range 20 {
			stopped()
		}
		if p.code = "-CODE"; len(p.sent) != 0 {
			t.Fatalf("without a code: %+v", p.sent)
		}
		if stopped(); len(p.sent) != 1 || !strings.HasPrefix(p.sent[0].Text, "203.0.113.9-CODE ") {
			t.Fatalf("%+v", p.sent)
		}
		p.broken = errors.New("the mail server is down")
		if stopped(); p.forgotten != 1 {
			t.Errorf("%d codes forgotten", p.forgotten)
		}
		p.broken = nil
		p.clock.Advance(2 * time.Minute)
		if p.SendDue(t.Context()); len(p.sent) != 2 {
			t.Errorf("after the outage: %d emails", len(p.sent))
		}
		p.broken = errors.New("the mail server is down")
		stopped()
		p.broken = nil
		p.clock.Advance(stoppedLife)
		if p.SendDue(t.Context()); len(p.sent) != 2 || p.forgotten != 2 {
			t.Errorf("an hour later: %d emails, %d codes forgotten", len(p.sent), p.forgotten)
		}
	})
}
