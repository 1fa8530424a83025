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

// ErrNoEvent means that the policy has no event with this name.
var ErrNoEvent = errors.New("guard: the policy limits no event of this name")

// ErrSubjectMissing means that a limit's subject is missing. Nothing was counted: a missing field must not bypass it.
var ErrSubjectMissing = errors.New("guard: the event's subject is missing")

// Subjects are what one event is counted for. A subject that no limit of the event counts by may be left out.
type Subjects struct {
	// Account is the name as typed; it is normalized like a login's (R11).
	Account string
	Address netip.Addr // the client's, decided by the integration (R9, R10)
	// Subject is any text, such as a card or phone number, compared byte by byte. Only its keyed digest is stored.
	Subject string
	// Solution is the solution of a challenge, if there is one.
	Solution challenge.Solution
}

// Exceeded counts an event and decides it by the policy's limits for its name: Proceed, or Block, Challenge or Delay
// with RetryAfter. It charges first (R1), on exact windows (R2), every subject or none: a stopped event counts nowhere
// (R5). A full limit that is monitored or only alerts stops nothing, and is among the reasons.
//
// Unlike a login's, an event's charge is final, without Settle. The error is ErrNoEvent, ErrSubjectMissing or the
// store's; the decision then blocks.
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
			At: o.Now, Integration: "event", LimitEvent: LimitEvent{Limited: event, Edge: Met, Count: 1}, Action: d.Action,
			Reasons: d.Reasons,
			Account: d.Account, Address: s.Address,
		})
	}
	d.counted = true // no account's failures make its challenge harder
	g.eventTally(event)[d.Action].Add(1)
	return d, err
}

// IssueFor returns the challenge that Exceeded asked for. It is valid for that event, account and IP address only.
func (g *Guard) IssueFor(ctx context.Context, event string, s Subjects, d Decision) (challenge.Challenge, error) {
	return g.Issue(ctx, s.attempt(event), d)
}

// attempt is what a challenge is bound to.
func (s *Subjects) attempt(event string) Attempt {
	return Attempt{Account: s.Account, Address: s.Address, Solution: s.Solution, Integration: "event " + event}
}

type occurrence struct {
	view
	event   string
	attempt Attempt
}

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
			o.add(r, r.kind, key, shard, EveryClient, o.in)
		}
	}
	return missing
}

// eventKey is a subject's key for one event, whose count no login and no other event shares.
func (d *digester) eventKey(event string, by SubjectKind, of []byte) (key digest) {
	sum(&d.purpose, append([]byte("counted\x00"+event+"\x00"+by.String()+"\x00"), of...), &key)
	return key
}

func (g *Guard) decideEvent(ctx context.Context, o *occurrence, d *Decision) (err error) {
	if o.listed.verdict == Blocked {
		d.refuse(Reason{Cause: BlockedByAdmin, List: o.listed.name()}, o.listed.left)
		return nil
	}
	if o.unresolved != nil && o.Subject(OnAccount) != nil {
		return o.unresolved
	}
	client := o.Client // no client is known for an event: its account is a subject as any other
	o.Client = Client{}
	err = g.config.Store.Begin(ctx, &o.Charge)
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
	if err := g.config.Store.Settle(afterwards(ctx), &o.Charge, Failed); err != nil { // decided at once (R3)
		return fmt.Errorf("guard: settling an event: %w", err)
	}
	return nil
}

// noteEdges notes which limits are full now; of a stopped event, those that stop it.
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

// An eventTally counts an event's decisions, by action.
type eventTally [Proceed + 1]atomic.Uint64

func (g *Guard) eventTally(event string) *eventTally {
	if t, ok := g.tallies.Load(event); ok {
		return t.(*eventTally)
	}
	t, _ := g.tallies.LoadOrStore(event, new(eventTally)) // bounded by the policy
	return t.(*eventTally)
}

// Tallied returns how often this node gave each decision since the start, by the policy's event and the action's name.
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

// ExplainEvent reads the limits of an event for the given subjects and the site. It changes nothing.
func (g *Guard) ExplainEvent(ctx context.Context, event string, s Subjects) (lines []Line, err error) {
	o, err := g.readEvent(event, &s)
	if err != nil {
		return nil, err
	}
	o.Client = Client{}
	used, err := g.config.Store.Read(ctx, &o.Charge)
	if err != nil {
		return nil, fmt.Errorf("guard: reading an event's counters: %w", err)
	}
	for i := range o.Subjects() {
		one := &o.Subjects()[i]
		for j, l := range one.rule.limits {
			lines = append(lines, Line{
				Subject: one.Kind, Limit: l, Event: event, Used: used[i][j].Charges,
				Full: one.Usage.Over.Has(j), FreeIn: used[i][j].FreeIn,
			})
		}
	}
	return lines, nil
}

// UnlockEvent removes an event's counts for the given subjects, except network and site, which several users share.
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

func (g *Guard) readEvent(event string, s *Subjects) (*occurrence, error) {
	o := &occurrence{event: event, attempt: s.attempt(event)}
	if err := g.lookAtEvent(o, s); err != nil && !errors.Is(err, ErrSubjectMissing) {
		return nil, err
	} else if o.badName {
		return nil, ErrAccountName
	}
	return o, nil
}

// maxEdges bounds the limits that are reported one by one. Further subjects share a report without a name (R24, R31).
const maxEdges = 1000

// over notes that an event exceeded a limit, and reports the first.
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

// quiet ends a stretch after one window without an event beyond the limit.
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

// edge is the report of a limit that was reached. It names only the subject that the limit counts.
func (o *occurrence) edge(by SubjectKind, l *Limit, subject digest) Event {
	e := Event{
		At:          o.Now,
		Integration: "event",
		LimitEvent:  LimitEvent{Limited: o.event, Edge: Reached, Count: 1},
		Action:      l.Action,
	}
	e.Reasons.add(Reason{Cause: LimitReached, Subject: by, Limit: l, Event: o.event, Monitored: l.Monitor})
	switch {
	case subject == digest{}:
	case by == OnAccount:
		e.Account = o.name
	case by == OnAddress || by == OnNetwork:
		e.Address = o.attempt.Address
	case by == OnSubject: // enough to tell subjects apart, too little to find one
		e.Subject = hex.EncodeToString(subject[:4])
	}
	return e
}
