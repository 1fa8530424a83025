package guard

import (
	"context"
	"fmt"

	"authguard/captchamode"
	"authguard/failures"
	"authguard/trusted"
)

// Begin decides an attempt. Only if the decision is Proceed may the password
// be looked at, and Settle must then be told how that ended. An error means
// that the counters failed; the decision then refuses.
//
// An attempt that finds the room taken only by undecided ones waits for its
// turn, at most twice Policy.PendingFor, unless ctx ends before (R3).
func (g *Guard) Begin(ctx context.Context, a Attempt) (d Decision, err error) {
	v := newView()
	g.look(ctx, &a, v)
	if err = g.decide(ctx, &a, v, &d); err != nil {
		v.usage = [4]failures.Usage{} // whatever it was before
		d = Decision{}
		d.Reasons.add(Reason{Cause: StoreFailed})
	}
	if d.Action == Proceed && v.badName {
		d, err = g.nameless(ctx, v)
	}
	if d.Action == Proceed {
		d.Ticket = g.ticket(&a, v, &d)
		return d, nil
	}
	defer v.free()
	if d.Action == Challenge {
		d.Counted = g.config.Mode.Observe(captchamode.Unsolved, v.address)
	}
	g.observe(&a, v, &d)
	return d, err
}

// nameless refuses an attempt without a usable name. It has been charged to
// its address and stays so.
func (g *Guard) nameless(ctx context.Context, v *view) (d Decision, err error) {
	d.refuse(Reason{Cause: BadAccountName}, 0)
	g.config.Mode.Observe(captchamode.Failure, v.address)
	if err := g.config.Failures.Failed(afterwards(ctx), v.charged, v.subjects[:v.n]); err != nil {
		return d, fmt.Errorf("guard: settling an attempt without a name: %w", err)
	}
	return d, nil
}

// decide charges the attempt and, if there is no room, waits for its turn as
// long as that is of use.
func (g *Guard) decide(ctx context.Context, a *Attempt, v *view, d *Decision) error {
	var waiting *turn // few attempts wait, so it is made when one does
	defer func() { waiting.leave() }()
	for patient := true; ; *d = (Decision{}) {
		if err := g.charge(ctx, v); err != nil {
			return err
		}
		if decide(v, patient, d) {
			waiting = waiting.of(g.turns, v)
			patient = waiting.wait(ctx, v.blockedBy(), 2*v.rules.policy.PendingFor)
			v.now = g.config.Now()
			continue
		}
		switch {
		case d.Action == Forget:
			g.spend(ctx, v)
			continue
		case d.Action == Proceed && v.claimed:
			return g.checkSolve(ctx, a, v, d)
		case d.Action == Wait && d.RetryAfter <= a.Hold:
			waiting = waiting.of(g.turns, v)
			if waiting.hold(ctx, d.RetryAfter) {
				v.now = g.config.Now()
				continue
			}
		}
		return nil
	}
}

// charge charges the attempt as if it had failed (R1), unless it is stopped
// before anything is counted.
func (g *Guard) charge(ctx context.Context, v *view) (err error) {
	if v.unasked && v.listed != Blocked {
		return g.chargeAs(ctx, v)
	}
	if v.listed == Blocked || v.modeAsks() && !v.claimed {
		return nil
	}
	v.count()
	v.charged, err = g.chargeAt(ctx, v.now, v.subjects[:v.n], v.usage[:v.n])
	if err != nil {
		return fmt.Errorf("guard: charging an attempt: %w", err)
	}
	return nil
}

// chargeAs charges an attempt before it is known what its place is: the store
// of failures says so in the same trip.
func (g *Guard) chargeAs(ctx context.Context, v *view) (err error) {
	v.unasked = false
	v.status = trusted.Privileged
	v.count()
	privileged := append([]failures.Subject(nil), v.subjects[:v.n]...)
	v.status, v.n = trusted.Stranger, 0
	if !v.modeAsks() || v.claimed {
		v.count()
	}
	v.status, v.charged, err = g.together.ChargeAs(ctx, v.now, trusted.Key(v.account), trusted.Key(v.address),
		privileged, v.subjects[:v.n], v.usage[:])
	if err != nil {
		return fmt.Errorf("guard: charging an attempt: %w", err)
	}
	switch {
	case v.status == trusted.Privileged:
		v.count()
	case v.status == trusted.Spent && v.claimed && v.charged == 0:
		return g.charge(ctx, v) // a solved challenge lifts more there
	}
	return nil
}

// blockedBy is the key of the first subject without room.
func (v *view) blockedBy() failures.Key {
	for i := range v.n {
		if v.usage[i].Over&v.subjects[i].Bind != 0 {
			return v.subjects[i].Key
		}
	}
	return failures.Key{}
}

// spend ends the privilege of a place that used up its budget (R14). The
// attempt is then decided again, as a stranger's.
func (g *Guard) spend(ctx context.Context, v *view) {
	err := g.config.Places.Spend(ctx, trusted.Key(v.account), trusted.Key(v.place), g.config.Now())
	if err != nil { // the place is found over its budget again next time
		g.config.Failed(fmt.Errorf("guard: ending a spent privilege: %w", err))
	}
	v.status = trusted.Spent
	if v.place != v.address {
		v.place = v.address
		ofPair(&v.pair, &v.account, &v.place)
	}
}

// checkSolve uses up the challenge's answer if the attempt needs one at all.
// It is the last thing before proceeding: nobody burns a solved challenge only
// to be told to wait.
func (g *Guard) checkSolve(ctx context.Context, a *Attempt, v *view, d *Decision) error {
	var why Decision
	if !v.needsSolve(&why) {
		return nil
	}
	var err error
	if g.config.Challenges != nil {
		d.Solve, err = g.config.Challenges.Check(ctx, v.address, a.Solve)
	}
	if d.Solve.Solved && d.Solve.Counted {
		g.config.Mode.TakeBack(captchamode.Unsolved)
	}
	if d.Solve.Solved && err == nil {
		d.Reasons.add(Reason{Cause: ChallengeSolved})
		return nil
	}
	if back := g.config.Failures.TakeBack(afterwards(ctx), v.charged, v.subjects[:v.n]); back != nil {
		return fmt.Errorf("guard: taking back a charge: %w", back)
	}
	g.turns.wake(v.subjects[:v.n])
	why.Action, why.Solve, why.Privileged = Challenge, d.Solve, d.Privileged
	why.Reasons.add(Reason{Cause: ChallengeFailed})
	*d = why
	return nil
}

// afterwards is a context for what must be written although the client may
// have hung up: whoever hangs up has still guessed. How long a store may take
// is the store's business.
func afterwards(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// observe tells of an attempt that did not proceed.
func (g *Guard) observe(a *Attempt, v *view, d *Decision) {
	g.tell(Event{
		At: g.config.Now(), Door: a.Door, Account: v.name, Address: a.Address,
		Action: d.Action, Reasons: d.Reasons, Privileged: d.Privileged,
		AccountFailures: v.accountFailures(),
	})
}

// accountFailures is how many failures of strangers the account had.
func (v *view) accountFailures() int {
	for i := range v.n {
		if v.rule[i].kind == OnAccount {
			return v.usage[i].Count
		}
	}
	return 0
}
