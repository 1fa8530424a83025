package passes

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
	mostPerFrom = 2 // waiting asks of one address
	sendWithin  = 15 * time.Second
)

// MailerConfig is what a Mailer needs; all but Origin and Failed is required.
type MailerConfig struct {
	Codes *Table
	// Find is the account that a name stands for and where its owner reads mail;
	// without an address there is nobody to send to.
	Find func(ctx context.Context, directory, name string) (account, email string, err error)
	// Send sends a letter; mail.Server.Send.
	Send func(ctx context.Context, l mail.Letter) error
	// Origin is where people log in, for the link; empty: no link. It is never
	// what a request claims, which would send owners to an attacker's page.
	Origin string
	// Sent is told of every code that went out; it is for the record.
	Sent func(ctx context.Context, account string, expires time.Time)
	// Failed is told when sending begins to fail.
	Failed func(error)
	Log    *slog.Logger
}

// A Mailer sends codes to the owners of accounts when somebody asks for one.
// Nobody waits for it: whether there is such an account, and whether mail can be
// sent, shows in no answer (R12). It is safe for concurrent use.
type Mailer struct {
	config  MailerConfig
	asks    chan ask
	failing atomic.Bool

	mu   sync.Mutex
	from map[[16]byte]int
}

// An ask is for a code of an account of a directory.
type ask struct {
	directory string
	guard.Pass
}

// NewMailer makes a Mailer that sends nothing before Run.
func NewMailer(c MailerConfig) *Mailer {
	return &Mailer{config: c, asks: make(chan ask, mostAsks), from: map[[16]byte]int{}}
}

// Ask asks for a code for an account of a directory. It never waits; what is too much is dropped.
func (m *Mailer) Ask(directory string, p guard.Pass) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.from[p.Place] >= mostPerFrom {
		return
	}
	select {
	case m.asks <- ask{directory, p}:
		m.from[p.Place]++
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
			if m.from[p.Place]--; m.from[p.Place] == 0 {
				delete(m.from, p.Place)
			}
			m.mu.Unlock()
			m.told(m.send(ctx, p))
		}
	}
}

// told logs what became of an ask, and tells when sending begins to fail.
func (m *Mailer) told(err error) {
	switch {
	case errors.Is(err, errNobody), errors.Is(err, ErrEnough):
	case err == nil:
		m.failing.Store(false)
	case errors.Is(err, mail.ErrAddress): // an unknown client that asks for codes must not raise an alert
		m.config.Log.Warn("an account's email address rejects a verification code", "error", err)
	default:
		m.config.Log.Error("a verification code could not be sent", "error", err)
		if !m.failing.Swap(true) && m.config.Failed != nil {
			m.config.Failed(err)
		}
	}
}

var errNobody = errors.New("passes: no recipient for the code")

func (m *Mailer) send(ctx context.Context, p ask) error {
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	account, email, err := m.config.Find(ctx, p.directory, p.Account)
	if err != nil || email == "" {
		return cmp.Or(err, errNobody)
	}
	code, expires, err := m.config.Codes.Asked(ctx, Grant{Directory: p.directory, Account: account, For: DefaultLife,
		From: p.Place})
	if err != nil {
		return err
	}
	if err := m.config.Send(ctx, mail.Letter{To: email, Subject: "Your verification code", Text: m.letter(account, code,
		expires)}); err != nil {
		// Nobody has it, so it must not stand in the way of the next one.
		return errors.Join(err, m.config.Codes.Forget(context.WithoutCancel(ctx), code))
	}
	m.config.Sent(context.WithoutCancel(ctx), account, expires)
	return nil
}

func (m *Mailer) letter(account, code string, expires time.Time) string {
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
