package guard

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"authguard/captchamode/challenge"
)

// ErrNoEvent means that the policy limits no event of that name.
var ErrNoEvent = errors.New("guard: the policy limits no event of this name")

// ErrSubjectMissing means that an event is limited by something that did not come
// along: nothing was counted. Whoever forgets a field must not lift a limit by it.
var ErrSubjectMissing = errors.New("guard: the event's subject is missing")

// Subjects are what one event is counted for. What the event's limits do not count
// by may be left out.
type Subjects struct {
	// Account is the name as it was typed; it is normalised as a login's (R11).
	Account string
	Address netip.Addr // the client's, decided by the door (R9, R10)
	// Subject is any text: a card, a phone number, a session. Texts that differ in
	// a byte are two. Its keyed digest is counted; the text is kept nowhere.
	Subject string
	// Solution is the answer to a challenge, if one came along.
	Solution challenge.Solution
}

// Exceeded counts one event and says what becomes of it, by the policy's limits for
// its name: Proceed, or Block, Challenge or Delay, with RetryAfter. It is charged
// first (R1), on exact windows (R2), for every subject or for none: one that is
// stopped counts nowhere (R5). A full limit with Alert, or in monitoring mode, stops
// nothing and is among the reasons. The error is ErrNoEvent, ErrSubjectMissing, or the
// store's; the decision refuses then.
//
// Unlike a login's charge, an event's is final: nothing settles it.
func (g *Guard) Exceeded(ctx context.Context, event string, s Subjects) (d Decision, err error) {
	o := occurrence{event: event, attempt: s.attempt(event)}
	if err := g.lookAtEvent(&o, &s); err != nil {
		return d, err
	}
	if err = g.decideEvent(ctx, &o, &d); err != nil {
		d = Decision{}
		d.Reasons.add(Reason{Cause: StoreFailed})
	}
	if d.Action == Challenge && err == nil {
		err = g.open(ctx, &o.view, &d)
	}
	if !o.badName {
		d.Account = o.name
	}
	if slices.ContainsFunc(d.Reasons, func(r Reason) bool { return r.Cause == LimitReached }) {
		g.observe(Event{
			At: o.Now, Integration: "event", Limited: event, Edge: Met, Action: d.Action, Reasons: d.Reasons,
			Account: d.Account, Address: s.Address, Count: 1,
		})
	}
	d.counted = true // no account's failures make its challenge harder
	g.eventTally(event)[d.Action].Add(1)
	return d, err
}

// IssueFor makes the challenge that Exceeded asked for. It is good for that event, its
// account and its address only.
func (g *Guard) IssueFor(ctx context.Context, event string, s Subjects, d Decision) (challenge.Challenge, error) {
	return g.Issue(ctx, s.attempt(event), d)
}

// attempt is what a challenge is bound to.
func (s *Subjects) attempt(event string) Attempt {
	return Attempt{Account: s.Account, Address: s.Address, Solution: s.Solution, Integration: "event " + event}
}

// An occurrence is one event while it is decided.
type occurrence struct {
	view
	event   string
	attempt Attempt
}

// lookAtEvent finds out what the event is counted for.
func (g *Guard) lookAtEvent(o *occurrence, s *Subjects) error {
	o.rules, o.Now = g.rules.Load(), g.config.Now()
	limits := o.rules.events[o.event]
	if limits == nil {
		return ErrNoEvent
	}
	g.lookAround(&o.attempt, &o.view)
	if s.Account != "" {
		o.badName = g.name(&o.view, &o.attempt) != nil
	}
	of := map[SubjectKind][]byte{OnSite: {}}
	if s.Address.IsValid() {
		of[OnAddress], of[OnNetwork] = o.from.address[:], o.from.network[:]
	}
	if s.Account != "" {
		of[OnAccount] = o.Account[:]
	}
	if s.Subject != "" {
		of[OnSubject] = []byte(s.Subject)
	}
	var missing error
	for _, r := range limits {
		text, came := of[r.kind]
		if !came {
			missing = fmt.Errorf("%w: %s counts by %s", ErrSubjectMissing, o.event, r.kind)
		} else if !o.badName || r.ofAddress() { // a bad name counts for its IP address alone (R11)
			key := g.digests.eventKey(o.event, r.kind, text)
			shard := key
			if r.kind == OnAddress {
				shard = g.digests.eventKey(o.event, OnNetwork, o.from.network[:])
			}
			o.Add(r.subject(r.kind, key, shard, EveryClient, o.in))
		}
	}
	return missing
}

// eventKey is a subject under the event's name: what is counted here is nothing to a login,
// and nothing to another event.
func (d *digester) eventKey(event string, by SubjectKind, of []byte) (key digest) {
	sum(&d.purpose, append([]byte("counted\x00"+event+"\x00"+by.String()+"\x00"), of...), &key)
	return key
}

// decideEvent charges the event, or says what stops it.
func (g *Guard) decideEvent(ctx context.Context, o *occurrence, d *Decision) (err error) {
	if o.listed.verdict == Blocked {
		d.refuse(Reason{Cause: BlockedByAdmin, List: o.listed.name()}, o.listed.left)
		return nil
	}
	client := o.Client // no client is known for an event: its account is a subject as any other
	o.Client = Client{}
	o.Charge, err = g.config.Store.Begin(ctx, o.Charge)
	if o.Client = client; err != nil {
		return fmt.Errorf("guard: charging an event: %w", err)
	}
	g.noteEdges(o)
	if o.n > 0 && !o.ID.Charged() { // it counts nowhere (R5)
		o.stop(d, false)
		return nil
	}
	d.Action = Proceed
	o.monitorAll(d)
	switch {
	case o.badName:
		*d = Decision{}
		d.refuse(Reason{Cause: BadAccountName}, 0)
	default:
		if err := g.checkEventSolution(ctx, o, d); err != nil || d.Action != Proceed {
			return errors.Join(err, g.withdraw(ctx, &o.Charge))
		}
	}
	if err := g.config.Store.Settle(afterwards(ctx), o.Charge, Failed); err != nil { // decided at once (R3)
		return fmt.Errorf("guard: settling an event: %w", err)
	}
	return nil
}

// noteEdges notes which limits are full now; of an event that is stopped, those that stop it.
func (g *Guard) noteEdges(o *occurrence) {
	for i := range o.Subjects() {
		s := &o.Subjects()[i]
		for j := range s.rule.limits {
			l := &s.rule.limits[j]
			if s.Usage.Over.Has(j) && (o.Bound(s).Has(j) || o.ID.Charged() && (l.Monitor || l.Action == Alert)) {
				g.edges.over(g, o, s, j, l)
			}
		}
	}
}

// checkEventSolution uses the challenge's solution up if a limit needs one.
func (g *Guard) checkEventSolution(ctx context.Context, o *occurrence, d *Decision) error {
	var why Decision
	for i := range o.Subjects() {
		s := &o.Subjects()[i]
		over := s.Usage.Over & s.rule.stops(0, o.in&^withSolution) & s.rule.then[Challenge]
		for j := range s.rule.limits {
			if over.Has(j) {
				why.Reasons.add(s.rule.reason(j))
			}
		}
	}
	if len(why.Reasons) == 0 {
		return nil
	}
	bond := g.binding(&o.attempt, o.from.address, o.name, 0)
	stopped, err := g.answered(ctx, &o.attempt, &o.view, d, []challenge.Binding{bond})
	switch {
	case err != nil:
		return err
	case d.Verdict.Solved:
		d.Reasons.add(Reason{Cause: ChallengeSolved})
		return nil
	case stopped.Wait > 0:
		why = Decision{Action: Proceed}
		why.stop(Delay, stopped)
	default:
		why.Action = Challenge
		if stopped.Cause == NoCause {
			stopped.Cause = ChallengeFailed
		}
		why.Reasons.add(stopped)
	}
	why.Verdict = d.Verdict
	*d = why
	return nil
}

// An eventTally is how many of an event were decided in which way, by action.
type eventTally [Proceed + 1]atomic.Uint64

func (g *Guard) eventTally(event string) *eventTally {
	if t, ok := g.tallies.Load(event); ok {
		return t.(*eventTally)
	}
	t, _ := g.tallies.LoadOrStore(event, new(eventTally)) // only the policy's: bounded
	return t.(*eventTally)
}

// Tallied is how many of the policy's events were decided in which way since the
// start, on this node: by event and by the action's name.
func (g *Guard) Tallied() map[string]map[string]uint64 {
	all := map[string]map[string]uint64{}
	for name := range g.rules.Load().policy.Events {
		counts, t := map[string]uint64{}, g.eventTally(name)
		for _, a := range []Action{Proceed, Challenge, Delay, Block} {
			counts[a.String()] = t[a].Load()
		}
		all[name] = counts
	}
	return all
}

// ExplainEvent reads the limits of an event for the subjects that came along, and for the site. It
// changes nothing.
func (g *Guard) ExplainEvent(ctx context.Context, event string, s Subjects) (lines []Line, err error) {
	o, err := g.readEvent(event, &s)
	if err != nil {
		return nil, err
	}
	o.Client = Client{}
	read, used, err := g.config.Store.Read(ctx, o.Charge)
	if err != nil {
		return nil, fmt.Errorf("guard: reading an event's counters: %w", err)
	}
	for i := range read.Subjects() {
		one := &read.Subjects()[i]
		for j, l := range one.rule.limits {
			lines = append(lines, Line{
				Subject: one.Kind, Limit: l, Event: event, Used: used[i][j].Charges,
				Full: one.Usage.Over.Has(j), FreeIn: used[i][j].FreeIn,
			})
		}
	}
	return lines, nil
}

// UnlockEvent removes what was counted of an event for the subjects that came along, but not for
// the network and the site, which more than one person uses.
func (g *Guard) UnlockEvent(ctx context.Context, event string, s Subjects) error {
	o, err := g.readEvent(event, &s)
	if err != nil {
		return err
	}
	own := slices.DeleteFunc(slices.Clone(o.Subjects()), func(s Subject) bool {
		return s.Kind == OnNetwork || s.Kind == OnSite
	})
	if err := g.config.Store.Clear(ctx, own); err != nil {
		return fmt.Errorf("guard: unlocking an event's subject: %w", err)
	}
	return nil
}

// readEvent lists the subjects of an event that came along.
func (g *Guard) readEvent(event string, s *Subjects) (o occurrence, err error) {
	o = occurrence{event: event, attempt: s.attempt(event)}
	if err := g.lookAtEvent(&o, s); err != nil && !errors.Is(err, ErrSubjectMissing) {
		return o, err
	} else if o.badName {
		return o, ErrAccountName
	}
	return o, nil
}

// maxEdges is how many limits may be reached at once and be told of one by one. Those
// of all further subjects of a limit are told of as one without a name (R24, R31).
const maxEdges = 1000

// over notes that an event came beyond a limit, and tells of the first.
func (e *edges) over(g *Guard, o *occurrence, of *Subject, limit int, l *Limit) {
	if g.config.Observer == nil {
		return
	}
	by := of.Kind
	key := edgeOf{o.event, by, limit, digest(of.Key)}
	e.mu.Lock()
	s, ok := e.known[key]
	if !ok && len(e.known) >= maxEdges {
		key.subject = digest{}
		s, ok = e.known[key]
	}
	if ok {
		s.event.Count++
		s.last, s.wait = o.Now, l.Window
		e.mu.Unlock()
		return
	}
	s = &stretch{event: o.edge(by, l, key.subject), last: o.Now, wait: l.Window}
	if e.known == nil {
		e.known = map[edgeOf]*stretch{}
	}
	e.known[key] = s
	event := s.event
	e.mu.Unlock()
	g.observe(event)
	time.AfterFunc(l.Window, func() { e.quiet(g, key) })
}

// quiet ends a stretch, or waits on for as long as it has not been quiet.
func (e *edges) quiet(g *Guard, key edgeOf) {
	e.mu.Lock()
	s, now := e.known[key], g.config.Now()
	if left := s.wait - now.Sub(s.last); left > 0 {
		e.mu.Unlock()
		time.AfterFunc(max(left, time.Second), func() { e.quiet(g, key) })
		return
	}
	delete(e.known, key)
	e.mu.Unlock()
	s.event.At, s.event.Edge = now, Over
	g.observe(s.event)
}

// edge is what is told of a limit that was reached: of the subject itself, and of the
// other ones only where nobody counts by them.
func (o *occurrence) edge(by SubjectKind, l *Limit, subject digest) Event {
	e := Event{At: o.Now, Integration: "event", Limited: o.event, Edge: Reached, Action: l.Action, Count: 1}
	e.Reasons.add(Reason{Cause: LimitReached, Subject: by, Limit: l, Event: o.event, Monitored: l.Monitor})
	switch {
	case subject == digest{}:
	case by == OnAccount:
		e.Account = o.name
	case by == OnAddress || by == OnNetwork:
		e.Address = o.attempt.Address
	case by == OnSubject: // enough to tell two apart, and of no use to find either
		e.Subject = hex.EncodeToString(subject[:4])
	}
	return e
}
