package guard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"

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
	// Solve is the answer to a challenge, if one came along.
	Solve challenge.Solve
}

// Exceeded counts one event and says what becomes of it, by the policy's limits for
// its name: Proceed, or Refuse, Challenge or Wait, with RetryAfter. It is charged
// first (R1), on exact windows (R2), for every subject or for none: one that is
// stopped counts nowhere (R5). A full rung with Alert, or on monitor, stops nothing
// and is among the reasons. The error is ErrNoEvent, ErrSubjectMissing, or the
// store's; the decision refuses then.
//
// Unlike a login's charge, an event's is final: nobody settles it. Where one trip
// to the store has room and a later one has not, the first is taken back; whoever
// comes in that moment may find less room than there is, never more.
func (g *Guard) Exceeded(ctx context.Context, event string, s Subjects) (d Decision, err error) {
	o := occurrence{guard: g, event: event, attempt: s.attempt(event)}
	if err := o.look(&s); err != nil {
		return d, err
	}
	if err = o.decide(ctx, &d); err != nil {
		d = Decision{}
		d.Reasons.add(Reason{Cause: StoreFailed})
	}
	if d.Action == Challenge && err == nil {
		err = g.open(ctx, &o.view, &d)
	}
	if !o.badName {
		d.Account = o.view.name
	}
	o.tell(&d)
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
	return Attempt{Account: s.Account, Address: s.Address, Solution: s.Solve, Integration: "event " + event}
}

// An occurrence is one event while it is decided.
type occurrence struct {
	view
	guard   *Guard
	event   string
	attempt Attempt
	limits  *eventRules
	keys    [len(subjectNames)]digest // by kind of subject; zero: it did not come along
	made    []Charge                  // what each trip so far has charged
}

// look finds out what the event is counted for.
func (o *occurrence) look(s *Subjects) error {
	g, v := o.guard, &o.view
	v.rules, v.Now = g.rules.Load(), g.config.Now()
	if o.limits = v.rules.events[o.event]; o.limits == nil {
		return ErrNoEvent
	}
	g.ofMode(v)
	v.claimed = s.Solve.Claimed()
	g.digests.ofAddress(s.Address, &v.Address, &v.Network)
	v.listed = NotListed
	if s.Address.IsValid() {
		v.listed, v.on = g.listed(v.rules, s.Address, v.Now)
		v.blockedFor = g.blocked(v.listed, v.on, s.Address, v.Now)
		o.keys[OnAddress], o.keys[OnNetwork] = o.key(OnAddress, v.Address[:]), o.key(OnNetwork, v.Network[:])
	}
	if s.Account != "" {
		v.badName = g.name(v, &o.attempt) != nil
		o.keys[OnAccount] = o.key(OnAccount, v.Account[:])
	}
	if s.Subject != "" {
		o.keys[OnSubject] = o.key(OnSubject, []byte(s.Subject))
	}
	o.keys[OnSite] = o.key(OnSite, nil)
	for by, r := range o.limits.by {
		if r != nil && o.keys[by] == (digest{}) {
			return fmt.Errorf("%w: %s counts by %s", ErrSubjectMissing, o.event, SubjectKind(by))
		}
	}
	return nil
}

// key is a subject under the event's name: what is counted here is nothing to a login,
// and nothing to another event.
func (o *occurrence) key(by SubjectKind, of []byte) (key digest) {
	b := append([]byte("counted\x00"+o.event+"\x00"+by.String()+"\x00"), of...)
	sum(&o.guard.digests.purpose, b, &key)
	return key
}

// decide charges, trip by trip, and takes all back if one has no room.
func (o *occurrence) decide(ctx context.Context, d *Decision) (err error) {
	if o.listed == Blocked {
		d.refuse(Reason{Cause: BlockedByAdmin, List: o.list()}, o.blockedFor)
		return nil
	}
	d.Action = Proceed
	for i := range o.limits.trips {
		trip := &o.limits.trips[i]
		if o.badName && trip.rules[AddressSubject] != nil && !trip.rules[AddressSubject].ofAddress() {
			continue // it counts for its address (R11)
		}
		c, err := o.guard.config.Store.Begin(ctx, o.charge(trip))
		if err != nil {
			return errors.Join(fmt.Errorf("guard: charging an event: %w", err), o.takeBack(ctx))
		}
		if o.read(trip, &c, d); !c.ID.Charged() {
			return o.takeBack(ctx)
		}
		o.made = append(o.made, c)
	}
	if o.badName {
		*d = Decision{}
		d.refuse(Reason{Cause: BadAccountName}, 0)
	} else if err := o.solved(ctx, d); err != nil || d.Action != Proceed {
		return errors.Join(err, o.takeBack(ctx))
	}
	for _, c := range o.made { // decided at once: nobody need wait for it (R3)
		if err := o.guard.config.Store.Settle(afterwards(ctx), c, Failed); err != nil {
			return fmt.Errorf("guard: settling an event: %w", err)
		}
	}
	return nil
}

// charge is what one trip charges.
func (o *occurrence) charge(trip *eventTrip) Charge {
	c := Charge{Now: o.Now, Ladders: &trip.ladders, Binds: &trip.binds[o.lifts()], First: trip.first, Last: trip.last}
	c.Address, c.Network = o.keys[OnAddress], o.keys[OnNetwork]
	if by := o.kindOf(trip); by != OnAddress && by != OnNetwork {
		c.Address, c.Network = o.keys[by], o.keys[by]
	}
	return c
}

func (o *occurrence) kindOf(trip *eventTrip) SubjectKind { return trip.rules[trip.first].kind }

// tell tells of an event that came beyond a limit, whatever that does.
func (o *occurrence) tell(d *Decision) {
	if o.guard.config.Observer == nil || !slices.ContainsFunc(d.Reasons, func(r Reason) bool { return r.Cause == LimitReached }) {
		return
	}
	o.guard.tell(Event{
		At: o.Now, Door: "event", Limited: o.event, Edge: Met, Action: d.Action, Reasons: d.Reasons, Account: d.Account, Address: o.attempt.Address, Count: 1,
	})
}

// read adds what a trip found to the decision: what stops the event, or would have,
// and what somebody is to be told of.
func (o *occurrence) read(trip *eventTrip, c *Charge, d *Decision) {
	for i := trip.first; i < trip.last; i++ {
		r, use := trip.rules[i], c.Usage[i]
		for j := range r.limits {
			if !use.Over.Has(j) {
				continue
			}
			l := &r.limits[j]
			why := Reason{Cause: LimitReached, Subject: r.kind, Limit: l, Event: o.event, Monitored: l.Monitor}
			if c.Bind(i).Has(j) {
				why.Wait = use.FreeIn
				d.stop(l.Action, why)
			} else if l.Monitor || l.Action == Alert {
				d.Reasons.add(why)
			} else {
				continue // a solve or an administrator lifts it
			}
			o.guard.edges.over(o, r.kind, j, l)
		}
	}
}

// solved uses the challenge's answer up if a limit needs one.
func (o *occurrence) solved(ctx context.Context, d *Decision) error {
	var why Decision
	for i, c := range o.made {
		trip := &o.limits.trips[i]
		for j := trip.first; j < trip.last; j++ {
			r := trip.rules[j]
			if o.listed == Allowed && r.ofAddress() {
				continue
			}
			lifted := c.Usage[j].Over & r.enforce & r.then[Challenge]
			for n := range r.limits {
				if lifted.Has(n) {
					why.Reasons.add(Reason{Cause: LimitReached, Subject: r.kind, Limit: &r.limits[n], Event: o.event})
				}
			}
		}
	}
	if len(why.Reasons) == 0 {
		return nil
	}
	bond := o.guard.bond(&o.attempt, o.view.Address, o.name, 0)
	stopped, err := o.guard.answered(ctx, &o.attempt, &o.view, d, []challenge.Bond{bond})
	switch {
	case err != nil:
		return err
	case d.Solve.Solved:
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
	why.Solve = d.Solve
	*d = why
	return nil
}

// takeBack ends an event that is stopped: it counts nowhere (R5).
func (o *occurrence) takeBack(ctx context.Context) (err error) {
	for i := range o.made {
		err = errors.Join(err, o.guard.withdraw(ctx, o.made[i]))
	}
	return err
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

// ExplainEvent reads what stands against the subjects of an event: a line for each
// limit of those that came along, and the site's. It changes nothing.
func (g *Guard) ExplainEvent(ctx context.Context, event string, s Subjects) (lines []Line, err error) {
	return lines, g.eachTrip(event, s, func(trip *eventTrip, c Charge) error {
		read, used, err := g.config.Store.Read(ctx, c)
		if err != nil {
			return fmt.Errorf("guard: reading an event's counters: %w", err)
		}
		for i := trip.first; i < trip.last; i++ {
			for j, l := range trip.rules[i].limits {
				lines = append(lines, Line{
					Subject: trip.rules[i].kind, Limit: l, Event: event, Used: used[i][j].Charges, Full: read.Usage[i].Over.Has(j), FreeIn: used[i][j].FreeIn,
				})
			}
		}
		return nil
	})
}

// UnlockEvent forgets what was counted of an event for the subjects that came along,
// but for the network and the site: those are not one person's.
func (g *Guard) UnlockEvent(ctx context.Context, event string, s Subjects) error {
	return g.eachTrip(event, s, func(trip *eventTrip, c Charge) error {
		if by := trip.rules[trip.first].kind; by == OnNetwork || by == OnSite {
			return nil
		}
		c.Last = AddressSubject + 1
		if err := g.config.Store.Clear(ctx, c); err != nil {
			return fmt.Errorf("guard: unlocking an event's subject: %w", err)
		}
		return nil
	})
}

// eachTrip calls do for the trips of an event whose subjects came along.
func (g *Guard) eachTrip(event string, s Subjects, do func(*eventTrip, Charge) error) error {
	o := occurrence{guard: g, event: event, attempt: s.attempt(event)}
	if err := o.look(&s); err != nil && !errors.Is(err, ErrSubjectMissing) {
		return err
	} else if o.badName {
		return ErrAccountName
	}
	for i := range o.limits.trips {
		trip := &o.limits.trips[i]
		if o.keys[o.kindOf(trip)] == (digest{}) {
			continue
		}
		c := o.charge(trip)
		c.Binds = new(Binds)
		if err := do(trip, c); err != nil {
			return err
		}
	}
	return nil
}

// EventNames are the names of the events that the policy limits, sorted.
func (p Policy) EventNames() []string { return slices.Sorted(maps.Keys(p.Events)) }
