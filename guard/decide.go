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
	if v.stepUpAsks() {
		d.Reasons.add(Reason{Cause: StepUpNeeded})
	}
	if v.listed.asks() && !v.Known() {
		d.Reasons.add(v.listed.challenge())
	}
}

// decide writes the decision into a zero Decision, from the view alone. wait: a patient attempt waits for undecided
// ones.
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

// stop adds what stops an attempt without room, strongest first; for a patient one, without what undecided attempts
// fill.
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

// explain adds what monitored limits would have done, and what exempted the attempt.
func (v *view) explain(d *Decision) {
	v.monitor(d)
	if v.in&withPasskey != 0 {
		d.Reasons.add(Reason{Cause: PasskeyVerified})
	}
	switch {
	case v.Known():
		d.Reasons.add(Reason{Cause: KnownClient, Subject: OnPair})
	case v.listed.verdict == Allowed:
		d.Reasons.add(Reason{Cause: AllowedByAdmin, Subject: OnAddress, List: v.listed.name()})
	}
}

// monitor adds what would have stopped the attempt if it were enforced, and what only alerts.
func (v *view) monitor(d *Decision) {
	note := d.monitored
	on, unknown := v.listed.on, !v.Known()
	if on != nil && on.monitored && on.verdict == Blocked {
		note(Reason{Cause: BlockedByAdmin, List: on.name})
	}
	unproven := unknown && v.in&proven == 0
	if v.mode.wouldBeOn && unproven && v.listed.verdict != Allowed {
		note(Reason{Cause: ModeOn, Subject: OnSite})
	}
	if v.mode.step == monitoredStepUp && unknown && v.in&withCode == 0 {
		note(Reason{Cause: StepUpNeeded})
	}
	if on != nil && on.asks != nil && on.asks.Monitor && unproven {
		note(v.listed.challenge())
	}
	v.monitorAll(d)
}

func (d *Decision) monitored(why Reason) {
	why.Monitored = true
	d.Reasons.add(why)
}

func (v *view) monitorAll(d *Decision) {
	for i := range v.Subjects() {
		if s := &v.Subjects()[i]; v.Counts(s) {
			v.monitorAt(s, d.monitored)
		}
	}
}

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

// needsSolution reports whether an attempt with a solution needs it, and adds why. ofAccount: for its account or pair.
func (v *view) needsSolution(d *Decision) (needed, ofAccount bool) {
	needed, ofAccount = v.asks(), v.asksSprayed()
	needed = needed || ofAccount
	v.whyAsked(d)
	if ofAccount {
		d.Reasons.add(Reason{Cause: SprayedAsks})
	}
	for i := range v.Subjects() {
		s := &v.Subjects()[i]
		// What stops the attempt only without a solution.
		over := s.Usage.Over & s.rule.stops(v.Status, v.in&^proven) & s.rule.challenges(v.Status, v.in)
		for j := range s.rule.limits {
			if over.Has(j) {
				needed, ofAccount = true, ofAccount || s.Kind == OnAccount || s.Kind == OnPair
				d.Reasons.add(s.rule.reason(j))
			}
		}
	}
	return needed, ofAccount
}

// Checks reports whether to check a password: the attempt's or, for a fake failure, a Decoy.
func (d *Decision) Checks() bool { return d.Action == Proceed || d.Action == FakeFailure }

// Monitored reports whether the attempt only proceeds because a limit, or the rule on sprayed passwords, is monitored.
func (d *Decision) Monitored() bool {
	v := d.Ticket.of
	if v != nil && v.Sprayed && v.rules.policy.Spray.Monitor && !d.Known && !d.CodeValid {
		return true
	}
	return slices.ContainsFunc(d.Reasons, func(why Reason) bool {
		return why.Monitored && (why.Limit == nil || why.Limit.Action != Alert)
	})
}

// Offered returns what to check: the password if the decision is Proceed, else a Decoy.
func (d *Decision) Offered(password string) string {
	if d.Action == Proceed {
		return password
	}
	return Decoy(password)
}

// Decoy returns a random text to check for a FakeFailure in place of the password. The check takes as long, whatever
// the hash, and reveals nothing. The text is as long as the password, at least 26 bytes.
func Decoy(password string) string {
	text := rand.Text()
	for len(text) < len(password) {
		text += rand.Text()
	}
	return text[:max(26, min(len(text), len(password)))]
}

// A ListTally counts an IP list's attempts, and those that it stopped: challenged, blocked or given a fake failure.
type ListTally struct {
	Met, Stopped uint64
}

type listTally struct{ met, stopped atomic.Uint64 }

func (g *Guard) tallyList(v *view, d *Decision) {
	on := v.listed.on
	if on == nil {
		return
	}
	t, ok := g.listTallies.Load(on.name)
	if !ok {
		t, _ = g.listTallies.LoadOrStore(on.name, new(listTally)) // bounded by the policy
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

// TalliedLists returns the tally of each IP list in the policy since the start, on this node.
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

// first adds a reason in front, and drops the last of too many.
func (r *Reasons) first(one Reason) {
	*r = append(Reasons{one}, (*r)[:min(len(*r), maxReasons-1)]...)
}
