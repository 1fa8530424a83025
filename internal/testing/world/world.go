// Package world is a small site for tests: a guard over memory stores with its
// clock in the test's hand, passwords, and everything that was observed.
package world

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/failures"
	"authguard/guard"
	"authguard/internal/redisstore"
	"authguard/internal/testing/clocktest"
	"authguard/trusted"
)

// A World is one site. Right is every account's password.
type World struct {
	*guard.Guard
	Clock      *clocktest.Clock
	Mode       *captchamode.Mode
	Counts     *failures.Memory
	Cookie     *trusted.Cookies
	Lists      *guard.Lists
	Challenges *challenge.Issuer
	// CheckTakes is how long a password check takes, in the world's time: a
	// sleep, to be used within testing/synctest.
	CheckTakes time.Duration

	mu   sync.Mutex
	mail bool
	recorded
	shared
	config guard.Config
}

// recorded is what happened so far.
type recorded struct {
	checked  map[string]int
	events   []guard.Event
	switches []captchamode.Switch
	sprays   []failures.Spray
}

// shared is what the worlds of one site share.
type shared struct {
	share func(context.Context) error // over nodes; nil in memory
	redis redis.UniversalClient
	realm string
	spent challenge.Spent
}

func (w *World) sprayed(s failures.Spray) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sprays = append(w.sprays, s)
}

// Sprays are the passwords that were found to be sprayed.
func (w *World) Sprays() []failures.Spray {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]failures.Spray(nil), w.sprays...)
}

// Right is the password that is right for every account.
const Right = "right"

// Options change what New makes; each field's zero value leaves the default.
type Options struct {
	Policy    *guard.Policy
	Mode      *captchamode.Config
	Start     time.Time
	Running   bool // the clock is time.Now: for testing/synctest
	Canonical func(name string) string
	Held      int
	// Codes are the guard's.
	Codes guard.Codes
	// Leaked are the guard's.
	Leaked *guard.LeakedPasswords
	// Mail: every integration can send verification codes.
	Mail bool
	// Work makes challenges ask for a little work beside the picture.
	Work bool
	// Redis is where failures and places are, if not in memory. Counts is nil
	// then.
	Redis redis.UniversalClient
	// Beside is the first node of the site: its clock, its Redis and the challenges that are
	// spent there are this node's, too.
	Beside *World
}

// New makes a site with the default policy.
func New(t testing.TB, o Options) *World {
	t.Helper()
	policy, mode := guard.DefaultPolicy(), captchamode.DefaultConfig()
	if o.Policy != nil {
		policy = *o.Policy
	}
	if o.Mode != nil {
		mode = *o.Mode
	}
	if o.Start.IsZero() {
		o.Start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	}
	w := &World{Clock: clocktest.At(o.Start), Lists: new(guard.Lists), mail: o.Mail,
		recorded: recorded{checked: map[string]int{}}}
	if o.Running {
		w.Clock = clocktest.Running()
	}
	w.redis, w.realm = o.Redis, rand.Text()+":"
	if first := o.Beside; first != nil {
		w.Clock, w.redis, w.realm, w.spent = first.Clock, first.redis, first.realm, first.spent
	}
	must := func(e error) {
		t.Helper()
		if e != nil {
			t.Fatal(e)
		}
	}
	store, remembered, err := w.openStore(policy)
	must(err)
	w.Cookie, err = trusted.NewCookies([]byte("a key of thirty-two bytes, at least"))
	must(err)
	w.Mode, err = captchamode.NewMode(mode, w.Clock.Now, w.switched)
	must(err)
	if w.spent == nil {
		w.spent = challenge.NewMemorySpent(0, w.Clock.Now)
	}
	desk := challenge.Config{
		Secret: []byte("a secret of thirty-two bytes, at least"), Spent: w.spent, BuiltIn: Riddle{}, Now: w.Clock.Now,
	}
	if o.Work {
		desk.Others, desk.Preferred = []challenge.Provider{Labour{}}, challenge.KindBoth
	}
	w.Challenges, err = challenge.New(desk)
	must(err)
	w.config = guard.Config{
		Policy: policy, Secret: []byte("a secret of sixteen bytes, at least"), Store: store,
		KnownClientConfig: guard.KnownClientConfig{KnownClients: remembered, Cookies: w.Cookie},
		Mode:              w.Mode, Challenges: w.Challenges, Lists: w.Lists,
		NameConfig: guard.NameConfig{Canonical: canonical(o.Canonical)},
		Callbacks:  guard.Callbacks{Observer: w}, Held: o.Held, Codes: o.Codes, Leaked: o.Leaked,
		Now: w.Clock.Now,
	}
	w.Guard, err = guard.New(w.config)
	must(err)
	return w
}

func canonical(of func(name string) string) func(string, netip.Addr) (string, error) {
	if of == nil {
		return nil
	}
	return func(name string, _ netip.Addr) (string, error) { return of(name), nil }
}

// openStore makes a store in memory or Redis. remembered reads the known clients, and is nil in Redis.
func (w *World) openStore(policy guard.Policy) (
	store guard.Store, remembered func(context.Context, trusted.Key, time.Time) (trusted.Record, error), err error,
) {
	if w.redis != nil {
		shared, err := redisstore.New(w.redis, redisstore.Options{
			OnSpray: w.sprayed, Prefix: w.realm, PendingFor: policy.CheckTimeout, KnownClients: policy.KnownClients,
			Clock: w.Clock.Now,
		})
		if err != nil {
			return nil, nil, err
		}
		w.share = shared.Share
		return shared, nil, nil
	}
	w.Counts, err = failures.NewMemory(failures.Config{Retain: policy.Retain(), PendingFor: policy.CheckTimeout,
		Now: w.Clock.Now})
	if err != nil {
		return nil, nil, err
	}
	clients, err := trusted.NewMemory(trusted.MemoryConfig{Limits: policy.KnownClients})
	if err != nil {
		return nil, nil, err
	}
	local := guard.NewLocal(w.Counts, clients)
	local.Sprays = failures.NewSprays(w.sprayed)
	return local, clients.Record, nil
}

// Second is a second guard of the site: its own realm, CAPTCHA mode and events, over the
// same stores unless change replaces them.
func (w *World) Second(t testing.TB, change func(*guard.Config)) *World {
	t.Helper()
	s := &World{
		Clock: w.Clock, Counts: w.Counts, Cookie: w.Cookie, Lists: w.Lists, Challenges: w.Challenges,
		mail: w.mail, recorded: recorded{checked: map[string]int{}}, config: w.config,
	}
	var err error
	if s.Mode, err = captchamode.NewMode(captchamode.DefaultConfig(), w.Clock.Now, s.switched); err != nil {
		t.Fatal(err)
	}
	s.config.Realm, s.config.Mode, s.config.Observer = "second", s.Mode, s
	if change != nil {
		change(&s.config)
	}
	if s.Guard, err = guard.New(s.config); err != nil {
		t.Fatal(err)
	}
	return s
}

// Login is the guard's, at an integration that sends codes if the world does.
func (w *World) Login(ctx context.Context, a guard.Attempt,
	verify func(context.Context) (bool, error)) (guard.Decision, bool, error) {
	a.SendsCode = w.mail
	return w.Guard.Login(ctx, a, func(ctx context.Context, d *guard.Decision) (bool, error) {
		if d.Action != guard.Proceed {
			return false, nil
		}
		return verify(ctx)
	})
}

// Begin is the guard's, too.
func (w *World) Begin(ctx context.Context, a guard.Attempt) (guard.Decision, error) {
	a.SendsCode = w.mail
	return w.Guard.Begin(ctx, a)
}

// Try is one attempt from beginning to end. ok reports whether it got in.
func (w *World) Try(t testing.TB, a guard.Attempt, password string) (d guard.Decision, ok bool) {
	t.Helper()
	d, ok, err := w.Login(context.Background(), a, func(context.Context) (bool, error) {
		if w.CheckTakes > 0 {
			time.Sleep(w.CheckTakes)
		}
		w.mu.Lock()
		w.checked[a.Account]++
		w.mu.Unlock()
		return password == Right, nil
	})
	if err != nil {
		t.Errorf("login: %v", err)
	}
	return d, ok
}

// Offer is Try with a password that the guard can recognise.
func (w *World) Offer(t testing.TB, account, address, password string) (d guard.Decision, ok bool) {
	t.Helper()
	a := From(account, address)
	a.PasswordTag = w.Fingerprint(password)
	d, ok = w.Try(t, a, password)
	if w.share != nil {
		if err := w.share(context.Background()); err != nil {
			t.Error(err)
		}
	}
	return d, ok
}

// Wrong offers a wrong password and returns what was decided.
func (w *World) Wrong(t testing.TB, account, address string) guard.Decision {
	t.Helper()
	d, _ := w.Try(t, From(account, address), "wrong")
	return d
}

// Right offers the right password and reports whether it got in.
func (w *World) Right(t testing.TB, account, address string) bool {
	t.Helper()
	_, ok := w.Try(t, From(account, address), Right)
	return ok
}

// Solved is an attempt with a solved challenge.
func (w *World) Solved(t testing.TB, account, address string) guard.Attempt {
	t.Helper()
	a := From(account, address)
	a.Solution = w.Solve(t, a)
	return a
}

// Solve is a solved challenge, issued for an attempt.
func (w *World) Solve(t testing.TB, a guard.Attempt) challenge.Solution {
	t.Helper()
	name, err := w.Normalise(a.Account)
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.Issue(context.Background(), a, guard.Decision{Action: guard.Challenge, Account: name, Counted: true})
	if err != nil {
		t.Fatal(err)
	}
	return challenge.Solution{ID: c.ID, Answer: Answer}
}

// Asked is an attempt with the solution of the challenge that the guard asks for.
func (w *World) Asked(t testing.TB, account, address string) guard.Attempt {
	t.Helper()
	a := From(account, address)
	d, err := w.Begin(context.Background(), a)
	if err != nil || d.Action != guard.Challenge {
		t.Fatalf("asked for %v (%v), %v; want a challenge", d.Action, d.Reasons.Codes(), err)
	}
	a.Solution = w.Works(t, a, d)
	return a
}

// Works is a challenge solved as a decision asks for it, the work too.
func (w *World) Works(t testing.TB, a guard.Attempt, d guard.Decision) challenge.Solution {
	t.Helper()
	c, err := w.Issue(context.Background(), a, d)
	if err != nil {
		t.Fatal(err)
	}
	solve := challenge.Solution{ID: c.ID, Answer: Answer}
	if c.PoW != nil {
		solve.Work = Done
	}
	return solve
}

// From is an attempt for an account from an address.
func From(account, address string) guard.Attempt {
	return guard.Attempt{Account: account, Address: netip.MustParseAddr(address), Integration: "test"}
}

// Checked is how many passwords were checked for an account.
func (w *World) Checked(account string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.checked[account]
}

// AllChecked is how many passwords were checked in all.
func (w *World) AllChecked() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.checked {
		n += one
	}
	return n
}

// Observe implements guard.Observer.
func (w *World) Observe(e guard.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// Events are all events so far.
func (w *World) Events() []guard.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]guard.Event(nil), w.events...)
}

// ForgetEvents begins anew what Events returns.
func (w *World) ForgetEvents() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = nil
}

func (w *World) switched(s captchamode.Switch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.switches = append(w.switches, s)
}

// Switched counts how often CAPTCHA mode went on and off.
func (w *World) Switched() (on, off int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.switches {
		if s.On && !s.WasOn {
			on++
		}
		if !s.On && s.WasOn {
			off++
		}
	}
	return on, off
}

// Answer solves every Riddle.
const Answer = "42"

// Uncheckable is an answer that no Riddle can check, as if a provider were down.
const Uncheckable = "0"

// A Riddle is a challenge with a known answer.
type Riddle struct{}

func (Riddle) Kind() string { return challenge.KindImage }

func (Riddle) Issue(context.Context, challenge.Task) (challenge.Puzzle, error) {
	return challenge.Puzzle{}, nil
}

func (Riddle) Check(_ context.Context, _ challenge.Task, answer string) (bool, error) {
	if answer == Uncheckable {
		return false, errors.New("the provider is down")
	}
	return answer == Answer, nil
}

func (Riddle) Render(w io.Writer, seed challenge.Seed, ext string) error {
	_, err := fmt.Fprintf(w, "%s %x", ext, sha256.Sum256(seed[:]))
	return err
}

// Done is the work of every Labour.
const Done = "done"

// A Labour is work beside the picture that nobody really does.
type Labour struct{}

func (Labour) Kind() string { return challenge.KindBoth }

func (Labour) Issue(_ context.Context, t challenge.Task) (challenge.Puzzle, error) {
	work := uint32(100) << t.Level
	return challenge.Puzzle{OrImage: true, AndImage: true, Work: work, PoW: &challenge.PoW{Work: int64(work)}}, nil
}

func (Labour) Check(_ context.Context, _ challenge.Task, answer string) (bool, error) {
	return answer == Done, nil
}

// Force switches CAPTCHA mode on.
func (w *World) Force(t testing.TB) {
	t.Helper()
	err := w.Mode.Force(captchamode.Override{
		State: captchamode.ForcedOn, Who: "test", Why: "test", Until: w.Clock.Now().Add(captchamode.MaxOverride),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Status is what an address is to an account.
func (w *World) Status(t testing.TB, account, address string) trusted.Status {
	t.Helper()
	e, err := w.Explain(context.Background(), account, netip.MustParseAddr(address))
	if err != nil {
		t.Fatal(err)
	}
	return e.Status
}

// Spend uses up the budget of a privileged place.
func (w *World) Spend(t testing.TB, account, address string) {
	t.Helper()
	for range 300 {
		if w.Status(t, account, address) == trusted.Spent {
			return
		}
		w.Clock.Advance(5 * time.Minute)
		w.Try(t, w.Solved(t, account, address), "wrong")
	}
	t.Fatal("the place is never spent")
}

// Device logs in and returns the device cookie.
func (w *World) Device(t testing.TB, account, address string) string {
	t.Helper()
	d, err := w.Begin(context.Background(), From(account, address))
	if err != nil || d.Action != guard.Proceed {
		t.Fatalf("%v, %v", d.Action, err)
	}
	if err := w.Settle(context.Background(), d.Ticket, guard.Succeeded); err != nil {
		t.Fatal(err)
	}
	cookie, _, _ := w.Guard.Device(d.Ticket)
	return cookie
}
