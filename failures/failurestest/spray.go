package failurestest

import (
	"math/rand/v2"
	"testing"
	"time"

	"authguard/failures"
)

// A Spraying is an empty spray counter with a clock that only Advance moves.
type Spraying struct {
	// Count counts a miss, or takes it back; SprayAccounts accounts make a spray.
	Count   func(m failures.Miss, back bool)
	Has     func(m failures.Miss) bool
	Advance func(time.Duration)
	// Reported returns all sprays reported so far.
	Reported func() []failures.Spray
}

// SprayAccounts is the number of accounts that make a spray in the store under test.
const SprayAccounts = 10

const sprayed = 1<<24 | 4711

// RunSprays runs all spray tests; fresh returns an empty counter for each.
func RunSprays(t *testing.T, fresh func(t *testing.T) Spraying) {
	for name, test := range map[string]func(*testing.T, Spraying){
		"OneNetworkSpraysForItselfAlone": oneNetwork,
		"ThreeNetworksAreNoSpray":        threeNetworks,
		"FourNetworksAreOne":             fourNetworks,
		"OneAccountIsNone":               oneAccount,
		"WhatIsTakenBackIsNone":          takenBack,
		"AFullBucketAgreesWithSprays":    fullBucket,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fresh(t))
		})
	}
}

func (s Spraying) miss(account, network int) {
	s.Count(failures.Miss{Value: sprayed, Account: uint32(account), Network: uint16(network)}, false)
}

func (s Spraying) in(network int) bool {
	return s.Has(failures.Miss{Value: sprayed, Network: uint16(network)})
}

func oneNetwork(t *testing.T, s Spraying) {
	for account := range 100 {
		if account == SprayAccounts {
			want(t, "sprayed from the network after ten", s.in(1), true)
		}
		want(t, "sprayed elsewhere", s.in(2), false)
		s.miss(account, 1)
	}
	want(t, "sprayed elsewhere after a hundred", s.in(2), false)
	told := s.Reported()
	want(t, "reports", len(told), 2)
	want(t, "accounts at first", told[0].Accounts, SprayAccounts)
	want(t, "accounts then", told[1].Accounts, 100)
	want(t, "networks", told[1].Networks, 1)
	s.Advance(failures.SprayWindow - time.Minute)
	want(t, "sprayed from the network to the end of its day", s.in(1), true)
	s.Advance(time.Minute)
	want(t, "sprayed from the network a day later", s.in(1), false)
}

func threeNetworks(t *testing.T, s Spraying) {
	for account := range 3 * (SprayAccounts - 1) {
		s.miss(account, account%3)
	}
	for network := range 4 {
		want(t, "sprayed", s.in(network), false)
	}
	want(t, "reports", len(s.Reported()), 0)
}

func fourNetworks(t *testing.T, s Spraying) {
	for account := range SprayAccounts {
		want(t, "sprayed before ten", s.in(99), false)
		s.miss(account, account/failures.SprayShare(SprayAccounts))
	}
	want(t, "sprayed everywhere", s.in(99), true)
	for account := range 20 { // a spray within a network is not reported again
		s.miss(100+account, 7)
	}
	told := s.Reported()
	want(t, "reports", len(told), 1)
	want(t, "accounts", told[0].Accounts, SprayAccounts)
	want(t, "networks", told[0].Networks, 4)
}

func oneAccount(t *testing.T, s Spraying) {
	for network := range 50 {
		s.miss(1, network)
	}
	want(t, "sprayed", s.in(1), false)
}

func takenBack(t *testing.T, s Spraying) {
	for account := range SprayAccounts - 1 {
		s.miss(account, 1)
	}
	s.Count(failures.Miss{Value: sprayed, Account: 0, Network: 1}, true)
	s.miss(SprayAccounts, 1)
	want(t, "sprayed from the network", s.in(1), false)
	s.miss(SprayAccounts+1, 1)
	want(t, "sprayed from the network after ten", s.in(1), true)
}

// More passwords than a bucket has room for: the store keeps and finds what failures.Sprays does.
func fullBucket(t *testing.T, s Spraying) {
	var passwords []uint32
	for value := uint32(1 << 24); len(passwords) < 20; value++ {
		if failures.SprayBucket(value) == 0 {
			passwords = append(passwords, value)
		}
	}
	var reported []failures.Spray
	model := failures.NewSprays(func(one failures.Spray) { reported = append(reported, one) })
	random, now := rand.New(rand.NewPCG(1, 2)), time.Now()
	for n := range 400 {
		// A few passwords come often, so that some are sprayed and evict their own misses.
		m := failures.Miss{Value: passwords[random.IntN(1+random.IntN(len(passwords)))],
			Account: uint32(random.IntN(30)), Network: uint16(random.IntN(8))}
		back := random.IntN(20) == 0
		if s.Count(m, back); back {
			model.TakeBack(m)
		} else {
			model.Add(m, SprayAccounts, now)
		}
		if got, should := s.Has(m), model.Has(m, now); got != should {
			t.Fatalf("miss %d, %+v: sprayed %v, want %v", n, m, got, should)
		}
	}
	got := s.Reported()
	want(t, "reports", len(got), len(reported))
	for i := range reported {
		want(t, "password", got[i].Value, reported[i].Value)
		want(t, "accounts", got[i].Accounts, reported[i].Accounts)
		want(t, "networks", got[i].Networks, reported[i].Networks)
	}
	if len(reported) < 3 {
		t.Errorf("%d reports: the test shows little", len(reported))
	}
}
