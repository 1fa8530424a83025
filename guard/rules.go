package guard

import (
	"slices"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// rules are a policy made ready: by subject, what its rungs do, and which of
// them stop an attempt.
type rules struct {
	policy Policy
	*subjectRules
	lists []*listRule

	unsolved, pictures, sprayed quota
	events                      map[string]*eventRules
	asides                      [asideCount]*asideRule
}

// subjectRules are the rules for all subjects of an attempt.
type subjectRules struct {
	calm   ruleSet
	slowed ruleSet // while strangers are slowed: the address has a backoff
	binds  [lifted + 1]Binds
}

// A ruleSet is a rule for each subject, and their ladders as stores want them.
type ruleSet struct {
	rules   [subjectCount]*rule
	ladders Ladders
}

func newRuleSet(rules ...*rule) (s ruleSet) {
	for i, r := range rules {
		s.rules[i], s.ladders[i] = r, r.ladder
	}
	return s
}

// A lift is a set of things that lift rungs from an attempt.
type lift uint8

const (
	claimedSolve   lift = 1 << iota // an answer to a challenge came along
	likelyProxy                     // the address may be a proxy that nobody configured (R9)
	allowedAddress                  // an administrator said so
	shownPass                       // a one-time code came along
	fakedFailure                    // it gets a fake failure, from no second limit
	watchedSlowing                  // strangers would be slowed, and are not
	lifted         = claimedSolve | likelyProxy | allowedAddress | shownPass | fakedFailure | watchedSlowing
)

// A rule is one ladder and, by what happens beyond, the sets of its rungs.
type rule struct {
	kind    SubjectKind
	limits  []Limit
	ladder  *failures.Ladder
	enforce failures.Mask // all that is not on monitor, BackoffBit included
	then    [Proceed + 1]failures.Mask
	// strangers are the rungs of a pair that are not a privileged place's budget.
	strangers failures.Mask
	// list is the named list whose limits the first listed rungs are.
	list   string
	listed int
}

// reason is that a rung is full.
func (r *rule) reason(rung int) Reason {
	why := Reason{Cause: LimitReached, Subject: r.on(rung), Limit: &r.limits[rung]}
	if rung < r.listed {
		why.List = r.list
	}
	return why
}

// of are the rungs that are about a place of this status.
func (r *rule) of(status trusted.Status) failures.Mask {
	switch {
	case r.kind != OnPrivilegedPair:
		return failures.Every
	case status == trusted.Privileged:
		return failures.Every &^ r.strangers
	}
	return r.strangers | failures.BackoffBit
}

// on is what a rung is on.
func (r *rule) on(rung int) SubjectKind {
	if r.strangers.Has(rung) {
		return OnPair
	}
	return r.kind
}

func compile(p Policy) (*rules, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &rules{
		policy: p, unsolved: unsolvedChallenges(), pictures: picturesAlone(), sprayed: sprayedLogins(),
		events:       compileEvents(p.Events),
		asides:       [asideCount]*asideRule{identityAside: newAsideRule(OnIdentity, p.Fingerprint), siteAside: newAsideRule(OnSite, p.Site)},
		subjectRules: newSubjectRules(p, "", nil), lists: compileLists(p),
	}, nil
}

// newSubjectRules are a policy's rules for addresses on a named list with limits of its
// own, or for all others.
func newSubjectRules(p Policy, list string, limits []Limit) *subjectRules {
	slow := failures.Backoff{}
	if p.ThrottleDelay > 0 {
		slow = failures.Backoff{After: 1, First: p.ThrottleDelay, Max: p.ThrottleDelay, Window: p.ThrottleDelay}
	}
	// The pair's rungs are the budget of a privileged place, then those of strangers;
	// its backoff is the pair's delay.
	pair := newRule(OnPrivilegedPair, slices.Concat(p.KnownClient, p.Pair), p.PairDelay.backoff())
	for i := range p.Pair {
		pair.strangers |= 1 << (len(p.KnownClient) + i)
	}
	if p.PairDelay.Monitor {
		pair.enforce &^= failures.BackoffBit
	}
	network, account := newRule(OnNetwork, p.Network, failures.Backoff{}), newRule(OnAccount, p.Account, failures.Backoff{})
	ofAddress := func(backoff failures.Backoff) *rule {
		one := newRule(OnAddress, slices.Concat(limits, p.Address), backoff)
		one.list, one.listed = list, len(limits)
		return one
	}
	r := &subjectRules{
		calm:   newRuleSet(ofAddress(failures.Backoff{}), network, account, pair),
		slowed: newRuleSet(ofAddress(slow), network, account, pair),
	}
	for l := range r.binds {
		for status := range r.binds[l] {
			for i, one := range r.calm.rules { // a slowed address has the same rungs
				r.binds[l][status][i] = one.binds(trusted.Status(status), lift(l))
			}
		}
	}
	return r
}

// binds are the rungs that stop an attempt: all that are enforced, less those
// that a solved challenge or a one-time code lifts if one came along, and those
// of an address that somebody has allowed.
func (r *rule) binds(status trusted.Status, l lift) failures.Mask {
	return r.unlifted(r.enforce, status, l)
}

// would are the rungs on monitor that would stop an attempt.
func (r *rule) would(status trusted.Status, l lift) failures.Mask {
	return r.unlifted(failures.Every&^r.enforce, status, l)
}

func (r *rule) unlifted(bind failures.Mask, status trusted.Status, l lift) failures.Mask {
	if l&watchedSlowing != 0 && r.kind == OnAddress {
		bind &^= failures.BackoffBit
	}
	if l&shownPass != 0 && r.kind == OnAccount {
		bind &^= r.then[Block] | r.then[FakeFailure]
	}
	if l&fakedFailure != 0 {
		bind &^= r.then[FakeFailure]
	}
	if l&(claimedSolve|shownPass) != 0 { // whoever has a code is known to be a person
		bind &^= r.challenged(status, l&likelyProxy != 0)
	}
	if l&allowedAddress != 0 && r.ofAddress() {
		return 0
	}
	return bind & r.of(status)
}

// challenged is the set of the rule's rungs that ask for a challenge. An
// address that used to be privileged, or may be a forgotten proxy, is
// challenged where others are refused (R9, R14).
func (r *rule) challenged(status trusted.Status, proxy bool) failures.Mask {
	m := r.then[Challenge]
	if r.ofAddress() && (status == trusted.Spent || proxy) {
		m |= r.then[Block] | r.then[FakeFailure]
	}
	return m
}

// ofAddress reports whether the rule is on addresses or networks.
func (r *rule) ofAddress() bool { return r.kind == OnAddress || r.kind == OnNetwork }

func newRule(kind SubjectKind, limits []Limit, backoff failures.Backoff) *rule {
	r := &rule{kind: kind, limits: limits, enforce: failures.BackoffBit}
	rungs := make([]failures.Rung, len(limits))
	for i, l := range limits {
		rungs[i] = failures.Rung{Failures: l.Failures, Window: l.Window, Strict: l.Action == Block}
		r.then[l.Action] |= 1 << i
		if !l.Monitor {
			r.enforce |= 1 << i
		}
	}
	r.ladder = failures.MustLadder(backoff, rungs...) // the policy was validated
	return r
}

func (d PairDelay) backoff() failures.Backoff {
	return failures.Backoff{After: d.After, First: d.First, Max: d.Max, Window: d.Window}
}

// Retain is how long a charge can matter under the policy: what the store of
// failures must be told.
func (p Policy) Retain() time.Duration {
	longest := max(p.PairDelay.Window, p.ThrottleDelay, time.Hour) // of unsolved challenges
	for _, l := range slices.Concat(p.Address, p.Network, p.Account, p.KnownClient, p.Pair, p.Site, p.Fingerprint) {
		longest = max(longest, l.Window)
	}
	for _, list := range p.Lists {
		for _, l := range list.Limits {
			longest = max(longest, l.Window)
		}
	}
	for _, limits := range p.Events {
		for _, l := range limits {
			longest = max(longest, l.Window)
		}
	}
	return longest
}
