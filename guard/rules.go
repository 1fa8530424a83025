package guard

import (
	"maps"
	"slices"
	"sync"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// rules are a compiled policy. A nil rule is off.
type rules struct {
	policy      Policy
	address     addressRules
	network     *rule
	account     *rule
	pair        *rule
	fingerprint *rule
	site        *rule
	lists       []*listRule

	unsolvedAddress, unsolvedPair *rule
	images, imagesOfSite          *rule
	sprayed, sentCodes, codeTries *rule
	events                        map[string][]*rule

	// kept are the limits since the start, see keep. Those of removed lists and events stay.
	kept map[counter]*failures.Limits
}

// A counter is what has limits of its own.
type counter struct {
	kind        SubjectKind
	list, event string
}

// addressRules are the limits of an IP address, and the same while unknown clients are throttled.
type addressRules struct{ usual, throttled *rule }

// A rule is the limits of one kind of subject and, by action, the sets of these.
type rule struct {
	kind    SubjectKind
	limits  []Limit
	windows *failures.Limits
	enforce failures.Mask // all that is not monitored and not only an alert, BackoffBit included
	then    [Proceed + 1]failures.Mask
	// unknown are the limits of a pair that do not apply to a known client.
	unknown failures.Mask
	// ends are the limits beyond which a known client becomes unknown.
	ends failures.Mask
	// list is the IP list whose limits the first listed limits are.
	list   string
	listed int
	event  string // whose limits these are; empty: those of logins
}

// usualLimits are those of the default policy, and kept from the start: another node, or this one before a restart, may
// count with them while the policy is stricter.
var usualLimits = sync.OnceValue(func() map[counter]*failures.Limits {
	r, _ := compile(DefaultPolicy(), nil) // the default is valid
	return r.kept
})

// compile keeps what the limits of earlier policies count.
func compile(p Policy, earlier map[counter]*failures.Limits) (*rules, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	r := &rules{
		policy: p, address: newAddressRules(p, "", nil), lists: compileLists(p), events: compileEvents(p.Events),
		network: newRule(OnNetwork, p.Network, failures.Backoff{}), account: newRule(OnAccount, p.Account,
			failures.Backoff{}),
		pair: newPairRule(p),
	}
	if len(p.Fingerprint) > 0 {
		r.fingerprint = newRule(OnIdentity, p.Fingerprint, failures.Backoff{})
	}
	if len(p.Site) > 0 {
		r.site = newRule(OnSite, p.Site, failures.Backoff{})
	}
	r.ofChallenges()
	r.keep(earlier)
	return r, nil
}

// keep keeps what earlier limits count, which may return: an override ends, or a configuration is undone. An IP address
// also had the limits of no list and of removed ones.
func (r *rules) keep(earlier map[counter]*failures.Limits) {
	r.kept = make(map[counter]*failures.Limits, len(earlier))
	maps.Copy(r.kept, earlier)
	usual := earlier[counter{kind: OnAddress}]
	for of, limits := range earlier {
		if of.list != "" && !slices.ContainsFunc(r.lists, func(l *listRule) bool { return l.name == of.list }) {
			usual = limits.Keeping(usual)
		}
	}
	for _, one := range r.configured() {
		of := counter{one.kind, one.list, one.event}
		one.windows = one.windows.Keeping(earlier[of])
		if one.kind == OnAddress && one.event == "" {
			one.windows = one.windows.Keeping(usual)
		}
		r.kept[of] = one.windows.Keeping(r.kept[of])
	}
}

// configured are the rules whose limits are settings.
func (r *rules) configured() []*rule {
	all := []*rule{r.address.usual, r.address.throttled, r.network, r.account, r.pair, r.fingerprint, r.site}
	for _, l := range r.lists {
		all = append(all, l.address.usual, l.address.throttled)
	}
	for _, of := range r.events {
		all = append(all, of...)
	}
	return slices.DeleteFunc(all, func(one *rule) bool { return one == nil })
}

func newAddressRules(p Policy, list string, limits []Limit) (r addressRules) {
	throttle := failures.Backoff{}
	if p.ThrottleDelay > 0 {
		throttle = failures.Backoff{After: 1, First: p.ThrottleDelay, Max: p.ThrottleDelay, Window: p.ThrottleDelay}
	}
	limits = slices.Concat(limits, p.Address)
	r.usual, r.throttled = newRule(OnAddress, limits, failures.Backoff{}), newRule(OnAddress, limits, throttle)
	for _, one := range []*rule{r.usual, r.throttled} {
		one.list, one.listed = list, len(limits)-len(p.Address)
	}
	return r
}

// newPairRule has the limits of known clients and of unknown ones' pairs. They share a count: a client can be both in
// turn.
func newPairRule(p Policy) *rule {
	r := newRule(OnKnownClient, slices.Concat(p.KnownClient, p.Pair), p.PairDelay.backoff())
	for i := range p.Pair {
		r.unknown |= 1 << (len(p.KnownClient) + i)
	}
	if p.PairDelay.Monitor {
		r.enforce &^= failures.BackoffBit
	}
	r.ends = r.then[Forget] & r.enforce
	return r
}

func newRule(kind SubjectKind, limits []Limit, backoff failures.Backoff) *rule {
	r := &rule{kind: kind, limits: limits, enforce: failures.BackoffBit}
	counted := make([]failures.Limit, len(limits))
	for i, l := range limits {
		counted[i] = failures.Limit{Failures: l.Failures, Window: l.Window, Strict: l.Action == Block}
		r.then[l.Action] |= 1 << i
		if !l.Monitor && l.Action != Alert {
			r.enforce |= 1 << i
		}
	}
	r.windows = failures.MustLimits(backoff, counted...) // the policy was validated
	return r
}

func (r *rule) reason(limit int) Reason {
	why := Reason{Cause: LimitReached, Subject: r.on(limit), Limit: &r.limits[limit], Event: r.event}
	if limit < r.listed {
		why.List = r.list
	}
	return why
}

func (r *rule) on(limit int) SubjectKind {
	if r.unknown.Has(limit) {
		return OnPair
	}
	return r.kind
}

func (r *rule) ofAddress() bool { return r.kind == OnAddress || r.kind == OnNetwork }

// An exemption is a set of circumstances that exempt an attempt from limits.
type exemption uint8

const (
	withSolution      exemption = 1 << iota // of a challenge
	withCode                                // a verification code
	withPasskey                             // a passkey of the account
	allowlisted                             // the IP address
	unconfiguredProxy                       // the IP address may be one (R9)
	throttleMonitored                       // unknown clients would be throttled
	fakeFailure                             // the attempt gets a fake failure

	ofOwner = withCode | withPasskey // only the account's owner has them
	proven  = withSolution | ofOwner
)

// stops are the limits that stop an attempt of such a client in these circumstances; would are the monitored ones.
func (r *rule) stops(status trusted.Status, in exemption) failures.Mask {
	return r.without(r.enforce, status, in)
}

func (r *rule) would(status trusted.Status, in exemption) failures.Mask {
	return r.without(failures.Every&^r.enforce, status, in)
}

func (r *rule) without(limits failures.Mask, status trusted.Status, in exemption) failures.Mask {
	limits &= r.of(status)
	if in == 0 {
		return limits
	}
	if in&allowlisted != 0 && (r.ofAddress() || r.event == "" && (r.kind == OnSite || r.kind == OnIdentity)) {
		return 0
	}
	if in&throttleMonitored != 0 && r.kind == OnAddress {
		limits &^= failures.BackoffBit
	}
	if in&fakeFailure != 0 {
		limits &^= r.then[FakeFailure]
	}
	if in&ofOwner != 0 {
		switch r.kind {
		case OnAccount:
			limits &^= r.then[Block] | r.then[FakeFailure]
		case OnSite, OnIdentity:
			return 0
		}
	}
	if in&proven != 0 { // an owner is a person
		limits &^= r.challenges(status, in)
	}
	return limits
}

// of are the limits that apply to a client of this status.
func (r *rule) of(status trusted.Status) failures.Mask {
	switch {
	case r.kind != OnKnownClient:
		return failures.Every
	case status == trusted.Known:
		return failures.Every &^ r.unknown
	}
	return r.unknown | failures.BackoffBit
}

// challenges are the limits that ask for a challenge. An IP address that was a known client, or
// may be an unconfigured proxy, is challenged where others are blocked (R9, R14).
func (r *rule) challenges(status trusted.Status, in exemption) failures.Mask {
	m := r.then[Challenge]
	if r.ofAddress() && (status == trusted.Spent || in&unconfiguredProxy != 0) {
		m |= r.then[Block] | r.then[FakeFailure]
	}
	return m
}

// A listRule is a compiled IP list.
type listRule struct {
	name      string
	verdict   Verdict
	monitored bool
	asks      *Limit // at every attempt of an unknown client; nil: not so
	address   addressRules
}

func compileLists(p Policy) (all []*listRule) {
	for _, l := range p.Lists {
		limits, always := l.split()
		r := &listRule{name: l.Name, verdict: l.Verdict, monitored: l.Monitor, address: newAddressRules(p, l.Name, limits)}
		if len(always) > 0 {
			r.asks = &always[0]
		}
		all = append(all, r)
	}
	return all
}

// compileEvents makes the rules of each event, one for each kind of subject.
func compileEvents(all map[string][]EventLimit) map[string][]*rule {
	compiled := make(map[string][]*rule, len(all))
	for name, limits := range all {
		for _, by := range eventKinds {
			var own []Limit
			for _, l := range limits {
				if l.By == by {
					own = append(own, l.limit())
				}
			}
			if len(own) > 0 {
				r := newRule(by, own, failures.Backoff{})
				r.event = name
				compiled[name] = append(compiled[name], r)
			}
		}
		// The smallest limit comes first: if it is full, no other subject has to be charged and refunded.
		slices.SortStableFunc(compiled[name], func(a, b *rule) int { return a.least() - b.least() })
	}
	return compiled
}

// least is the smallest count that stops an event.
func (r *rule) least() int {
	n := failures.MaxFailures + 1
	for _, l := range r.limits {
		if l.Action != Alert && !l.Monitor {
			n = min(n, l.Failures)
		}
	}
	return n
}

// ofChallenges makes the rules for unsolved challenges, image CAPTCHAs without proof of work, logins with sprayed
// passwords, and codes for owners. All are charged like an attempt: first, exactly, and over all nodes.
//
// A challenge counts until it is solved, so a program gains nothing by skipping images that it is unsure of. One
// account from one IP address has ten: enough for two tabs, some reloads and mistakes; then one after 5 s up to 15 s.
// An IP address has 1,000, then one after 1 s up to 12 s: an office or a carrier's NAT solves most of its challenges.
// An account has no limit of its own, or an attacker could use up its owner's challenges. The waits are short, because
// a neighbor's challenges delay the owner, too.
func (r *rules) ofChallenges() {
	r.unsolvedAddress = newRule(OnAddress, nil, failures.Backoff{
		After: UnsolvedPerAddress, First: time.Second, Max: 12 * time.Second, Window: time.Hour,
	})
	r.unsolvedPair = newRule(OnAccount, nil, failures.Backoff{
		After: UnsolvedPerPair, First: 5 * time.Second, Max: 15 * time.Second, Window: time.Hour,
	})
	r.images = newRule(OnAddress, []Limit{{Failures: PicturesPerHour, Window: time.Hour}}, failures.Backoff{})
	r.imagesOfSite = newRule(OnSite, []Limit{{Failures: PicturesPerMinute, Window: time.Minute}}, failures.Backoff{})
	r.sprayed = newRule(OnSite, []Limit{
		{Failures: SprayedPerHour, Window: time.Hour}, {Failures: SprayedPerDay, Window: 24 * time.Hour},
	}, failures.Backoff{})
	r.sentCodes = newRule(OnAccount, []Limit{
		{Failures: 1, Window: CodeEvery}, {Failures: CodesPerDay, Window: 24 * time.Hour},
	}, failures.Backoff{})
	r.codeTries = newRule(OnAccount, []Limit{{Failures: CodeTries, Window: 2 * codeLife}}, failures.Backoff{})
}

const (
	// An account's owner gets one verification code after a right password in CodeEvery, and CodesPerDay within 24 hours.
	CodeEvery   = 10 * time.Minute
	CodesPerDay = 5
	// CodeTries is the number of passwords that one code allows.
	CodeTries = 5
	// codeLife is how long a code of the guard's own is at least valid; at most twice as long.
	codeLife = time.Hour

	// UnsolvedPerAddress and UnsolvedPerPair are how many challenges an IP address, and an account from there, may leave
	// unsolved within an hour. Each further one has to wait.
	UnsolvedPerAddress = 1000
	UnsolvedPerPair    = 10

	// PicturesPerHour is how many image CAPTCHAs one IP address may solve without the required proof of work, and
	// PicturesPerMinute the whole site during an attack. Browsers without JavaScript need a few; programs gain little.
	PicturesPerHour   = 10
	PicturesPerMinute = 30
)
