package web_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alexedwards/scs/v2/memstore"
	"golang.org/x/crypto/bcrypt"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/passwords"
	"authguard/internal/testing/apitest"
	"authguard/internal/testing/world"
	"authguard/web"
	"authguard/web/pages"
	"authguard/web/texts"
)

var quiet = slog.New(slog.DiscardHandler)

const (
	right = "correct horse"
	page  = "text/html,*/*"
)

// A house is the public listener over memory stores.
type house struct {
	*world.World
	http.Handler
	gate     *passwords.Queue
	checker  *passwords.Checker
	api      *web.API
	people   *people
	sessions *memory
	storage  *storage
	look     *web.Look
	ask      func(guard.Code)
}

func newHouse(t *testing.T) *house {
	t.Helper()
	return newHouseWith(t, world.Options{})
}

func newHouseWith(t *testing.T, o world.Options) *house {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	checker, err := passwords.NewChecker(bcrypt.MinCost, nil)
	must(err)
	gate, err := passwords.NewQueue(passwords.QueueConfig{AtOnce: 1, Queue: 1})
	must(err)
	hash, err := checker.Hash(right)
	must(err)
	h := &house{World: world.New(t, o), gate: gate, checker: checker, sessions: &memory{MemStore: memstore.NewWithCleanupInterval(0)}, storage: new(storage), look: web.NewLook()}
	if o.Mail {
		h.ask = func(guard.Code) {}
	}
	h.people = &people{all: map[string]accounts.Login{
		"alice": {Account: "alice", Password: passwords.Stored{Hash: hash, Usable: true}},
		"gone":  {Account: "gone", Password: passwords.Stored{Hash: hash}},
	}}
	h.api = &web.API{
		Guard: h.Guard, Settled: challenge.NewMemorySpent(0, h.Clock.Now), Tokens: oneToken(), Media: h.Challenges.Media, Later: func(time.Duration, func()) {},
	}
	h.dress(t, pages.Brand{})
	h.Handler = apitest.Handler(t, (&web.Public{Login: h.login("login", gate, checker), API: h.api, Challenges: h.Challenges, Look: h.look, Log: quiet}).Handler())
	return h
}

// dress puts a brand in force, with the built-in languages.
func (h *house) dress(t *testing.T, b pages.Brand) {
	t.Helper()
	languages := texts.Standard()
	look, err := pages.NewLook(b, languages)
	if err != nil {
		t.Fatal(err)
	}
	h.look.Set(look)
}

func (h *house) login(door string, gate *passwords.Queue, checker *passwords.Checker) *web.Login {
	return &web.Login{
		Guard: h.Guard, Edge: new(web.Edge), Integration: door, Log: quiet, Hold: new(atomic.Int64),
		LoginUsers:  web.LoginUsers{Passwords: &web.Passwords{Source: h.people, Gate: gate, Checker: checker, Log: quiet}, Sessions: web.NewSessions(web.SessionConfig{Store: h.sessions, Source: h.people, Integration: door, Lifetime: time.Hour}), Storage: h.storage},
		Look:        h.look,
		LoginEmails: web.LoginEmails{AskCode: h.ask},
	}
}

// people are the accounts; fail makes the table one that cannot be asked, and readOnly
// one that cannot be written.
type people struct {
	mu   sync.Mutex
	all  map[string]accounts.Login
	fail error

	upgrades int
	readOnly bool
}

func (p *people) FindForLogin(_ context.Context, name string) (accounts.Login, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	login, found := p.all[name]
	return login, found, p.fail
}

func (p *people) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
}

// memory is scs's store in memory, with a context.
type memory struct {
	*memstore.MemStore
	fail  error
	write error
}

func (m *memory) FindCtx(_ context.Context, token string) ([]byte, bool, error) {
	if m.fail != nil {
		return nil, false, m.fail
	}
	return m.Find(token)
}

func (m *memory) CommitCtx(_ context.Context, token string, b []byte, expiry time.Time) error {
	if m.write != nil {
		return m.write
	}
	return m.Commit(token, b, expiry)
}

func (m *memory) DeleteCtx(_ context.Context, token string) error { return m.Delete(token) }

// storage is what a login is written to: known to fail, or found to when it is
// tried.
type storage struct {
	known, tried error
	proofs       int
}

func (s *storage) Failed() (error, time.Time) { return s.known, time.Time{} }

func (s *storage) Prove(context.Context) error {
	s.proofs++
	return s.tried
}

// A browser keeps cookies and sends what it is told to.
type browser struct {
	to      http.Handler
	from    string
	accept  string
	speaks  string // Accept-Language
	cookies map[string]*http.Cookie
}

func (h *house) browser(accept string) *browser {
	return &browser{to: h, from: "192.0.2.1", accept: accept, cookies: map[string]*http.Cookie{}}
}

func (b *browser) do(method, path, kind, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = b.from + ":1234"
	r.Header.Set("Accept", b.accept)
	if b.speaks != "" {
		r.Header.Set("Accept-Language", b.speaks)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	b.to.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if b.cookies[c.Name] = c; c.Value == "" {
			delete(b.cookies, c.Name)
		}
	}
	return w
}

func (b *browser) get(path string) *httptest.ResponseRecorder { return b.do("GET", path, "", "") }

func (b *browser) post(path string, fields ...string) *httptest.ResponseRecorder {
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return b.do("POST", path, "application/x-www-form-urlencoded", form.Encode())
}

// login offers a password; "wrong" is another one each time, since the same one
// counts once (R28).
func (b *browser) login(name, password string, more ...string) *httptest.ResponseRecorder {
	if password == "wrong" {
		password += rand.Text()
	}
	return b.post("/login", append([]string{"username", name, "password", password}, more...)...)
}

// moments is what a page tells of the clock: when to try again.
var moments = regexp.MustCompile(`<time [^<]*</time>`)

// says is the answer without what differs from one request to the next.
func says(w *httptest.ResponseRecorder, name string) string {
	body := moments.ReplaceAllString(w.Body.String(), "WHEN")
	return w.Result().Status + strings.ReplaceAll(body, name, "NAME")
}
