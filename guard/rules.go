package guard

import (
	"time"

	"authguard/failures"
)

// rules are a policy made ready: ladders, and of each what its rungs do.
type rules struct {
	policy  Policy
	address rule
	slowed  rule // address, with the site's slowing as backoff
	network rule
	account rule
	pair    rule // the privileged budget as rungs, the pair's delay as backoff
}

// A rule is one ladder and, by what happens beyond, the sets of its rungs.
type rule struct {
	kind    SubjectKind
	limits  []Limit
	ladder  *failures.Ladder
	enforce failures.Mask // all that is not on monitor, PaceBit included
	then    [Proceed + 1]failures.Mask
}

// ofAddress reports whether the rule is on addresses or networks.
func (r *rule) ofAddress() bool { return r.kind == OnAddress || r.kind == OnNetwork }

func compile(p Policy) (*rules, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	r := &rules{policy: p}
	slow := failures.Backoff{}
	if p.SiteSlow > 0 {
		slow = failures.Backoff{After: 1, First: p.SiteSlow, Max: p.SiteSlow, Window: p.SiteSlow}
	}
	r.address = newRule(OnAddress, p.Address, failures.Backoff{})
	r.slowed = newRule(OnAddress, p.Address, slow)
	r.network = newRule(OnNetwork, p.Network, failures.Backoff{})
	r.account = newRule(OnAccount, p.Account, failures.Backoff{})
	r.pair = newRule(OnPrivilegedPair, p.PrivilegedPair, p.PairDelay.backoff())
	if p.PairDelay.Monitor {
		r.pair.enforce &^= failures.BackoffBit
	}
	return r, nil
}

func newRule(kind SubjectKind, limits []Limit, backoff failures.Backoff) rule {
	r := rule{kind: kind, limits: limits, enforce: failures.BackoffBit}
	rungs := make([]failures.Rung, len(limits))
	for i, l := range limits {
		rungs[i] = failures.Rung{Failures: l.Failures, Window: l.Window}
		r.then[l.Then] |= 1 << i
		if !l.Monitor {
			r.enforce |= 1 << i
		}
	}
	r.ladder = failures.MustLadder(backoff, rungs...) // the policy was validated
	return r
}

func (d Delay) backoff() failures.Backoff {
	return failures.Backoff{After: d.After, First: d.First, Max: d.Max, Window: d.Window}
}

// Retain is how long a charge can matter under the policy: what the store of
// failures must be told.
func (p Policy) Retain() time.Duration {
	longest := max(p.PairDelay.Window, p.SiteSlow, time.Minute)
	for _, ladder := range [][]Limit{p.Address, p.Network, p.Account, p.PrivilegedPair} {
		for _, l := range ladder {
			longest = max(longest, l.Window)
		}
	}
	return longest
}
