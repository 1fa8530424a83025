// Package notices emails account owners about a login from an unknown client, and accepts the answer that it was not
// theirs.
//
// It delays no login. A notice is in the database a moment after the login and is sent from there at least once. An
// account gets few a day, so that an attacker with its password cannot flood the mailbox.
//
// The link in an email is valid for one answer about this login, for a week. Its token is the notice's ID with a MAC:
// each try creates the email anew, and the database contains no token.
package notices

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"authguard/internal/background"
	"authguard/internal/mail"
	"authguard/internal/sqltx"
)

const (
	// Life is how long a link is valid, and MostADay the number of emails per account and day.
	Life     = 7 * 24 * time.Hour
	MostADay = 5

	mostWaiting = 256              // logins not yet in the database
	look        = 15 * time.Second // interval of checks, and time limit of a try
	lease       = 3 * look         // how long a node holds a notice
	longestWait = time.Hour        // between two tries
	queryTime   = 3 * time.Second
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
	DB    *sql.DB
	Realm string
	// Secret is the server's, the same on every node: at least 16 bytes.
	Secret []byte
	Now    func() time.Time
	// Find returns the email address of an account's owner; empty if there is none, and nothing is sent.
	Find func(ctx context.Context, directory, account string) (email string, err error)
	// Write returns the email about a login; token is for its link.
	Write func(login Login, token string) (subject, text string)
	// Send sends an email; mail.Server.Send.
	Send func(ctx context.Context, l mail.Message) error
	// Failed is called when sending starts to fail.
	Failed func(error)
	Log    *slog.Logger
}

// A Mailer sends one realm's emails and checks their links. Safe for concurrent use; one node sends each email.
type Mailer struct {
	Config
	key     []byte
	logins  chan Login
	wake    chan struct{}
	failing atomic.Bool
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
	return &Mailer{Config: c, key: key, logins: make(chan Login, mostWaiting), wake: make(chan struct{}, 1)}, nil
}

// Notify notifies the owner of a login. It never blocks; if there are too many, it drops the login and logs it.
func (m *Mailer) Notify(l Login) {
	select {
	case m.logins <- l:
	default:
		m.Log.Warn("too many sign-ins from unknown clients: one owner is not notified", "account", l.Account)
	}
}

// Run saves and sends until ctx ends.
func (m *Mailer) Run(ctx context.Context) {
	var all background.Group
	defer all.Stop()
	all.Start(m.keepAll)
	all.Start(func(ctx context.Context) {
		ticker := time.NewTicker(look)
		defer ticker.Stop()
		for ctx.Err() == nil {
			m.SendDue(ctx)
			select {
			case <-ctx.Done():
			case <-m.wake:
			case <-ticker.C:
			}
		}
	})
	<-ctx.Done()
}

func (m *Mailer) keepAll(ctx context.Context) {
	still := context.WithoutCancel(ctx) // the next start sends what is saved at the end
	for {
		select {
		case <-ctx.Done():
			for len(m.logins) > 0 {
				m.keepOne(still, <-m.logins)
			}
			return
		case l := <-m.logins:
			for m.keepOne(still, l) != nil && ctx.Err() == nil { // the database is unavailable: the others wait
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}
	}
}

func (m *Mailer) keepOne(ctx context.Context, l Login) error {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	err := m.keep(ctx, l)
	if err != nil {
		m.Log.Error("the notification of a sign-in from an unknown client could not be saved", "account", l.Account, "error",
			err)
		return err
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
	return nil
}

// keep saves a notice, unless the account has had enough today.
func (m *Mailer) keep(ctx context.Context, l Login) error {
	if email, err := m.Find(ctx, l.Directory, l.Account); err != nil || email == "" {
		return err
	}
	_, err := m.DB.ExecContext(ctx, `INSERT INTO login_notices (id, realm, directory, account, address, agent, at, due_at)
		SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS TEXT), CAST($5 AS TEXT), CAST($6 AS TEXT),
		CAST($7 AS BIGINT), CAST($10 AS BIGINT)
		WHERE (SELECT COUNT(*) FROM login_notices WHERE realm = $2 AND account = $4 AND directory = $3 AND at > $8) < $9`,
		rand.Text(), m.Realm, l.Directory, sqltx.Clean(l.Account), sqltx.Clean(l.Address), sqltx.Clean(l.Agent),
		l.At.UnixMilli(),
		l.At.Add(-24*time.Hour).UnixMilli(), MostADay, m.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("notices: keep: %w", err)
	}
	return nil
}

// SendDue sends the due notices.
func (m *Mailer) SendDue(ctx context.Context) {
	for {
		id, l, tries, err := m.claim(ctx)
		if err != nil && ctx.Err() == nil {
			m.Log.Error("pending notifications to account owners could not be read", "error", err)
		}
		if err != nil || id == "" {
			return
		}
		m.notified(m.send(ctx, id, l, tries))
	}
}

// claim takes one due notice, which no other node sends meanwhile.
func (m *Mailer) claim(ctx context.Context) (id string, l Login, tries int, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	now := m.Now()
	for {
		var due int64
		err = m.DB.QueryRowContext(ctx, `SELECT id, due_at, tries FROM login_notices WHERE due_at > 0 AND due_at <= $1
			AND used_at = 0 AND realm = $2 ORDER BY due_at LIMIT 1`,
			now.UnixMilli(), m.Realm).Scan(&id, &due, &tries)
		if errors.Is(err, sql.ErrNoRows) {
			return "", l, 0, nil
		}
		if err != nil {
			return "", l, 0, fmt.Errorf("notices: look: %w", err)
		}
		n, err := sqltx.Exec(ctx, m.DB, `UPDATE login_notices SET due_at = $1, tries = tries + 1 WHERE id = $2
			AND due_at = $3`, now.Add(lease).UnixMilli(), id, due)
		if err != nil {
			return "", l, 0, fmt.Errorf("notices: claim: %w", err)
		}
		if n == 1 {
			l, err = m.login(ctx, id)
			return id, l, tries, err
		}
	}
}

func (m *Mailer) send(ctx context.Context, id string, l Login, tries int) error {
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	email, err := m.Find(ctx, l.Directory, l.Account)
	if err == nil && email != "" {
		subject, text := m.Write(l, m.token(id))
		sum := sha256.Sum256([]byte(id))
		err = m.Send(ctx, mail.Message{To: email, Subject: subject, Text: text, ID: encode(sum[:16]) + "@authguard"})
	}
	next := int64(0)
	if err != nil {
		next = m.Now().Add(min(time.Minute<<min(tries, 10), longestWait)).UnixMilli()
	}
	_, noted := m.DB.ExecContext(context.WithoutCancel(ctx), `UPDATE login_notices SET due_at = $1
		WHERE id = $2`, next, id)
	return errors.Join(err, noted)
}

func (m *Mailer) notified(err error) {
	if err == nil {
		m.failing.Store(false)
		return
	}
	if errors.Is(err, mail.ErrAddress) {
		m.Log.Warn("an account's email address rejects a notification; retrying", "error", err)
		return
	}
	m.Log.Error("a notification to an account's owner could not be sent; retrying", "error", err)
	if !m.failing.Swap(true) && m.Failed != nil {
		m.Failed(err)
	}
}

// Of returns the login of a valid link. It changes nothing, because mail scanners open links too.
func (m *Mailer) Of(ctx context.Context, token string) (Login, error) {
	id, ok := m.open(token)
	if !ok {
		return Login{}, ErrUnknown
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	l, err := m.login(ctx, id)
	if err == nil && !m.Now().Before(l.At.Add(Life)) {
		err = ErrUnknown
	}
	return l, err
}

// Use consumes a link: of two concurrent uses one gets the login, the other ErrUnknown.
func (m *Mailer) Use(ctx context.Context, token string) (Login, error) {
	l, err := m.Of(ctx, token)
	if err != nil {
		return l, err
	}
	id, _ := m.open(token)
	n, err := sqltx.Exec(ctx, m.DB, `UPDATE login_notices SET used_at = $1 WHERE id = $2
		AND used_at = 0`, m.Now().UnixMilli(), id)
	if err != nil {
		return l, fmt.Errorf("notices: answer: %w", err)
	}
	if n == 0 {
		err = ErrUnknown
	}
	return l, err
}

// Again makes a link valid again if its answer could not be processed.
func (m *Mailer) Again(ctx context.Context, token string) error {
	id, _ := m.open(token)
	_, err := m.DB.ExecContext(ctx, `UPDATE login_notices SET used_at = 0 WHERE id = $1`, id)
	return err
}

func (m *Mailer) login(ctx context.Context, id string) (l Login, err error) {
	var at int64
	err = m.DB.QueryRowContext(ctx, `SELECT directory, account, address, agent, at FROM login_notices WHERE id = $1
		AND realm = $2 AND used_at = 0`, id, m.Realm).
		Scan(&l.Directory, &l.Account, &l.Address, &l.Agent, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return l, ErrUnknown
	}
	if err != nil {
		return l, fmt.Errorf("notices: read: %w", err)
	}
	l.At = time.UnixMilli(at)
	return l, nil
}

// token returns the ID and 128 bits of its MAC.
func (m *Mailer) token(id string) string {
	mac := hmac.New(sha256.New, m.key)
	mac.Write([]byte(id))
	return id + "." + encode(mac.Sum(nil)[:16])
}

func (m *Mailer) open(token string) (id string, ok bool) {
	id, _, ok = strings.Cut(token, ".")
	return id, ok && hmac.Equal([]byte(m.token(id)), []byte(token))
}

func encode(b []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b)
}

// Purge deletes expired notices of all realms and returns their number.
func Purge(ctx context.Context, db *sql.DB, now time.Time) (int64, error) {
	n, err := sqltx.Exec(ctx, db, `DELETE FROM login_notices WHERE at <= $1`, now.Add(-Life).UnixMilli())
	if err != nil {
		return 0, fmt.Errorf("notices: purge: %w", err)
	}
	return n, nil
}
