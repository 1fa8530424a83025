package guard

import (
	"cmp"
	"context"
	"crypto/cipher"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
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
	Challenges *challenge.Issuer
	// Codes know one-time codes; nil: there are none.
	Codes Codes
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
	// OnUnconfiguredProxy reports a proxy that is missing from the configuration, and OnShared an IP
	// address that became a shared one with so many accounts: once each. They must not block.
	// May be nil.
	OnUnconfiguredProxy func(UnconfiguredProxy)
	OnShared            func(address netip.Addr, accounts int)
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
	// Verdict is what became of the challenge's answer that came along.
	Verdict challenge.Verdict
	// Known says that the attempt came from a privileged place.
	Known bool
	// Insufficient says, of Proceed, that even the right password is not enough,
	// since strangers try it on many accounts and the owner can get a verification
	// code, or no further login is admitted without one (SprayedPerHour): it is to be checked and then answered
	// like a wrong one. Settle refuses a success.
	Insufficient bool
	// CodeValid says that a good one-time code came along.
	CodeValid bool
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

// An Attempt is one try to log in to an account from an IP address. It never holds the password.
type Attempt struct {
	// Account is the name as it was typed.
	Account string
	// Address is the client's, decided by the integration. All invalid addresses count as one, so
	// that what cannot be parsed is never unlimited.
	Address netip.Addr
	// Devices are the device cookies of the request, of any account; of the account's own at most
	// MaxDevices are checked.
	Devices []string
	// Solution is the solution of a challenge, if there is one.
	Solution challenge.Solution
	// VerificationCode is a verification code, if there is one (R29). From a known client it is
	// not checked.
	VerificationCode string
	// SendsCode says that the integration can send a verification code to the account's owner.
	// Where it cannot, an unknown client with a sprayed password solves the most expensive
	// challenge instead (R28).
	SendsCode bool
	// PasswordTag recognizes a repeated password (R28): keyed, from Guard.Fingerprint, which must
	// not be one of another site's. 0: unknown, so that every try counts.
	PasswordTag uint64
	// BesideTag stands for all other credentials of the request, such as a TOTP code or a tenant (from
	// Guard.Fingerprint): a password repeats only beside the same. 0: there are none.
	BesideTag uint64
	// Fingerprint recognizes the client, whatever its address: keyed, from Guard.Identity, which
	// must not be one of another site's. 0: unknown, and not counted.
	Fingerprint uint32
	// Forwarded says that the TCP peer is no configured proxy and yet sent a forwarding header
	// (R9).
	Forwarded bool
	// Hold is how long the integration lets an attempt wait on a timer until it is due; zero: the
	// client is asked to wait (R15).
	Hold time.Duration
	// Integration names where the attempt came in: "login", "admin", "api", "library".
	Integration string
}

// MaxDevices is how many device cookies of one account an attempt may bring.
const MaxDevices = 8

// A view is what is known of one attempt until it is decided.
type view struct {
	Charge
	rules   *rules
	name    string // the account, normalized and canonical; as it was typed if badName
	badName bool
	from    origin
	listed  listing
	mode    modeState
	in      exemption
	code    codeState
	tag     uint32 // see Password.Tag
	hardest bool   // no verification code can be sent, and there are challenges
	gone    bool   // the client has hung up while it waited
	waited  time.Duration
	// admitted is what a login with a sprayed password was charged; nil: it was not.
	admitted *Charge
	// fake are the reasons to answer with a fake failure; nil: there are none.
	fake Reasons
}

// A codeState is what is known of a verification code.
type codeState uint8

const (
	unchecked codeState = iota
	codeValid
	codeInvalid
)

// An origin is where an attempt comes from: the digests of its IP address and network.
type origin struct{ address, network digest }

// A listing is what the IP lists say of an address.
type listing struct {
	verdict Verdict
	on      *listRule // the named list; nil: none
	left    time.Duration
}

// A modeState is what CAPTCHA mode asks for, and what it would if it were not monitored.
type modeState struct{ on, throttles, wouldBeOn, wouldThrottle bool }

// Errors of tickets.
var (
	// ErrSettled means that the ticket was settled before.
	ErrSettled = errors.New("guard: this attempt is already settled")
	// ErrTicketExpired means that the ticket is older than TicketTTL; the
	// attempt counts as failed.
	ErrTicketExpired = errors.New("guard: the ticket has expired, so the attempt counts as failed")
	// ErrTicket means that the text is no ticket of this guard.
	ErrTicket = errors.New("guard: not a ticket")
)

// A Ticket stands for one attempt that may proceed, until it is settled. Its
// copies stand for the same attempt: only one of them can be settled. The zero
// Ticket stands for none. A Ticket is safe for concurrent use, except for Seal.
type Ticket struct {
	*pending
	// Note goes with the event of how the attempt ended: at most MaxNote bytes, cut
	// there. It belongs to the copy that is settled, and is not sealed.
	Note  string
	nonce [16]byte // of the text that it was turned into
}

// A pending is what the copies of a ticket share.
type pending struct {
	ended atomic.Int32 // 0, 1 plus the outcome, or settledFull
	rules *rules
	flags ticketFlags
	id    failures.ChargeID
	began time.Time // zero if the ticket was sealed

	account digest
	client  digest // the IP address, or the device that is known
	from    origin

	tag, spray, fingerprint uint32
	admitted                *Charge // see view
	login                   login
}

// A login is what the events of an attempt say.
type login struct {
	name        string
	integration string
	address     netip.Addr
	reasons     Reasons
	failures    int32 // of unknown clients at the account, before
}

// ticketFlags are what is known of an attempt, as they are sealed.
type ticketFlags uint8

const (
	flagKnown ticketFlags = 1 << iota
	flagForwarded
	flagCodeValid // a verification code was valid
	flagRepeat
	flagInsufficient
	flagSprayed
	flagFake
)

// edges know which limits are reached, so that each stretch is told of twice and not
// once for every event in it. The zero edges know none. What a node tells of is what
// came to it.
type edges struct {
	mu    sync.Mutex
	known map[edgeOf]*stretch
}

// An edgeOf is one rung of one subject.
type edgeOf struct {
	event   string
	by      SubjectKind
	limit   int
	subject digest // zero: of all those that there was no room to name
}

// A stretch is from when a limit was reached until it has been quiet for its window.
type stretch struct {
	event Event
	last  time.Time // one came beyond the limit
	wait  time.Duration
}

// Codes know the one-time codes that let a stranger's place in (R29). A good
// one lifts what stops strangers: the account's rungs, whatever asks for a
// challenge, and the rule on passwords that somebody sprays. The delay of the
// pair, the refusal of an address that guesses and an administrator's block
// stay, and the password is needed all the same. Both methods are safe for
// concurrent use; with several nodes, what they change is changed for all.
type Codes interface {
	// Show reports whether a code is good for the account at the place, and
	// counts one of the code's few tries. The first place that shows a code is
	// the only one that it lets in. An error means that the store failed.
	Show(ctx context.Context, p Code) (good bool, err error)
	// Settle says how an attempt ended that Show found good: Succeeded uses the
	// place's codes up, Abandoned and Withdrawn give the try back, since no
	// password was looked at. The Pass has no code then.
	Settle(ctx context.Context, p Code, o Outcome) error
}

// A Code is a one-time code on its way from the attempt to Passes.
type Code struct {
	Account string      // normalised and canonical
	Address trusted.Key // the digest of the address
	Text    string      // as it was typed
	Now     time.Time   // the guard's clock
}

// SetHeld changes how many attempts may wait, in all and from one address; see
// Config. Those that wait go on waiting.
func (g *Guard) SetHeld(most, perAddress int) {
	g.waiting.mu.Lock()
	defer g.waiting.mu.Unlock()
	g.waiting.most, g.waiting.mostPer = most, perAddress
}

// Held is how many attempts wait now: for their turn, or until they are due.
func (g *Guard) Held() int {
	g.waiting.mu.Lock()
	defer g.waiting.mu.Unlock()
	return g.waiting.held
}

// Direct says which private addresses are really clients, such as the machines
// of an office on the site's own network. It forgets what was noticed before:
// the configuration was mended.
func (g *Guard) Direct(networks []netip.Prefix) { g.peers.set(&g.peers.direct, networks) }

// Proxies says which addresses are configured proxies. A client has one of these only if
// the proxy does not say who the client is. Like Direct it forgets what was noticed before.
func (g *Guard) Proxies(networks []netip.Prefix) { g.peers.set(&g.peers.proxies, networks) }

// UnconfiguredProxies are the proxies that were noticed, longest known first.
func (g *Guard) UnconfiguredProxies() []UnconfiguredProxy {
	found := g.peers.found.Load()
	if found == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(*found), func(a, b UnconfiguredProxy) int { return a.Since.Compare(b.Since) })
}

// Shared reports whether so many accounts use an address that it is no known client (R30).
func (g *Guard) Shared(address netip.Addr) bool {
	return g.config.SharedAddresses.Shared(g.digests.addressKey(address), g.config.Now())
}

func (f ticketFlags) has(one ticketFlags) bool { return f&one != 0 }
