package guard

import (
	"maps"
	"slices"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// An Action is what becomes of an attempt, strictest first. A full rung asks for
// Refuse, Forget or Challenge; Wait comes of delays, and of limits on events. The
// zero Action refuses.
type Action uint8

const (
	Block Action = iota
	// Forget ends the privilege of the place (privileged pairs only); the
	// attempt is then decided like any other.
	Forget
	Challenge
	Delay
	// FakeFailure answers as for a wrong password, without checking it.
	FakeFailure
	// Alert stops nothing (limits on events and identities only): somebody is told.
	Alert
	Proceed
)

// A Limit is one rung of a policy's ladder: at most Failures in any closed
// interval of length Window, and what happens beyond.
type Limit struct {
	Failures int
	Window   time.Duration
	Action   Action
	// Monitor: decided, recorded and shown, not enforced.
	Monitor bool
}

// A Delay makes the next attempt of a pair due some time after its last
// failure: First after After failures in the last Window, doubling up to Max.
// The zero Delay delays nothing.
type PairDelay struct {
	After   int
	First   time.Duration
	Max     time.Duration
	Window  time.Duration
	Monitor bool
}

// Spray says at how many accounts a password must be wrong within a day to be
// taken for one that is sprayed (R28). The zero Spray recognises none.
type Spray struct {
	Accounts int // at most failures.MaxSprayAccounts
	Monitor  bool
}

// A Policy is every number that a decision depends on. Start from
// [DefaultPolicy]; the zero Policy limits nothing and does not validate.
type Policy struct {
	PairDelay PairDelay
	Address   []Limit
	Network   []Limit
	// Account binds strangers only.
	Account []Limit
	// Site binds strangers only, on the failures of all of them together: a rung of it
	// blocks, or answers with a fake failure, every stranger without a one-time code. Empty: the site
	// refuses nobody.
	Site []Limit
	// Identity binds strangers only, on the failures of all of them whose client looks the
	// same (Attempt.Identity). A rung asks for a challenge, or alerts and stops nothing: a
	// client is never refused for what others do with the same browser. Empty: nobody
	// looks at clients.
	Fingerprint []Limit
	// Pair binds strangers only: an account from one address. The delay comes first.
	Pair []Limit
	// PrivilegedPair is the budget of an account at a privileged place.
	KnownClient []Limit
	// Spray is when a password that strangers try on many accounts no longer
	// suffices for them.
	Spray Spray
	// SiteSlow makes a stranger's address wait this long between two attempts
	// while the site's failures are above a third of the threshold. Zero: no
	// slowing.
	ThrottleDelay time.Duration
	// PendingFor is the longest that a password check may take: a charge
	// younger than that may still be taken back (R3).
	CheckTimeout time.Duration
	KnownClients trusted.Limits
	// Devices remembers devices by a signed cookie, where the guard has keys
	// for one.
	Devices bool
	// Lists are lists of addresses that somebody else keeps, and what becomes of logins
	// from there, in the order in which they are asked: at most MaxNamedLists.
	Lists []NamedList
	// Events are limits of one's own on what is no login, by the event's name; see
	// Guard.Exceeded.
	Events map[string][]EventLimit
}

// DefaultPolicy is the policy out of the box (docs/configuration.md).
func DefaultPolicy() Policy {
	const day = 24 * time.Hour
	return Policy{
		PairDelay: PairDelay{After: 3, First: time.Second, Max: 20 * time.Second, Window: time.Hour},
		Address: []Limit{
			{Failures: 10, Window: time.Minute, Action: Challenge},
			{Failures: 20, Window: time.Hour, Action: Challenge},
			{Failures: 50, Window: day, Action: Challenge},
			{Failures: 1000, Window: day, Action: Block},
		},
		Network: []Limit{
			{Failures: 60, Window: time.Minute, Action: Challenge},
			{Failures: 300, Window: time.Hour, Action: Challenge},
		},
		Account: []Limit{
			{Failures: 5, Window: day, Action: Challenge},
			{Failures: 100, Window: day, Action: Block},
		},
		KnownClient: []Limit{
			{Failures: 20, Window: time.Hour, Action: Challenge},
			{Failures: 100, Window: day, Action: Forget},
		},
		Spray:         Spray{Accounts: 10},
		ThrottleDelay: 2 * time.Second,
		CheckTimeout:  5 * time.Second,
		KnownClients: trusted.Limits{MaxClients: trusted.DefaultLimits, TTL: trusted.DefaultTTL,
			Sharers: trusted.DefaultSharers},
		Devices: true,
	}
}

// The work of a challenge doubles with the account's failures: first at WorkFrom,
// then every WorkEvery. So closing an account to strangers is dear, and a few
// wrong passwords of a neighbour are not (R29).
const (
	WorkFrom  = 20
	WorkEvery = 10
)

// WorkLevel is how often the work is doubled for an account with so many failures
// of strangers.
func WorkLevel(failures int) uint8 {
	if failures < WorkFrom {
		return 0
	}
	return uint8(min((failures-WorkFrom)/WorkEvery+1, 255))
}

// SprayedPerHour and SprayedPerDay are how many logins of unknown clients one
// sprayed password admits where no verification code can be sent.
const (
	SprayedPerHour = 3
	SprayedPerDay  = 10
	// hardest is the level of the challenge before each of them.
	hardest = 20
)

var actionNames = [...]string{Block: "block", Forget: "forget", Challenge: "challenge", Delay: "delay",
	FakeFailure: "fake-failure", Alert: "alert", Proceed: "proceed"}

// String is the action's stable name.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return actionNames[Block]
}

// A SubjectKind is what a limit is on: a closed set.
type SubjectKind uint8

const (
	NoSubject SubjectKind = iota
	OnPair
	OnAddress
	OnNetwork
	OnAccount
	OnKnownClient
	OnSite
	OnSubject // of an event: any text
	OnIdentity
)

var subjectNames = [...]string{
	NoSubject: "", OnPair: "pair", OnAddress: "address", OnNetwork: "network",
	OnAccount: "account", OnKnownClient: "known client", OnSite: "site", OnSubject: "subject",
	OnIdentity: "fingerprint",
}

// String is the subject's name.
func (s SubjectKind) String() string { return subjectNames[s] }

// A Verdict is what an administrator said of an address.
type Verdict uint8

const (
	// NotListed: nothing was said.
	NotListed Verdict = iota
	// Allowed: the limits of address and network and CAPTCHA mode do not
	// apply. The limits of account and pair do: nobody is allowed to guess.
	Allowed
	// Blocked: every attempt is refused, from privileged places too.
	Blocked
)

// A NamedList is what becomes of logins from the addresses of a list that somebody else
// keeps, such as the ranges of datacenters. What is on it is in Lists, under its name.
// Administrators' own entries come first; then the first list of the policy that has
// the address decides, and no other is asked.
type NamedList struct {
	Name string
	// Verdict is for all on the list: Allowed or Blocked, as if an administrator had
	// listed them. NotListed: they meet Limits.
	Verdict Verdict
	// Limits bind each address on the list beside Policy.Address, with which it shares
	// its count: they are the same failures. One of 0 failures without a window asks
	// for a challenge at every attempt of a stranger.
	Limits []Limit
	// Monitor: that an address is Blocked is recorded and shown, not enforced. Each of
	// Limits has its own.
	Monitor bool
}

// MaxNamedLists is how many lists a policy may name: each is asked for every address
// that none before it has.
const MaxNamedLists = 16

// always reports whether the limit is one that is full from the start.
func (l *Limit) always() bool { return l.Failures == 0 && l.Window == 0 }

// split tells the limits that count from those that are full from the start.
func (l *NamedList) split() (rungs, askers []Limit) {
	for _, one := range l.Limits {
		if one.always() {
			askers = append(askers, one)
		} else {
			rungs = append(rungs, one)
		}
	}
	return rungs, askers
}

// An EventLimit is one rung on something that is no login: at most Count of the
// event in any closed interval of length Window for one subject, and what happens
// beyond.
type EventLimit struct {
	Count  int
	Window time.Duration
	Action Action // Refuse, Challenge, Wait or Alert
	// By is what it counts for: OnAccount, OnAddress, OnNetwork, OnSubject or OnSite.
	By SubjectKind
	// Monitor: decided, recorded and shown, not enforced.
	Monitor bool
}

// MaxEvents is how many events a policy may limit: each has metrics of its own.
const MaxEvents = 100

// eventKinds are what an event can be counted for, as problems list them.
var eventKinds = []SubjectKind{OnAccount, OnAddress, OnNetwork, OnSubject, OnSite}

func (l EventLimit) limit() Limit {
	return Limit{Failures: l.Count, Window: l.Window, Action: l.Action, Monitor: l.Monitor}
}

// The names of what a policy can be switched by. The ladders of a pair, an address, a
// network, an account, a privileged pair, an identity and the site are named by their subject
// ("known-client"); a named list's and an event's limits are "list:NAME" and
// "event:NAME".
const (
	PairDelayLimits = "pair-delay"
	SprayLimits     = "spray"
	// ModeLimits is CAPTCHA mode and the slowing before it, which the policy does not hold:
	// see captchamode.Config.
	ModeLimits = "mode"

	ofList  = "list:"
	ofEvent = "event:"
)

// Retain is how long a charge can matter under the policy: what the store of failures must know.
func (p Policy) Retain() time.Duration {
	longest := max(p.PairDelay.Window, p.ThrottleDelay, time.Hour) // of unsolved challenges
	all := slices.Concat(p.Address, p.Network, p.Account, p.KnownClient, p.Pair, p.Site, p.Fingerprint)
	for _, list := range p.Lists {
		all = append(all, list.Limits...)
	}
	for _, limits := range p.Events {
		for _, l := range limits {
			all = append(all, l.limit())
		}
	}
	for _, l := range all {
		longest = max(longest, l.Window)
	}
	return longest
}

// EventNames are the names of the events that the policy limits, sorted.
func (p Policy) EventNames() []string { return slices.Sorted(maps.Keys(p.Events)) }

func whole(d time.Duration) bool { return d%time.Millisecond == 0 }

func (d PairDelay) backoff() failures.Backoff {
	return failures.Backoff{After: d.After, First: d.First, Max: d.Max, Window: d.Window}
}
