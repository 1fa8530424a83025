package guard

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/internal/seal"
	"authguard/trusted"
)

// Config configures a Guard.
type Config struct {
	// Policy has every number; see DefaultPolicy.
	Policy Policy
	// Secret keys all digests: at least 16 bytes, the same while the counters live and on every node that shares them.
	Secret []byte
	// Realm separates sites that share stores: they have no counts, known clients or challenges in common. May be empty.
	Realm string
	// Store counts attempts and remembers known clients; see NewLocal.
	Store Store
	KnownClientConfig
	// Mode is CAPTCHA mode.
	Mode *captchamode.Mode
	// Challenges issues and checks challenges; nil: none can be solved.
	Challenges *challenge.Issuer
	// Codes are the verification codes; nil: there are none.
	Codes Codes
	// Lists are the allowlist and the blocklist; nil: empty.
	Lists *Lists
	NameConfig
	// Leaked are the passwords that are known from leaks; nil: none.
	Leaked *LeakedPasswords
	// Epoch is sealed into tickets, which expire with it. It comes from the store of settled tickets (challenge.Spent).
	Epoch [16]byte
	Callbacks
	// Held and HeldPerAddress bound the waiting attempts of unknown clients; default 20,000, and 100 per IP address.
	Held           int
	HeldPerAddress int
	// Now is the clock of everything but timers; default time.Now.
	Now func() time.Time
}

// KnownClientConfig is how known clients are recognized.
type KnownClientConfig struct {
	// KnownClients reads an account's record from Store, for Guard.KnownClients only; nil: it is not read.
	KnownClients func(ctx context.Context, account trusted.Key, now time.Time) (trusted.Record, error)
	// Cookies sign device cookies; nil: there are none.
	Cookies *trusted.Cookies
	// SharedAddresses detects shared addresses; nil: in memory, by Policy.KnownClients.
	SharedAddresses *trusted.SharedAddresses
	// Shared reports whether an address is shared in another guard (Guard.Shared), and so no known client here. May be
	// nil.
	Shared func(address netip.Addr) bool
}

// NameConfig is how names of accounts are compared.
type NameConfig struct {
	// Normalise makes names comparable; default NormaliseAccount.
	Normalise func(typed string) (string, error)
	// Canonical maps an account's normalized names, such as email address and user name, to one. After an error, a client
	// proceeds only if it is a known client of the name as typed; Begin returns the error for others. It is called before
	// any limit applies: from is the client's address, to share out look-ups (R26). Nil: names stay as they are.
	Canonical func(name string, from netip.Addr) (string, error)
}

// LeakedPasswords are a list of passwords that are known from leaks. Guards can share it. The zero value has none. It is
// safe for concurrent use.
type LeakedPasswords struct {
	has atomic.Pointer[func(password string) bool]
}

// Set replaces the list. has reports whether a password is on it, must not block, and takes as long for every password;
// nil: there is no list.
func (l *LeakedPasswords) Set(has func(password string) bool) {
	if has == nil {
		l.has.Store(nil)
		return
	}
	l.has.Store(&has)
}

// Callbacks must not block.
type Callbacks struct {
	// Observer gets every event; may be nil.
	Observer Observer
	// OnUnconfiguredProxy reports a new UnconfiguredProxy, OnShared a new shared address. May be nil.
	OnUnconfiguredProxy func(UnconfiguredProxy)
	OnShared            func(address netip.Addr, accounts int)
	// Failed gets a store's error that made a decision stricter but not wrong. May be nil.
	Failed func(error)
	// Timed gets each Begin's duration, and how much of it was waiting. May be nil.
	Timed func(ctx context.Context, took, waited time.Duration)
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
	tickets     *seal.Box
	hungUp      atomic.Uint64 // clients
	stop        func()        // ends what Default has started
	tallies     sync.Map      // of events, by name
	listTallies sync.Map      // of IP lists, by name
	edges       edges
}

// New returns a guard, or every problem with the config.
func New(c Config) (*Guard, error) {
	c.setDefaults()
	compiled, err := compile(c.Policy, usualLimits())
	digests, err2 := newDigester(c.Secret, c.Realm)
	tickets, _ := seal.NewBox(c.Secret, "ticket "+c.Realm) // fails as newDigester does
	var err3 error
	if c.SharedAddresses == nil {
		c.SharedAddresses, err3 = trusted.NewSharedAddresses(c.Policy.KnownClients, nil)
	}
	if err := errors.Join(c.validate(), err, err2, err3); err != nil {
		return nil, err
	}
	g := &Guard{config: c, digests: digests, tickets: tickets, waiting: newWaitQueue(c.Held, c.HeldPerAddress)}
	g.rules.Store(compiled)
	return g, nil
}

func (c *Config) setDefaults() {
	c.Lists, c.Leaked = cmp.Or(c.Lists, new(Lists)), cmp.Or(c.Leaked, new(LeakedPasswords))
	if c.Normalise == nil {
		c.Normalise = NormaliseAccount
	}
	if c.Canonical == nil {
		c.Canonical = func(name string, _ netip.Addr) (string, error) { return name, nil }
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

// Policy returns the policy in force.
func (g *Guard) Policy() Policy { return g.rules.Load().policy }

// SetPolicy changes the policy for attempts that begin from now on. The store of failures must retain charges for the
// longest Policy.Retain so far.
func (g *Guard) SetPolicy(p Policy) error {
	compiled, err := compile(p, g.rules.Load().kept)
	if err != nil {
		return err
	}
	g.rules.Store(compiled)
	return nil
}

// HangUp counts a client that disconnected before its password was checked. The attempt must be settled all the same.
// Begin counts those that disconnect while it holds them.
func (g *Guard) HangUp() { g.hungUp.Add(1) }

// HungUp returns how many clients disconnected so since the start.
func (g *Guard) HungUp() uint64 { return g.hungUp.Load() }

// A Decision is the answer to an attempt. The zero Decision blocks.
type Decision struct {
	// Action is Proceed, Delay, Challenge, Block or, only if a limit has it, FakeFailure. For the latter, check a Decoy,
	// settle the ticket and answer as for a wrong password.
	Action Action
	// RetryAfter is how long to wait: for Delay until the attempt is due, for Block until there may be room again.
	RetryAfter time.Duration
	// Reasons say why, strongest first, and what monitored limits would have done. Proceed may have reasons, too.
	Reasons Reasons
	// Verdict is the result for the attempt's solution.
	Verdict challenge.Verdict
	// Known: the client is a known client of the account.
	Known bool
	// Insufficient, for Proceed: even the right password is not enough, because the client is unknown and the site is
	// under attack (R32) or the password is used for password spraying. The owner can get a verification code, or logins
	// with the sprayed password have reached SprayedPerHour. Check the password and answer as for a wrong one; Settle does
	// not accept Succeeded.
	Insufficient bool
	// CodeValid: the attempt has a valid verification code.
	CodeValid bool
	// PasswordLeaked is the attempt's: after a login, ask the user to choose another password.
	PasswordLeaked bool
	// MayNeedCode: from this client, some right passwords need a verification code that is sent to the owner: every one
	// during an attack, else those that are known from leaks. Say so after every wrong password: what differs would reveal
	// which passwords are on the list.
	MayNeedCode bool
	// Counted: the challenge counts toward the failure rate until it is solved.
	Counted bool
	// level is the WorkLevel of the challenge; counted: the account's failures are in it.
	level   uint8
	counted bool
	// imageSolved: the challenge needs no image (Rebind).
	imageSolved bool
	// open is the charge for an unsolved challenge.
	open challenge.Charge
	// Account is the normalized canonical name; empty if the name is invalid.
	Account string
	// Ticket is for Settle; only Proceed and FakeFailure have one.
	Ticket Ticket
}

// An Attempt is one try to log in to an account from an IP address. It never holds the password.
type Attempt struct {
	// Account is the name as typed.
	Account string
	// Address is the client's, decided by the integration. All invalid addresses count as one, so none is unlimited.
	Address netip.Addr
	// Devices are the request's device cookies. At most MaxDevices of the account's own are checked.
	Devices []string
	// Solution is the solution of a challenge, if there is one.
	Solution challenge.Solution
	// VerificationCode is a verification code, if there is one (R29). A known client's is not checked.
	VerificationCode string
	// Passkey: the integration has verified a passkey of the account, which no attacker can guess. The attempt needs no
	// challenge, and the limits on guesses at its account and on the site do not stop it.
	Passkey bool
	// SendsCode: the integration can send a verification code to the account's owner. If not, an unknown client that
	// needs one gets a challenge instead: the most expensive one for a sprayed password (R28), see also StepUp.
	SendsCode bool
	// WantsCode: Settle returns the code, which the integration sends to the owner (CodeRequired). Implies SendsCode.
	WantsCode bool
	// PasswordTag recognizes a repeated password (R28): from this site's Guard.Fingerprint. 0: unknown, so every try
	// counts.
	PasswordTag uint64
	// BesideTag identifies all other credentials of the request, such as a TOTP code or a tenant (from
	// Guard.Beside): a password repeats only beside the same. 0: there are none.
	BesideTag uint64
	// PasswordLeaked: the password is known from leaks, see Guard.Leaked.
	PasswordLeaked bool
	// Fingerprint recognizes the client at any address: from this site's Guard.Identity. 0: unknown, not counted.
	Fingerprint uint32
	// Forwarded: the TCP peer is no configured proxy, but sent a forwarding header (R9).
	Forwarded bool
	// Hold is how long an attempt may wait on a timer until it is due; zero: the client is asked to wait (R15).
	Hold time.Duration
	// Integration is the name of the integration: "login", "admin", "api", "library".
	Integration string
}

// MaxDevices is how many device cookies of one account are checked per attempt.
const MaxDevices = 8

// A view is what is known of one attempt until it is settled.
type view struct {
	Charge
	rules *rules
	naming
	from    origin
	listed  listing
	mode    modeState
	in      exemption
	code    codeState
	tag     uint32 // see Password.Tag
	hardest bool   // no verification code can be sent, and there are challenges
	wants   bool   // see Attempt.WantsCode
	leaked  bool   // the password is known from leaks
	gone    bool   // the client has hung up while it waited
	waited  time.Duration
	// admitted is the charge for a login with a sprayed password; nil: not admitted.
	admitted *Charge
	// fake are the reasons for a fake failure; nil: none.
	fake Reasons
	pending
}

// naming is the account's name.
type naming struct {
	name    string // normalized and canonical; as typed if badName
	badName bool
	// respelled: the name was normalized, not only in case. The app may have another account with the name as typed, so a
	// success makes no client known.
	respelled bool
	// unresolved is why the canonical name could not be looked up; name is then the typed one.
	unresolved error
}

type codeState uint8

const (
	unchecked codeState = iota
	codeValid
	codeInvalid
)

// origin has the digests of the attempt's IP address and network.
type origin struct{ address, network digest }

type listing struct {
	verdict Verdict
	on      *listRule // the IP list; nil: none
	left    time.Duration
}

// A modeState is what CAPTCHA mode asks for, and what it would if it were not monitored.
type modeState struct {
	on, throttles, elevated                bool
	wouldBeOn, wouldThrottle, wouldElevate bool
	step                                   stepUp
	mayNeedCode                            bool // see Decision
}

// A stepUp is what an unknown client needs beside the password.
type stepUp uint8

const (
	noStepUp stepUp = iota
	monitoredStepUp
	stepUpByCode
	stepUpByChallenge // no code can be sent
)

var (
	// ErrSettled means that the ticket was settled before.
	ErrSettled = errors.New("guard: this attempt is already settled")
	// ErrTicketExpired means that the ticket is older than TicketTTL or of another Epoch; the attempt counts as failed.
	ErrTicketExpired = errors.New("guard: the ticket has expired, so the attempt counts as failed")
	// ErrTicket means that the text is not a ticket of this guard, or that a zero Ticket is settled.
	ErrTicket = errors.New("guard: not a ticket")
)

// A Ticket identifies an attempt that may proceed, until it is settled. Its copies share the attempt: only one can be
// settled. The zero Ticket has none. A Ticket is safe for concurrent use, except for Seal.
type Ticket struct {
	of *view
	// Note is added to the Event of the copy that is settled, cut to MaxNote bytes. It is not sealed.
	Note  string
	nonce [16]byte // of the sealed text
}

// pending is what else a ticket needs.
type pending struct {
	ended atomic.Int32 // 0, 1 plus the outcome, or settledFull
	began time.Time    // zero if the ticket was sealed
	// issued is when it was sealed first.
	issued time.Time
	// The rest is for events.
	integration string
	address     netip.Addr
	fingerprint uint32
	forwarded   bool // see Attempt
	reasons     Reasons
}

// edges has the limits that events exceed now. Each is reported when it is reached and when it is over, not for every
// event. It knows this node's events only. The zero edges are empty.
type edges struct {
	mu    sync.Mutex
	known map[edgeOf]*stretch
}

// An edgeOf is one limit of one subject.
type edgeOf struct {
	event   string
	by      SubjectKind
	limit   int
	subject digest // zero: all subjects beyond maxEdges
}

// A stretch lasts from when a limit is reached until no event has exceeded it for its window.
type stretch struct {
	event Event
	last  time.Time // the last event beyond the limit
	wait  time.Duration
}

// Codes are verification codes for unknown clients (R29). A valid one exempts from the limits of account, site and
// fingerprint, from challenges, and from the rule on sprayed passwords. The pair's delay and limits, blocks of the IP
// address or network, and the blocklist still apply; the password must be right. Both methods are safe for concurrent
// use; their changes apply to all nodes.
type Codes interface {
	// Show reports whether a code is valid for the account and IP address, and counts one of the code's few tries. The
	// code is bound to the first address that shows it. An error means that the store failed.
	Show(ctx context.Context, p Code) (good bool, err error)
	// Settle records how an attempt with a valid code ended; Code.Text is empty. Succeeded uses up the client's codes.
	// Abandoned and Withdrawn give the try back, since no password was checked.
	Settle(ctx context.Context, p Code, o Outcome) error
}

// A Code is a verification code from an attempt.
type Code struct {
	Account string      // normalized and canonical
	Address trusted.Key // the digest of the IP address
	Text    string      // as typed
	Now     time.Time   // by the guard's clock
}

// Held returns how many attempts of unknown clients wait now.
func (g *Guard) Held() int {
	g.waiting.mu.Lock()
	defer g.waiting.mu.Unlock()
	return g.waiting.held
}

// Direct sets the private networks whose addresses are clients, such as an office. It resets UnconfiguredProxies.
func (g *Guard) Direct(networks []netip.Prefix) { g.peers.set(&g.peers.direct, networks) }

// Proxies sets the configured proxies. An address of theirs is a client's only if the proxy names no client. It resets
// UnconfiguredProxies.
func (g *Guard) Proxies(networks []netip.Prefix) { g.peers.set(&g.peers.proxies, networks) }

// UnconfiguredProxies returns the detected proxies, oldest first.
func (g *Guard) UnconfiguredProxies() []UnconfiguredProxy {
	found := g.peers.found.Load()
	if found == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(*found), func(a, b UnconfiguredProxy) int { return a.Since.Compare(b.Since) })
}

// Shared reports whether the address is a shared address, which is never a known client (R30).
func (g *Guard) Shared(address netip.Addr) bool {
	return g.config.SharedAddresses.Shared(g.digests.addressKey(address), g.config.Now())
}
