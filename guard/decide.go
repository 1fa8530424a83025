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
	d.Privileged = v.Known()
	switch {
	case v.listed.verdict == Blocked:
		d.refuse(Reason{Cause: BlockedByAdmin, List: v.listed.name()}, v.listed.left)
	case v.ID.Charged():
		d.Action = Proceed
		v.explain(d)
	case v.challengesAll():
		d.Action = Challenge
		v.askers(d)
	default:
		if _, failed := v.full(); patient && !failed { // only undecided attempts take the room (R3)
			return true
		}
		v.stop(d, patient)
	}
	return false
}

func (d *Decision) refuse(why Reason, retry time.Duration) {
	d.Action, d.RetryAfter = Block, retry
	d.Reasons.add(why)
}

// stop says what stops an attempt that found no room, strongest first. While
// it may be patient, what only undecided attempts fill does not count.
func (v *view) stop(d *Decision, patient bool) {
	d.Action = Proceed
	for _, action := range [...]Action{Block, Forget, Challenge, Delay, FakeFailure} {
		for i := range v.Subjects() {
			s := &v.Subjects()[i]
			if !v.Counts(s) {
				continue
			}
			over := s.Usage.Over
			if patient {
				over = s.Usage.Failed
			}
			v.stopAt(d, s, action, over&v.Bound(s))
		}
	}
	if d.Action == Proceed { // nothing was full, and yet nothing was charged
		d.refuse(Reason{Cause: StoreFailed}, time.Second)
	}
}

// stopAt adds the reasons of one subject for one action.
func (v *view) stopAt(d *Decision, s *Subject, action Action, over failures.Mask) {
	r, free := s.rule, s.Usage.FreeIn
	if action != Block && over&r.then[Block] != 0 {
		free = 0 // it is that of the limit that blocks
	}
	faked := s.Kind == OnPair && over&r.then[FakeFailure] != 0 // free is the limit's; chargePair finds the delay
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

func (v *view) action(r *rule, limit int) Action {
	if r.challenges(v.Status, v.in).Has(limit) {
		return Challenge
	}
	return r.limits[limit].Action
}

// explain adds what a monitored limit would have done, and what would have
// stopped the attempt had its client not been known or its challenge solved.
func (v *view) explain(d *Decision) {
	v.monitor(d)
	switch {
	case v.Known():
		d.Reasons.add(Reason{Cause: KnownClient, Subject: OnPair})
	case v.listed.verdict == Allowed:
		d.Reasons.add(Reason{Cause: AllowedByAdmin, Subject: OnAddress, List: v.listed.name()})
	}
}

// monitor adds what of the policy would have stopped the attempt, were it enforced, and what
// only alerts.
func (v *view) monitor(d *Decision) {
	note := d.monitored
	on, unknown := v.listed.on, !v.Known()
	if on != nil && on.monitored && on.verdict == Blocked {
		note(Reason{Cause: BlockedByAdmin, List: on.name})
	}
	unproven := unknown && v.in&(withSolution|withCode) == 0
	if v.mode.wouldBeOn && unproven && v.listed.verdict != Allowed {
		note(Reason{Cause: ModeOn, Subject: OnSite})
	}
	if on != nil && on.asks != nil && on.asks.Monitor && unproven {
		note(v.listed.challenge())
	}
	v.monitorAll(d)
}

// monitored adds a reason that is only recorded.
func (d *Decision) monitored(why Reason) {
	why.Monitored = true
	d.Reasons.add(why)
}

// monitorAll adds what of every subject would have stopped the attempt.
func (v *view) monitorAll(d *Decision) {
	for i := range v.Subjects() {
		if s := &v.Subjects()[i]; v.Counts(s) {
			v.monitorAt(s, d.monitored)
		}
	}
}

// monitorAt notes what of one subject would have stopped the attempt.
func (v *view) monitorAt(s *Subject, note func(Reason)) {
	over := s.Usage.Over & s.rule.would(v.Status, v.in)
	for j := range s.rule.limits {
		if over.Has(j) {
			note(s.rule.reason(j))
		}
	}
	switch delayed := s.Usage.Over&failures.BackoffBit != 0; {
	case !delayed:
	case s.Kind == OnPair && over&failures.BackoffBit != 0:
		note(Reason{Cause: PairDelayed, Subject: OnPair})
	case s.Kind == OnAddress && v.mode.wouldThrottle && v.listed.verdict != Allowed && !v.Known():
		note(Reason{Cause: SiteSlowed, Subject: OnSite})
	}
}

// needsSolution reports whether an attempt that was charged because it brings a solution really
// needs one, and adds why. ofAccount says that the account, or its pair, is among those that ask.
func (v *view) needsSolution(d *Decision) (needed, ofAccount bool) {
	needed, ofAccount = v.asks(), v.asksSprayed()
	needed = needed || ofAccount
	v.askers(d)
	if ofAccount {
		d.Reasons.add(Reason{Cause: SprayedAsks})
	}
	for i := range v.Subjects() {
		s := &v.Subjects()[i]
		// What stops the attempt without a solution, and not with it.
		over := s.Usage.Over & s.rule.stops(v.Status, v.in&^(withSolution|withCode)) & s.rule.challenges(v.Status, v.in)
		for j := range s.rule.limits {
			if over.Has(j) {
				needed, ofAccount = true, ofAccount || s.Kind == OnAccount || s.Kind == OnPair
				d.Reasons.add(s.rule.reason(j))
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
