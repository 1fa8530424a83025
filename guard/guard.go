package guard

import (
	"cmp"
	"context"
	"crypto/cipher"
	"errors"
	"net/netip"
	"slices"
	"sync"
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
	// Realm separates sites that share stores: nothing that is counted, known,
	// issued or remembered in one is anything in another. It may be empty.
	Realm string
	// Store counts, and remembers where accounts were logged in to; see NewLocal.
	Store Store
	// KnownClients reads what Store remembers of an account, for Guard.Places alone; nil: it is
	// not read.
	KnownClients func(ctx context.Context, account trusted.Key, now time.Time) (trusted.Record, error)
	// Cookies sign device cookies; nil: devices are not remembered.
	Cookies *trusted.Cookies
	// Mode is the site-wide switch.
	Mode *captchamode.Mode
	// Challenges are issued and checked; nil: nobody can solve one.
	Challenges *challenge.Desk
	// Passes know one-time codes; nil: there are none.
	Codes Passes
	// Lists are the allow and block lists; nil: nothing is listed.
	Lists *Lists
	// Normalise makes names comparable; default NormaliseAccount.
	Normalise func(typed string) (string, error)
	// Canonical makes one name of an account's several, such as email address and user name;
	// it gets a normalized name. Nil: every name is its own.
	Canonical func(name string) string
	// Epoch is sealed into tickets that travel; tickets of another epoch have
	// expired. It comes from the store that remembers which tickets were settled
	// (challenge.Spent).
	Epoch [16]byte
	// Observer is told of every event; nil: nobody is.
	Observer Observer
	// SharedAddresses knows the addresses that many accounts use; nil: in memory, by
	// Policy.KnownClients.
	SharedAddresses *trusted.SharedAddresses
	// Shared reports whether another guard's accounts share an address (Guard.Shared): it is
	// no known client here either. Nil: there is no other guard.
	Shared func(address netip.Addr) bool
	// Forgotten reports a proxy that is missing from the configuration, and OnShared an IP
	// address that became a shared one with so many accounts: once each. They must not block.
	// May be nil.
	Forgotten func(Forgotten)
	OnShared  func(address netip.Addr, accounts int)
	// Failed is told of a store's failure that made a decision stricter and
	// not wrong, such as a place that could not be asked for. It must not
	// block. Nil: nobody is told.
	Failed func(error)
	// Timed is told of each Begin, when it ends, how long it took and how much of that the
	// attempt waited for its turn or until it was due. It must not block. Nil: nobody is
	// told.
	Timed func(ctx context.Context, took, waited time.Duration)
	// Held and HeldPerAddress bound the attempts that wait for their turn or
	// for a delay, in all and from one address; default 20,000 and 100.
	Held           int
	HeldPerAddress int
	// Now is the clock of everything but timers; default time.Now.
	Now func() time.Time
}

// DefaultRealm is the realm of a service that serves one site.
const DefaultRealm = "default"

// A Guard decides login attempts. All methods are safe for concurrent use.
type Guard struct {
	config      Config
	rules       atomic.Pointer[rules]
	digests     digester
	waiting     *waitQueue
	peers       peers
	tickets     cipher.AEAD
	hungUp      atomic.Uint64 // clients
	stop        func()        // of what Default has started
	tallies     sync.Map      // of events, by name
	listTallies sync.Map      // of named lists, by name
	edges       edges
}

// New returns a guard, or every problem with the config.
func New(c Config) (*Guard, error) {
	c.setDefaults()
	compiled, err := compile(c.Policy)
	digests, err2 := newDigester(c.Secret, c.Realm)
	tickets, err3 := newSealer(c.Secret, c.Realm)
	var err4 error
	if c.SharedAddresses == nil {
		c.SharedAddresses, err4 = trusted.NewSharedAddresses(c.Policy.KnownClients, nil)
	}
	if err := errors.Join(c.validate(), err, err2, err3, err4); err != nil {
		return nil, err
	}
	g := &Guard{config: c, digests: digests, tickets: tickets, waiting: newWaitQueue(c.Held, c.HeldPerAddress)}
	g.rules.Store(compiled)
	return g, nil
}

func (c *Config) setDefaults() {
	c.Lists = cmp.Or(c.Lists, new(Lists))
	if c.Normalise == nil {
		c.Normalise = NormaliseAccount
	}
	if c.Canonical == nil {
		c.Canonical = func(name string) string { return name }
	}
	if c.Failed == nil {
		c.Failed = func(error) {}
	}
	c.Held, c.HeldPerAddress = cmp.Or(c.Held, 20_000), cmp.Or(c.HeldPerAddress, 100)
	if c.Now == nil {
		c.Now = time.Now
	}
}

func (c *Config) validate() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("guard: Store: must be set"))
	}
	if c.Mode == nil {
		errs = append(errs, errors.New("guard: Mode: must be set"))
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

// HangUp counts a client that went away before its password was looked at. It is
// pressure, as an attempt that is settled as abandoned. Begin counts those that go
// away while it holds them.
func (g *Guard) HangUp() { g.hungUp.Add(1) }

// HungUp is how many clients went away so since the start.
func (g *Guard) HungUp() uint64 { return g.hungUp.Load() }

// Checks reports whether a password check is to be made for the attempt: of the
// password or, for a fake failure, of a Decoy.
func (d *Decision) Checks() bool { return d.Action == Proceed || d.Action == FakeFailure }

// Monitored reports whether the attempt only goes on because a limit, or the rule on sprayed
// passwords, is monitored and not enforced.
func (d *Decision) Monitored() bool {
	t := d.Ticket.pending
	if t != nil && t.flags.has(flagSprayed) && t.rules.policy.Spray.Monitor && !d.Privileged && !d.Passed {
		return true
	}
	return slices.ContainsFunc(d.Reasons, func(why Reason) bool {
		return why.Monitored && (why.Limit == nil || why.Limit.Action != Alert)
	})
}

// Offered is what to check in the password's place: the password itself where that may
// be checked, and else a Decoy.
func (d *Decision) Offered(password string) string {
	if d.Action == Proceed {
		return password
	}
	return Decoy(password)
}

// A Decision is the answer to an attempt. The zero Decision refuses.
type Decision struct {
	// Action is Proceed, Wait, Challenge or Refuse; or Pretend: whoever asked is to be
	// answered as for a wrong password, after as long a check, by a text that is no
	// password (Decoy), and the ticket settled. Only who has made a limit with that
	// action meets it.
	Action Action
	// RetryAfter is how long to wait before the next try: for Wait until the
	// attempt is due, for Refuse until there may be room again.
	RetryAfter time.Duration
	// Reasons say why, strongest first; also what a monitored limit would have
	// done. Proceed may have reasons too.
	Reasons Reasons
	// Solve is what became of the challenge's answer that came along.
	Solve challenge.Verdict
	// Privileged says that the attempt came from a privileged place.
	Privileged bool
	// Insufficient says, of Proceed, that even the right password is not enough,
	// since strangers try it on many accounts and the owner can get a verification
	// code, or no further login is admitted without one (SprayedPerHour): it is to be checked and then answered
	// like a wrong one. Settle refuses a success.
	Insufficient bool
	// Passed says that a good one-time code came along.
	Passed bool
	// Counted says that a Challenge is pressure on the site until it is solved.
	Counted bool
	// level is how often the work of the challenge is doubled; counted says that
	// the account's failures were looked at for it.
	level   uint8
	counted bool
	// open is what the challenge was charged, as one that is not solved.
	open challenge.Charge
	// Account is the name, normalised and canonical; empty if it was unusable.
	Account string
	// Ticket is what Settle wants; it is of use only for Proceed and
	// Pretend.
	Ticket Ticket
}

// An Outcome is how an attempt ended. The zero Outcome is Failed.
type Outcome uint8

const (
	// Failed: the password was wrong, or nobody said otherwise.
	Failed Outcome = iota
	// Succeeded: the password was right and the person is let in.
	Succeeded
	// Abandoned: the password was not checked, because the check broke or there
	// was no room for one (R19). That is nobody's failure and keeps no charge; it
	// is pressure on the site (R20). A check that was made has an outcome, also if
	// its client has gone.
	Abandoned
	// Withdrawn: the attempt was stopped after all, before its password was
	// looked at. The guard says so itself; nobody else needs to.
	Withdrawn
	// Insufficient: the password was right, is tried on many accounts, and did not
	// suffice. The guard makes it of Succeeded; nobody else needs to.
	Insufficient
)

var outcomeNames = [...]string{Failed: "failed", Succeeded: "succeeded", Abandoned: "abandoned", Withdrawn: "withdrawn",
	Insufficient: "insufficient"}

// String is the outcome's stable name.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return outcomeNames[Failed]
}
