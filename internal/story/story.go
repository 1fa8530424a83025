// Package story is an attack on a site in four chapters, for `authguard demo`, the pictures and the tests.
//
// It consists of login attempts at fixed times. The clients' IP addresses are in 127.0.0.0/8, so that they can attack a
// real server on Linux.
package story

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// An Account is one account of the attacked site.
type Account struct{ Name, Password string }

// An Attempt is one login attempt.
type Attempt struct {
	At                time.Duration // since the start
	Address           netip.Addr
	Account, Password string
	// Browser is set for users: they keep the cookies that they got at this IP address. Attackers keep none.
	Browser bool
}

// A Chapter begins at At and ends with the next one. The last one has no attempts.
type Chapter struct {
	At          time.Duration
	Title, Text string
}

// The chapters' titles.
const (
	Quiet   = "Users sign in"
	Guesser = "Brute force"
	Spray   = "Password spraying"
	Botnet  = "Botnet"
	Stopped = "The attack stops"
)

// Chapters returns the chapters in order.
func Chapters() []Chapter {
	return []Chapter{
		{0, Quiet, fmt.Sprintf("%d of %d users sign in from home. Three of them mistype.", users, accounts)},
		{20 * time.Second, Guesser, "One IP address tries passwords of the account bob."},
		{65 * time.Second, Spray, "Four IP addresses try one password at 14 accounts. It is one account's password."},
		{88 * time.Second, Botnet, fmt.Sprintf("A botnet tries leaked passwords, one from each IP address. Six are right. "+
			"Then %d more IP addresses follow, and users keep signing in.", flood)},
		{128 * time.Second, Stopped, "See on the overview who got in, and secure these accounts. CAPTCHA mode turns off in a minute."},
	}
}

const (
	accounts = 200
	users    = 33  // of them sign in
	flood    = 600 // attempts of the botnet after its first right passwords
	sprayed  = "Summer2026!"
)

// Entered returns the accounts whose passwords the attackers know.
func Entered() (names []string) {
	for _, i := range append([]int{sprayedAccount}, leaked...) {
		names = append(names, nameOf(i))
	}
	return names
}

const sprayedAccount = 66

var leaked = []int{100, 101, 102, 103, 104, 105}

var givenNames = []string{"alice", "bob", "carol", "david", "emma", "felix", "grace", "henry", "irene", "jonas", "karin",
	"liam", "maria", "noah", "olga", "paul", "rosa", "simon", "tara", "victor"}

func nameOf(i int) string {
	if name := givenNames[i%len(givenNames)]; i < len(givenNames) {
		return name
	} else {
		return fmt.Sprintf("%s%d", name, i/len(givenNames)+1)
	}
}

func passwordOf(i int) string {
	if i == sprayedAccount {
		return sprayed
	}
	return "correct horse " + nameOf(i)
}

// Accounts returns the accounts of the site.
func Accounts() (all []Account) {
	for i := range accounts {
		all = append(all, Account{nameOf(i), passwordOf(i)})
	}
	return all
}

// Attempts returns all attempts in order of time.
func Attempts() []Attempt {
	all := slices.Concat(usersAttempts(), guesserAttempts(), sprayAttempts(), botnetAttempts())
	slices.SortStableFunc(all, func(a, b Attempt) int { return int(a.At - b.At) })
	return all
}

func address(b, c, d int) netip.Addr { return netip.AddrFrom4([4]byte{127, byte(b), byte(c), byte(d)}) }

func usersAttempts() (all []Attempt) {
	for i := range users {
		home, at := address(1, i, 10), time.Duration(i)*500*time.Millisecond
		if i%11 == 5 {
			all = append(all, Attempt{at, home, nameOf(i), "corect horse " + nameOf(i), true})
		}
		all = append(all, Attempt{at + 200*time.Millisecond, home, nameOf(i), passwordOf(i), true})
		if i%3 == 0 { // again, during the attack
			all = append(all, Attempt{100*time.Second + at, home, nameOf(i), passwordOf(i), true})
		}
	}
	return all
}

func guesserAttempts() (all []Attempt) {
	for i := range 14 {
		all = append(all, Attempt{At: 20*time.Second + time.Duration(i)*3*time.Second, Address: address(66, 0, 66),
			Account: "bob", Password: fmt.Sprint("password", i)})
	}
	return all
}

func sprayAttempts() (all []Attempt) {
	for i := range 14 {
		all = append(all, Attempt{At: 65*time.Second + time.Duration(i)*time.Second, Address: address(77, 0, 1+i%4),
			Account: nameOf(60 + i), Password: sprayed})
	}
	return all
}

func botnetAttempts() (all []Attempt) {
	bot := func(i int) netip.Addr { return address(100+i%100, i/100, 7) }
	for n, i := range leaked {
		at := 88*time.Second + time.Duration(n)*700*time.Millisecond
		all = append(all,
			Attempt{At: at, Address: bot(2 * n), Account: nameOf(i), Password: "an old password"},
			Attempt{At: at + 300*time.Millisecond, Address: bot(2*n + 1), Account: nameOf(i), Password: passwordOf(i)})
	}
	for i := range flood {
		one := Attempt{At: 94*time.Second + time.Duration(i)*50*time.Millisecond, Address: bot(2*len(leaked) + i),
			Account: nameOf((i * 7) % accounts), Password: fmt.Sprint("leaked password ", i)}
		if i%200 == 199 { // CAPTCHA mode stops it although the password is right
			one.Password = passwordOf((i * 7) % accounts)
		}
		all = append(all, one)
	}
	return all
}
