package guard

import (
	"slices"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// decide is the policy: it writes what becomes of an attempt, from what is known
// of it and nothing else, into a zero decision. While the attempt is patient it
// may have to wait for undecided ones ahead of it; wait then reports so.
func decide(v *view, patient bool, d *Decision) (wait bool) {
	d.Privileged = v.privileged()
	switch {
	case v.listed == Blocked:
		d.refuse(Reason{Cause: BlockedByAdmin, List: v.list()}, v.blockedFor)
	case v.ID.Charged():
		d.Action = Proceed
		v.explain(d)
	case v.asks() && !v.claimed && !v.showed:
		d.Action = Challenge
		v.askers(d)
	case patient && v.worthWaiting():
		return true
	default:
		v.stop(d, patient)
	}
	return false
}

func (d *Decision) refuse(why Reason, retry time.Duration) {
	d.Action, d.RetryAfter = Block, retry
	d.Reasons.add(why)
}

// worthWaiting reports whether nothing but undecided attempts takes the room
// (R3).
func (v *view) worthWaiting() bool {
	first, last := v.Counted()
	for i := first; i < last; i++ {
		if v.Usage[i].Failed&v.Bind(i) != 0 {
			return false
		}
	}
	for i := range v.atAside {
		if _, failed := v.asideOver(i); failed != 0 {
			return false
		}
	}
	return true
}

// stop says what stops an attempt that found no room, strongest first. While
// it may be patient, what only undecided attempts fill does not count.
func (v *view) stop(d *Decision, patient bool) {
	d.Action = Proceed
	for _, action := range [...]Action{Block, Forget, Challenge, Delay, FakeFailure} {
		first, last := v.Counted()
		for i := first; i < last; i++ {
			over := v.Usage[i].Over
			if patient {
				over = v.Usage[i].Failed
			}
			v.stopAt(d, i, action, over&v.Bind(i))
		}
		v.stopAside(d, action, patient)
	}
	if d.Action == Proceed { // nothing was full, and yet nothing was charged
		d.refuse(Reason{Cause: StoreFailed}, time.Second)
	}
}

// stopAt adds the reasons of one subject for one action.
func (v *view) stopAt(d *Decision, i uint8, action Action, over failures.Mask) {
	r, free := v.rule[i], v.Usage[i].FreeIn
	if action != Block && over&r.then[Block] != 0 {
		free = 0 // it is that of the rung that refuses
	}
	faked := i == PairSubject && over&r.then[FakeFailure] != 0 // free is the limit's; chargePair finds the delay
	if action == Delay && over&failures.BackoffBit != 0 && !faked {
		cause := Reason{Cause: PairDelayed, Subject: OnPair, Wait: free}
		if r.kind == OnAddress {
			cause = Reason{Cause: SiteSlowed, Subject: OnSite, Wait: free}
		}
		d.stop(action, cause)
	}
	for j := range r.limits {
		if over.Has(j) && v.action(r, j) == action {
			why := r.reason(j)
			why.Wait = free
			d.stop(action, why)
		}
	}
	if action == Challenge && v.Status == trusted.Spent && d.Action == Challenge && r.kind == OnAddress {
		d.Reasons.add(Reason{Cause: BudgetSpent, Subject: OnPair})
	}
}

// stop makes the decision at least as strict as the action.
func (d *Decision) stop(a Action, why Reason) {
	if d.Action == Proceed || a < d.Action {
		d.Action = a
	}
	if d.Action == a && a != Challenge {
		d.RetryAfter = max(d.RetryAfter, why.Wait)
	}
	d.Reasons.add(why)
}

func (v *view) action(r *rule, rung int) Action {
	if r.challenged(v.Status, v.suspect).Has(rung) {
		return Challenge
	}
	return r.limits[rung].Action
}

// explain adds what a monitored limit would have done, and what would have
// stopped the attempt had its place not been known or its challenge solved.
func (v *view) explain(d *Decision) {
	v.watch(d)
	switch {
	case v.privileged():
		d.Reasons.add(Reason{Cause: KnownClient, Subject: OnPair})
	case v.listed == Allowed:
		d.Reasons.add(Reason{Cause: AllowedByAdmin, Subject: OnAddress, List: v.list()})
	}
}

// watch adds what of the policy would have stopped the attempt, were it enforced.
func (v *view) watch(d *Decision) {
	note := func(why Reason) {
		why.Monitored = true
		d.Reasons.add(why)
	}
	if v.on != nil && v.on.watched && v.on.verdict == Blocked {
		note(Reason{Cause: BlockedByAdmin, List: v.on.name})
	}
	stranger, lifts := !v.privileged(), v.lifts()
	if v.watched && stranger && v.listed != Allowed && !v.claimed && !v.showed {
		note(Reason{Cause: ModeOn, Subject: OnSite})
	}
	if v.on != nil && v.on.asks != nil && v.on.asks.Monitor && stranger && !v.claimed && !v.showed {
		note(v.askedByList())
	}
	first, last := v.Counted()
	for i := first; i < last; i++ {
		r := v.rule[i]
		over := v.Usage[i].Over & r.would(v.Status, lifts)
		for j := range r.limits {
			if over.Has(j) {
				note(r.reason(j))
			}
		}
		if over&failures.BackoffBit != 0 && r.kind == OnPrivilegedPair {
			note(Reason{Cause: PairDelayed, Subject: OnPair})
		}
		if v.crawling && r.kind == OnAddress && v.listed != Allowed && stranger && v.Usage[i].Over&failures.BackoffBit != 0 {
			note(Reason{Cause: SiteSlowed, Subject: OnSite})
		}
	}
	v.watchAsides(d)
}

// needsSolve reports whether an attempt that was charged on the claim of a
// solved challenge really needs one, and adds why. ofAccount says that the
// account, or its place, is among those that ask.
func (v *view) needsSolve(d *Decision) (needed, ofAccount bool) {
	needed, ofAccount = v.asks(), v.asksSprayed()
	needed = needed || ofAccount
	v.askers(d)
	if ofAccount {
		d.Reasons.add(Reason{Cause: SprayedAsks})
	}
	first, last := v.Counted()
	for i := first; i < last; i++ {
		r := v.rule[i]
		if v.listed == Allowed && (r.kind == OnAddress || r.kind == OnNetwork) {
			continue
		}
		lifted := v.Usage[i].Over & r.enforce & r.challenged(v.Status, v.suspect) & r.of(v.Status)
		for j := range r.limits {
			if lifted.Has(j) {
				needed, ofAccount = true, ofAccount || !r.ofAddress()
				d.Reasons.add(r.reason(j))
			}
		}
	}
	if r := v.aside(identityAside); r != nil && v.listed != Allowed && !v.privileged() {
		for j := range r.limits {
			if (v.atAside[identityAside].Over & r.enforce & r.then[Challenge]).Has(j) {
				needed = true
				d.Reasons.add(r.reason(j))
			}
		}
	}
	return needed, ofAccount
}

// Reasons are at most maxReasons reasons, strongest first.
type Reasons []Reason

// maxReasons is how many reasons a decision has room for: one for every limit of an
// attempt in a policy of the usual size.
const maxReasons = 16

// Codes returns the code of every reason.
func (r Reasons) Codes() []string {
	codes := make([]string, 0, len(r))
	for _, one := range r {
		codes = append(codes, one.Code())
	}
	return codes
}

// Has reports whether a cause is among the reasons.
func (r Reasons) Has(c Cause) bool {
	return slices.ContainsFunc(r, func(one Reason) bool { return one.Cause == c })
}

// first puts a reason in front, and drops the last of too many.
func (r *Reasons) first(one Reason) {
	*r = append(Reasons{one}, (*r)[:min(len(*r), maxReasons-1)]...)
}

func (r *Reasons) add(one Reason) {
	if len(*r) < maxReasons {
		*r = append(*r, one)
	}
}
