package main

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"authguard/internal/accounts"
)

// A storyAttempt is one login attempt of the story: an attack in four chapters, for `authguard demo`, the pictures and
// the tests. The clients' IP addresses are in 127.0.0.0/8, so that they can attack a real server on Linux.
type storyAttempt struct {
	At                time.Duration // since the start
	Address           netip.Addr
	Account, Password string
	// Browser is set for users: they keep the cookies that they got at this IP address. Attackers keep none.
	Browser bool
}

// A storyChapter begins at At and ends with the next one. The last one has no attempts.
type storyChapter struct {
	At          time.Duration
	Title, Text string
}

func storyChapters() []storyChapter {
	return []storyChapter{
		{0, "Users sign in", fmt.Sprintf("%d of %d users sign in from home. Three of them mistype.", storyUserCount, storyAccountCount)},
		{20 * time.Second, "Brute force", "One IP address tries passwords of the account bob."},
		{65 * time.Second, "Password spraying", "Four IP addresses try one password at 14 accounts. It is one account's password."},
		{88 * time.Second, "Botnet", fmt.Sprintf("A botnet tries leaked passwords, one from each IP address. Six are right. "+
			"Then %d more IP addresses follow, and users keep signing in.", storyFlood)},
		{128 * time.Second, "The attack stops", "See on the overview who got in, and secure these accounts. CAPTCHA mode turns off in a minute."},
	}
}

const (
	storyAccountCount = 200
	storyUserCount    = 33  // of them sign in
	storyFlood        = 600 // attempts of the botnet after its first right passwords
	sprayedPassword   = "Summer2026!"
	sprayedAccount    = 66
)

// enteredAccounts returns the accounts whose passwords the attackers know.
func enteredAccounts() (names []string) {
	for _, i := range append([]int{sprayedAccount}, leakedAccounts...) {
		names = append(names, storyName(i))
	}
	return names
}

var leakedAccounts = []int{100, 101, 102, 103, 104, 105}

var storyNames = []string{"alice", "bob", "carol", "david", "emma", "felix", "grace", "henry", "irene", "jonas", "karin",
	"liam", "maria", "noah", "olga", "paul", "rosa", "simon", "tara", "victor"}

func storyName(i int) string {
	if i < len(storyNames) {
		return storyNames[i]
	}
	return fmt.Sprintf("%s%d", storyNames[i%len(storyNames)], i/len(storyNames)+1)
}

func storyPassword(i int) string {
	if i == sprayedAccount {
		return sprayedPassword
	}
	return "correct horse " + storyName(i)
}

// storyAccounts returns the accounts of the site.
func storyAccounts() (all []accounts.Addition) {
	for i := range storyAccountCount {
		all = append(all, accounts.Addition{Username: storyName(i), Email: storyName(i) + "@example.org", Password: storyPassword(i),
			Role: accounts.User})
	}
	return all
}

// storyAttempts returns all attempts in order of time.
func storyAttempts() []storyAttempt {
	all := slices.Concat(usersAttempts(), bruteForceAttempts(), sprayAttempts(), botnetAttempts())
	slices.SortStableFunc(all, func(a, b storyAttempt) int { return int(a.At - b.At) })
	return all
}

func storyAddress(b, c, d int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(b), byte(c), byte(d)})
}

func usersAttempts() (all []storyAttempt) {
	for i := range storyUserCount {
		home, at := storyAddress(1, i, 10), time.Duration(i)*500*time.Millisecond
		if i%11 == 5 {
			all = append(all, storyAttempt{at, home, storyName(i), "corect horse " + storyName(i), true})
		}
		all = append(all, storyAttempt{at + 200*time.Millisecond, home, storyName(i), storyPassword(i), true})
		if i%3 == 0 { // again, during the attack
			all = append(all, storyAttempt{100*time.Second + at, home, storyName(i), storyPassword(i), true})
		}
	}
	return all
}

func bruteForceAttempts() (all []storyAttempt) {
	for i := range 14 {
		all = append(all, storyAttempt{At: 20*time.Second + time.Duration(i)*3*time.Second, Address: storyAddress(66, 0, 66),
			Account: "bob", Password: fmt.Sprint("password", i)})
	}
	return all
}

func sprayAttempts() (all []storyAttempt) {
	for i := range 14 {
		all = append(all, storyAttempt{At: 65*time.Second + time.Duration(i)*time.Second, Address: storyAddress(77, 0, 1+i%4),
			Account: storyName(60 + i), Password: sprayedPassword})
	}
	return all
}

func botnetAttempts() (all []storyAttempt) {
	bot := func(i int) netip.Addr { return storyAddress(100+i%100, i/100, 7) }
	for n, i := range leakedAccounts {
		at := 88*time.Second + time.Duration(n)*700*time.Millisecond
		all = append(all,
			storyAttempt{At: at, Address: bot(2 * n), Account: storyName(i), Password: "an old password"},
			storyAttempt{At: at + 300*time.Millisecond, Address: bot(2*n + 1), Account: storyName(i), Password: storyPassword(i)})
	}
	for i := range storyFlood {
		one := storyAttempt{At: 94*time.Second + time.Duration(i)*50*time.Millisecond, Address: bot(2*len(leakedAccounts) + i),
			Account: storyName((i * 7) % storyAccountCount), Password: fmt.Sprint("leaked password ", i)}
		if i%200 == 199 { // CAPTCHA mode stops it although the password is right
			one.Password = storyPassword((i * 7) % storyAccountCount)
		}
		all = append(all, one)
	}
	return all
}
