// Package attacks records attacks: start, end, strength, shape, and above all the possibly compromised accounts.
//
// A [Recorder] is a sink of the event bus, and the only place where attacks begin, end and are counted: pages, alerts,
// the API and the audit log show its records. Its sources reveal four kinds: the detector of CAPTCHA mode an attack on
// the whole site, a full limit one on an account or from an IP address, and a sprayed password password spraying. Its
// memory is bounded whatever names attackers invent. It writes every few seconds, off the hot path; a failed database
// delays nothing and loses no running attack. Attacks belong to the site: several nodes and restarted processes continue
// the same record in the database.
package attacks

import (
	"errors"
	"time"
)

// The kinds of attacks, by how they were detected.
const (
	Site    = "site"    // failure rate above the baseline (R20)
	Account = "account" // brute force against one account
	Address = "address" // brute force from one IP address
	Spray   = "spray"   // few passwords, many accounts (R28)
)

// The shapes of attacks. An attack can have several.
const (
	OneAccount = "one account"
	OneAddress = "one address"
	Spraying   = "spraying" // the same passwords on many accounts
	Stuffing   = "stuffing" // many accounts, about one password each
	Botnet     = "botnet"   // many IP addresses, about one attempt each
)

// ErrUnknown means that the attack does not exist or has expired.
var ErrUnknown = errors.New("attacks: no such attack")

// An Attack is the record of an attack.
type Attack struct {
	ID    string `json:"id"`
	Realm string `json:"realm"`
	Kind  string `json:"kind"`
	// Subject is the account or IP address of the kinds Account and Address.
	Subject string    `json:"subject,omitempty"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended,omitzero"` // zero while it is running
	Last    time.Time `json:"last"`           // the last failed or stopped attempt
	// Going is set by package control: attempts go on. It ends before the record does, which includes a cool-down.
	Going bool `json:"going"`
	// PartOf is the attack on the whole site that continued this one.
	PartOf string   `json:"part_of,omitempty"`
	Shapes []string `json:"shapes"`
	Counts
	Attempts int64 `json:"attempts"` // failed and stopped
	Peak     Peak  `json:"peak"`
	Sources
	Minutes Minutes `json:"minutes"`
	Compromised
}

// Sources are where an attack's attempts came from, and what they tried.
type Sources struct {
	// Addresses, Networks, Accounts (existing or not) and Passwords are distinct counts within about 1 %.
	Addresses int64 `json:"addresses"`
	Networks  int64 `json:"networks"`
	Accounts  int64 `json:"accounts"`
	Passwords int64 `json:"passwords"`
	// The most active, most first. The numbers are lower bounds.
	TopAddresses []Named `json:"top_addresses"`
	TopNetworks  []Named `json:"top_networks"`
	TopAccounts  []Named `json:"top_accounts"`
}

// Compromised are numbers of accounts.
type Compromised struct {
	// Lost had a login from an unknown client after failures. Open of them are not fully secured.
	Lost int `json:"compromised"`
	// Strange had only a login from an unknown client.
	Strange int `json:"new_clients"`
	Open    int `json:"open"`
	// OpenHere is Open where a password change cannot be forced.
	OpenHere int `json:"-"`
}

// Running reports whether the attack goes on.
func (a Attack) Running() bool { return a.Ended.IsZero() }

// Duration is the time from the start to the last attempt, without the cool-down of CAPTCHA mode.
func (a Attack) Duration() time.Duration { return max(0, a.Last.Sub(a.Began)) }

const topShown = 10

func (a *Attack) fill(p part) {
	a.Counts, a.Attempts, a.Peak, a.Minutes = p.Counts, p.Counts.Attempts(), p.Peak, p.Minutes
	if at := time.UnixMilli(p.Last); at.After(a.Last) {
		a.Last = at
	}
	of := func(i int, most int64) int64 { return min(p.Distinct[i], most) }
	a.Addresses, a.Networks = of(byAddress, a.Attempts), of(byNetwork, a.Attempts)
	a.Accounts, a.Passwords = of(byAccount, a.Attempts), of(byPassword, a.Known)
	first := func(i int) []Named { return append([]Named{}, p.Busiest[i][:min(topShown, len(p.Busiest[i]))]...) }
	a.TopAddresses, a.TopNetworks, a.TopAccounts = first(byAddress), first(byNetwork), first(byAccount)
	a.Shapes = shapesOf(a)
}

// enough is the least number of attempts for a shape.
const enough = 20

// shapesOf derives the shapes from the most active IP addresses and accounts.
func shapesOf(a *Attack) []string {
	shapes := []string{}
	is := func(shape string, so bool) {
		if so {
			shapes = append(shapes, shape)
		}
	}
	most := func(top []Named) int64 {
		if len(top) == 0 {
			return 0
		}
		return top[0].Attempts
	}
	if a.Attempts < enough {
		is(OneAccount, a.Kind == Account)
		is(OneAddress, a.Kind == Address)
		is(Spraying, a.Kind == Spray)
		return shapes
	}
	is(OneAccount, 10*most(a.TopAccounts) >= 8*a.Attempts)
	is(OneAddress, 10*most(a.TopAddresses) >= 8*a.Attempts)
	spraying := a.Kind == Spray || 2*a.Sprayed >= max(1, a.Known)
	is(Spraying, spraying)
	is(Stuffing, !spraying && a.Accounts >= enough && a.Attempts <= 2*a.Accounts)
	is(Botnet, scattered(a))
	return shapes
}

// scattered reports whether at least a quarter of the attempts came from IP addresses with few attempts.
func scattered(a *Attack) bool {
	_, left, ok := standOut(a.Attempts, a.Addresses, a.TopAddresses)
	return ok && 4*left >= a.Attempts
}

// standOut counts the names with over a twentieth of the attempts without the previous ones. left are the attempts of
// all others. ok: at least 50 others made at most four attempts each on average.
func standOut(attempts, names int64, top []Named) (loud int, left int64, ok bool) {
	left = attempts
	for loud < len(top) && 20*top[loud].Attempts > left {
		left -= top[loud].Attempts
		loud++
	}
	others := names - int64(loud)
	return loud, left, loud < max(len(top), 1) && others >= 50 && left <= 4*others
}

// Reasons that make a login from an unknown client suspicious.
const (
	AfterFailures = "failures"         // failures from other clients, or at least five
	FromGuesser   = "guessing-address" // the IP address failed on other accounts
	WithSprayed   = "sprayed-password" // the password was sprayed
)

// A Login is a login from an unknown client.
type Login struct {
	Account     string `json:"account"`
	Address     string `json:"address"`
	Integration string `json:"integration,omitempty"`
	// Why are the reasons; empty if only the client was unknown.
	Why []string `json:"why"`
	// Failures are the account's failures from unknown clients before the login.
	Failures int       `json:"failures"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

// The operations that secure an account.
const (
	Sessions     = "sessions"      // end all sessions
	KnownClients = "known-clients" // remove all known clients and device cookies
	Password     = "password"      // force a password change
)

// Resets returns all operations in the order in which they run.
func Resets() []string { return []string{Sessions, KnownClients, Password} }

// A Reset is the last operation of one kind on an account.
type Reset struct {
	What string    `json:"what"`
	At   time.Time `json:"at"`
	Who  string    `json:"who"`
	Why  string    `json:"why,omitempty"`
}

// A Victim is an account with its suspicious logins during an attack.
type Victim struct {
	Account string  `json:"account"`
	Lost    bool    `json:"compromised"` // after failures, not only from an unknown client
	Logins  []Login `json:"logins"`      // oldest first
	// Done are the operations since the last login.
	Done []Reset `json:"done"`
	// Username is the account's own name; empty if it is unknown here. The report fills in these three, for the page only:
	// a token must not enumerate administrators.
	Username      string `json:"-"`
	Administrator bool   `json:"-"`
	NoEmail       bool   `json:"-"` // a verification code has to be handed over
	// Usual is the IP address of the last sign-in before the attack, and UsualAt its time; empty if there was none, or if
	// they were not requested.
	Usual   string    `json:"-"`
	UsualAt time.Time `json:"-"`
}

// Reset returns the operation of one kind since the last login, or nil.
func (v Victim) Reset(what string) *Reset {
	for i := range v.Done {
		if v.Done[i].What == what {
			return &v.Done[i]
		}
	}
	return nil
}

// Last returns the time of the last login.
func (v Victim) Last() (last time.Time) {
	for _, l := range v.Logins {
		if l.Last.After(last) {
			last = l.Last
		}
	}
	return last
}
