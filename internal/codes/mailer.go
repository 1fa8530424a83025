package codes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/mail"
)

const (
	workers     = 4
	mostAsks    = 256
	mostPerFrom = 2 // queued requests per IP address
	sendWithin  = 15 * time.Second
)

// MailerConfig configures a Mailer; all but Origin and Failed are required.
type MailerConfig struct {
	Codes *Table
	// Find returns the account of a name and its owner's email address; without an address, no email is sent.
	Find func(ctx context.Context, directory, name string) (account, email string, err error)
	// Send sends an email; mail.Server.Send.
	Send func(ctx context.Context, l mail.Message) error
	// Origin is the login page's origin, for the link; empty: no link. It must not come from a request, or owners would
	// get a link to an attacker's page.
	Origin string
	// Sent records every code that was sent.
	Sent func(ctx context.Context, account string, expires time.Time)
	// Failed is called when sending starts to fail.
	Failed func(error)
	Log    *slog.Logger
}

// Mailer sends verification codes to account owners on request. Requests do not wait for it, so no response reveals
// whether the account exists or mail works (R12). It is safe for concurrent use.
type Mailer struct {
	config  MailerConfig
	asks    chan ask
	failing atomic.Bool

	mu   sync.Mutex
	from map[[16]byte]int
}

type ask struct {
	directory string
	guard.Code
}

// NewMailer returns a Mailer that sends nothing before Run.
func NewMailer(c MailerConfig) *Mailer {
	return &Mailer{config: c, asks: make(chan ask, mostAsks), from: map[[16]byte]int{}}
}

// Ask requests a code for an account of a directory. It never waits; it drops excess requests.
func (m *Mailer) Ask(directory string, p guard.Code) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.from[p.Address] >= mostPerFrom {
		return
	}
	select {
	case m.asks <- ask{directory, p}:
		m.from[p.Address]++
	default:
		m.config.Log.Warn("too many requests for verification codes: one was dropped")
	}
}

// Run sends until ctx ends.
func (m *Mailer) Run(ctx context.Context) {
	var all background.Group
	defer all.Stop()
	for range workers {
		all.Start(m.work)
	}
	<-ctx.Done()
}

func (m *Mailer) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-m.asks:
			m.mu.Lock()
			if m.from[p.Address]--; m.from[p.Address] == 0 {
				delete(m.from, p.Address)
			}
			m.mu.Unlock()
			m.sent(m.send(ctx, p))
		}
	}
}

// sent logs the result of a request, and reports when sending starts to fail.
func (m *Mailer) sent(err error) {
	switch {
	case errors.Is(err, errUnknownAccount), errors.Is(err, ErrEnough):
	case err == nil:
		m.failing.Store(false)
	case errors.Is(err, mail.ErrAddress): // an unknown client that requests codes must not raise an alert
		m.config.Log.Warn("an account's email address rejects a verification code", "error", err)
	default:
		m.config.Log.Error("a verification code could not be sent", "error", err)
		if !m.failing.Swap(true) && m.config.Failed != nil {
			m.config.Failed(err)
		}
	}
}

var errUnknownAccount = errors.New("codes: no recipient for the code")

func (m *Mailer) send(ctx context.Context, p ask) error {
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	account, email, err := m.config.Find(ctx, p.directory, p.Account)
	if err != nil || email == "" {
		return cmp.Or(err, errUnknownAccount)
	}
	code, expires, err := m.config.Codes.Asked(ctx, Grant{Directory: p.directory, Account: account, For: DefaultLife,
		From: p.Address})
	if err != nil {
		return err
	}
	if err := m.config.Send(ctx, mail.Message{To: email, Subject: "Your verification code", Text: m.message(account, code,
		expires)}); err != nil {
		// The code reached no one, so it must not count against the next one.
		return errors.Join(err, m.config.Codes.Forget(context.WithoutCancel(ctx), code))
	}
	m.config.Sent(context.WithoutCancel(ctx), account, expires)
	return nil
}

func (m *Mailer) message(account, code string, expires time.Time) string {
	at := "the sign-in page"
	if m.config.Origin != "" {
		at = m.config.Origin + "/login"
	}
	return fmt.Sprintf(`A verification code was requested for the account %s.

If you requested it, open %s and enter your user name, your password and this code:

    %s

The code works once, from the first network that uses it, until %s.

If you did not request it, ignore this email. The code is useless without your password.
Do not share it. The staff of this site will never ask you for it.
`, account, at, Spell(code), expires.UTC().Format("15:04 MST on 2 January 2006"))
}
