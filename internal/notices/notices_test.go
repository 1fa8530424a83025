package notices

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

	"authguard/internal/clocktest"
	"authguard/internal/database/databasetest"
	"authguard/internal/mail"
)

func TestMain(m *testing.M) { databasetest.Main(m) }

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// A post is a Mailer and what it has sent.
type post struct {
	*Mailer
	clock  *clocktest.Clock
	sent   []mail.Message
	broken error // the mail server
}

func newPost(t *testing.T, db *sql.DB, realm string) *post {
	t.Helper()
	p := &post{clock: clocktest.At(noon)}
	var err error
	p.Mailer, err = New(Config{
		DB: db, Realm: realm, Secret: []byte("the server's secret"), Now: p.clock.Now, Log: slog.New(slog.DiscardHandler),
		Find: func(_ context.Context, _, account string) (string, error) {
			if account == "nobody" {
				return "", nil
			}
			return account + "@example.org", nil
		},
		Write: func(l Login, token string) (string, string) { return "A login", l.Address + " " + token },
		Send: func(_ context.Context, l mail.Message) error {
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

// login keeps a login and sends what is due.
func (p *post) login(t *testing.T, account, address string) {
	t.Helper()
	if err := p.keep(t.Context(), Login{Account: account, Address: address, Agent: "curl/8", At: p.clock.Now()}); err != nil {
		t.Fatal(err)
	}
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
			if _, err := p.Use(t.Context(), bad); !errors.Is(err, ErrUnknown) {
				t.Errorf("%.40q: %v", bad, err)
			}
		}
		if _, err := newPost(t, db, "shop").Use(t.Context(), token); !errors.Is(err, ErrUnknown) {
			t.Errorf("good in another realm: %v", err)
		}
		var all sync.WaitGroup
		var used atomic.Int64
		for range 20 { // of many at once
			all.Go(func() {
				if _, err := p.Use(t.Context(), token); err == nil {
					used.Add(1)
				} else if !errors.Is(err, ErrUnknown) {
					t.Error(err)
				}
			})
		}
		if all.Wait(); used.Load() != 1 {
			t.Errorf("%d answers", used.Load())
		}
		for _, again := range []func(context.Context, string) (Login, error){p.Use, p.Of} {
			if _, err := again(t.Context(), token); !errors.Is(err, ErrUnknown) {
				t.Errorf("good twice: %v", err)
			}
		}
		if err := p.Again(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		p.clock.Advance(Life)
		if _, err := p.Of(t.Context(), token); !errors.Is(err, ErrUnknown) {
			t.Errorf("good after a week: %v", err)
		}
		if n, err := Purge(t.Context(), db, p.clock.Now()); n != 1 || err != nil {
			t.Errorf("%d purged, %v", n, err)
		}
		var dump string
		if err := db.QueryRow(`SELECT COALESCE(MAX(id), '') FROM login_notices`).Scan(&dump); err != nil || dump != "" {
			t.Errorf("%q %v", dump, err)
		}
	})
}

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

// A mail server that is down loses no letter: it is kept over restarts and tried again,
// less and less often, with the same link and the same Message-ID.
func TestALetterWaitsForTheMailServer(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		p := newPost(t, db, "default")
		failed, tries := 0, 0
		p.Failed = func(error) { failed++ }
		send := p.Send
		p.Send = func(ctx context.Context, l mail.Message) error { tries++; return send(ctx, l) }
		p.broken = errors.New("the mail server is down")
		p.login(t, "alice", "203.0.113.9")
		for range 600 {
			p.clock.Advance(time.Second)
			p.SendDue(t.Context())
		}
		if len(p.sent) != 0 || failed != 1 || tries != 4 { // at once, after 1, 3 and 7 minutes
			t.Errorf("%d sent, told of %d times, %d tries", len(p.sent), failed, tries)
		}
		again := newPost(t, db, "default") // after kill -9
		again.clock.Advance(time.Hour)
		again.SendDue(t.Context())
		if len(again.sent) != 1 || again.sent[0].ID == "" {
			t.Fatalf("%+v", again.sent)
		}
		if _, err := again.Use(t.Context(), again.token(t, 0)); err != nil {
			t.Error(err)
		}
		again.clock.Advance(time.Hour)
		if again.SendDue(t.Context()); len(again.sent) != 1 {
			t.Errorf("sent %d times", len(again.sent))
		}
	})
}

// A node that dies while it sends has the letter sent by another: at least once.
func TestALetterOfANodeThatDiedIsSentByAnother(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		p, other := newPost(t, db, "default"), newPost(t, db, "default")
		if err := p.keep(t.Context(), Login{Account: "alice", Address: "203.0.113.9", At: noon}); err != nil {
			t.Fatal(err)
		}
		if id, _, _, err := p.claim(t.Context()); id == "" || err != nil {
			t.Fatal(err)
		}
		if other.SendDue(t.Context()); len(other.sent) != 0 {
			t.Error("two nodes send it")
		}
		other.clock.Advance(lease)
		if other.SendDue(t.Context()); len(other.sent) != 1 {
			t.Error("nobody sends it")
		}
	})
}

// Telling waits for nobody, and what runs keeps it.
func TestTellNeverWaits(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		p := newPost(t, db, "default")
		for range 2 * mostWaiting { // nobody runs
			p.Notify(Login{Account: "alice", Address: "203.0.113.9", At: noon})
		}
		if len(p.logins) != mostWaiting {
			t.Errorf("%d wait", len(p.logins))
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		p.keepAll(ctx) // what waits at the end is kept
		if p.SendDue(t.Context()); len(p.sent) != 5 {
			t.Errorf("%d letters", len(p.sent))
		}
	})
}
