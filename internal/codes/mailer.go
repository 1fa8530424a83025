package codes

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"authguard/guard"
	"authguard/internal/outbox"
	"authguard/internal/times"
	"authguard/trusted"
)

const (
	mailWorkers = 4
	maxRequests = 256
	maxPerFrom  = 2                // waiting requests per IP address
	requestLife = 10 * time.Minute // a later code helps no one
)

// MailerConfig configures a Mailer; all but Origin and Failed are required.
type MailerConfig struct {
	outbox.Store
	Codes *Table
	// Find returns the account of a name and its owner's email address; without an address, no email is sent.
	Find func(ctx context.Context, directory, name string) (account, email string, err error)
	// Send sends an email; outbox.MailServer.Send.
	Send func(ctx context.Context, l outbox.Email) error
	// Origin is the login page's origin, for the link; empty: no link. It must not come from a request, or owners would
	// get a link to an attacker's page.
	Origin string
	// Sent records every code that was sent.
	Sent func(ctx context.Context, account string, expires time.Time)
	// Failed is called when sending starts to fail.
	Failed func(error)
}

// Mailer sends verification codes to account owners on request. Requests do not wait for it, so no response reveals
// whether the account exists or mail works (R12). Each attempt makes the code that it sends: the outbox contains none.
// It is safe for concurrent use.
type Mailer struct {
	config MailerConfig
	box    *outbox.Channel
}

// A request is the body of a message in the outbox. The message's Subject is the digest of the IP address.
type request struct{ Directory, Account string }

// NewMailer returns a Mailer that sends nothing before Run.
func NewMailer(c MailerConfig) *Mailer {
	m := &Mailer{config: c}
	m.box = outbox.New(outbox.Config{
		Store: c.Store, Name: "codes/" + c.Codes.realm, Send: m.send, Wanted: m.wanted,
		Limits:     outbox.Limits{Waiting: maxRequests, PerSubject: maxPerFrom},
		FirstRetry: 5 * time.Second, LongestRetry: time.Minute, Workers: mailWorkers, Failed: c.Failed,
	})
	return m
}

// Ask requests a code for an account of a directory. It never waits; it drops excess requests.
func (m *Mailer) Ask(directory string, p guard.Code) {
	body, err := json.Marshal(request{directory, p.Account})
	now := m.box.Now()
	if err != nil || !m.box.Add(outbox.Message{Subject: text(p.Address), Body: string(body), At: now,
		Expires: now.Add(requestLife)}) {
		m.config.Log.Warn("too many requests for verification codes: one was dropped")
	}
}

// Run sends until ctx ends.
func (m *Mailer) Run(ctx context.Context) { m.box.Run(ctx) }

func (m *Mailer) find(ctx context.Context, body string) (r request, account, email string, err error) {
	if err = json.Unmarshal([]byte(body), &r); err == nil {
		account, email, err = m.config.Find(ctx, r.Directory, r.Account)
	}
	return r, account, email, err
}

func (m *Mailer) wanted(ctx context.Context, of outbox.Message) (bool, error) {
	_, _, email, err := m.find(ctx, of.Body)
	return email != "", err
}

// send makes and sends a code. A request that cannot succeed later ends without an error.
func (m *Mailer) send(ctx context.Context, of *outbox.Message) error {
	err := m.sendCode(ctx, *of)
	switch {
	case errors.Is(err, ErrEnough):
		return nil
	case errors.Is(err, outbox.ErrAddress): // an unknown client that requests codes must not raise an alert
		m.config.Log.Warn("an account's email address rejects a verification code", "error", err)
		return nil
	case err != nil:
		m.config.Log.Error("a verification code could not be sent", "error", err)
	}
	return err
}

func (m *Mailer) sendCode(ctx context.Context, of outbox.Message) error {
	r, account, email, err := m.find(ctx, of.Body)
	if err != nil || email == "" {
		return err
	}
	var from trusted.Key
	if _, err := hex.Decode(from[:], []byte(of.Subject)); err != nil {
		return err
	}
	code, expires, err := m.config.Codes.Asked(ctx, Grant{Directory: r.Directory, Account: account, For: DefaultLife,
		From: from})
	if err != nil {
		return err
	}
	if err := m.config.Send(ctx, outbox.Email{To: email, Subject: "Your verification code", Text: m.message(account, code,
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
`, account, at, guard.SpellCode(code), times.Text(expires.UTC()))
}
