package web

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
	"authguard/internal/seal"
	"authguard/internal/sessions"
	"authguard/web/client"
)

// Sessions are the sessions of one login endpoint and valid there only. A session ends when its account's password
// changes or the account is disabled.
type Sessions struct {
	SessionConfig
	manager *scs.SessionManager
}

// SessionConfig configures NewSessions.
type SessionConfig struct {
	Store       scs.CtxStore
	Source      accounts.Source
	Integration string        // the login endpoint; part of the cookie's name
	Lifetime    time.Duration // the longest duration of a session, used or not
	// Idle ends an unused session; 0: never. Unless 0, Used is called for each use.
	Idle time.Duration
	Used func(ctx context.Context, token string) error
	Now  func() time.Time // default time.Now
	// Domain is the cookie domain: all hosts below it see the session. Empty: the session's own host only.
	Domain string
	Secure CookieSecurity
	// Changed, if set, is called for an account whose session ended because its password has changed.
	Changed func(ctx context.Context, account string)
}

// CookieSecurity decides which cookies are Secure. The zero CookieSecurity is SecureLikeRequest.
type CookieSecurity uint8

const (
	SecureLikeRequest CookieSecurity = iota // for clients that use TLS
	SecureAlways
	SecureNever
)

// Of reports whether a client's cookies are Secure.
func (s CookieSecurity) Of(c Client) bool {
	return s == SecureAlways || s == SecureLikeRequest && c.Secure
}

// NewSessions returns the sessions of a login endpoint.
func NewSessions(c SessionConfig) *Sessions {
	m := scs.New()
	m.Store, m.Lifetime = c.Store, c.Lifetime
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Sessions{c, m}
}

// cookie returns the cookie's name. A cookie for several hosts cannot be __Host-; __Secure- still rejects cookies that
// an attacker plants over a plain connection.
func (s *Sessions) cookie(secure bool) string {
	if secure && s.Domain != "" {
		return client.SecureOnly + "authguard_" + s.Integration
	}
	if secure {
		return client.HostOnly + "authguard_" + s.Integration
	}
	return "authguard_" + s.Integration
}

// A sentCookie is a session's cookie in a request.
type sentCookie struct {
	token  string
	secure bool // by its name
}

// mostSent of a name are read. A browser sends several after Domain has changed, the oldest first.
const mostSent = 3

// sent returns the request's cookies, the Secure ones first.
func (s *Sessions) sent(c echo.Context) (all []sentCookie) {
	for _, secure := range []bool{true, false} {
		same := c.Request().CookiesNamed(s.cookie(secure))
		for _, cookie := range same[:min(len(same), mostSent)] {
			all = append(all, sentCookie{cookie.Value, secure})
		}
	}
	return all
}

// A Session is one signed-in browser.
type Session struct {
	Account accounts.Login
	CSRF    string // the token in the forms of this session
	ID      string // in sessions.Store.Of
	// Proved is when the user last authenticated; Second reports whether that included more than a password.
	Proved time.Time
	Second bool
	ctx    context.Context
	token  string
}

// ValidCSRF reports whether token is the session's.
func (s *Session) ValidCSRF(token string) bool {
	return s.CSRF != "" && subtle.ConstantTimeCompare([]byte(token), []byte(s.CSRF)) == 1
}

// maxAgent is the longest stored User-Agent, in bytes.
const maxAgent = 300

// start begins a session after a login, with more than a password if second. It ends the sessions that the client came
// with: a token planted by an attacker becomes worthless (session fixation).
func (s *Sessions) start(c echo.Context, client Client, login accounts.Login, second bool) (*Session, error) {
	ctx, _, err := s.load(c)
	if err != nil {
		return nil, err
	}
	for _, one := range s.sent(c) {
		if err := s.destroy(c, one); err != nil {
			return nil, err
		}
	}
	if err := s.manager.RenewToken(ctx); err != nil {
		return nil, fmt.Errorf("%w: renewing one: %w", ErrSessions, err)
	}
	agent := c.Request().UserAgent()
	for key, value := range map[string]any{
		sessions.AccountKey: login.Account, sessions.IntegrationKey: s.Integration,
		sessions.AddressKey: client.Address.String(),
		sessions.AgentKey:   agent[:min(len(agent), maxAgent)], sessions.IdleKey: s.Idle.Milliseconds(),
		provedKey: s.Now().UnixMilli(), secondKey: second,
	} {
		s.manager.Put(ctx, key, value)
	}
	s.manager.Put(ctx, "version", login.Version)
	s.manager.Put(ctx, "host", s.Secure.Of(client))
	s.manager.Put(ctx, "csrf", rand.Text())
	token, expires, err := s.manager.Commit(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: saving one: %w", ErrSessions, err)
	}
	c.SetCookie(s.newCookie(client, token, expires))
	return s.session(ctx, login, token), nil
}

func (s *Sessions) session(ctx context.Context, login accounts.Login, token string) *Session {
	return &Session{
		Account: login, CSRF: s.manager.GetString(ctx, "csrf"), ID: sessions.ID(token), ctx: ctx,
		Proved: time.UnixMilli(s.manager.GetInt64(ctx, provedKey)), Second: s.manager.GetBool(ctx, secondKey), token: token,
	}
}

const (
	provedKey = "proved"
	secondKey = "second"
)

// Prove records that the user has just authenticated, with more than a password if second.
func (s *Sessions) Prove(session *Session, second bool) error {
	s.manager.Put(session.ctx, provedKey, s.Now().UnixMilli())
	s.manager.Put(session.ctx, secondKey, second)
	_, _, err := s.manager.Commit(session.ctx)
	return err
}

// ErrSessions says that the database cannot read or write sessions, perhaps for a moment only.
var ErrSessions = errors.New("web: sessions cannot be read or written")

// Get returns the request's session; nil if there is none or it has ended. It counts as use.
func (s *Sessions) Get(c echo.Context) (*Session, error) {
	session, err := s.Peek(c)
	if err != nil || session == nil || s.Idle <= 0 {
		return session, err
	}
	if err := s.Used(session.ctx, session.token); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSessions, err)
	}
	return session, nil
}

// Peek is Get for requests that a page makes by itself. They do not count as use, so an abandoned session can end.
func (s *Sessions) Peek(c echo.Context) (*Session, error) {
	ctx, token, err := s.load(c)
	if err != nil || token == "" {
		return nil, err
	}
	name := s.manager.GetString(ctx, sessions.AccountKey)
	login, found, err := s.Source.FindForLogin(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%w: the account: %w", ErrSessions, err)
	}
	if !found || !login.Password.Usable {
		return nil, nil
	}
	if login.Version != s.manager.GetInt64(ctx, "version") {
		_ = s.manager.Destroy(ctx) // if this fails, the version ends it the next time, too
		if s.Changed != nil {
			s.Changed(ctx, name)
		}
		return nil, nil
	}
	return s.session(ctx, login, token), nil
}

// Put keeps a value in a session until Pop. It is encrypted under the cookie's token, of which the database has only a
// digest, because it may be a temporary password or a code.
func (s *Sessions) Put(session *Session, key, value string) error {
	box, err := seal.NewBox([]byte(session.token), "put")
	if err != nil {
		return err
	}
	s.manager.Put(session.ctx, "put."+key, box.Seal([]byte(value), key))
	_, _, err = s.manager.Commit(session.ctx)
	return err
}

// Pop takes a value out of a session; empty if there is none.
func (s *Sessions) Pop(session *Session, key string) (string, error) {
	sealed := s.manager.PopString(session.ctx, "put."+key)
	if sealed == "" {
		return "", nil
	}
	box, err := seal.NewBox([]byte(session.token), "put")
	if err != nil {
		return "", err
	}
	if _, _, err = s.manager.Commit(session.ctx); err != nil {
		return "", err
	}
	value, err := box.Open(sealed, key)
	return string(value), err
}

// End ends the request's sessions, if there are any.
func (s *Sessions) End(c echo.Context, client Client) error {
	for _, one := range s.sent(c) {
		gone := s.newCookie(client, "", time.Unix(1, 0))
		gone.Name, gone.Secure = s.cookie(one.secure), gone.Secure || one.secure
		if err := s.destroy(c, one); err != nil {
			return err
		}
		c.SetCookie(gone)
	}
	return nil
}

func (s *Sessions) destroy(c echo.Context, one sentCookie) error {
	ctx, err := s.loadOne(c, one)
	if err == nil && s.manager.Destroy(ctx) != nil {
		err = fmt.Errorf("%w: ending one", ErrSessions)
	}
	return err
}

// load returns the data of the session that the request's cookies name, with its token. If none of them does, or if they
// name sessions of several accounts, of which an attacker may have planted one, the data are those of a new one, and the
// token is empty.
func (s *Sessions) load(c echo.Context) (ctx context.Context, token string, err error) {
	account := ""
	for _, one := range s.sent(c) {
		its, err := s.loadOne(c, one)
		if err != nil {
			return nil, "", err
		}
		// An attacker may have planted their own session under the other name.
		planted := s.manager.GetBool(its, "host") && !one.secure
		switch name := s.manager.GetString(its, sessions.AccountKey); {
		case name == "" || planted || s.manager.GetString(its, sessions.IntegrationKey) != s.Integration:
		case account == "":
			ctx, token, account = its, one.token, name
		case account != name:
			token = ""
		}
	}
	if token == "" {
		ctx, err = s.loadOne(c, sentCookie{})
	}
	return ctx, token, err
}

func (s *Sessions) loadOne(c echo.Context, one sentCookie) (context.Context, error) {
	ctx, err := s.manager.Load(c.Request().Context(), one.token)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSessions, err)
	}
	return ctx, nil
}

func (s *Sessions) newCookie(client Client, value string, expires time.Time) *http.Cookie {
	return &http.Cookie{
		Name: s.cookie(s.Secure.Of(client)), Value: value, Path: "/", Domain: s.Domain, Expires: expires,
		HttpOnly: true, Secure: s.Secure.Of(client), SameSite: http.SameSiteLaxMode,
	}
}
