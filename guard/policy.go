package guard

import (
	"maps"
	"slices"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// An Action is the answer to an attempt, or what a full limit does, strictest first. The zero Action blocks.
type Action uint8

const (
	Block Action = iota
	// Forget makes a known client unknown; the attempt is then decided like any other. Only KnownClient limits have it.
	Forget
	Challenge
	Delay
	// FakeFailure answers as for a wrong password, without checking it.
	FakeFailure
	// Alert stops nothing: it only alerts. Only limits of events and fingerprints have it.
	Alert
	Proceed
)

// A Limit allows at most Failures in any closed interval of length Window (a sliding window). Action applies beyond.
type Limit struct {
	Failures int
	Window   time.Duration
	Action   Action
	// Monitor: recorded and shown, not enforced.
	Monitor bool
}

// A PairDelay delays the next attempt of an account and IP pair after wrong passwords. After After failures within
// Window, the pair waits First since its last failure, doubling up to Max. The zero PairDelay delays nothing.
type PairDelay struct {
	After   int
	First   time.Duration
	Max     time.Duration
	Window  time.Duration
	Monitor bool
}

// Spray configures the detection of password spraying (R28): one password is wrong at Accounts accounts within a day.
// Zero: no detection.
type Spray struct {
	Accounts int // at most failures.MaxSprayAccounts
	Monitor  bool
}

// StepUp is when an unknown client needs a verification code beside the right password (R32): while the site's failure
// rate throttles unknown clients, turns CAPTCHA mode on (or an administrator does), or while more unknown clients have
// failed in a day than usual; or if the password is known from leaks. The zero StepUp is never.
type StepUp struct {
	Throttling, Captcha, Elevated bool
	// Leaked applies to a password with Attempt.PasswordLeaked, only where a code can be sent or with BlockWithoutCode: a
	// challenge would reveal which passwords are known.
	Leaked bool
	// BlockWithoutCode refuses unknown clients where no code can be sent. Otherwise they solve a challenge there, not while
	// they are only throttled.
	BlockWithoutCode bool
	Monitor          bool
}

// A Policy has every number that a decision depends on. Start from [DefaultPolicy]: the zero Policy is invalid.
type Policy struct {
	PairDelay PairDelay
	Address   []Limit
	Network   []Limit
	// Account applies to unknown clients only.
	Account []Limit
	// Site applies to the failures of all unknown clients together. A verification code or the allowlist exempts. May be
	// empty.
	Site []Limit
	// Fingerprint applies to unknown clients that look the same (Attempt.Fingerprint), and only challenges or alerts: a
	// block would stop users with the same browser. Empty: fingerprints are not counted.
	Fingerprint []Limit
	// Pair applies to unknown clients: one account from one IP address, beside PairDelay.
	Pair []Limit
	// KnownClient applies to a known client of an account.
	KnownClient []Limit
	// Spray is when the right password is no longer enough for an unknown client.
	Spray  Spray
	StepUp StepUp
	// ThrottleDelay is between two attempts of unknown clients from one IP address while CAPTCHA mode throttles. Zero:
	// none.
	ThrottleDelay time.Duration
	// CheckTimeout is the longest duration of a password check: a younger charge may still be taken back (R3).
	CheckTimeout time.Duration
	KnownClients trusted.Limits
	// Devices enables device cookies, if Config.Cookies is set.
	Devices bool
	// Lists are the IP lists, in the order in which they are asked: at most MaxNamedLists.
	Lists []NamedList
	// Events are limits on anything but logins, by the event's name; see Guard.Exceeded.
	Events map[string][]EventLimit
}

// DefaultPolicy returns the default policy (docs/reference/configuration.md).
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
		StepUp:        StepUp{Throttling: true, Captcha: true, Elevated: true, Leaked: true},
		ThrottleDelay: 2 * time.Second,
		CheckTimeout:  5 * time.Second,
		KnownClients: trusted.Limits{MaxClients: trusted.DefaultLimits, TTL: trusted.DefaultTTL,
			Sharers: trusted.DefaultSharers},
		Devices: true,
	}
}

// The proof of work doubles with the account's failures: first at WorkFrom, then every WorkEvery. So it is expensive to
// block an account for unknown clients, but a neighbor's few wrong passwords cost little (R29).
const (
	WorkFrom  = 20
	WorkEvery = 10
)

// WorkLevel returns how often the proof of work is doubled for so many failures of unknown clients at the account.
func WorkLevel(failures int) uint8 {
	if failures < WorkFrom {
		return 0
	}
	return uint8(min((failures-WorkFrom)/WorkEvery+1, 255))
}

// SprayedPerHour and SprayedPerDay bound the logins of unknown clients with one sprayed password, if no code can be
// sent.
const (
	SprayedPerHour = 3
	SprayedPerDay  = 10
	// hardest is the WorkLevel of the challenge before each of these logins.
	hardest = 20
)

var actionNames = [...]string{Block: "block", Forget: "forget", Challenge: "challenge", Delay: "delay",
	FakeFailure: "fake-failure", Alert: "alert", Proceed: "proceed"}

// String returns the action's stable name.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return actionNames[Block]
}

// A SubjectKind is the kind of subject that a limit counts.
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

// String returns the subject's name.
func (s SubjectKind) String() string { return subjectNames[s] }

// A Verdict is what the allowlist and the blocklist say about an IP address.
type Verdict uint8

const (
	// NotListed: the address is on neither list.
	NotListed Verdict = iota
	// Allowed exempts from CAPTCHA mode and the limits of address, network, site and fingerprint. The limits of account
	// and pair apply: an allowed address may still guess.
	Allowed
	// Blocked blocks every attempt, even of known clients.
	Blocked
)

// A NamedList is the policy for an IP list, such as the ranges of datacenters; Lists has its ranges by name.
// Administrators' entries take precedence. Then the first list of the policy that has the address decides.
type NamedList struct {
	Name string
	// Verdict is for every address on the list, as if an administrator had listed it. NotListed: Limits apply.
	Verdict Verdict
	// Limits apply to each address on the list beside Policy.Address, and share its count. A limit of 0 failures without a
	// window challenges every attempt of an unknown client.
	Limits []Limit
	// Monitor: a block is recorded and shown, not enforced. Limits have their own Monitor.
	Monitor bool
}

// MaxNamedLists is the largest number of IP lists in a policy: each costs a look-up per address.
const MaxNamedLists = 16

// always reports whether the limit is full from the start.
func (l *Limit) always() bool { return l.Failures == 0 && l.Window == 0 }

// split separates the limits that count from those that are full from the start.
func (l *NamedList) split() (counted, always []Limit) {
	for _, one := range l.Limits {
		if one.always() {
			always = append(always, one)
		} else {
			counted = append(counted, one)
		}
	}
	return counted, always
}

// An EventLimit allows at most Count events for one subject in any closed interval of length Window.
type EventLimit struct {
	Count  int
	Window time.Duration
	Action Action // Block, Challenge, Delay or Alert
	// By is the subject: OnAccount, OnAddress, OnNetwork, OnSubject or OnSite.
	By SubjectKind
	// Monitor: recorded and shown, not enforced.
	Monitor bool
}

// MaxEvents is the largest number of events in a policy: each has its own metrics.
const MaxEvents = 100

var eventKinds = []SubjectKind{OnAccount, OnAddress, OnNetwork, OnSubject, OnSite}

func (l EventLimit) limit() Limit {
	return Limit{Failures: l.Count, Window: l.Window, Action: l.Action, Monitor: l.Monitor}
}

// Names of limits in Policy.LimitSets. Others are a subject's ("known-client"), "list:NAME" and "event:NAME".
const (
	PairDelayLimits = "pair-delay"
	SprayLimits     = "spray"
	StepUpLimits    = "step-up"
	// ModeLimits is CAPTCHA mode with its throttling, which captchamode.Config has.
	ModeLimits = "mode"

	ofList  = "list:"
	ofEvent = "event:"
)

// Retain returns how long the store of failures must keep a charge under the policy.
func (p Policy) Retain() time.Duration {
	longest := max(p.PairDelay.Window, p.ThrottleDelay, 24*time.Hour) // as usualLimits
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

// EventNames returns the names of the limited events, sorted.
func (p Policy) EventNames() []string { return slices.Sorted(maps.Keys(p.Events)) }

func whole(d time.Duration) bool { return d%time.Millisecond == 0 }

func (d PairDelay) backoff() failures.Backoff {
	return failures.Backoff{After: d.After, First: d.First, Max: d.Max, Window: d.Window}
}
