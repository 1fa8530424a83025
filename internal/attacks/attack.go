// Package attacks keeps attacks: when each began and ended, how hard it was, which shape
// it had, and above all the accounts that were logged in to during it.
//
// A [Recorder] is a sink of the event bus. It recognises four kinds: on the whole site
// (while CAPTCHA mode's detector says so), on one account, from one address, and passwords
// that are sprayed. What it counts is bounded in memory whatever strangers invent, and is
// written every few seconds, off the hot path; a database that fails delays nothing and
// loses no attack that is running. An attack is one of the site: several nodes, and a
// process that is started again, find it in the database and add to it.
package attacks

import (
	"errors"
	"time"

	"authguard/internal/tops"
)

// The kinds of attacks: how they were recognised.
const (
	Site    = "site"    // more fails than is normal here (R20)
	Account = "account" // one is guessed at
	Address = "address" // one guesses
	Spray   = "spray"   // few passwords, many accounts (R28)
)

// Shapes of attacks: what they turned out to be. One may have several.
const (
	OneAccount = "one account"
	OneAddress = "one address"
	Spraying   = "spraying" // the same passwords at many accounts
	Stuffing   = "stuffing" // many accounts, hardly more than one password each
	Botnet     = "botnet"   // many addresses, hardly more than one attempt each
)

// ErrUnknown says that there is no such attack, or that it is too old to be kept.
var ErrUnknown = errors.New("attacks: no such attack")

// An Attack is one as it is known now.
type Attack struct {
	ID    string `json:"id"`
	Realm string `json:"realm"`
	Kind  string `json:"kind"`
	// Subject is the account or address of the kinds of this name.
	Subject string    `json:"subject,omitempty"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended,omitzero"` // zero while it is running
	Last    time.Time `json:"last"`           // the last attempt that came to nothing
	// PartOf is the attack on the whole site as which it went on.
	PartOf string   `json:"part_of,omitempty"`
	Shapes []string `json:"shapes"`
	Counts
	Attempts int64 `json:"attempts"` // that came to nothing
	Peak     Peak  `json:"peak"`
	// Addresses, Networks, Accounts and Passwords are how many different ones there were,
	// to within about 1 %, names that nobody has among them.
	Addresses int64 `json:"addresses"`
	Networks  int64 `json:"networks"`
	Accounts  int64 `json:"accounts"`
	Passwords int64 `json:"passwords"`
	// Top are those with the most attempts, most first. The numbers are lower bounds.
	TopAddresses []Named `json:"top_addresses"`
	TopNetworks  []Named `json:"top_networks"`
	TopAccounts  []Named `json:"top_accounts"`
	Minutes      Minutes `json:"minutes"`
	// Lost are the accounts that were logged in to from a new place after failures, Strange
	// those that only were from a new place, and Open those of the former for which
	// something is still to be done.
	Lost    int `json:"compromised"`
	Strange int `json:"new_clients"`
	Open    int `json:"open"`
}

// Running reports whether it goes on.
func (a Attack) Running() bool { return a.Ended.IsZero() }

// topShown is how many of the busiest are told.
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

// enough attempts have a shape; of fewer nothing can be said.
const enough = 20

// shapesOf says what an attack is, by whom most of it came from and went to.
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

// scattered reports whether at least a quarter of it came from addresses that tried seldom.
func scattered(a *Attack) bool {
	busiest := make([]int64, len(a.TopAddresses))
	for i, one := range a.TopAddresses {
		busiest[i] = one.Attempts
	}
	loud, ok := tops.Scattered(a.Attempts, a.Addresses, busiest)
	left := a.Attempts
	for _, attempts := range busiest[:loud] {
		left -= attempts
	}
	return ok && 4*left >= a.Attempts
}

// Reasons for which a login from a new place is more than that.
const (
	AfterFailures = "failures"         // others failed at the account, or somebody five times
	FromGuesser   = "guessing-address" // passwords of other accounts failed from the address
	WithSprayed   = "sprayed-password" // strangers try the password on many accounts
)

// A Login is an account that was logged in to from a new place.
type Login struct {
	Account string `json:"account"`
	Address string `json:"address"`
	Door    string `json:"integration,omitempty"`
	// Why are the reasons; none: nothing but the new place was unusual.
	Why []string `json:"why"`
	// Failures are those of strangers at the account when it was logged in to.
	Failures int       `json:"failures"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

// What can be reset.
const (
	Sessions = "sessions"      // all ended
	Places   = "known-clients" // all forgotten, devices too
	Password = "password"      // another one is asked for
)

// Resets are all that can be, in the order in which it is done.
func Resets() []string { return []string{Sessions, Places, Password} }

// A Reset is what was last done for an account.
type Reset struct {
	What string    `json:"what"`
	At   time.Time `json:"at"`
	Who  string    `json:"who"`
	Why  string    `json:"why,omitempty"`
}

// A Victim is an account that was logged in to, with all its logins of the attack.
type Victim struct {
	Account string  `json:"account"`
	Lost    bool    `json:"compromised"` // after failures, and not only from a new place
	Logins  []Login `json:"logins"`      // oldest first
	// Done is what was done since the last of the logins.
	Done []Reset `json:"done"`
}

// Reset is what was done of one kind; nil: nothing since the last login.
func (v Victim) Reset(what string) *Reset {
	for i := range v.Done {
		if v.Done[i].What == what {
			return &v.Done[i]
		}
	}
	return nil
}

// Last is when the account was logged in to last.
func (v Victim) Last() (last time.Time) {
	for _, l := range v.Logins {
		if l.Last.After(last) {
			last = l.Last
		}
	}
	return last
}
