package guard

import (
	"time"

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
		KnownClients: trusted.Limits{Places: trusted.DefaultPlaces, TTL: trusted.DefaultTTL,
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
