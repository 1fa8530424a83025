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
	// Store counts, and remembers where accounts were logged in to; see NewLocal.
	Store Store
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
	// Canonical makes one name of an account's several in a directory, such as
	// e-mail and user name; it gets a normalised name. Nil: every name is its own.
	Canonical func(directory, name string) string
	// Epoch is sealed into tickets that travel; tickets of another epoch have
	// expired. It comes from the store that remembers which tickets were settled
	// (challenge.Spent).
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
	// Now is the clock of everything but timers; default time.Now.
	Now func() time.Time
}

// A Guard decides login attempts. All methods are safe for concurrent use.
type Guard struct {
	config  Config
	rules   atomic.Pointer[rules]
	digests digester
	waiting *waitQueue
	proxies proxyHint
	tickets *sealer
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
	g := &Guard{config: c, digests: digests, tickets: tickets, waiting: newWaitQueue(c.Held, c.HeldPerAddress)}
	g.rules.Store(compiled)
	return g, nil
}

func (c *Config) setDefaults() {
	if c.Lists == nil {
		c.Lists = new(Lists)
	}
	if c.Normalise == nil {
		c.Normalise = NormaliseAccount
	}
	if c.Canonical == nil {
		c.Canonical = func(_, name string) string { return name }
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
		c.Now = time.Now
	}
}

func (c *Config) validate() error {
	var errs []error
	for what, missing := range map[string]bool{
		"Store": c.Store == nil, "Mode": c.Mode == nil,
	} {
		if missing {
			errs = append(errs, fmt.Errorf("guard: %s: must be set", what))
		}
	}
	return errors.Join(errs...)
}

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

// Issue makes a challenge that only this address can solve. counted is the
// Counted of the decision that asked for it, false without one: solving the
// challenge then takes the pressure back.
func (g *Guard) Issue(ctx context.Context, address netip.Addr, counted bool) (challenge.Challenge, error) {
	if g.config.Challenges == nil {
		return challenge.Challenge{}, errors.New("guard: there is no challenge to issue")
	}
	key := g.digests.addressKey(address)
	return g.config.Challenges.Issue(ctx, key, counted)
}

// NeedsChallenge reports whether the site asks everybody at this address for a
// challenge before an account is even named: CAPTCHA mode is on and the
// address is not allowed. An attempt from a privileged place needs none after
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
