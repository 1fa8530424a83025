package guard

import (
	"crypto/rand"
	"slices"
	"sync/atomic"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// whyAsked adds why every unknown client has to solve a challenge.
func (v *view) whyAsked(d *Decision) {
	if v.modeAsks() {
		d.Reasons.add(Reason{Cause: ModeOn, Subject: OnSite})
	}
	if v.listed.asks() && !v.Known() {
		d.Reasons.add(v.listed.challenge())
	}
}

// decide is the policy: it writes what becomes of an attempt, from what is known
// of it and nothing else, into a zero decision. While the attempt is patient it
// may have to wait for undecided ones ahead of it; wait then reports so.
func decide(v *view, patient bool, d *Decision) (wait bool) {
	d.Known = v.Known()
	switch {
	case v.listed.verdict == Blocked:
		d.refuse(Reason{Cause: BlockedByAdmin, List: v.listed.name()}, v.listed.left)
	case v.ID.Charged():
		d.Action = Proceed
		v.explain(d)
	case v.challengesAll():
		d.Action = Challenge
		v.whyAsked(d)
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
			cause = Reason{Cause: SiteThrottled, Subject: OnSite, Wait: free}
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
		note(Reason{Cause: SiteThrottled, Subject: OnSite})
	}
}

// needsSolution reports whether an attempt that was charged because it brings a solution really
// needs one, and adds why. ofAccount says that the account, or its pair, is among those that ask.
func (v *view) needsSolution(d *Decision) (needed, ofAccount bool) {
	needed, ofAccount = v.asks(), v.asksSprayed()
	needed = needed || ofAccount
	v.whyAsked(d)
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

// Checks reports whether a password check is to be made for the attempt: of the
// password or, for a fake failure, of a Decoy.
func (d *Decision) Checks() bool { return d.Action == Proceed || d.Action == FakeFailure }

// Monitored reports whether the attempt only goes on because a limit, or the rule on sprayed
// passwords, is monitored and not enforced.
func (d *Decision) Monitored() bool {
	t := d.Ticket.pending
	if t != nil && t.flags.has(flagSprayed) && t.rules.policy.Spray.Monitor && !d.Known && !d.CodeValid {
		return true
	}
	return slices.ContainsFunc(d.Reasons, func(why Reason) bool {
		return why.Monitored && (why.Limit == nil || why.Limit.Action != Alert)
	})
}

// Offered is what to check in the password's place: the password itself where that may
// be checked, and else a Decoy.
func (d *Decision) Offered(password string) string {
	if d.Action == Proceed {
		return password
	}
	return Decoy(password)
}

// Decoy is a text that cannot be the password, to be checked in the password's place
// where the decision is FakeFailure: the check takes as long, whatever the hash, and says
// nothing about the password. It is as long as the password, at least 26 characters.
func Decoy(password string) string {
	text := rand.Text()
	for len(text) < len(password) {
		text += rand.Text()
	}
	return text[:max(26, min(len(text), len(password)))]
}

// A ListTally is how many attempts came from the addresses of a named list, and how many
// of them it stopped: challenged, blocked or answered with a fake failure.
type ListTally struct {
	Met, Stopped uint64
}

type listTally struct{ met, stopped atomic.Uint64 }

// tallyList counts an attempt for the named list that its address is on.
func (g *Guard) tallyList(v *view, d *Decision) {
	on := v.listed.on
	if on == nil {
		return
	}
	t, ok := g.listTallies.Load(on.name)
	if !ok {
		t, _ = g.listTallies.LoadOrStore(on.name, new(listTally)) // only the policy's: bounded
	}
	t.(*listTally).met.Add(1)
	if d.Action == Proceed {
		return
	}
	for _, why := range append(d.Reasons, v.fake...) {
		if why.List != "" && !why.Monitored {
			t.(*listTally).stopped.Add(1)
			return
		}
	}
}

// TalliedLists is what each of the policy's named lists has done since the start, on
// this node.
func (g *Guard) TalliedLists() map[string]ListTally {
	all := map[string]ListTally{}
	for _, l := range g.rules.Load().lists {
		all[l.name] = ListTally{}
		if t, ok := g.listTallies.Load(l.name); ok {
			all[l.name] = ListTally{t.(*listTally).met.Load(), t.(*listTally).stopped.Load()}
		}
	}
	return all
}

func (r *Reasons) add(one Reason) {
	if len(*r) < maxReasons {
		*r = append(*r, one)
	}
}

// first puts a reason in front, and drops the last of too many.
func (r *Reasons) first(one Reason) {
	*r = append(Reasons{one}, (*r)[:min(len(*r), maxReasons-1)]...)
}
