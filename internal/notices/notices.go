// Package notices emails account owners about a login from an unknown client, and accepts the answer that it was not
// theirs.
//
// It delays no login: the outbox sends the emails, at least once. An account gets few a day, so that an attacker with its
// password cannot flood the mailbox.
//
// The link in an email is valid for one answer about this login, for a week. Its token is the message's ID with a MAC:
// each attempt creates the email anew, and the database contains no token.
package notices

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"authguard/internal/mail"
	"authguard/internal/outbox"
)

const (
	// Life is how long a link is valid, and MostADay the number of emails per account and day.
	Life     = 7 * 24 * time.Hour
	MostADay = 5

	maxWaiting = 10_000
)

// ErrUnknown means that a link is forged, used or expired.
var ErrUnknown = errors.New("notices: this link has expired or was used")

// A Login is a login to notify the owner of.
type Login struct {
	Directory, Account string
	Address, Agent     string // IP address and User-Agent
	At                 time.Time
}

// Config is what a Mailer needs; Failed may be nil.
type Config struct {
	outbox.Store
	Realm string
	// Secret is the server's, the same on every node: at least 16 bytes.
	Secret []byte
	// Find returns the email address of an account's owner; empty if there is none, and nothing is sent.
	Find func(ctx context.Context, directory, account string) (email string, err error)
	// Write returns the email about a login; token is for its link.
	Write func(login Login, token string) (subject, text string)
	// Send sends an email; mail.Server.Send.
	Send func(ctx context.Context, l mail.Message) error
	// Failed is called when sending starts to fail.
	Failed func(error)
}

// A Mailer sends one realm's emails and checks their links. Safe for concurrent use.
type Mailer struct {
	config Config
	key    []byte
	box    *outbox.Channel
}

// New returns a Mailer that sends nothing before Run.
func New(c Config) (*Mailer, error) {
	if len(c.Secret) < 16 {
		return nil, errors.New("notices: a Secret of 16 bytes is required")
	}
	key, err := hkdf.Key(sha256.New, c.Secret, nil, "authguard login notices "+c.Realm, 32)
	if err != nil {
		return nil, fmt.Errorf("notices: deriving a key: %w", err)
	}
	m := &Mailer{config: c, key: key}
	m.box = outbox.New(outbox.Config{
		Store: c.Store, Name: "notices/" + c.Realm, Send: m.send, Wanted: m.wanted,
		Limits:     outbox.Limits{Waiting: maxWaiting, PerSubject: MostADay, Window: 24 * time.Hour},
		FirstRetry: time.Minute, LongestRetry: time.Hour, Failed: c.Failed,
	})
	return m, nil
}

// Notify notifies the owner of a login. It never blocks; if there are too many, it drops the login and logs it.
func (m *Mailer) Notify(l Login) {
	body, err := json.Marshal(l)
	if err != nil || !m.box.Add(outbox.Message{
		ID: rand.Text(), Subject: l.Directory + "/" + l.Account, Body: string(body), At: l.At, Expires: l.At.Add(Life),
	}) {
		m.config.Log.Warn("too many sign-ins from unknown clients: one owner is not notified", "account", l.Account)
	}
}

// Run sends until ctx ends.
func (m *Mailer) Run(ctx context.Context) { m.box.Run(ctx) }

// SendDue sends the due emails.
func (m *Mailer) SendDue(ctx context.Context) { m.box.Step(ctx) }

func loginOf(m outbox.Message) (l Login, err error) {
	err = json.Unmarshal([]byte(m.Body), &l)
	return l, err
}

func (m *Mailer) wanted(ctx context.Context, of outbox.Message) (bool, error) {
	l, err := loginOf(of)
	if err != nil {
		return false, err
	}
	email, err := m.config.Find(ctx, l.Directory, l.Account)
	return email != "", err
}

func (m *Mailer) send(ctx context.Context, of *outbox.Message) error {
	l, err := loginOf(*of)
	if err != nil {
		return err
	}
	email, err := m.config.Find(ctx, l.Directory, l.Account)
	if err == nil && email != "" {
		subject, text := m.config.Write(l, m.token(of.ID))
		sum := sha256.Sum256([]byte(of.ID))
		err = m.config.Send(ctx, mail.Message{To: email, Subject: subject, Text: text, ID: encode(sum[:16]) + "@authguard"})
	}
	switch {
	case errors.Is(err, mail.ErrAddress):
		m.config.Log.Warn("an account's email address rejects a notification; retrying", "error", err)
	case err != nil:
		m.config.Log.Error("a notification to an account's owner could not be sent; retrying", "error", err)
	}
	return err
}

// Of returns the login of a valid link. It changes nothing, because mail scanners open links too.
func (m *Mailer) Of(ctx context.Context, token string) (Login, error) {
	_, l, err := m.open(ctx, token)
	return l, err
}

// Use answers a link: of concurrent uses of it, one calls do and the others get ErrUnknown. If do fails, the link stays
// valid.
func (m *Mailer) Use(ctx context.Context, token string, do func(Login) error) error {
	sent, l, err := m.open(ctx, token)
	if err != nil {
		return err
	}
	removed, err := m.box.Remove(ctx, sent.ID)
	if err != nil {
		return fmt.Errorf("notices: answer: %w", err)
	}
	if !removed {
		return ErrUnknown
	}
	if err := do(l); err != nil {
		return errors.Join(err, m.box.Restore(ctx, sent))
	}
	return nil
}

func (m *Mailer) open(ctx context.Context, token string) (sent outbox.Message, l Login, err error) {
	id, _, _ := strings.Cut(token, ".")
	if !hmac.Equal([]byte(m.token(id)), []byte(token)) {
		return sent, l, ErrUnknown
	}
	if sent, err = m.box.Find(ctx, id); err != nil {
		return sent, l, fmt.Errorf("notices: read: %w", err)
	}
	if sent.ID == "" {
		return sent, l, ErrUnknown
	}
	l, err = loginOf(sent)
	return sent, l, err
}

// token returns the ID and 128 bits of its MAC.
func (m *Mailer) token(id string) string {
	mac := hmac.New(sha256.New, m.key)
	mac.Write([]byte(id))
	return id + "." + encode(mac.Sum(nil)[:16])
}

func encode(b []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b)
}
