package guard

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/failures"
	"authguard/trusted"
)

// Config is what a Guard is made of.
type Config struct {
	// Policy is every number; see DefaultPolicy.
	Policy Policy
	// Secret keys all digests: at least 16 bytes, the same for as long as the
	// counters live and on every node that shares them.
	Secret []byte
	// Realm separates sites that share stores; may be empty.
	Realm string
	// Failures counts. It must retain charges for Policy.Retain and call them
	// undecided for Policy.PendingFor.
	Failures failures.Store
	// Places remembers where accounts were logged in to.
	Places trusted.Store
	// Cookies sign device cookies; nil: devices are not remembered.
	Cookies *trusted.Cookies
	// Mode is the site-wide switch.
	Mode *captchamode.Mode
	// Challenges are issued and checked; nil: nobody can solve one.
	Challenges *challenge.Desk
	// Lists are the allow and block lists; nil: nothing is listed.
	Lists *Lists
	// Normalise makes names comparable; default NormaliseAccount.
	Normalise func(typed string) (string, error)
	// Canonical makes one name of an account's several, such as e-mail and
	// user name; it gets a normalised name. Nil: every name is its own.
	Canonical func(name string) string
	// Epoch is sealed into the tickets that travel; those of another epoch have
	// expired. It is that of the store that remembers which tickets were
	// settled (challenge.Spent).
	Epoch [16]byte
	// Directories are the places beside the site's own in which accounts are
	// kept; see Attempt.Directory. Unlock and ForgetPlaces act on all.
	Directories []string
	// Observer is told of every event; nil: nobody is.
	Observer Observer
	// Failed is told of a store's failure that made a decision stricter and
	// not wrong, such as a place that could not be asked for. It must not
	// block. Nil: nobody is told.
	Failed func(error)
	// Held and HeldPerAddress bound the attempts that wait for their turn or
	// for a delay, in all and from one address; default 20,000 and 100.
	Held           int
	HeldPerAddress int
	// Now is the clock of everything but timers; default time.Now, of which the
	// wall clock is read once a second.
	Now func() time.Time
}

// A Recogniser is a failures.Store that can say what a place is to an account in
// the same trip in which it charges the attempt. A Guard whose Failures is one
// asks it and not Places, except about devices.
type Recogniser interface {
	failures.Store
	// ChargeAs charges privileged's subjects, which lie in the account's place,
	// if the place is privileged, and else stranger's. It fills the usages
	// of those that it charged, or would have. An empty list charges nothing.
	ChargeAs(ctx context.Context, now time.Time, account, place trusted.Key, privileged, stranger []failures.Subject, usages []failures.Usage) (trusted.Status, failures.ChargeID, error)
}

// A Settler is a failures.Store that settles a success all at once, where its
// parts would take a trip each.
type Settler interface {
	// Succeeded takes the attempt's charge back, clears the last of its
	// subjects, which is the pair, and remembers the place.
	Succeeded(ctx context.Context, at failures.ChargeID, subjects []failures.Subject, account, place trusted.Key, now time.Time) error
}

// A Guard decides login attempts. All methods are safe for concurrent use.
type Guard struct {
	config  Config
	rules   atomic.Pointer[rules]
	digests digester
	turns   *turns
	proxies proxyHint
	tickets *sealer
	// chargeAt charges by the guard's clock, or the store's if it has one.
	chargeAt func(context.Context, time.Time, []failures.Subject, []failures.Usage) (failures.ChargeID, error)
	// together and settler are Failures if it is a Recogniser, or a Settler.
	together Recogniser
	settler  Settler
}

// New returns a guard, or every problem with the config.
func New(c Config) (*Guard, error) {
	c.setDefaults()
	compiled, err := compile(c.Policy)
	digests, err2 := newDigester(c.Secret, c.Realm)
	tickets, err3 := newSealer(c.Secret, c.Realm, c.Now)
	if err := errors.Join(c.validate(), err, err2, err3); err != nil {
		return nil, err
	}
	g := &Guard{config: c, digests: digests, tickets: tickets, turns: newTurns(c.Held, c.HeldPerAddress)}
	g.rules.Store(compiled)
	g.chargeAt = chargeAt(c.Failures)
	g.together, _ = c.Failures.(Recogniser)
	g.settler, _ = c.Failures.(Settler)
	return g, nil
}

func chargeAt(store failures.Store) func(context.Context, time.Time, []failures.Subject, []failures.Usage) (failures.ChargeID, error) {
	if follower, ok := store.(failures.Follower); ok {
		return follower.ChargeAt
	}
	return func(ctx context.Context, _ time.Time, subjects []failures.Subject, usages []failures.Usage) (failures.ChargeID, error) {
		return store.Charge(ctx, subjects, usages)
	}
}

func (c *Config) setDefaults() {
	if c.Lists == nil {
		c.Lists = new(Lists)
	}
	if c.Normalise == nil {
		c.Normalise = NormaliseAccount
	}
	if c.Canonical == nil {
		c.Canonical = func(name string) string { return name }
	}
	if c.Observer == nil {
		c.Observer = nobody{}
	}
	if c.Failed == nil {
		c.Failed = func(error) {}
	}
	if c.Held == 0 {
		c.Held = 20_000
	}
	if c.HeldPerAddress == 0 {
		c.HeldPerAddress = 100
	}
	if c.Now == nil {
		c.Now = newClock().now
	}
}

func (c *Config) validate() error {
	var errs []error
	for what, missing := range map[string]bool{
		"Failures": c.Failures == nil, "Places": c.Places == nil, "Mode": c.Mode == nil,
	} {
		if missing {
			errs = append(errs, fmt.Errorf("guard: %s: must be set", what))
		}
	}
	return errors.Join(errs...)
}

type nobody struct{}

func (nobody) Observe(*Event) {}

// Policy is what is in force.
func (g *Guard) Policy() Policy { return g.rules.Load().policy }

// SetPolicy changes what is in force for attempts that begin from now on. The
// store of failures must have been made for windows as long as the new ones.
func (g *Guard) SetPolicy(p Policy) error {
	compiled, err := compile(p)
	if err != nil {
		return err
	}
	g.rules.Store(compiled)
	return nil
}

// Issue makes a challenge that only this address can solve. counted is that of
// the decision that it answers, false if there is none; solving it takes the
// pressure back.
func (g *Guard) Issue(ctx context.Context, address netip.Addr, counted bool) (challenge.Challenge, error) {
	if g.config.Challenges == nil {
		return challenge.Challenge{}, errors.New("guard: there is no challenge to issue")
	}
	key := g.digests.addressKey(address)
	return g.config.Challenges.Issue(ctx, key, counted)
}

// NeedsChallenge reports whether the site asks everybody at this address for a
// challenge before an account is even named: CAPTCHA mode is on and the
// address is not allowed. Who is privileged for the account needs none after
// all.
func (g *Guard) NeedsChallenge(address netip.Addr) bool {
	return g.config.Mode.On() && g.config.Lists.Look(address, g.config.Now()) != Allowed
}

// Shed tells the guard that an attempt was turned away because the password
// check is overloaded: pressure (R20).
func (g *Guard) Shed(address netip.Addr) {
	key := g.digests.addressKey(address)
	g.config.Mode.Observe(captchamode.Shed, key)
}
