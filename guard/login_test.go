package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/failures"
	"authguard/guard"
	"authguard/internal/testing/world"
	"authguard/trusted"
)

// A broken store does not charge when it is told not to.
type broken struct {
	guard.Store
	down bool
}

var errDown = errors.New("down")

func (b *broken) Begin(ctx context.Context, c *guard.Charge) error {
	if b.down {
		return errDown
	}
	return b.Store.Begin(ctx, c)
}

// A site is a guard whose store can break, and whose time can pass.
type site struct {
	*guard.Guard
	store *broken
	now   time.Time
	mu    sync.Mutex
	seen  []guard.Event
}

func (s *site) Observe(e guard.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, e)
}

func newSite(t *testing.T) *site {
	t.Helper()
	return newSiteOf(t, [16]byte{})
}

// newSiteOf is a site of which the store of settled tickets has this epoch.
func newSiteOf(t *testing.T, epoch [16]byte) *site {
	t.Helper()
	s := &site{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return s.now }
	counts, err := failures.NewMemory(failures.Config{Now: clock})
	places, err2 := trusted.NewMemory(trusted.MemoryConfig{})
	mode, err3 := captchamode.NewMode(captchamode.DefaultConfig(), clock, nil)
	s.store = &broken{Store: guard.NewLocal(counts, places)}
	var err4 error
	s.Guard, err4 = guard.New(guard.Config{
		Policy: guard.DefaultPolicy(), Secret: make([]byte, 32), Store: s.store, Mode: mode, Now: clock, Callbacks: guard.Callbacks{Observer: s}, Epoch: epoch,
	})
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return s
}

// begin is an attempt from the n-th network that may proceed.
func (s *site) begin(t *testing.T, account string, n int) guard.Decision {
	t.Helper()
	d, err := s.Begin(t.Context(), guard.Attempt{Account: account, Address: netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1})})
	if err != nil || d.Action != guard.Proceed {
		t.Fatalf("%v, %v", d.Action, err)
	}
	return d
}

func TestOfATicketsCopiesOneIsSettled(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.begin(t, "alice", 1)
	first, second := d.Ticket, d.Ticket
	if err := s.Settle(t.Context(), first, guard.Failed); err != nil {
		t.Fatal(err)
	}
	d = s.begin(t, "bob", 2) // in the place of what alice's attempt left
	if err := s.Settle(t.Context(), second, guard.Succeeded); !errors.Is(err, guard.ErrSettled) {
		t.Fatalf("a copy of a settled ticket: %v", err)
	}
	if text := s.Seal(&second); text != "" {
		t.Error("a copy of a settled ticket was sealed")
	}
	if err := s.Settle(t.Context(), d.Ticket, guard.Succeeded); err != nil {
		t.Errorf("the next attempt's own ticket: %v", err)
	}
	if e := s.seen[len(s.seen)-1]; e.Account != "bob" || e.Outcome != guard.Succeeded {
		t.Errorf("the last event is %+v", e)
	}
}

// NTP may set the clock forward after the start. The store's clock stays behind.
func TestATicketIsAsOldAsTheGuardsClockSays(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	s := w.Second(t, func(c *guard.Config) { c.Now = func() time.Time { return w.Clock.Now().Add(2 * time.Hour) } })
	for i := range 40 {
		d, err := s.Begin(t.Context(), world.From(fmt.Sprint("user", i), world.Address(i)))
		if err != nil {
			t.Fatal(err)
		}
		if d.Action != guard.Proceed {
			continue
		}
		text := s.Seal(&d.Ticket)
		ticket, err := s.Open(text)
		if err != nil || ticket.Expires().Sub(w.Clock.Now().Add(2*time.Hour)) != guard.TicketTTL {
			t.Fatalf("%v, %v", ticket.Expires(), err)
		}
		if err := s.Settle(t.Context(), ticket, guard.Failed); err != nil {
			t.Fatal(err)
		}
	}
	if !s.Mode.On() {
		t.Error("the failures do not switch CAPTCHA mode on")
	}
	d, err := s.Begin(t.Context(), world.From("alice", world.Address(99)))
	if err != nil {
		t.Fatal(err)
	}
	text := s.Seal(&d.Ticket)
	if w.Clock.Advance(guard.TicketTTL); text != "" {
		if _, err := s.Open(text); !errors.Is(err, guard.ErrTicketExpired) {
			t.Errorf("an old ticket: %v", err)
		}
	}
}

func TestTheZeroTicketStandsForNone(t *testing.T) {
	t.Parallel()
	var none guard.Ticket
	if none.ID() != [16]byte{} {
		t.Errorf("it has the ID %x", none.ID())
	}
}

func TestCopiesSettledAtOnceAreSettledOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for n := range 500 {
		d := s.begin(t, fmt.Sprint("alice", n), n)
		var settled atomic.Int64
		var both sync.WaitGroup
		for _, ticket := range []guard.Ticket{d.Ticket, d.Ticket} {
			both.Go(func() {
				if s.Settle(context.Background(), ticket, guard.Succeeded) == nil {
					settled.Add(1)
				}
			})
		}
		both.Wait()
		if settled.Load() != 1 {
			t.Fatalf("%d copies were settled", settled.Load())
		}
	}
}

// unasked are places that nobody can ask for.
type unasked struct{ trusted.Store }

var errUnasked = errors.New("the disk is gone")

func (unasked) Record(context.Context, trusted.Key, time.Time) (trusted.Record, error) {
	return trusted.Record{}, errUnasked
}

// Whoever's place cannot be asked for is decided without it, and somebody is told.
func TestAPlaceThatCannotBeAskedForIsTold(t *testing.T) {
	t.Parallel()
	counts, err := failures.NewMemory(failures.Config{})
	mode, err2 := captchamode.NewMode(captchamode.DefaultConfig(), nil, nil)
	var told error
	g, err3 := guard.New(guard.Config{
		Policy: guard.DefaultPolicy(), Secret: make([]byte, 32), Store: guard.NewLocal(counts, unasked{}), Mode: mode,
		Callbacks: guard.Callbacks{Failed: func(err error) { told = err }},
	})
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	d, err := g.Begin(t.Context(), guard.Attempt{Account: "alice", Address: netip.MustParseAddr("192.0.2.1")})
	if err != nil || d.Action != guard.Proceed || d.Known || !errors.Is(told, errUnasked) {
		t.Errorf("%v, privileged %v, %v; told %v", d.Action, d.Known, err, told)
	}
}

// Which tickets were settled is forgotten when the program ends, where they are
// remembered in memory. So they end with it.
func TestATicketOfAnotherEpochHasExpired(t *testing.T) {
	t.Parallel()
	before, after := newSiteOf(t, [16]byte{1}), newSiteOf(t, [16]byte{2})
	d := before.begin(t, "alice", 1)
	text := before.Seal(&d.Ticket)
	if _, err := before.Open(text); err != nil {
		t.Error(err)
	}
	if _, err := after.Open(text); !errors.Is(err, guard.ErrTicketExpired) {
		t.Errorf("after a restart: %v", err)
	}
}

func TestAnExpiredTicketIsNone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.begin(t, "alice", 1)
	text := s.Seal(&d.Ticket)
	s.now = s.now.Add(guard.TicketTTL + time.Second)
	for _, outcome := range []guard.Outcome{guard.Failed, guard.Succeeded, guard.Abandoned} {
		ticket, err := s.Open(text)
		if !errors.Is(err, guard.ErrTicketExpired) {
			t.Fatal(err)
		}
		if err := s.Settle(t.Context(), ticket, outcome); !errors.Is(err, guard.ErrTicket) {
			t.Errorf("settled as %v: %v", outcome, err)
		}
	}
}

// What is known of an attempt is not known of the next one.
func TestAnEventTellsOfItsOwnAccountOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for n := range 4 {
		d := s.begin(t, "alice", n)
		if err := s.Settle(t.Context(), d.Ticket, guard.Failed); err != nil {
			t.Fatal(err)
		}
	}
	s.store.down = true
	for range 8 {
		d, err := s.Begin(t.Context(), guard.Attempt{Account: "bob", Address: netip.MustParseAddr("203.0.113.9")})
		if !errors.Is(err, errDown) || d.Action != guard.Block {
			t.Fatalf("%v, %v", d.Action, err)
		}
		if e := s.seen[len(s.seen)-1]; e.Account != "bob" || e.AccountFailures != 0 {
			t.Fatalf("%s, whom nobody tried, had %d failures", e.Account, e.AccountFailures)
		}
	}
}

func TestAnEventThatTheStoreCannotCountIsRefusedAndLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := guard.DefaultPolicy()
	p.Events = map[string][]guard.EventLimit{"sms": {{Count: 1, Window: time.Hour, Action: guard.Block, By: guard.OnSubject}}}
	if err := s.SetPolicy(p); err != nil {
		t.Fatal(err)
	}
	s.store.down = true
	if d, err := s.Exceeded(t.Context(), "sms", guard.Subjects{Subject: "1"}); !errors.Is(err, errDown) || d.Action != guard.Block || !d.Reasons.Has(guard.StoreFailed) {
		t.Errorf("%v %v %v", d.Action, d.Reasons.Codes(), err)
	}
	s.store.down = false
	if d, err := s.Exceeded(t.Context(), "sms", guard.Subjects{Subject: "1"}); err != nil || d.Action != guard.Proceed {
		t.Errorf("%v %v", d.Action, err)
	}
}

// Each name of an account would have a counter of its own, and so guesses of its own.
func TestR1WithoutTheCanonicalNameOnlyKnownClientsProceed(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	var fails atomic.Bool
	site := w.Second(t, func(c *guard.Config) {
		c.Canonical = func(name string, _ netip.Addr) (string, error) {
			if fails.Load() {
				return "", errDown
			}
			return map[string]string{"kim": "kim", "kim@example.org": "kim", "bob": "bob"}[name], nil
		}
	})
	home := world.Address(1)
	if !site.Right(t, "kim@example.org", home) {
		t.Fatal("kim was not let in")
	}
	fails.Store(true)
	for i, name := range []string{"kim", "kim@example.org", "bob", "made up"} {
		d, err := site.Begin(t.Context(), world.From(name, world.Address(2+i)))
		if !errors.Is(err, errDown) || d.Checks() || !d.Reasons.Has(guard.StoreFailed) {
			t.Errorf("%s from an unknown client: %v %v, %v", name, d.Action, d.Reasons.Codes(), err)
		}
	}
	if d, err := site.Begin(t.Context(), world.From("kim@example.org", home)); err == nil || d.Checks() {
		t.Errorf("another name from the known client: %v, %v", d.Action, err)
	}
	if !site.Right(t, "kim", home) {
		t.Error("the known client was stopped")
	}
	fails.Store(false)
	checked := 0
	for i := range 8 {
		if site.Wrong(t, []string{"kim", "kim@example.org"}[i%2], world.Address(2)).Action == guard.Proceed {
			checked++
		}
		site.Clock.Advance(time.Minute)
	}
	if checked != 5 {
		t.Errorf("%d guesses were checked after the look-ups failed, want 5", checked)
	}
}

func TestAnEventIsNotCountedForANameThatCouldNotBeLookedUp(t *testing.T) {
	t.Parallel()
	p := guard.DefaultPolicy()
	p.Events = map[string][]guard.EventLimit{
		"reset": {{Count: 1, Window: time.Hour, Action: guard.Block, By: guard.OnAccount}},
		"visit": {{Count: 1, Window: time.Hour, Action: guard.Block, By: guard.OnAddress}},
	}
	site := world.New(t, world.Options{}).Second(t, func(c *guard.Config) {
		c.Policy, c.Canonical = p, func(string, netip.Addr) (string, error) { return "", errDown }
	})
	s := guard.Subjects{Account: "kim", Address: netip.MustParseAddr("203.0.113.9")}
	if d, err := site.Exceeded(t.Context(), "reset", s); !errors.Is(err, errDown) || d.Action != guard.Block {
		t.Errorf("by account: %v, %v", d.Action, err)
	}
	if d, err := site.Exceeded(t.Context(), "visit", s); err != nil || d.Action != guard.Proceed {
		t.Errorf("by address: %v, %v", d.Action, err)
	}
}
