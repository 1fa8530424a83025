package outbox

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
	"strconv"
	"strings"
	"time"
)

const (
	// linkLife is how long a link is valid, resetLinkLife that of AboutReset, and MostADay the number of emails per
	// account and day. After stoppedLife, a code helps no one.
	linkLife      = 7 * 24 * time.Hour
	resetLinkLife = 30 * time.Minute
	stoppedLife   = time.Hour
	MostADay      = 5

	maxWaiting = 10_000
	day        = 24 * time.Hour
)

// A Purpose is the subject of emails. A link is valid for its own purpose only.
type Purpose string

// The purposes. They are parts of channel names in the outbox.
const (
	AboutNewClient      Purpose = "notices" // a login from an unknown client
	AboutReset          Purpose = "resets"  // a forgotten password
	AboutPasswordChange Purpose = "changes" // a password was reset; no link
	AboutPasskey        Purpose = "passkeys"
	AboutLeakedPassword Purpose = "leaked" // a login with a password that is known from leaks, once in 30 days; no link
)

func (p Purpose) life() time.Duration {
	if p == AboutReset {
		return resetLinkLife
	}
	return linkLife
}

// limits returns how many emails an account gets within a window.
func (p Purpose) limits() (most int, window time.Duration) {
	if p == AboutLeakedPassword {
		return 1, 30 * day
	}
	return MostADay, day
}

// ErrLink means that a link is forged, used or expired.
var ErrLink = errors.New("outbox: this link has expired or was used")

// A Notice is about a login, or about a request to reset a password.
type Notice struct {
	Directory, Account string
	Address, Agent     string // IP address and User-Agent
	At                 time.Time
	// Stopped: the password was right, but the client needs a verification code (R32). Code is one, for Write only.
	Stopped bool   `json:",omitempty"`
	Code    string `json:"-"`
	Version int64  `json:"-"` // of the account, if links are bound to it; set by Of and Use
}

// MailerConfig is what a Mailer needs; Code, Version, Sent and Failed may be nil.
type MailerConfig struct {
	Store
	Realm   string
	Purpose Purpose
	// Secret is the server's, the same on every node: at least 16 bytes.
	Secret []byte
	// Find returns the email address of an account's owner; empty if there is none, and nothing is sent.
	Find func(ctx context.Context, directory, account string) (email string, err error)
	// Write returns the email about a login; token is for its link.
	Write func(login Notice, token string) (subject, text string)
	// Code makes a code for a Stopped login, and returns how to forget it if it cannot be sent. Without a code, which
	// the owner has or gets too often, there is no email.
	Code func(ctx context.Context, login Notice) (code string, forget func(context.Context) error, err error)
	// Send sends an email; MailServer.Send.
	Send func(ctx context.Context, l Email) error
	// Version returns the account's version. With it, a link is valid for this version only, and only the newest link of
	// an account is valid.
	Version func(ctx context.Context, l Notice) (int64, error)
	// Sent, unless nil, records a sent email.
	Sent func(ctx context.Context, l Notice)
	// Failed is called when sending starts to fail.
	Failed func(error)
}

// A Mailer emails account owners of one realm, and checks the links in these emails. It delays no request. An account
// gets few emails a day, so that an attacker cannot flood the mailbox. Safe for concurrent use.
//
// The token of a link is the message's ID with a MAC: each attempt creates the email anew, and the database contains no
// token.
type Mailer struct {
	config MailerConfig
	key    []byte
	box    *Channel
}

// NewMailer returns a Mailer that sends nothing before Run.
func NewMailer(c MailerConfig) (*Mailer, error) {
	if len(c.Secret) < 16 {
		return nil, errors.New("outbox: a Secret of 16 bytes is required")
	}
	key, err := hkdf.Key(sha256.New, c.Secret, nil, "authguard links of "+string(c.Purpose)+" "+c.Realm, 32)
	if err != nil {
		return nil, fmt.Errorf("outbox: deriving a key: %w", err)
	}
	m := &Mailer{config: c, key: key}
	most, window := c.Purpose.limits()
	m.box = New(Config{
		Store: c.Store, Name: string(c.Purpose) + "/" + c.Realm, Send: m.send, Wanted: m.wanted,
		Limits: Limits{Waiting: maxWaiting, PerSubject: most, Window: window},
		// A slow mail server must not delay a link until it has expired.
		FirstRetry: time.Minute, LongestRetry: time.Hour, Workers: 4, Failed: c.Failed,
	})
	return m, nil
}

// Notify sends the owner an email. It never blocks; if there are too many, it drops the email and logs it. Messages
// stay for the limit's window at least, because it counts them.
func (m *Mailer) Notify(l Notice) {
	body, err := json.Marshal(l)
	_, window := m.config.Purpose.limits()
	if err != nil || !m.box.Add(Message{
		ID: rand.Text(), Subject: subjectOf(l), Body: string(body), At: l.At,
		Expires: l.At.Add(max(m.config.Purpose.life(), window)),
	}) {
		m.config.Log.Warn("too many emails: one owner is not notified", "about", m.config.Purpose, "account", l.Account)
	}
}

func subjectOf(l Notice) string { return l.Directory + "/" + l.Account }

// Run sends until ctx ends.
func (m *Mailer) Run(ctx context.Context) { m.box.Run(ctx) }

// SendDue sends the due emails.
func (m *Mailer) SendDue(ctx context.Context) { m.box.Step(ctx) }

func noticeOf(m Message) (l Notice, err error) {
	err = json.Unmarshal([]byte(m.Body), &l)
	return l, err
}

func (m *Mailer) wanted(ctx context.Context, of Message) (bool, error) {
	l, err := noticeOf(of)
	if err != nil {
		return false, err
	}
	email, err := m.config.Find(ctx, l.Directory, l.Account)
	return email != "", err
}

func (m *Mailer) send(ctx context.Context, of *Message) error {
	l, err := noticeOf(*of)
	if err != nil {
		return err
	}
	if m.expired(of.At) || l.Stopped && !m.box.Now().Before(of.At.Add(stoppedLife)) {
		return nil
	}
	email, err := m.config.Find(ctx, l.Directory, l.Account)
	id := of.ID
	if err == nil && email != "" {
		id, err = m.bound(ctx, id, l)
	}
	forget := func(context.Context) error { return nil }
	if err == nil && email != "" && l.Stopped {
		if l.Code, forget, err = m.config.Code(ctx, l); l.Code == "" {
			if err == nil { // it does not count toward MostADay
				_, err = m.box.Remove(ctx, of.ID)
			}
			return err
		}
	}
	if err == nil && email != "" {
		subject, text := m.config.Write(l, m.token(id))
		sum := sha256.Sum256([]byte(of.ID))
		err = m.config.Send(ctx, Email{To: email, Subject: subject, Text: text, ID: encode(sum[:16]) + "@authguard"})
		if err != nil {
			err = errors.Join(err, forget(context.WithoutCancel(ctx)))
		}
		if err == nil && m.config.Sent != nil {
			m.config.Sent(context.WithoutCancel(ctx), l)
		}
	}
	switch {
	case errors.Is(err, ErrAddress):
		m.config.Log.Warn("an account's email address rejects a notification; retrying", "error", err)
	case err != nil:
		m.config.Log.Error("a notification to an account's owner could not be sent; retrying", "error", err)
	}
	return err
}

func (m *Mailer) expired(at time.Time) bool {
	return !m.box.Now().Before(at.Add(m.config.Purpose.life()))
}

// bound returns a message's ID with the account's version, if links are bound to it.
func (m *Mailer) bound(ctx context.Context, id string, l Notice) (string, error) {
	if m.config.Version == nil {
		return id, nil
	}
	version, err := m.config.Version(ctx, l)
	return id + "-" + strconv.FormatInt(version, 10), err
}

// Of returns the login of a valid link. It changes nothing, because mail scanners open links too.
func (m *Mailer) Of(ctx context.Context, token string) (Notice, error) {
	_, l, err := m.open(ctx, token)
	return l, err
}

// Use answers a link: of concurrent uses of it, one calls do and the others get ErrUnknown. If do fails, the link stays
// valid.
func (m *Mailer) Use(ctx context.Context, token string, do func(Notice) error) error {
	sent, l, err := m.open(ctx, token)
	if err != nil {
		return err
	}
	removed, err := m.box.Remove(ctx, sent.ID)
	if err != nil {
		return fmt.Errorf("outbox: answer: %w", err)
	}
	if !removed {
		return ErrLink
	}
	if err := do(l); err != nil {
		return errors.Join(err, m.box.Restore(ctx, sent))
	}
	return nil
}

func (m *Mailer) open(ctx context.Context, token string) (sent Message, l Notice, err error) {
	signed, _, _ := strings.Cut(token, ".")
	if !hmac.Equal([]byte(m.token(signed)), []byte(token)) {
		return sent, l, ErrLink
	}
	id, version, _ := strings.Cut(signed, "-")
	if sent, err = m.box.Find(ctx, id); err != nil {
		return sent, l, fmt.Errorf("outbox: read: %w", err)
	}
	if sent.ID == "" || m.expired(sent.At) {
		return sent, l, ErrLink
	}
	if l, err = noticeOf(sent); err != nil || m.config.Version == nil {
		return sent, l, err
	}
	l.Version, _ = strconv.ParseInt(version, 10, 64) // signed
	return sent, l, m.current(ctx, sent.ID, signed, l)
}

// current returns ErrUnknown if the account has changed since the link was sent, or has a newer link.
func (m *Mailer) current(ctx context.Context, id, signed string, l Notice) error {
	now, err := m.bound(ctx, id, l)
	newest, failed := m.box.Newest(ctx, subjectOf(l))
	switch {
	case err != nil || failed != nil:
		return fmt.Errorf("outbox: read: %w", errors.Join(err, failed))
	case now != signed || newest != "" && newest != id:
		return ErrLink
	}
	return nil
}

// token returns the text and 128 bits of its MAC.
func (m *Mailer) token(id string) string {
	mac := hmac.New(sha256.New, m.key)
	mac.Write([]byte(id))
	return id + "." + encode(mac.Sum(nil)[:16])
}

func encode(b []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b)
}
